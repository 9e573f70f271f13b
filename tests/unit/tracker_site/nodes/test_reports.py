from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.frame import Codec
from meshnet.printable import one_line
from meshnet.v1 import control_pb2, frame_pb2, session_pb2
from tests.site import wire
from tracker_site.nodes.refusals import ControlError
from tracker_site.nodes.reports import MAX_EXACT_CLASS_BYTES, MAX_SHARDS, parse_report

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_report_keeps_what_it_said() -> None:
    parsed = parse_report(wire.report(wire.shard(0, 3), wire.shard(3, 8)))
    assert (parsed.state, parsed.reach.carrier, parsed.reach.link_address) == ("serving", "auto", "127.0.0.1:4711")
    (head, figures), (tail, _) = parsed.shards
    assert (head.layer_begin, head.layer_end, head.n_layers) == (0, 3, 8)
    assert (head.seam_bytes_per_row, tail.seam_bytes_per_row) == (64, 0)
    assert (figures.decode_ms_per_layer, figures.kv_cells_free, figures.max_sessions) == (0.5, 8000, 8)
    assert len(parsed.identities) == 2
    assert (parsed.reach.latency_ms, parsed.reach.upload_bytes_per_s) == (12.5, 2_500_000)


def test_a_node_may_say_that_its_self_test_failed() -> None:
    told = wire.report()
    told.state, told.reason = control_pb2.NodeReport.STATE_SELF_TEST_FAILED, "0 of 8 rows near"
    parsed = parse_report(told)
    assert (parsed.state, parsed.reason, parsed.shards) == ("self_test_failed", "0 of 8 rows near", ())


def test_what_a_node_does_not_know_of_its_line_stays_unknown() -> None:
    told = wire.report(wire.shard())
    told.ClearField("latency_ms")
    told.ClearField("upload_bytes_per_s")
    parsed = parse_report(told)
    assert (parsed.reach.latency_ms, parsed.reach.upload_bytes_per_s) == (None, 0)


def test_a_report_keeps_the_codecs_that_are_known_and_the_line() -> None:
    shard = wire.shard(0, 3)
    shard.contract.codecs.extend([frame_pb2.CODEC_BF16, frame_pb2.CODEC_Q8_0, frame_pb2.CODEC_RAW])
    # A newer worker may speak more; enums are open on the wire.
    shard.contract.MergeFromString(bytes([11 << 3 | 2, 1, 17]))
    report = wire.report(shard)
    report.upload_bytes_per_s = 10**12
    parsed = parse_report(report)
    assert parsed.shards[0][0].codecs == {Codec.BF16, Codec.Q8_0}
    assert parsed.reach.upload_bytes_per_s == 10**12
    silent = parse_report(wire.report(wire.shard()))
    assert silent.shards[0][0].codecs == frozenset()


def test_equal_exact_classes_are_equal_bytes_and_others_are_not() -> None:
    one, same, other = wire.shard(), wire.shard(), wire.shard()
    other.contract.exact_class.flash_attention = True
    digests = [parse_report(wire.report(shard)).shards[0][0].exact_class for shard in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


def _set(path: str, value: object) -> Callable[[control_pb2.NodeReport], None]:
    def change(report: control_pb2.NodeReport) -> None:
        *parents, name = path.split(".")
        target: object = report
        for parent in parents:
            target = target.shards[0] if parent == "shard" else getattr(target, parent)  # type: ignore[attr-defined]
        setattr(target, name, value)

    return change


def _double(report: control_pb2.NodeReport) -> None:
    report.shards.append(report.shards[0])


def _many(report: control_pb2.NodeReport) -> None:
    for _ in range(MAX_SHARDS):
        _double(report)


def _wide(report: control_pb2.NodeReport) -> None:
    for _ in range(9):
        report.shards[0].contract.outputs.append(session_pb2.TensorSpec(dtype=frame_pb2.DTYPE_F32))


def _bad_output(report: control_pb2.NodeReport) -> None:
    report.shards[0].contract.outputs.append(session_pb2.TensorSpec(dtype=frame_pb2.DTYPE_UNSPECIFIED))


# No port, a wrong one, no host, no name, and what is another machine for everybody who dials it.
NO_LINK_ADDRESSES = (
    *("host", "host:", "host:0", "host:65536", "host:x", ":4711", "a host:4711", "http://host:4711", "user@host:1"),
    *("169.254.169.254:80", "0.0.0.0:4711", "224.0.0.1:4711", "255.255.255.255:1", "[fe80::1]:4711", "[::]:4711"),
)
LINK_ADDRESSES = (
    "",
    "127.0.0.1:1",
    "[::1]:65535",
    "192.168.1.7:4711",
    "8.8.8.8:443",
    "[2001:4860::1]:1",
    "pc.example:1",
)


@pytest.mark.parametrize("address", LINK_ADDRESSES)
def test_an_address_of_one_machine_may_be_dialled(address: str) -> None:
    report = wire.report(wire.shard())
    report.link_address = address
    assert parse_report(report).reach.link_address == address


CHANGES = [
    ("state", _set("state", control_pb2.NodeReport.STATE_UNSPECIFIED)),
    ("state", _set("state", 99)),
    ("carrier", _set("carrier", "pigeon")),
    ("link_address", _set("link_address", "a" * 129)),
    *(("link_address", _set("link_address", address)) for address in NO_LINK_ADDRESSES),
    ("link_fingerprint", _set("link_fingerprint", b"short")),
    ("artifact_digest", _set("shard.artifact_digest", b"short")),
    ("layers", _set("shard.contract.layers.layer_begin", 8)),
    ("layers", _set("shard.contract.layers.layer_end", 9)),
    ("layers", _set("shard.contract.n_layers", 0)),
    ("layers", _set("shard.contract.n_layers", 2**32 - 1)),
    ("contract_digest", _set("shard.contract.contract_digest", b"")),
    *(("recipe", _set("shard.contract.recipe", name)) for name in ("r" * 65, "Torch", "a\nb", " a", "<b>")),
    ("architecture", _set("shard.contract.architecture", "")),
    ("architecture", _set("shard.contract.architecture", "a" * 65)),
    ("context_length", _set("shard.contract.context_length", 0)),
    ("vocab_size", _set("shard.contract.vocab_size", 0)),
    ("vocab_size", _set("shard.contract.vocab_size", 2**32 - 1)),
    ("exact_class", _set("shard.contract.exact_class.pin", "p" * MAX_EXACT_CLASS_BYTES)),
    ("decode_ms_per_layer", _set("shard.decode_ms_per_layer", float("nan"))),
    ("decode_ms_per_layer", _set("shard.decode_ms_per_layer", float("inf"))),
    ("prefill_ms_per_layer", _set("shard.prefill_ms_per_layer", -1.0)),
    ("tail_ms", _set("shard.tail_ms", 1e12)),
    *(("latency_ms", _set("latency_ms", claim)) for claim in (float("nan"), float("inf"), -1.0, 1e12)),
    ("upload_bytes_per_s", _set("upload_bytes_per_s", 2**63)),
    ("kv_cells_total", _set("shard.kv_cells_total", 2**32 - 1)),
    ("kv_cells_free", _set("shard.kv_cells_free", 9000)),
    ("max_sessions", _set("shard.max_sessions", 2**31)),
    ("shards", _double),
    ("shards", _many),
    ("outputs", _wide),
    ("outputs", _bad_output),
]


@pytest.mark.parametrize(("field", "change"), CHANGES, ids=[f"{n}-{c[0]}" for n, c in enumerate(CHANGES)])
def test_fields_out_of_range_are_named(field: str, change: Callable[[control_pb2.NodeReport], None]) -> None:
    report = wire.report(wire.shard())
    parse_report(report)  # the control: before the change it is fine
    change(report)
    with pytest.raises(ControlError, match=field) as caught:
        parse_report(report)
    assert caught.value.code == "malformed"


@pytest.mark.parametrize(
    ("words", "shown"),
    [("  fine ", "fine"), ("a\nb\x00c", "a b c"), ("\x1b[31mred", "[31mred"), ("x" * 400, "x" * 300)],
)
def test_a_nodes_words_are_made_fit_to_show(words: str, shown: str) -> None:
    assert one_line(words) == shown
