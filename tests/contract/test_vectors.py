"""Python's side of the byte vectors; C++ decodes the same files in native/tests."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from meshnet.constants import MAX_MESSAGE_BYTES
from meshnet.failure_codes import FailureCode
from meshnet.frame import (
    Codec,
    EdgeMessage,
    Frame,
    MessageError,
    parse_edge_message,
    parse_frame,
    seam_codec,
    serialise_edge_message,
    serialise_frame,
)
from meshnet.sampling import (
    SamplingTerms,
    draw_uniform,
    log_probability,
    philox4x32,
    sample,
    top_log_probabilities,
)
from tests.simulators.fake_engine import FakeSequence, FakeShard, logits_of, pack_rows, unpack_rows
from tests.vectors import engine_cases, generate

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
KINDS = {
    "Ack": "ack",
    "TokenEvent": "token",
    "PrefillProgress": "prefill",
    "SessionGone": "gone",
    "StageFailure": "failure",
    "Close": "close",
    "Keepalive": "keepalive",
}


def cases(file: str, section: str) -> list[Any]:
    found = json.loads((FOLDER / file).read_text())[section]
    return [pytest.param(case, id=case.get("name", str(i))) for i, case in enumerate(found)]


def plain(value: Any) -> Any:
    """A frozen value as the vectors write it."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value.name if hasattr(value, "name") else value


def plain_edge_message(message: EdgeMessage) -> dict[str, Any]:
    fields = plain(message)
    return fields | {"kind": KINDS[type(message.body).__name__]}


@pytest.mark.parametrize("name", generate.files())
def test_file_is_what_the_generator_writes(name: str) -> None:
    assert (FOLDER / name).read_text() == generate.rendered(generate.files()[name])


@pytest.mark.parametrize("case", cases("frames.json", "good"))
def test_good_frame(case: dict[str, Any]) -> None:
    frame = parse_frame(bytes.fromhex(case["hex"]))
    assert isinstance(frame, Frame)
    assert plain(frame) == case["fields"]
    assert serialise_frame(frame).hex() == case["hex"]


@pytest.mark.parametrize("case", cases("edge_messages.json", "good"))
def test_good_edge_message(case: dict[str, Any]) -> None:
    message = parse_edge_message(bytes.fromhex(case["hex"]))
    assert plain_edge_message(message) == case["fields"]
    assert serialise_edge_message(message).hex() == case["hex"]


@pytest.mark.parametrize(
    ("parse", "case"),
    [(parse_frame, *p.values) for p in cases("frames.json", "bad")]
    + [(parse_edge_message, *p.values) for p in cases("edge_messages.json", "bad")],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_bad_message(parse: Any, case: dict[str, Any]) -> None:
    limit_bytes = case["limit_bytes"] or MAX_MESSAGE_BYTES
    with pytest.raises(MessageError) as refused:
        parse(bytes.fromhex(case["hex"]), limit_bytes=limit_bytes)
    assert refused.value.code == case["code"]
    assert (refused.value.address is not None) == case["addressed"]


@pytest.mark.parametrize("case", cases("sampling.json", "philox"))
def test_philox(case: dict[str, Any]) -> None:
    c, k = case["counter"], case["key"]
    assert list(philox4x32((c[0], c[1], c[2], c[3]), (k[0], k[1]))) == case["words"]


@pytest.mark.parametrize("case", cases("sampling.json", "uniform"))
def test_uniform(case: dict[str, Any]) -> None:
    assert draw_uniform(case["seed"], case["position"], case["choice"]) == case["uniform"]


@pytest.mark.parametrize("case", cases("sampling.json", "samples"))
def test_sample(case: dict[str, Any]) -> None:
    fields = case["terms"] | {"logit_bias": {item["token_id"]: item["bias"] for item in case["terms"]["logit_bias"]}}
    counts = {item["token_id"]: item["count"] for item in case["counts"]}
    assert sample(case["logits"], SamplingTerms(**fields), counts, case["position"]) == case["token_id"]
    assert log_probability(case["logits"], case["token_id"]) == pytest.approx(case["logprob"], abs=1e-6)
    top = top_log_probabilities(case["logits"], len(case["top"]))
    assert [item.token_id for item in top] == [item["token_id"] for item in case["top"]]


@pytest.mark.parametrize("case", cases("fake_engine.json", "models"))
def test_fake_model(case: dict[str, Any]) -> None:
    n_layers, width, prompt = case["n_layers"], case["width"], case["prompt"]
    for cut in case["after_layer"]:
        shard = FakeShard(n_layers, width, 0, cut["layer_end"])
        assert plain_rows(FakeSequence(shard).step_tokens(prompt)) == cut["rows"]
    tail_row = tuple(case["after_layer"][-1]["rows"][-1])
    logits = case["logits_of_last_row"]
    assert logits_of(tail_row) == logits
    assert [struct.unpack("<f", struct.pack("<f", value))[0] for value in logits] == logits
    sampled = case["sampled"]
    terms = SamplingTerms(temperature=sampled["temperature"], top_p=sampled["top_p"], seed=sampled["seed"])
    assert engine_cases.generate(n_layers, width, terms, sampled["max_tokens"]) == sampled["token_ids"]


@pytest.mark.parametrize("case", cases("fake_engine.json", "models"))
def test_fake_model_cut_anywhere_gives_the_same_rows(case: dict[str, Any]) -> None:
    n_layers, width = case["n_layers"], case["width"]
    expected = case["after_layer"][-1]["rows"]
    for cut in range(1, n_layers):
        head = FakeSequence(FakeShard(n_layers, width, 0, cut))
        tail = FakeSequence(FakeShard(n_layers, width, cut, n_layers))
        crossed = unpack_rows(pack_rows(head.step_tokens(case["prompt"])), width)
        assert plain_rows(tail.step_rows(crossed)) == expected
        # The control: a tail that believes to be elsewhere computes something else.
        if cut > 1:
            wrong = FakeSequence(FakeShard(n_layers, width, cut - 1, n_layers))
            assert plain_rows(wrong.step_rows(crossed)) != expected


@pytest.mark.parametrize("case", cases("fake_engine.json", "models"))
def test_fake_model_rewinds(case: dict[str, Any]) -> None:
    sequence = FakeSequence(FakeShard(case["n_layers"], case["width"], 0, case["n_layers"]))
    sequence.step_tokens(case["prompt"])
    sequence.truncate(case["rewind"]["position"])
    assert plain_rows(sequence.step_tokens(case["rewind"]["token_ids"])) == case["rewind"]["rows"]


def test_a_changed_byte_is_noticed() -> None:
    """The control: the comparison itself can fail."""
    case = json.loads((FOLDER / "frames.json").read_text())["good"][0]
    data = bytearray(bytes.fromhex(case["hex"]))
    data[-1] ^= 1
    assert plain(parse_frame(bytes(data))) != case["fields"]


def test_counts_of_cases() -> None:
    """An empty file would pass every parametrised test above."""
    counts = {name: sum(map(len, content.values())) for name, content in generate.files().items()}
    print(json.dumps(counts))
    assert counts["frames.json"] >= 60
    assert counts["edge_messages.json"] >= 40
    assert counts["sampling.json"] >= 40
    assert counts["fake_engine.json"] >= 3


def plain_rows(rows: list[tuple[int, ...]]) -> list[list[int]]:
    return [list(row) for row in rows]


@pytest.mark.parametrize("case", cases("seam_codecs.json", "good"))
def test_packed_rows(case: dict[str, Any]) -> None:
    codec, raw = Codec[case["codec"]], bytes.fromhex(case["raw"])
    packed = seam_codec.pack_rows(codec, raw)
    assert packed.hex() == case["packed"]
    assert len(packed) == codec.packed_bytes(len(raw) // 4)
    assert seam_codec.unpack_rows(codec, packed).hex() == case["unpacked"]


@pytest.mark.parametrize("case", cases("seam_codecs.json", "odd_packed"))
def test_packed_rows_that_no_sender_makes(case: dict[str, Any]) -> None:
    assert seam_codec.unpack_rows(Codec[case["codec"]], bytes.fromhex(case["packed"])).hex() == case["unpacked"]


@pytest.mark.parametrize("case", cases("seam_codecs.json", "refused_rows"))
def test_rows_that_cannot_be_packed(case: dict[str, Any]) -> None:
    with pytest.raises(MessageError) as refused:
        seam_codec.pack_rows(Codec[case["codec"]], bytes.fromhex(case["raw"]))
    assert refused.value.code == FailureCode.NOT_FINITE


@pytest.mark.parametrize("case", cases("seam_codecs.json", "refused_packed"))
def test_packed_rows_that_are_not_finite(case: dict[str, Any]) -> None:
    with pytest.raises(MessageError) as refused:
        seam_codec.unpack_rows(Codec[case["codec"]], bytes.fromhex(case["packed"]))
    assert refused.value.code == FailureCode.NOT_FINITE
