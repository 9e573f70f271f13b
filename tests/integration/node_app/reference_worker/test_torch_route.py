"""Torch workers on routes: they say what one engine says, from frames of one row, and take no other engine beside."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest

from meshnet.failure_codes import FailureCode
from meshnet.ids import SessionKey
from meshnet.v1 import worker_pb2
from tests.integration.node_app.reference_worker.torch_routes import load_requests, torch_worker, worker_routes
from tests.simulators.bridged_route import BridgedRoute
from tests.simulators.fake_shards import KEY, open_all
from tests.simulators.route_terms import RouteTerms, spec_for
from tests.simulators.tiny_models import TINY_MODELS, tiny_model

pytestmark = pytest.mark.torch

PROMPT = (3, 141, 59, 26, 53, 58, 97, 93, 23, 84, 62)
TOKENS = 24
ROW_BYTES = 4 * 64
BY_NAME = {model.architecture: model for model in TINY_MODELS}
TERMS = RouteTerms(key=KEY, prompt=PROMPT, max_tokens=TOKENS, chunk_rows=4, end_tokens=())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(BY_NAME["llama"], tmp_path)


def greedy(model: Path) -> list[int]:
    """What one engine says after the prompt."""
    from node_app.reference_worker.torch.engine import TorchEngine

    engine = TorchEngine.load(model)
    sequence = engine.open(len(PROMPT) + TOKENS)
    rows, tokens = sequence.step_tokens(PROMPT), []
    while len(tokens) < TOKENS:
        tokens.append(int(engine.logits(rows[-1:]).argmax()))
        rows = sequence.step_tokens(tokens[-1:])
    return tokens


@pytest.mark.parametrize("bounds", [(0, 4), (0, 1, 4), (0, 2, 3, 4)])
async def test_a_route_says_what_one_engine_says(model: Path, tmp_path: Path, bounds: tuple[int, ...]) -> None:
    programs = [torch_worker(tmp_path)] * (len(bounds) - 1)
    async with worker_routes(tmp_path, programs, load_requests(model, bounds)) as route:
        answer = await (await open_all(route, TERMS)).generate()
        steps = [(await worker.status()).rows for worker in route.workers]
    assert answer.token_ids == greedy(model)
    assert len(set(answer.token_ids)) > 3
    # Every row was computed once on every stage: the last token's is not needed.
    assert steps == [len(PROMPT) + TOKENS - 1] * len(programs)
    decoded = [message.frame for message in route.frames if message.frame.position >= len(PROMPT)]
    frames = Counter((frame.rows, sum(len(tensor.data) for tensor in frame.tensors)) for frame in decoded)
    # One row over each seam, and one token id, without a tensor, back to the head; a stage alone has nobody to tell.
    seams = len(programs) - 1
    expected = {(1, ROW_BYTES): (TOKENS - 1) * seams, (1, 0): TOKENS - 1} if seams else {}
    assert frames == expected


async def test_a_route_from_a_folder_of_safetensors_says_the_same(model: Path, tmp_path: Path) -> None:
    from tests.simulators.safetensors_folder import write_safetensors_folder

    folder = write_safetensors_folder(model, tmp_path / "folder")
    requests = load_requests(model, (0, 2, 4))
    for request in requests:
        request.gguf_path, request.model_folder = "", str(folder)
    async with worker_routes(tmp_path, [torch_worker(tmp_path)] * 2, requests) as route:
        answer = await (await open_all(route, TERMS)).generate()
        steps = [(await worker.status()).rows for worker in route.workers]
        pins = {contract.exact_class.pin for contract in route.contracts}
    assert answer.token_ids == greedy(model)
    assert steps == [len(PROMPT) + TOKENS - 1] * 2
    assert all("transformers" in pin for pin in pins)
    decoded = [message.frame for message in route.frames if message.frame.position >= len(PROMPT)]
    frames = Counter((frame.rows, sum(len(tensor.data) for tensor in frame.tensors)) for frame in decoded)
    assert frames == {(1, ROW_BYTES): TOKENS - 1, (1, 0): TOKENS - 1}


async def test_decode_frames_do_not_grow_with_the_position(model: Path, tmp_path: Path) -> None:
    requests = load_requests(model, (0, 2, 4))
    for request in requests:
        request.context_length = 2048
    sizes = {}
    async with worker_routes(tmp_path, [torch_worker(tmp_path)] * 2, requests) as route:
        for position in (10, 2000):
            prompt = tuple(PROMPT[at % len(PROMPT)] for at in range(position))
            key = SessionKey(struct.pack(">QQ", 0, position), 1)
            route.frames.clear()
            await (
                await open_all(route, replace(TERMS, key=key, prompt=prompt, max_tokens=8, chunk_rows=250))
            ).generate()
            decoded = [message.frame for message in route.frames if message.frame.position >= position]
            # Rows to the tail, token ids to the head.
            sizes[position] = {sum(len(tensor.data) for tensor in frame.tensors) for frame in decoded}
    assert sizes[10] == sizes[2000] == {0, ROW_BYTES}


@pytest.mark.native
async def test_a_stage_of_another_engine_is_refused(model: Path, tmp_path: Path, worker_program: Path) -> None:
    programs = [torch_worker(tmp_path), worker_program]
    async with worker_routes(tmp_path, programs, load_requests(model, (0, 2, 4))) as route:
        ours, theirs = route.contracts
        assert ours.outputs == theirs.inputs
        assert (ours.n_layers, ours.vocab_size, ours.context_length) == (4, theirs.vocab_size, theirs.context_length)
        assert ours.contract_digest == theirs.contract_digest
        assert (ours.recipe, theirs.recipe) == ("torch f32", "llama.cpp")
        assert ours.exact_class.backend == "torch"
        for stage, worker in enumerate(route.workers):
            spec = spec_for(TERMS, stage, route.contracts)
            for recipe, is_exact in ((route.contracts[1 - stage].recipe, False), ("", True)):
                spec.recipe, spec.exact = recipe, is_exact
                reply = await worker.stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec), timeout=10)
                assert (reply.accepted, reply.code) == (False, FailureCode.CONTRACT_MISMATCH)
            # The control: where recipes may be mixed, nothing stands in the way.
            spec.recipe, spec.exact = "", False
            reply = await worker.stub.OpenSession(worker_pb2.OpenSessionRequest(spec=spec), timeout=10)
            assert reply.accepted, reply.message


@pytest.mark.native
@pytest.mark.parametrize("context_length", [100, 256, 300, 2048])
async def test_both_engines_report_one_digest_for_one_file(
    model: Path, tmp_path: Path, worker_program: Path, context_length: int
) -> None:
    requests = load_requests(model, (0, 2, 4))
    for request in requests:
        request.context_length = context_length
    async with worker_routes(tmp_path, [torch_worker(tmp_path), worker_program], requests) as route:
        ours, theirs = (contract.contract_digest for contract in route.contracts)
    assert ours == theirs


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"gguf_path": "/nonexistent.gguf"}, "unreadable"),
        ({"context_length": 5000}, "invalid_argument"),
        ({"engine": worker_pb2.ENGINE_KIND_FAKE}, "unsupported_architecture"),
        ({"gguf_path": ""}, "invalid_argument"),
        ({"model_folder": "/nonexistent"}, "invalid_argument"),
        ({"gguf_path": "", "model_folder": "/"}, "bad_metadata"),
    ],
)
async def test_what_cannot_be_loaded_is_refused_with_its_code(
    model: Path, tmp_path: Path, change: dict[str, object], code: str
) -> None:
    async with worker_routes(tmp_path, [torch_worker(tmp_path)], []) as route:
        (request,) = load_requests(model, (0, 4))
        for name, value in change.items():
            setattr(request, name, value)
        with pytest.raises(grpc.aio.AioRpcError, match=code):
            await route.workers[0].load(request)
        await serves(route, model)


async def serves(route: BridgedRoute, model: Path) -> None:
    """What was refused left the worker as it was."""
    await route.load(load_requests(model, (0, 4)))
    assert (await route.workers[0].status()).ready
