"""A golden probe: token ids, the hidden rows at every legal cut, and the logits after the last layer.

Invariants: a probe belongs to one artifact (a model's files) and holds its digest. Every value is finite. The rows come
from one step that takes all token ids at once, at positions from 0 on. An excerpt of a probe has only the rows that one
shard needs.
"""

from __future__ import annotations

import hashlib
import math
import struct
import sys
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from meshnet.errors import ArtifactError
from meshnet.golden.tensor_file import Matrix, TensorHeader, parse_header, write_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FORMAT: Final = "meshnet golden probe 1"
GOLDEN_ROWS: Final = 8
# All rows are sent to a worker in one message. Source: docs/adr/0019.
ROWS_MAX: Final = 16
GOLDEN_BYTES_MAX: Final = 128 * 1024 * 1024
LAYERS_MAX: Final = 4096
DIGEST_BYTES: Final = 32
TOKEN_IDS: Final = "token_ids"  # noqa: S105 - the name of a tensor
LOGITS: Final = "logits"
TEXT_CHARACTERS_MAX: Final = 200
_DRAW_BYTES: Final = 8


def hidden_name(cut: int) -> str:
    """Return the name of the tensor with the rows that go into layer `cut`."""
    return f"hidden.{cut}"


@dataclass(frozen=True, slots=True)
class GoldenRows:
    """A matrix [rows, width] of f32, little-endian, row-major; `data` must have 4 * rows * width bytes."""

    rows: int
    width: int
    data: bytes

    def __post_init__(self) -> None:
        if self.rows < 1 or self.width < 1 or len(self.data) != 4 * self.rows * self.width:
            raise ValueError(f"{len(self.data)} bytes are not {self.rows} rows of {self.width}")

    def values(self) -> array[float]:
        """Return all elements as floats, row by row."""
        values = array("f", self.data)
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def is_finite(self) -> bool:
        """Tell if no element is NaN or infinite."""
        return all(map(math.isfinite, self.values()))


@dataclass(frozen=True, slots=True)
class GoldenProbe:
    """A golden probe, or an excerpt of it for one shard.

    Attributes:
        artifact_digest: digest of the model's files, 32 bytes.
        n_layers: number of the model's layers.
        backend: backend that computed the rows, as an exact class names it, for example "cpu".
        pin: version of the engine that computed the rows, for people (llama.cpp: commit and patches).
        token_ids: one for each row.
        hidden: for each cut, the rows that go into layer `cut`.
        logits: logits of every row; None in an excerpt for a shard that does not end with the last layer.
    """

    artifact_digest: bytes
    n_layers: int
    backend: str
    pin: str
    token_ids: tuple[int, ...]
    hidden: Mapping[int, GoldenRows]
    logits: GoldenRows | None

    @property
    def cuts(self) -> tuple[int, ...]:
        """The cuts that have rows, ascending."""
        return tuple(sorted(self.hidden))

    def before(self, layer_begin: int) -> GoldenRows | None:
        """Return the rows that go into a shard beginning at `layer_begin`; None for the head, which takes token ids.

        Raises:
            ArtifactError: `no_golden_rows` if the probe has no rows at this cut.
        """
        return None if layer_begin == 0 else self._at(layer_begin)

    def after(self, layer_end: int) -> GoldenRows:
        """Return the rows that a shard ending at `layer_end` should compute: hidden rows, or logits at the model's end.

        Raises:
            ArtifactError: `no_golden_rows` if the probe has no such rows.
        """
        if layer_end != self.n_layers:
            return self._at(layer_end)
        if self.logits is None:
            raise _no_rows("the last layer")
        return self.logits

    def require_ends(self, layer_begin: int, layer_end: int) -> None:
        """Refuse a range of layers if this probe lacks the rows at its beginning or its end.

        Raises:
            ArtifactError: `no_golden_rows` if rows at either end are missing.
        """
        self.before(layer_begin)
        self.after(layer_end)

    def _at(self, cut: int) -> GoldenRows:
        if cut not in self.hidden:
            raise _no_rows(f"layer {cut}")
        return self.hidden[cut]


def excerpt_names(n_layers: int, layer_begin: int, layer_end: int) -> tuple[str, ...]:
    """Return the names of the tensors in an excerpt for these layers, in the order of the file."""
    taken = () if layer_begin == 0 else (hidden_name(layer_begin),)
    given = LOGITS if layer_end == n_layers else hidden_name(layer_end)
    return (TOKEN_IDS, *taken, given)


def draw_token_ids(artifact_digest: bytes, vocab_size: int, rows: int = GOLDEN_ROWS) -> tuple[int, ...]:
    """Return `rows` token ids from all over the vocabulary. The same artifact always gives the same ids."""
    drawn = hashlib.shake_256(b"meshnet golden probe" + artifact_digest).digest(_DRAW_BYTES * rows)
    return tuple(number % vocab_size for (number,) in struct.iter_unpack("<Q", drawn))


def write_golden(golden: GoldenProbe) -> bytes:
    """Return the contents of a file with this probe."""
    metadata = {
        "format": FORMAT,
        "artifact_digest": golden.artifact_digest.hex(),
        "n_layers": str(golden.n_layers),
        "backend": golden.backend,
        "pin": golden.pin,
    }
    ids = struct.pack(f"<{len(golden.token_ids)}i", *golden.token_ids)
    matrices = [Matrix(TOKEN_IDS, "I32", (1, len(golden.token_ids)), ids)]
    matrices += [_matrix(hidden_name(cut), golden.hidden[cut]) for cut in golden.cuts]
    if golden.logits is not None:
        matrices.append(_matrix(LOGITS, golden.logits))
    return write_tensors(metadata, matrices)


def _matrix(name: str, rows: GoldenRows) -> Matrix:
    return Matrix(name, "F32", (rows.rows, rows.width), rows.data)


def parse_golden(data: bytes) -> GoldenProbe:
    """Read and check the contents of a file with a probe or an excerpt.

    Raises:
        ArtifactError: `not_golden`; its message names the defect.
    """
    if len(data) > GOLDEN_BYTES_MAX:
        raise _wrong(f"it is larger than {GOLDEN_BYTES_MAX} bytes")
    header = parse_header(data)
    if header.file_bytes != len(data):
        raise _wrong("it is not as long as its header says")
    matrices = {name: _rows(header, data, name) for name in header.places if name != TOKEN_IDS}
    golden = GoldenProbe(
        artifact_digest=_digest(header.words),
        n_layers=_number(header.words, "n_layers", LAYERS_MAX),
        backend=_text(header.words, "backend"),
        pin=_text(header.words, "pin"),
        token_ids=_token_ids(header, data),
        hidden={_cut(name): rows for name, rows in matrices.items() if name != LOGITS},
        logits=matrices.get(LOGITS),
    )
    _check(golden, matrices.values())
    return golden


def _check(golden: GoldenProbe, matrices: Iterable[GoldenRows]) -> None:
    if any(rows.rows != len(golden.token_ids) for rows in matrices):
        raise _wrong("its number of rows is not its number of token ids")
    if len({rows.width for rows in golden.hidden.values()}) > 1:
        raise _wrong("its rows have several widths")
    if any(not 0 < cut < golden.n_layers for cut in golden.hidden):
        raise _wrong("it has rows at a layer that cannot be a cut")
    if golden.logits is not None and max(golden.token_ids) >= golden.logits.width:
        raise _wrong("a token id is outside the vocabulary")
    if not all(rows.is_finite() for rows in matrices):
        raise _wrong("a value is not finite")


def _rows(header: TensorHeader, data: bytes, name: str) -> GoldenRows:
    place = header.places[name]
    if place.dtype != "F32" or place.shape[0] > ROWS_MAX:
        raise _wrong("a tensor does not hold f32 rows, or too many of them")
    return GoldenRows(*place.shape, data[header.data_at + place.begin : header.data_at + place.end])


def _token_ids(header: TensorHeader, data: bytes) -> tuple[int, ...]:
    place = header.places.get(TOKEN_IDS)
    if place is None or place.dtype != "I32" or place.shape[0] != 1 or place.shape[1] > ROWS_MAX:
        raise _wrong("it has no token ids")
    begin = header.data_at + place.begin
    ids = struct.unpack_from(f"<{place.shape[1]}i", data, begin)
    if min(ids) < 0:
        raise _wrong("a token id is negative")
    return ids


def _cut(name: str) -> int:
    text = name.removeprefix("hidden.")
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LAYERS_MAX))
    # A cut has only one valid name. Rows under another spelling would be read but never found.
    if not is_number or name != hidden_name(int(text)):
        raise _wrong("a tensor has an unknown name")
    return int(text)


def _digest(metadata: Mapping[str, str]) -> bytes:
    if metadata.get("format") != FORMAT:
        raise _wrong("its format is unknown")
    try:
        digest = bytes.fromhex(metadata.get("artifact_digest", ""))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise _wrong("it names no artifact")
    return digest


def _number(metadata: Mapping[str, str], name: str, largest: int) -> int:
    text = metadata.get(name, "")
    if not text.isascii() or not text.isdigit() or len(text) > len(str(largest)) or not 0 < int(text) <= largest:
        raise _wrong(f"{name} is not a number from 1 to {largest}")
    return int(text)


def _text(metadata: Mapping[str, str], name: str) -> str:
    text = metadata.get(name, "")
    if len(text) > TEXT_CHARACTERS_MAX or not text.isprintable():
        raise _wrong(f"{name} is too long or not printable")
    return text


def require_complete(golden: GoldenProbe, cuts: Sequence[int], vocab_size: int) -> None:
    """Refuse a probe that lacks rows which a shard of its model could need.

    Args:
        golden: the probe.
        cuts: legal cuts of the model.
        vocab_size: number of tokens in the model's vocabulary.

    Raises:
        ArtifactError: `golden_incomplete` if the rows at a cut or the logits of `vocab_size` tokens are missing.
    """
    lacking = sorted(set(cuts) - set(golden.hidden))
    if lacking:
        raise ArtifactError("golden_incomplete", "Golden probe lacks rows", f"no rows at layer {lacking[0]}")
    if golden.logits is None or golden.logits.width != vocab_size:
        raise ArtifactError("golden_incomplete", "Golden probe lacks rows", f"no logits of {vocab_size} tokens")


def _no_rows(place: str) -> ArtifactError:
    return ArtifactError("no_golden_rows", "No golden rows", f"the golden probe has no rows at {place}")


def _wrong(reason: str) -> ArtifactError:
    return ArtifactError("not_golden", "Not a golden probe", f"this is not a golden probe: {reason}")
