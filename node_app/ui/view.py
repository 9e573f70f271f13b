"""What the window and the icon show, as plain values.

Invariants: pure; the whole window follows from an observation and the errands, so no widget keeps state of its own;
every state says what it means and, where a person can do something, what.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from meshnet.shard_facts import NodeState
from node_app.ui.contact import Contact
from node_app.ui.errands import Errand, Errands
from node_app.ui.figures import NOTHING, as_credits, as_layers, as_memory, as_rate, as_sentence, as_sessions

if TYPE_CHECKING:
    from node_app.status.agent_status import AgentStatus
    from node_app.ui.contact import Observation


class Mood(Enum):
    """What the icon shows: a shape and a colour each."""

    SERVING = auto()
    WAITING = auto()  # on its way, nobody has to do anything
    PAUSED = auto()
    FAILURE = auto()
    ABSENT = auto()


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and what it is."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class View:
    """Everything that is shown.

    Attributes:
        headline: the state in a few words.
        detail: one or two sentences about it.
        rows: the same labels in the same order, or none while nothing is known.
        can_pause, can_resume: at most one of them; which button is there.
        can_quit_node: an agent answers that could be asked to quit.
        needs_start: the command that starts a node is worth showing.
        problem: why the last errand failed; empty otherwise.
        tooltip: of the icon; holds no text from elsewhere, which some desktops would read as markup.
    """

    mood: Mood
    headline: str
    detail: str
    rows: tuple[Row, ...]
    can_pause: bool
    can_resume: bool
    can_quit_node: bool
    needs_start: bool
    problem: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class _Words:
    mood: Mood
    headline: str
    detail: str


_START: Final = "Start it in a terminal; it shows up here by itself."

_WITHOUT_STATUS: Final = {
    Contact.UNKNOWN: _Words(Mood.WAITING, "Looking for the node", ""),
    Contact.ABSENT: _Words(Mood.ABSENT, "No node is running", _START),
    Contact.DIED: _Words(Mood.FAILURE, "The node ended unexpectedly", "Process {pid} is gone. Start it again."),
    Contact.SILENT: _Words(
        Mood.FAILURE,
        "The node does not answer",
        "Process {pid} runs but has nothing to say. The machine may be too busy, or the process was stopped.",
    ),
    Contact.REFUSED: _Words(
        Mood.FAILURE,
        "The node refuses this window",
        "The address file belongs to another run of the node. Start the node again.",
    ),
    Contact.STRANGE: _Words(Mood.FAILURE, "Something else answers", "{detail}"),
}


def present(observation: Observation, errands: Errands) -> View:
    """Return what to show."""
    status = observation.status
    words = _words(observation, errands)
    is_free = errands.running is None and status is not None
    is_paused = status is not None and status.condition is NodeState.PAUSED
    return View(
        mood=words.mood,
        headline=words.headline,
        detail=words.detail,
        rows=_rows(status),
        can_pause=is_free and not is_paused,
        can_resume=is_free and is_paused,
        can_quit_node=is_free,
        needs_start=observation.contact in {Contact.ABSENT, Contact.DIED} and not errands.has_ended,
        problem=errands.problem,
        tooltip=_tooltip(words, status),
    )


def _words(observation: Observation, errands: Errands) -> _Words:
    if errands.running is Errand.QUIT:
        return _Words(Mood.WAITING, "The node is ending", "Running sessions are closed and the worker is ended.")
    if observation.status is None:
        words = _WITHOUT_STATUS[observation.contact]
        detail = words.detail.format(pid=observation.pid, detail=observation.detail)
        return _Words(words.mood, words.headline, detail)
    return _words_of_status(observation.status)


def _words_of_status(status: AgentStatus) -> _Words:
    match status.condition:
        case NodeState.LOADING:
            detail = as_sentence(status.reason) or f"The worker loads and measures layers: {as_layers(status)}."
            return _Words(Mood.WAITING, "Loading", detail)
        case NodeState.PAUSED:
            running = f" {as_sessions(status.sessions)} still going on." if status.sessions else ""
            return _Words(Mood.PAUSED, "Paused", f"No new sessions are taken.{running}")
        case NodeState.DEGRADED:
            detail = f"{as_sentence(status.reason) or 'The worker is down.'} It is started again by itself."
            return _Words(Mood.FAILURE, "Not serving", detail)
        case NodeState.SELF_TEST_FAILED:
            reason = as_sentence(status.reason) or "The self test failed."
            detail = f"This machine computes wrong numbers, and serves nobody. {reason} It is tried again by itself."
            return _Words(Mood.FAILURE, "Self test failed", detail)
        case NodeState.SERVING:
            return _words_of_serving(status)


def _words_of_serving(status: AgentStatus) -> _Words:
    if status.site_url and not status.is_control_connected:
        detail = f"{status.site_url} cannot be reached. The node tries again by itself."
        return _Words(Mood.WAITING, "Waiting for the site", detail)
    if status.site_url and not status.is_data_connected:
        return _Words(
            Mood.WAITING, "Waiting for the relay", "The site's relay cannot be reached. The node tries again by itself."
        )
    if status.notice:
        return _Words(Mood.FAILURE, "Ready, but not used", as_sentence(status.notice))
    if status.sessions:
        return _Words(Mood.SERVING, "Serving", f"{as_sessions(status.sessions)} now.")
    return _Words(Mood.SERVING, "Ready", "Waiting for somebody to ask something.")


def _rows(status: AgentStatus | None) -> tuple[Row, ...]:
    if status is None:
        return ()
    values = (
        status.name or NOTHING,
        status.model,
        as_layers(status),
        str(status.sessions),
        _as_speed(status),
        as_credits(status.credits_micros),
        as_memory(status.resident_bytes),
        _as_self_test(status),
        _as_site(status),
        status.api_url or NOTHING,
    )
    return tuple(Row(label, value) for label, value in zip(_LABELS, values, strict=True))


_LABELS: Final = ("Node", "Model", "Layers", "Sessions", "Speed", "Credits", "Memory", "Self test", "Site", "API")


_SELF_TEST_WORDS: Final = {
    "pending": "not yet",
    "put_off": "put off",
    "absent": "not self-tested",
    "passed": "passed",
    "failed": "failed",
}


def _as_self_test(status: AgentStatus) -> str:
    return _SELF_TEST_WORDS.get(status.self_test, NOTHING) if status.site_url else NOTHING


def _as_speed(status: AgentStatus) -> str:
    if not status.sessions:
        return NOTHING
    if status.layer_end < status.n_layers:
        return "counted at the last node"  # only that one sees the tokens
    return as_rate(status.tokens_per_s)


def _as_site(status: AgentStatus) -> str:
    if not status.site_url:
        return "none: for this machine only"
    if not status.node_id:
        how = "not enrolled yet"
    elif not status.is_control_connected:
        how = "not connected"
    else:
        how = "connected" if status.is_data_connected else "connected, no relay"
    return f"{status.site_url} ({how})"


def _tooltip(words: _Words, status: AgentStatus | None) -> str:
    lines = [f"Meshnet: {words.headline}"]
    if status is not None:
        lines.append(f"Layers {as_layers(status)}; {as_sessions(status.sessions)}")
        if status.sessions and status.layer_end == status.n_layers:
            lines.append(as_rate(status.tokens_per_s))
    return "\n".join(lines)
