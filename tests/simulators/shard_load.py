"""What a simulated worker has loaded, and the contract it reports for it.

The contract's digest is computed as the native worker computes it, so that both may share a route.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from meshnet.artifact.gguf import read_header
from meshnet.errors import WorkerError
from meshnet.v1 import session_pb2, worker_pb2
from node_app.reference_worker.sessions.contract import hidden_rows, spoken_codecs, with_digest
from node_app.reference_worker.sessions.shard import DEFAULT_SESSIONS, DEFAULT_UBATCH_ROWS
from tests.simulators.fake_engine import DEFAULT_WIDTH, VOCAB_SIZE, FakeSequence, FakeShard

DEFAULT_LAYERS = 4
DEFAULT_CONTEXT_LENGTH = 2048


@dataclass(frozen=True, slots=True)
class ShardLoad:
    """A loaded shard.

    Attributes:
        step_us: time of one row, per layer.
        step_fixed_us: time of a step beside its rows'.
        max_step_rows: a frame's rows at most.
    """

    shard: FakeShard
    step_us: int
    step_fixed_us: int
    context_length: int
    kv_cells: int
    max_sessions: int
    max_step_rows: int
    contract: session_pb2.BoundaryContract

    @property
    def width(self) -> int:
        return self.shard.width

    @property
    def owns_input(self) -> bool:
        return self.shard.owns_input

    @property
    def owns_output(self) -> bool:
        return self.shard.owns_output

    @property
    def weights_bytes(self) -> int:
        return 4 * self.shard.width * self.shard.width

    @property
    def kv_bytes(self) -> int:
        return 4 * self.shard.width * self.kv_cells

    def open_sequence(self, kv_cells: int) -> FakeSequence:
        return FakeSequence(self.shard)


def plan_load(request: worker_pb2.LoadRequest) -> ShardLoad:
    """Check a request and fill in its defaults.

    Raises:
        WorkerError: `unsupported_architecture` or `layers_out_of_range`.
        ArtifactError: the file is wrong.
    """
    if request.engine != worker_pb2.ENGINE_KIND_FAKE:
        raise WorkerError("unsupported_architecture", "No such engine", "the simulator has the FakeEngine only")
    n_layers, width = _model_shape(request)
    layer_end = request.layers.layer_end or n_layers
    try:
        shard = FakeShard(n_layers, width, request.layers.layer_begin, layer_end)
    except ValueError as error:
        raise WorkerError("layers_out_of_range", "No such layers", str(error)) from error
    context_length = request.context_length or DEFAULT_CONTEXT_LENGTH
    max_sessions = request.max_sessions or DEFAULT_SESSIONS
    ubatch = request.ubatch or DEFAULT_UBATCH_ROWS
    return ShardLoad(
        shard=shard,
        step_us=request.fake.step_us,
        step_fixed_us=request.fake.step_fixed_us,
        context_length=context_length,
        kv_cells=request.kv_cells or max_sessions * context_length,
        max_sessions=max_sessions,
        max_step_rows=max(ubatch, DEFAULT_UBATCH_ROWS),
        contract=_contract(shard, request.artifact_digest, context_length, ubatch),
    )


def _model_shape(request: worker_pb2.LoadRequest) -> tuple[int, int]:
    """(layers, width), from the request or else from the file's metadata."""
    if request.fake.n_layers or not request.gguf_path:
        return request.fake.n_layers or DEFAULT_LAYERS, request.fake.width or DEFAULT_WIDTH
    header = read_header(Path(request.gguf_path))
    if header.architecture != "fake":
        raise WorkerError("unsupported_architecture", "No such engine", f"{header.architecture} is no fake model")
    return header.n_layers, header.embedding_length


def _contract(
    shard: FakeShard, artifact_digest: bytes, context_length: int, ubatch: int
) -> session_pb2.BoundaryContract:
    contract = session_pb2.BoundaryContract(
        layers=session_pb2.LayerRange(layer_begin=shard.layer_begin, layer_end=shard.layer_end),
        n_layers=shard.n_layers,
        architecture="fake",
        inputs=[] if shard.owns_input else [hidden_rows(shard.width)],
        outputs=[] if shard.owns_output else [hidden_rows(shard.width)],
        needs_token_ids=shard.owns_input,
        vocab_size=VOCAB_SIZE,
        context_length=context_length,
        recipe="fake",
        exact_class=session_pb2.ExactClass(backend="fake", ubatch=ubatch),
        codecs=[] if shard.owns_input and shard.owns_output else spoken_codecs(shard.width),
    )
    return with_digest(contract, artifact_digest, f"width={shard.width}")
