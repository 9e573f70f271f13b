"""What the volunteer asked the agent to do, and how far that is.

Invariants: pure; one errand at a time, so a second click changes nothing; each ends, by an answer or by its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from node_app.ui.contact import Answered, Cause, Contact

if TYPE_CHECKING:
    from node_app.ui.contact import Observation, Reply

# Longer than an agent takes to close its sessions and to end its worker.
END_DEADLINE_S: Final = 30.0


class Errand(Enum):
    """A lever of the agent; the value is its path."""

    PAUSE = "/pause"
    RESUME = "/resume"
    QUIT = "/quit"


_VERBS: Final = {Errand.PAUSE: "pause", Errand.RESUME: "resume", Errand.QUIT: "quit"}

_PROBLEMS: Final = {
    Cause.NOBODY_LISTENS: "nobody listens there any more",
    Cause.TOO_SLOW: "it did not answer in time",
    Cause.TOO_LARGE: "its answer was not an agent's",
    Cause.BROKEN: "its answer broke off",
}


@dataclass(frozen=True, slots=True)
class Errands:
    """What is going on.

    Attributes:
        running: sent and not done yet; QUIT is done when the agent is gone.
        problem: why the last one failed, for people; empty otherwise.
        ends_by_s: when a QUIT that was accepted counts as failed; None while none was.
        has_ended: the agent is gone because it was asked to.
    """

    running: Errand | None = None
    problem: str = ""
    ends_by_s: float | None = None
    has_ended: bool = False

    def begin(self, errand: Errand) -> Errands:
        """Send an errand; the same state where one is running."""
        return self if self.running is not None else Errands(errand)

    def receive(self, reply: Reply, now_s: float) -> Errands:
        """Take the agent's answer to the running errand."""
        if self.running is None:
            return self
        if isinstance(reply, Answered) and reply.http_status == HTTPStatus.OK:
            return Errands(Errand.QUIT, ends_by_s=now_s + END_DEADLINE_S) if self.running is Errand.QUIT else Errands()
        why = f"it answered with status {reply.http_status}" if isinstance(reply, Answered) else _PROBLEMS[reply.cause]
        return Errands(problem=f"The node did not {_VERBS[self.running]}: {why}.")

    def look(self, observation: Observation, now_s: float) -> Errands:
        """See whether an agent that was asked to quit is gone, or late."""
        if self.running is not Errand.QUIT:
            return self
        if observation.contact in {Contact.ABSENT, Contact.DIED}:
            return Errands(has_ended=True)
        if self.ends_by_s is not None and now_s >= self.ends_by_s:
            return Errands(problem=f"The node has not ended after {END_DEADLINE_S:.0f} s.")
        return self
