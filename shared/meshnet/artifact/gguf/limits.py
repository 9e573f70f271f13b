"""What a header may hold at most, and how a file is refused.

Invariant: every count and length is compared with its limit, and with the bytes that are left, before memory is taken.
"""

from __future__ import annotations

from typing import Final

from meshnet.errors import ArtifactError

MAX_KEYS: Final = 65_536
MAX_TENSORS: Final = 131_072
MAX_PARTS: Final = 4_096
MAX_KEY_BYTES: Final = 65_535
MAX_STRING_BYTES: Final = 4 * 1024 * 1024
# The following are of all parts of a model together, and so is MAX_TENSORS. Arrays: twice the largest vocabularies,
# whose tokens, types, scores and merges count.
MAX_ARRAY_ELEMENTS: Final = 3 * 1024 * 1024
# What metadata and names take once they are read: a short string takes many times its bytes in the file. It keeps
# reading below 300 MB, whatever the files say.
MAX_VALUE_BYTES: Final = 160 * 1024 * 1024
# The largest vocabularies make headers of some 20 MiB.
MAX_HEADER_BYTES: Final = 64 * 1024 * 1024
MAX_DIMENSIONS: Final = 4
# ggml keeps 64 bytes with a terminator. Source: ggml.h, GGML_MAX_NAME.
MAX_TENSOR_NAME_BYTES: Final = 63
MAX_TENSOR_BYTES: Final = 1 << 48
# Where a tensor of a file that holds its header alone may lie at most.
MAX_FILE_BYTES: Final = 1 << 50
MAX_ALIGNMENT_BYTES: Final = 1 << 20
MAX_LAYERS: Final = 4_096

TITLES: Final[dict[str, str]] = {
    "unreadable": "File cannot be read",
    "not_gguf": "Not a GGUF file",
    "unsupported_version": "GGUF version not supported",
    "truncated": "File is incomplete",
    "limit_exceeded": "File is beyond all limits",
    "bad_metadata": "Bad metadata",
    "bad_tensor": "Bad tensor",
    "unsupported_tensor_type": "Tensor type not supported",
    "not_first_part": "Not the first part",
    "missing_part": "A part is missing",
    "missing_range": "File is incomplete",
}


def refused(code: str, message: str) -> ArtifactError:
    """The error for a file that is refused with one of the codes in `TITLES`."""
    return ArtifactError(code, TITLES[code], message)


def require(condition: bool, code: str, message: str) -> None:
    """Refuse the file unless `condition` holds.

    Raises:
        ArtifactError: `condition` is false.
    """
    if not condition:
        raise refused(code, message)
