"""Decides the contents of window and icon, as plain values.

Invariants: pure. The whole window follows from an observation and the errands (pause, resume, quit), so widgets keep no
state of their own. Every state says what it means, and if the volunteer can mend it, how.
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
    """State of the node as the icon shows it; each mood has its own shape and colour."""

    SERVING = auto()
    WAITING = auto()  # it goes on by itself, nobody has to do anything
    PAUSED = auto()
    FAILURE = auto()
    ABSENT = auto()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the window's table: a label and its value."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class View:
    """Contents of window and icon.

    Attributes:
        mood: the state as the icon shows it.
        headline: the state in a few words.
        detail: one or two sentences about the state; empty if there is nothing to add.
        rows: the table of figures, always with the same labels in the same order; empty if the agent's status is
            unknown.
        can_pause, can_resume: whether the node may be asked to pause or to resume now; at most one of them is True.
        can_quit_node: whether the agent answers, so that it may be asked to quit.
        needs_start: whether to show the command that starts a node.
        problem: why the last request to pause, resume or quit failed; empty if it did not.
        tooltip: the icon's tool tip; without text from other programs, since some desktops would read that as markup.
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
class _Text:
    mood: Mood
    headline: str
    detail: str


_START: Final = "Start one in a terminal with this command. It then appears here by itself."

_WITHOUT_STATUS: Final = {
    Contact.UNKNOWN: _Text(Mood.WAITING, "Looking for the node", ""),
    Contact.ABSENT: _Text(Mood.ABSENT, "No node is running", _START),
    Contact.DIED: _Text(Mood.FAILURE, "The node ended unexpectedly", "Process {pid} is gone. Start it again."),
    Contact.SILENT: _Text(
        Mood.FAILURE,
        "The node does not answer",
        "Process {pid} does not answer in time. The machine may be too busy, or the process was stopped.",
    ),
    Contact.REFUSED: _Text(
        Mood.FAILURE,
        "The node refuses this window",
        "The address file belongs to another run of the node. Start the node again.",
    ),
    Contact.STRANGE: _Text(Mood.FAILURE, "Another program answers", "{detail} Start the node again."),
}


def present(observation: Observation, errands: Errands) -> View:
    """Return the view that shows an observation and the state of the errands."""
    status = observation.status
    text = _text(observation, errands)
    is_free = errands.running is None and status is not None
    is_paused = status is not None and status.condition is NodeState.PAUSED
    return View(
        mood=text.mood,
        headline=text.headline,
        detail=text.detail,
        rows=_rows(status),
        can_pause=is_free and not is_paused,
        can_resume=is_free and is_paused,
        can_quit_node=is_free,
        needs_start=observation.contact in {Contact.ABSENT, Contact.DIED} and not errands.has_ended,
        problem=errands.problem,
        tooltip=_tooltip(text, status),
    )


def _text(observation: Observation, errands: Errands) -> _Text:
    if errands.running is Errand.QUIT:
        return _Text(Mood.WAITING, "The node is ending", "It closes its sessions and ends its worker.")
    if observation.status is None:
        text = _WITHOUT_STATUS[observation.contact]
        detail = text.detail.format(pid=observation.pid, detail=observation.detail)
        return _Text(text.mood, text.headline, detail)
    return _text_of_status(observation.status)


def _text_of_status(status: AgentStatus) -> _Text:
    match status.condition:
        case NodeState.LOADING:
            detail = as_sentence(status.reason) or f"The worker loads and measures its layers: {as_layers(status)}."
            return _Text(Mood.WAITING, "Loading", detail)
        case NodeState.PAUSED:
            running = f" Still running: {as_sessions(status.sessions)}." if status.sessions else ""
            return _Text(Mood.PAUSED, "Paused", f"The node takes no new sessions.{running}")
        case NodeState.DEGRADED:
            detail = f"{as_sentence(status.reason) or 'The worker is down.'} The node starts it again by itself."
            return _Text(Mood.FAILURE, "Not serving", detail)
        case NodeState.SELF_TEST_FAILED:
            reason = as_sentence(status.reason) or "The self test failed."
            detail = (
                f"This machine computes wrong numbers, so it takes no sessions. {reason} "
                "The node tries again by itself; `meshnet doctor` says how to mend it."
            )
            return _Text(Mood.FAILURE, "Self test failed", detail)
        case NodeState.SERVING:
            return _text_of_serving(status)


def _text_of_serving(status: AgentStatus) -> _Text:
    if status.site_url and not status.is_control_connected:
        detail = f"{status.site_url} cannot be reached. The node tries again by itself."
        return _Text(Mood.WAITING, "Waiting for the site", detail)
    if status.site_url and not status.is_data_connected:
        return _Text(
            Mood.WAITING, "Waiting for the relay", "The site's relay cannot be reached. The node tries again by itself."
        )
    if status.notice:
        return _Text(Mood.FAILURE, "Ready, but not used", as_sentence(status.notice))
    if status.sessions:
        return _Text(Mood.SERVING, "Serving", f"{as_sessions(status.sessions)} running.")
    return _Text(Mood.SERVING, "Ready", "Waiting for the next request.")


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


_SELF_TESTS: Final = {
    "pending": "not yet",
    "put_off": "put off",
    "absent": "not self-tested",
    "passed": "passed",
    "failed": "failed",
}


def _as_self_test(status: AgentStatus) -> str:
    return _SELF_TESTS.get(status.self_test, NOTHING) if status.site_url else NOTHING


def _as_speed(status: AgentStatus) -> str:
    if not status.sessions:
        return NOTHING
    if status.layer_end < status.n_layers:
        return "measured by the last node"  # only the last node sees the tokens
    return as_rate(status.tokens_per_s)


def _as_site(status: AgentStatus) -> str:
    if not status.site_url:
        return "none: the node serves this machine only"
    if not status.node_id:
        how = "not enrolled yet"
    elif not status.is_control_connected:
        how = "not connected"
    else:
        how = "connected" if status.is_data_connected else "connected, no relay"
    return f"{status.site_url} ({how})"


def _tooltip(text: _Text, status: AgentStatus | None) -> str:
    lines = [f"Meshnet: {text.headline}"]
    if status is not None:
        lines.append(f"Layers {as_layers(status)}; {as_sessions(status.sessions)}")
        if status.sessions and status.layer_end == status.n_layers:
            lines.append(as_rate(status.tokens_per_s))
    return "\n".join(lines)
