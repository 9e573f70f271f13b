"""Writes a report of `meshnet inspect` as one JSON object. Keys are never renamed; sizes are in bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from meshnet.artifact.model.inventory import bytes_by_type
from meshnet.frame import Codec

if TYPE_CHECKING:
    from meshnet.artifact.model.inventory import Holding
    from meshnet.artifact.model.memory import RangeMemory
    from meshnet.artifact.model.seam import Seam
    from meshnet.inspect.report import Report

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
# Names of the codecs in the report; raw rows are f32.
CODEC_NAMES = {Codec.RAW: "f32", Codec.BF16: "bf16", Codec.Q8_0: "q8_0"}


def as_json(report: Report) -> str:
    """Return the report as one line of JSON."""
    return json.dumps(_model(report) | _sizes(report) | _parts(report) | _loads(report))


def _model(report: Report) -> dict[str, Json]:
    header = report.header
    return {
        "files": [path.name for path in header.paths],
        "missing_parts": [number + 1 for number in report.missing],
        "architecture": header.architecture,
        "layers": header.n_layers,
        "nextn_blocks": header.n_nextn,
        "hidden": header.embedding_length,
        "context_length": header.context_length,
        "tensors": len(header.tensors),
    }


def _sizes(report: Report) -> dict[str, Json]:
    files = report.files
    return {
        "file_bytes": files.file_bytes,
        "tensor_bytes": files.tensor_bytes,
        "metadata_bytes": files.metadata_bytes,
        "padding_bytes": files.padding_bytes,
        "here_bytes": files.here_bytes,
    }


def _parts(report: Report) -> dict[str, Json]:
    inventory, caches = report.inventory, report.caches
    return {
        "inventory": {
            "head": _holding(inventory.head),
            "layers": [_holding(layer) for layer in inventory.layers],
            "tail": _holding(inventory.tail),
            "nextn": _holding(inventory.nextn),
            "every_stage": _holding(inventory.every_stage),
            "tied_bytes": inventory.tied_bytes,
            "nextn_embedding_bytes": inventory.nextn_embedding_bytes,
        },
        "types": {name: _holding(held) for name, held in bytes_by_type(report.header.tensors).items()},
        "legal_cuts": list(report.cuts.cuts),
        "cut_rule": report.cuts.rule.value,
        "seam": _seam(report.seam),
        "kv": {
            "is_known": caches.is_known,
            "bytes_per_token": caches.bytes_per_token,
            "window_bytes_per_sequence": caches.window_bytes,
            "state_bytes_per_sequence": caches.state_bytes,
            "layers": [layer.bytes_per_token for layer in caches.layers],
        },
    }


def _seam(seam: Seam) -> Json:
    return {
        "elements_per_token": seam.elements,
        "streams": seam.streams,
        "token_id_layers": seam.token_id_layers,
        "bytes_per_token": {name: seam.row_bytes(codec) for codec, name in CODEC_NAMES.items()},
    }


def _loads(report: Report) -> dict[str, Json]:
    told: dict[str, Json] = {
        "context": report.load.context_length,
        "sequences": report.load.sequences,
        "ranges": [_range(one) for one in report.ranges] if not report.missing else [],
    }
    if report.split is not None:
        told["split"] = [
            {"machine": share.machine, "memory_bytes": share.memory_bytes, **_range(share.needs)}
            for share in report.split.shares
        ]
    return told


def _range(memory: RangeMemory) -> dict[str, Json]:
    return {
        "layers": [memory.layer_begin, memory.layer_end],
        "weight_bytes": memory.weight_bytes,
        "cache_bytes": memory.cache_bytes,
        "rewind_bytes": memory.rewind_bytes,
        "compute_bytes": memory.compute_bytes,
        "total_bytes": memory.total_bytes,
    }


def _holding(held: Holding) -> Json:
    return {"tensors": held.tensors, "bytes": held.size_bytes}
