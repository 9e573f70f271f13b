"""The parts of a boundary contract that are the same for every engine.

Source: docs/wire.md, What must match; the native worker computes the same bytes.
"""

from __future__ import annotations

import hashlib

from meshnet.constants import GRAPH_SEMANTICS_VERSION
from meshnet.frame import Codec
from meshnet.v1 import frame_pb2, session_pb2


def with_digest(
    contract: session_pb2.BoundaryContract, artifact_digest: bytes, details: str
) -> session_pb2.BoundaryContract:
    """Set the contract's digest, computed from its other fields and the arguments, and return the contract.

    Its other fields must be set before. `artifact_digest` is that of the model's file. `details` names the engine's own
    facts that the stages of a route must share.
    """
    parts = {
        "artifact": artifact_digest.hex(),
        "graph": GRAPH_SEMANTICS_VERSION,
        "architecture": contract.architecture,
        "n_layers": contract.n_layers,
        "context_length": contract.context_length,
        "vocab_size": contract.vocab_size,
        "details": details,
    }
    text = "meshnet contract v1" + "".join(f"\0{name}={value}" for name, value in parts.items())
    contract.contract_digest = hashlib.sha256(text.encode()).digest()
    return contract


def hidden_rows(width: int) -> session_pb2.TensorSpec:
    """Return the spec of a seam's only tensor: f32 rows with `width` elements."""
    return session_pb2.TensorSpec(name="hidden", dtype=frame_pb2.DTYPE_F32, elements_per_row=width)


def spoken_codecs(width: int) -> list[str]:
    """Return the names of the codecs, besides raw, that can pack rows of `width` elements."""
    return [frame_pb2.Codec.Name(codec) for codec in (Codec.BF16, Codec.Q8_0) if codec.can_pack(width)]
