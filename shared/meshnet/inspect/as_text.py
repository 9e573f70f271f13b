"""Writes a report of `meshnet inspect` as tables. Sizes in GiB or MiB are rounded; the JSON report has exact ones."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from meshnet.artifact.model.inventory import bytes_by_type
from meshnet.inspect.as_json import CODEC_NAMES
from meshnet.printable import printable
from meshnet.sizes import size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meshnet.artifact.model.caches import LayerCache
    from meshnet.artifact.model.inventory import Holding
    from meshnet.artifact.model.memory import RangeMemory
    from meshnet.inspect.report import Report

NAME_CHARACTERS: Final = 64
SHOWN_SPANS: Final = 5
# One layer's tensors, and the caches it keeps.
_Layer: TypeAlias = "tuple[Holding, LayerCache]"


def as_text(report: Report) -> str:
    """Return blocks of lines: the model, its tensors by owner and by type, seams, memory, and the split, if any."""
    blocks = [_model(report), _owners(report), _types(report), _hand_over(report), _memory(report)]
    if report.split is not None:
        blocks.append(_split(report))
    return "\n\n".join("\n".join(block) for block in blocks)


def _model(report: Report) -> list[str]:
    header, files = report.header, report.files
    nextn = f" and {header.n_nextn} nextn block(s)" if header.n_nextn else ""
    name = printable(header.paths[0].name, NAME_CHARACTERS)
    lines = [
        (
            f"{name}: {header.architecture}, {header.n_layers} layers{nextn}, "
            f"hidden rows of {header.embedding_length}, {header.context_length} positions"
        ),
        (
            f"{len(header.paths)} file(s) of {size(files.file_bytes)}: {len(header.tensors)} tensors "
            f"{size(files.tensor_bytes)}, metadata {size(files.metadata_bytes)}, padding {size(files.padding_bytes)}"
        ),
    ]
    if report.missing:
        numbers = ", ".join(str(number + 1) for number in report.missing)
        lines.append(f"parts {numbers} are missing: the following figures are of the other parts alone")
    if files.here_bytes < files.file_bytes:
        lines.append(f"{size(files.file_bytes - files.here_bytes)} of the data are missing")
    return lines


def _owners(report: Report) -> list[str]:
    inventory = report.inventory
    rows = [["owner", "tensors", "bytes", "KV per token", "state"]]
    others = [("tail", inventory.tail), ("nextn (tail)", inventory.nextn), ("every stage", inventory.every_stage)]
    rows.append(["head", str(inventory.head.tensors), str(inventory.head.size_bytes), "", ""])
    for layers, (held, cache) in _alike(list(zip(inventory.layers, report.caches.layers, strict=True))):
        kept = [f"{cache.bytes_per_token:g}", str(cache.state_bytes)]
        rows.append([_layer_names(layers), str(held.tensors), str(held.size_bytes), *kept])
    rows += [[name, str(held.tensors), str(held.size_bytes), "", ""] for name, held in others if held.tensors]
    lines = _table(rows)
    if inventory.tied_bytes:
        lines.append(f"the embedding is the output head too, so a tail also needs its {inventory.tied_bytes} bytes")
    if inventory.nextn_embedding_bytes:
        lines.append(f"with nextn blocks a tail also needs the embedding's {inventory.nextn_embedding_bytes} bytes")
    return lines


def _alike(values: Sequence[_Layer]) -> Iterator[tuple[list[int], _Layer]]:
    """Yield each group of equal layers as (layer numbers, the value they share), ordered by their first layers."""
    numbers: dict[_Layer, list[int]] = {}
    for number, value in enumerate(values):
        numbers.setdefault(value, []).append(number)
    yield from ((layers, value) for value, layers in numbers.items())


def _layer_names(layers: Sequence[int]) -> str:
    if len(layers) == 1:
        return f"layer {layers[0]}"
    steps = {after - before for before, after in pairwise(layers)}
    if len(layers) > 2 and len(steps) == 1 and (step := steps.pop()) > 1:
        return f"{len(layers)} layers {layers[0]}, {layers[1]}, ... {layers[-1]} (every {step}), each"
    spans = _spans(layers).split(", ")
    shown = spans if len(spans) <= SHOWN_SPANS else [*spans[: SHOWN_SPANS - 2], "...", spans[-1]]
    return f"{len(layers)} layers {', '.join(shown)}, each"


def _types(report: Report) -> list[str]:
    held = bytes_by_type(report.header.tensors).items()
    return _table(
        [["type", "tensors", "bytes"], *([name, str(one.tensors), str(one.size_bytes)] for name, one in held)]
    )


def _hand_over(report: Report) -> list[str]:
    seam, caches = report.seam, report.caches
    packed = ", ".join(f"{name} {seam.row_bytes(codec) or 'not possible'}" for codec, name in CODEC_NAMES.items())
    streams = f" in {seam.streams} streams" if seam.streams > 1 else ""
    kept = "" if caches.is_known else " (this architecture is not known: plain attention is assumed)"
    lines = [
        f"legal cuts: {_spans(report.cuts.cuts)} ({report.cuts.rule})",
        f"seam: {seam.elements} values a token{streams}; bytes: {packed}",
        (
            f"KV: {caches.bytes_per_token:g} bytes a token{kept}; besides, a session keeps {caches.window_bytes} bytes "
            f"of windows and {caches.state_bytes} of states"
        ),
    ]
    if seam.token_id_layers:
        lines.append(
            f"the first {seam.token_id_layers} layers choose experts by token id, so seams up to them carry ids"
        )
    return lines


def _spans(cuts: Sequence[int]) -> str:
    """Return ascending numbers as text, for example "1-42, 45"; "none" if there are none."""
    spans: list[list[int]] = []
    for cut in cuts:
        if spans and cut == spans[-1][1] + 1:
            spans[-1][1] = cut
        else:
            spans.append([cut, cut])
    return ", ".join(str(begin) if begin == end else f"{begin}-{end}" for begin, end in spans) or "none"


def _memory(report: Report) -> list[str]:
    title = f"memory at {report.load.sequences} session(s) of {report.load.context_length} positions:"
    if report.missing:
        return [title, "not known: all parts are needed"]
    return [title, *_table([[*_MEMORY_TITLES], *(_memory_cells(one) for one in report.ranges)])]


_MEMORY_TITLES: Final = ("layers", "weights", "caches", "buffers (estimate)", "total", "to go back, if asked for")


def _memory_cells(memory: RangeMemory) -> list[str]:
    sizes = (memory.weight_bytes, memory.cache_bytes, memory.compute_bytes, memory.total_bytes, memory.rewind_bytes)
    return [f"{memory.layer_begin}:{memory.layer_end}", *map(size, sizes)]


def _split(report: Report) -> list[str]:
    shares = report.split.shares if report.split is not None else ()
    rows = [[str(share.machine + 1), *_memory_cells(share.needs), size(share.memory_bytes)] for share in shares]
    return ["suggested split, head first:", *_table([["machine", *_MEMORY_TITLES, "of"], *rows])]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines. The first column is aligned to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]  # fmt: skip
