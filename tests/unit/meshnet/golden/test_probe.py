"""Golden probes: written and read whole, refused in part, excerpts for one shard."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from meshnet.errors import ArtifactError
from meshnet.golden.probe import (
    GOLDEN_ROWS,
    ROWS_MAX,
    GoldenProbe,
    GoldenRows,
    draw_token_ids,
    excerpt_names,
    parse_golden,
    require_complete,
    write_golden,
)
from tests.unit.meshnet.golden.goldens import DIGEST, fake_golden

GOLDEN = fake_golden()


def test_what_is_written_is_read() -> None:
    assert parse_golden(write_golden(GOLDEN)) == GOLDEN
    assert write_golden(GOLDEN) == write_golden(fake_golden())


def test_a_shard_finds_what_goes_in_and_what_comes_out() -> None:
    assert GOLDEN.before(0) is None
    assert GOLDEN.before(2) == GOLDEN.after(2) == GOLDEN.hidden[2]
    assert GOLDEN.after(4) == GOLDEN.logits
    assert (GOLDEN.cuts, len(GOLDEN.token_ids)) == ((1, 2, 3), GOLDEN_ROWS)


@pytest.mark.parametrize(("layer_begin", "layer_end"), [(1, 3), (0, 3), (1, 4)])
def test_an_excerpt_has_no_other_rows(layer_begin: int, layer_end: int) -> None:
    excerpt = replace(GOLDEN, hidden={1: GOLDEN.hidden[1]}, logits=None)
    with pytest.raises(ArtifactError, match="no_golden_rows"):
        excerpt.require_ends(layer_begin, layer_end)


def test_excerpts_name_the_tensors_of_both_ends() -> None:
    assert excerpt_names(4, 0, 4) == ("token_ids", "logits")
    assert excerpt_names(4, 0, 2) == ("token_ids", "hidden.2")
    assert excerpt_names(4, 1, 2) == ("token_ids", "hidden.1", "hidden.2")
    assert excerpt_names(4, 1, 4) == ("token_ids", "hidden.1", "logits")


def test_token_ids_are_the_models_own_and_inside_its_vocabulary() -> None:
    ids = draw_token_ids(DIGEST, 100)
    assert ids == draw_token_ids(DIGEST, 100)
    assert ids != draw_token_ids(bytes(32), 100)
    assert all(0 <= one < 100 for one in ids)
    assert len(set(draw_token_ids(DIGEST, 2**31))) == GOLDEN_ROWS


def spoiled(**changes: object) -> GoldenProbe:
    return replace(GOLDEN, **changes)  # type: ignore[arg-type]


def rows_of(value: float, rows: int = GOLDEN_ROWS, width: int = 16) -> GoldenRows:
    return GoldenRows(rows, width, struct.pack("<f", value) * (rows * width))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (spoiled(hidden={1: rows_of(float("nan"))}), "not finite"),
        (spoiled(hidden={1: rows_of(float("inf"))}), "not finite"),
        (spoiled(hidden={1: rows_of(1.0, rows=3)}), "number of rows"),
        (spoiled(hidden={1: rows_of(1.0), 2: rows_of(1.0, width=8)}), "several widths"),
        (spoiled(hidden={4: rows_of(1.0)}), "at a layer that cannot be a cut"),
        (spoiled(hidden={0: rows_of(1.0)}), "at a layer that cannot be a cut"),
        (spoiled(token_ids=(*GOLDEN.token_ids[1:], 260)), "outside the vocabulary"),
        (spoiled(token_ids=(*GOLDEN.token_ids[1:], -1)), "negative"),
        (spoiled(artifact_digest=b"short"), "names no artifact"),
        (spoiled(n_layers=0), "n_layers"),
        (spoiled(backend="a\nb"), "backend"),
    ],
)
def test_a_wrong_probe_is_refused(wrong: GoldenProbe, why: str) -> None:
    with pytest.raises(ArtifactError, match=why):
        parse_golden(write_golden(wrong))


def test_a_probe_has_no_more_rows_than_workers_take() -> None:
    def probe_of(rows: int) -> GoldenProbe:
        return spoiled(token_ids=(1,) * rows, hidden={1: rows_of(1.0, rows)}, logits=None)

    assert parse_golden(write_golden(probe_of(16))).hidden[1].rows == ROWS_MAX
    with pytest.raises(ArtifactError, match="not_golden"):
        parse_golden(write_golden(probe_of(17)))


def test_a_cut_off_or_longer_file_is_refused() -> None:
    data = write_golden(GOLDEN)
    for wrong in (data[:-1], data + b"x", data[: len(data) // 2], b""):
        with pytest.raises(ArtifactError, match="not_golden"):
            parse_golden(wrong)


@pytest.mark.parametrize("name", ["hidden.02", "hidden.", "hidden.x", "hidden.99999", "hidden"])
def test_a_cut_has_one_name(name: str) -> None:
    data = write_golden(GOLDEN)
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].replace(b'"hidden.2"', f'"{name}"'.encode())
    with pytest.raises(ArtifactError, match="unknown name"):
        parse_golden(len(header).to_bytes(8, "little") + header + data[8 + length :])


def test_a_format_of_another_name_is_refused() -> None:
    data = write_golden(GOLDEN)
    with pytest.raises(ArtifactError, match="its format is unknown"):
        parse_golden(data.replace(b"golden probe 1", b"golden probe 9"))


def test_rows_at_every_cut_and_logits_are_required() -> None:
    require_complete(GOLDEN, [1, 2, 3], 260)
    for golden, cuts, vocab_size in (
        (GOLDEN, [1, 2, 3], 261),
        (spoiled(logits=None), [1, 2, 3], 260),
        (spoiled(hidden={1: GOLDEN.hidden[1], 3: GOLDEN.hidden[3]}), [1, 2, 3], 260),
    ):
        with pytest.raises(ArtifactError, match="golden_incomplete"):
            require_complete(golden, cuts, vocab_size)


def test_rows_have_the_bytes_of_their_shape() -> None:
    for rows, width, size in ((0, 4, 0), (1, 0, 0), (1, 2, 4)):
        with pytest.raises(ValueError, match="are no"):
            GoldenRows(rows, width, bytes(size))
