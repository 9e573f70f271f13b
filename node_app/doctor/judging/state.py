"""The state directory, and the node that may be running with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.shard_facts import NodeState
from node_app.doctor.findings import Finding, failed, ok, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from node_app.status.agent_status import AgentStatus

OTHERS = 0o077


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """The state directory.

    Attributes:
        exists: it is there; else the other facts are of the nearest folder above it.
        mode: permission bits.
    """

    path: str
    exists: bool
    is_directory: bool
    is_own: bool
    is_writable: bool
    mode: int


def judge_directory(facts: DirectoryFacts) -> Finding:
    """Judge whether a node can keep its key here, alone."""
    another = "name another --state-dir"
    if not facts.is_directory:
        return failed("state", f"{facts.path} is no directory", another)
    if not facts.is_writable:
        return failed("state", f"{facts.path} cannot be written to", another)
    if not facts.exists:
        return ok("state", f"will be made below {facts.path}")
    if not facts.is_own:
        return failed("state", f"{facts.path} belongs to another user", another)
    if facts.mode & OTHERS:
        advice = f"the node closes it when it starts; or: chmod 700 {facts.path}"
        return warning("state", f"{facts.path} is open to others (mode {facts.mode:04o})", advice)
    return ok("state", f"{facts.path} is private and can be written to")


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What was learnt of a running node.

    Attributes:
        pid: in the address file; 0: there is no such file.
        status: its own; None where it gave none.
        problem: why not, for people.
    """

    pid: int = 0
    status: AgentStatus | None = None
    problem: str = ""


def judge_agent(facts: AgentFacts) -> Iterator[Finding]:
    """Judge a node that runs with this directory; none is fine."""
    status = facts.status
    if status is None and not facts.problem:
        yield ok("node", "none is running with this directory")
    elif status is None:
        yield failed("node", facts.problem, "start the node again")
    else:
        yield _judge_status(facts.pid, status)
        if status.site_url and status.self_test:
            yield _judge_self_test(status)
        if status.site_url:
            yield _judge_relay(status)


def _judge_status(pid: int, status: AgentStatus) -> Finding:
    layers = f"layers {status.layer_begin}:{status.layer_end} of {status.model}"
    summary = f"process {pid} is {status.condition}, {layers}, {status.sessions} sessions"
    if status.condition in {NodeState.DEGRADED, NodeState.SELF_TEST_FAILED}:
        return failed("node", f"{summary}: {status.reason or 'the worker is down'}", "see the log of the node")
    if status.notice:
        return warning("node", f"{summary}; the site says: {status.notice}", "mend what the site names")
    if status.condition is NodeState.PAUSED:
        return warning("node", summary, "resume it in the tray when it should serve")
    return ok("node", summary)


def _judge_self_test(status: AgentStatus) -> Finding:
    words = status.self_test_words
    match status.self_test:
        case "passed":
            return ok("self test", f"passed: {words}")
        case "failed":
            advice = "fetch the model again; else build the worker anew (make native), or check this machine's memory"
            return failed("self test", words, advice)
        case "put_off":
            return warning("self test", words, "see the checks of the site; it is tried again by itself")
        case "absent":
            advice = "ask the site's administrator to make a golden probe (meshnet probe)"
            return warning("self test", words or "not self-tested", advice)
        case _:
            return ok("self test", "not done yet")


def _judge_relay(status: AgentStatus) -> Finding:
    if not status.is_control_connected:
        return failed("relay", "not known: the node is not connected to its site", "see the checks of the site")
    if not status.is_data_connected:
        return failed("relay", "the node cannot reach the site's relay", "let this machine connect to the relay's port")
    return ok("relay", "the node is connected to it")


@dataclass(frozen=True, slots=True)
class EnrolmentFacts:
    """What the directory says of this installation.

    Attributes:
        has_key: an install key is there.
        node_id: at the site; empty: not enrolled there.
        problem: what is damaged, for people; empty: nothing.
    """

    has_key: bool
    node_id: str
    problem: str = ""


def judge_enrolment(facts: EnrolmentFacts) -> Finding:
    """Judge whether the site will know this node; the key itself is never shown."""
    if facts.problem:
        return failed("enrolment", facts.problem, "restore the directory, or remove it to become a new node")
    if facts.node_id and not facts.has_key:
        advice = "restore install.key, or remove the directory to become a new node"
        return failed("enrolment", "enrolled, but the install key is gone", advice)
    if facts.node_id:
        return ok("enrolment", f"enrolled as {facts.node_id}")
    return ok("enrolment", "not enrolled at this site yet: the first start needs --token or MESHNET_TOKEN")
