"""The engine-independent interface of a loaded shard, and the outcome of a step."""

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
    """The KV state of one session on one shard."""

    @property
    def length(self) -> int:
        """The number of positions in the KV state."""

    def truncate(self, length: int) -> None:
        """Forget all positions from `length` on."""


class StageShard(Protocol):
    """A loaded shard with its limits."""

    @property
    def width(self) -> int:
        """The number of elements of a hidden row."""

    @property
    def owns_input(self) -> bool:
        """Whether this is the head, which takes token ids."""

    @property
    def owns_output(self) -> bool:
        """Whether this is the tail, which draws tokens."""

    @property
    def context_length(self) -> int:
        """Largest number of positions of a session."""

    @property
    def kv_cells(self) -> int:
        """KV cells for all sessions together."""

    @property
    def max_sessions(self) -> int:
        """Largest number of sessions at the same time."""

    @property
    def max_step_rows(self) -> int:
        """Largest number of rows in a frame."""

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights in memory."""

    @property
    def kv_bytes(self) -> int:
        """Bytes of all KV cells in memory."""

    @property
    def contract(self) -> session_pb2.BoundaryContract:
        """The shard's boundary contract, which is reported to the agent."""

    def open_sequence(self, kv_cells: int) -> StageSequence:
        """Return an empty sequence for at most `kv_cells` rows."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step.

    Attributes:
        rows: rows for the next stage: [frame's rows, width] f32, row-major, little-endian; empty on the tail.
        drawn: the token that the tail drew; None if the frame asked for no logits.
        failure: the code with which the session fails; None if the step succeeded.
    """

    rows: bytes = b""
    drawn: TokenEvent | None = None
    failure: FailureCode | None = None
