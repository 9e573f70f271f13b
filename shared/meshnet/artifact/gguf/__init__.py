"""Strict reading of GGUF headers, whose bytes are untrusted.

Invariant: if a file is wrong, an `ArtifactError` is raised whose code names the defect, and no other exception.
"""

from meshnet.artifact.gguf.digest import artifact_digest, combined_digest, file_digest
from meshnet.artifact.gguf.header import AvailableModel, GgufHeader, layer_of, read_available, read_header
from meshnet.artifact.gguf.missing_ranges import MissingRange, missing_ranges, refuse_missing
from meshnet.artifact.gguf.part import GgufPart, GgufTensor
from meshnet.artifact.gguf.reader import MetadataValue
from meshnet.artifact.gguf.vocabulary import write_vocab_only

__all__ = [
    "AvailableModel",
    "GgufHeader",
    "GgufPart",
    "GgufTensor",
    "MetadataValue",
    "MissingRange",
    "artifact_digest",
    "combined_digest",
    "file_digest",
    "layer_of",
    "missing_ranges",
    "read_available",
    "read_header",
    "refuse_missing",
    "write_vocab_only",
]
