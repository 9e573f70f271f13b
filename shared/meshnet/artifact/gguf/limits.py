"""The limits that a GGUF header must keep, and the errors for files that are refused.

Invariant: before memory is allocated for a count or a length, it is compared with its limit and with the bytes that are
left in the file.
"""

from __future__ import annotations

from typing import Final

from meshnet.errors import ArtifactError

MAX_KEYS: Final = 65_536
MAX_TENSORS: Final = 131_072
MAX_PARTS: Final = 4_096
MAX_KEY_BYTES: Final = 65_535
MAX_STRING_BYTES: Final = 4 * 1024 * 1024
# The next three limits and MAX_TENSORS hold for all parts of a model together. The largest vocabularies have half as
# many array elements: one each for a token's text, type and score, and one for each merge.
MAX_ARRAY_ELEMENTS: Final = 3 * 1024 * 1024
# Memory that metadata and names take once they are read. A short string takes many times its bytes in the file. The
# limit keeps the reader below 300 MB for any file.
MAX_VALUE_BYTES: Final = 160 * 1024 * 1024
# The largest vocabularies need headers of about 20 MiB.
MAX_HEADER_BYTES: Final = 64 * 1024 * 1024
MAX_DIMENSIONS: Final = 4
# ggml reserves 64 bytes with a terminator. Source: ggml.h, GGML_MAX_NAME.
MAX_TENSOR_NAME_BYTES: Final = 63
MAX_TENSOR_BYTES: Final = 1 << 48
# Largest end of a tensor if only the header of a file is present.
MAX_FILE_BYTES: Final = 1 << 50
MAX_ALIGNMENT_BYTES: Final = 1 << 20
MAX_LAYERS: Final = 4_096

TITLES: Final[dict[str, str]] = {
    "unreadable": "File cannot be read",
    "not_gguf": "Not a GGUF file",
    "unsupported_version": "GGUF version not supported",
    "truncated": "File is incomplete",
    "limit_exceeded": "File exceeds a limit",
    "bad_metadata": "Bad metadata",
    "bad_tensor": "Bad tensor",
    "unsupported_tensor_type": "Tensor type not supported",
    "not_first_part": "Not the first part",
    "missing_part": "A part is missing",
    "missing_range": "File is incomplete",
}


def refused(code: str, message: str) -> ArtifactError:
    """Return the error for a refused file; `code` is one of the keys of `TITLES`."""
    return ArtifactError(code, TITLES[code], message)


def require(condition: bool, code: str, message: str) -> None:
    """Refuse the file unless `condition` holds.

    Raises:
        ArtifactError: with `code`, if `condition` is false.
    """
    if not condition:
        raise refused(code, message)
