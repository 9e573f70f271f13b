"""What a stage needs to know of a loaded shard, and what a step of it gives, whatever the engine is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from meshnet.failure_codes import FailureCode
    from meshnet.frame import TokenEvent
    from meshnet.v1 import session_pb2

DEFAULT_SESSIONS: Final = 8
DEFAULT_UBATCH_ROWS: Final = 512


class StageSequence(Protocol):
    """One session's rows on one shard."""

    @property
    def length(self) -> int:
        """Positions held."""

    def truncate(self, length: int) -> None:
        """Forget positions from `length` on."""


class StageShard(Protocol):
    """A loaded shard."""

    @property
    def width(self) -> int:
        """Elements of a hidden row."""

    @property
    def owns_input(self) -> bool:
        """Whether this is the head, which takes token ids."""

    @property
    def owns_output(self) -> bool:
        """Whether this is the tail, which draws tokens."""

    @property
    def context_length(self) -> int:
        """Positions of a session at most."""

    @property
    def kv_cells(self) -> int:
        """Cells for all sessions together."""

    @property
    def max_sessions(self) -> int:
        """Sessions at a time."""

    @property
    def max_step_rows(self) -> int:
        """A frame's rows at most."""

    @property
    def weights_bytes(self) -> int:
        """Memory of the weights."""

    @property
    def kv_bytes(self) -> int:
        """Memory of all cells."""

    @property
    def contract(self) -> session_pb2.BoundaryContract:
        """What is reported of it."""

    def open_sequence(self, kv_cells: int) -> StageSequence:
        """An empty sequence of `kv_cells` rows at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step gave.

    Attributes:
        rows: for the next stage: [frame's rows, width] f32, row-major, little-endian.
        drawn: on the tail; None where no logits were wanted.
        failure: the session fails with it.
    """

    rows: bytes = b""
    drawn: TokenEvent | None = None
    failure: FailureCode | None = None
