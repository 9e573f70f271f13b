"""Errands: the requests to pause, resume or quit that the volunteer clicks and the tray sends to the agent.

Invariants: pure. One errand runs at a time, so a second click changes nothing. Each errand ends, by an answer or by its
deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from node_app.ui.contact import Answered, Cause, Contact

if TYPE_CHECKING:
    from node_app.ui.contact import Observation, Reply

# Longer than an agent needs to close its sessions and to end its worker.
END_DEADLINE_S: Final = 30.0


class Errand(Enum):
    """A request that changes the agent; the value is its path at the agent's HTTP server."""

    PAUSE = "/pause"
    RESUME = "/resume"
    QUIT = "/quit"


_VERBS: Final = {Errand.PAUSE: "pause", Errand.RESUME: "resume", Errand.QUIT: "quit"}

_PROBLEMS: Final = {
    Cause.NOBODY_LISTENS: "it is no longer running",
    Cause.TOO_SLOW: "it did not answer in time",
    Cause.TOO_LARGE: "its answer was not a node's",
    Cause.BROKEN: "the connection broke during its answer",
}


@dataclass(frozen=True, slots=True)
class Errands:
    """The running errand (a request to pause, resume or quit the node) and the result of the last one.

    Attributes:
        running: the errand that was sent and is not done; QUIT is done when the agent is gone.
        problem: why the last errand failed, for people; empty if it did not.
        ends_by_s: monotonic time at which an accepted QUIT counts as failed; None if no QUIT was accepted.
        has_ended: the agent is gone because it was asked to quit.
    """

    running: Errand | None = None
    problem: str = ""
    ends_by_s: float | None = None
    has_ended: bool = False

    def begin(self, errand: Errand) -> Errands:
        """Return the state in which `errand` runs; if another is running, return self."""
        return self if self.running is not None else Errands(errand)

    def receive(self, reply: Reply, now_s: float) -> Errands:
        """Return the state after the agent's answer to the running errand; `now_s` is monotonic."""
        if self.running is None:
            return self
        if isinstance(reply, Answered) and reply.http_status == HTTPStatus.OK:
            return Errands(Errand.QUIT, ends_by_s=now_s + END_DEADLINE_S) if self.running is Errand.QUIT else Errands()
        why = f"it answered with status {reply.http_status}" if isinstance(reply, Answered) else _PROBLEMS[reply.cause]
        return Errands(problem=f"The node did not {_VERBS[self.running]}: {why}.")

    def look(self, observation: Observation, now_s: float) -> Errands:
        """Return the state after an observation of the agent at `now_s`, monotonic seconds.

        A running QUIT is done if the agent is gone, and fails if the agent is still there at `ends_by_s`.
        """
        if self.running is not Errand.QUIT:
            return self
        if observation.contact in {Contact.ABSENT, Contact.DIED}:
            return Errands(has_ended=True)
        if self.ends_by_s is not None and now_s >= self.ends_by_s:
            return Errands(problem=f"The node has not ended after {END_DEADLINE_S:.0f} s.")
        return self
