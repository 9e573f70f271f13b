"""A golden probe: token ids, the hidden rows at every legal cut, and the logits after the last layer.

Invariants: of one artifact, named by its digest; every value is finite; rows are those of one step that takes all
token ids at once, at positions from 0 on. An excerpt is a probe with fewer cuts: what one shard needs.
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
# A worker is sent all rows in one message. Source: docs/adr/0019.
ROWS_MAX: Final = 16
GOLDEN_BYTES_MAX: Final = 128 * 1024 * 1024
LAYERS_MAX: Final = 4096
DIGEST_BYTES: Final = 32
TOKEN_IDS: Final = "token_ids"  # noqa: S105 - the name of a tensor
LOGITS: Final = "logits"
WORD_CHARACTERS: Final = 200
_DRAW_BYTES: Final = 8


def hidden_name(cut: int) -> str:
    """The tensor of the rows that layer `cut` takes."""
    return f"hidden.{cut}"


@dataclass(frozen=True, slots=True)
class GoldenRows:
    """A matrix [rows, width] of f32, little-endian, row-major."""

    rows: int
    width: int
    data: bytes

    def __post_init__(self) -> None:
        if self.rows < 1 or self.width < 1 or len(self.data) != 4 * self.rows * self.width:
            raise ValueError(f"{len(self.data)} bytes are no {self.rows} rows of {self.width}")

    def values(self) -> array[float]:
        """All elements."""
        values = array("f", self.data)
        if sys.byteorder == "big":
            values.byteswap()
        return values

    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        return all(map(math.isfinite, self.values()))


@dataclass(frozen=True, slots=True)
class GoldenProbe:
    """A probe, or an excerpt of one.

    Attributes:
        artifact_digest: of the model's files.
        n_layers: of the model.
        backend: that computed it, as an exact class names it, e.g. "cpu".
        pin: upstream commit and patches of that engine, for people.
        token_ids: one a row.
        hidden: rows by cut: what layer `cut` takes.
        logits: of every row; None in an excerpt that has no use for them.
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
        """Cuts that have rows, in order."""
        return tuple(sorted(self.hidden))

    def before(self, layer_begin: int) -> GoldenRows | None:
        """What a shard that begins here takes beside the token ids; None for the head.

        Raises:
            ArtifactError: `no_golden_rows`: there are none at this cut.
        """
        return None if layer_begin == 0 else self._at(layer_begin)

    def after(self, layer_end: int) -> GoldenRows:
        """What a shard that ends here gives: hidden rows, or logits.

        Raises:
            ArtifactError: `no_golden_rows`.
        """
        if layer_end != self.n_layers:
            return self._at(layer_end)
        if self.logits is None:
            raise _no_rows("the last layer")
        return self.logits

    def require_ends(self, layer_begin: int, layer_end: int) -> None:
        """Refuse layers that this probe cannot prove.

        Raises:
            ArtifactError: `no_golden_rows`.
        """
        self.before(layer_begin)
        self.after(layer_end)

    def _at(self, cut: int) -> GoldenRows:
        if cut not in self.hidden:
            raise _no_rows(f"layer {cut}")
        return self.hidden[cut]


def excerpt_names(n_layers: int, layer_begin: int, layer_end: int) -> tuple[str, ...]:
    """The tensors that prove a shard, in a file's order."""
    taken = () if layer_begin == 0 else (hidden_name(layer_begin),)
    given = LOGITS if layer_end == n_layers else hidden_name(layer_end)
    return (TOKEN_IDS, *taken, given)


def draw_token_ids(artifact_digest: bytes, vocab_size: int, rows: int = GOLDEN_ROWS) -> tuple[int, ...]:
    """Token ids for a model, all over its vocabulary, the same whoever draws them."""
    drawn = hashlib.shake_256(b"meshnet golden probe" + artifact_digest).digest(_DRAW_BYTES * rows)
    return tuple(number % vocab_size for (number,) in struct.iter_unpack("<Q", drawn))


def write_golden(golden: GoldenProbe) -> bytes:
    """The probe as a file's bytes."""
    words = {
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
    return write_tensors(words, matrices)


def _matrix(name: str, rows: GoldenRows) -> Matrix:
    return Matrix(name, "F32", (rows.rows, rows.width), rows.data)


def parse_golden(data: bytes) -> GoldenProbe:
    """Read a probe or an excerpt and check all of it.

    Raises:
        ArtifactError: `not_golden`, with what is wrong.
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
        backend=_word(header.words, "backend"),
        pin=_word(header.words, "pin"),
        token_ids=_token_ids(header, data),
        hidden={_cut(name): rows for name, rows in matrices.items() if name != LOGITS},
        logits=matrices.get(LOGITS),
    )
    _check(golden, matrices.values())
    return golden


def _check(golden: GoldenProbe, matrices: Iterable[GoldenRows]) -> None:
    if any(rows.rows != len(golden.token_ids) for rows in matrices):
        raise _wrong("it has not as many rows as token ids")
    if len({rows.width for rows in golden.hidden.values()}) > 1:
        raise _wrong("its rows have several widths")
    if any(not 0 < cut < golden.n_layers for cut in golden.hidden):
        raise _wrong("it has rows where no cut can be")
    if golden.logits is not None and max(golden.token_ids) >= golden.logits.width:
        raise _wrong("a token id is outside the vocabulary")
    if not all(rows.is_finite() for rows in matrices):
        raise _wrong("a value is not finite")


def _rows(header: TensorHeader, data: bytes, name: str) -> GoldenRows:
    place = header.places[name]
    if place.dtype != "F32" or place.shape[0] > ROWS_MAX:
        raise _wrong("a tensor is of another kind")
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
    word = name.removeprefix("hidden.")
    is_number = word.isascii() and word.isdigit() and len(word) <= len(str(LAYERS_MAX))
    # One cut has one name: rows under another one would be taken in and found by nobody.
    if not is_number or name != hidden_name(int(word)):
        raise _wrong("a tensor has another name")
    return int(word)


def _digest(words: Mapping[str, str]) -> bytes:
    if words.get("format") != FORMAT:
        raise _wrong("it is of another format")
    try:
        digest = bytes.fromhex(words.get("artifact_digest", ""))
    except ValueError:
        digest = b""
    if len(digest) != DIGEST_BYTES:
        raise _wrong("it names no artifact")
    return digest


def _number(words: Mapping[str, str], name: str, largest: int) -> int:
    word = words.get(name, "")
    if not word.isascii() or not word.isdigit() or len(word) > len(str(largest)) or not 0 < int(word) <= largest:
        raise _wrong(f"{name} is no possible number")
    return int(word)


def _word(words: Mapping[str, str], name: str) -> str:
    word = words.get(name, "")
    if len(word) > WORD_CHARACTERS or not word.isprintable():
        raise _wrong(f"{name} is no word")
    return word


def require_complete(golden: GoldenProbe, cuts: Sequence[int], vocab_size: int) -> None:
    """Refuse a probe that a shard of this model might find lacking.

    Args:
        golden: the probe.
        cuts: legal ones of the model.
        vocab_size: of the model.

    Raises:
        ArtifactError: `golden_incomplete`.
    """
    lacking = sorted(set(cuts) - set(golden.hidden))
    if lacking:
        raise ArtifactError("golden_incomplete", "Golden probe lacks rows", f"no rows at layer {lacking[0]}")
    if golden.logits is None or golden.logits.width != vocab_size:
        raise ArtifactError("golden_incomplete", "Golden probe lacks rows", f"no logits of {vocab_size} tokens")


def _no_rows(where: str) -> ArtifactError:
    return ArtifactError("no_golden_rows", "No golden rows", f"the golden probe has no rows at {where}")


def _wrong(why: str) -> ArtifactError:
    return ArtifactError("not_golden", "No golden probe", f"this is no golden probe: {why}")
