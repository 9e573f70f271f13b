"""Judges the state directory, the enrolment in it, and the node that may be running with it."""

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
    """Facts about the state directory.

    Attributes:
        exists: whether the directory exists; if not, the other facts are those of the nearest folder above it.
        is_own: whether it belongs to this user.
        mode: its permission bits.
    """

    path: str
    exists: bool
    is_directory: bool
    is_own: bool
    is_writable: bool
    mode: int


def judge_directory(facts: DirectoryFacts) -> Finding:
    """Judge whether a node can keep its key in the state directory so that no other user can read the key."""
    another = "name another folder with --state-dir"
    if not facts.is_directory:
        return failed("state", f"{facts.path} is no directory", another)
    if not facts.is_writable:
        return failed("state", f"{facts.path} cannot be written to", another)
    if not facts.exists:
        return ok("state", f"the node will make it below {facts.path}")
    if not facts.is_own:
        return failed("state", f"{facts.path} belongs to another user", another)
    if facts.mode & OTHERS:
        advice = f"chmod 700 {facts.path} (the node does so itself when it starts)"
        return warning("state", f"{facts.path} is open to other users (mode {facts.mode:04o})", advice)
    return ok("state", f"{facts.path} is private and can be written to")


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """Facts about the node that may be running with the state directory.

    Attributes:
        pid: process id in the address file; 0 if there is no such file.
        status: the node's status; None if no node is running or it could not be asked.
        problem: why the node could not be asked, for people; empty if it answered or none is running.
    """

    pid: int = 0
    status: AgentStatus | None = None
    problem: str = ""


def judge_agent(facts: AgentFacts) -> Iterator[Finding]:
    """Judge the node that runs with the state directory. If no node runs, the finding is ok."""
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
        return failed("node", f"{summary}: {status.reason or 'the worker is down'}", "read the log of the node")
    if status.notice:
        return warning("node", f"{summary}; the site says: {status.notice}", "mend the problem that the site names")
    if status.condition is NodeState.PAUSED:
        return warning("node", summary, "if it should serve, resume it in the tray")
    return ok("node", summary)


def _judge_self_test(status: AgentStatus) -> Finding:
    result = status.self_test_words
    match status.self_test:
        case "passed":
            return ok("self test", f"passed: {result}")
        case "failed":
            advice = "download the model again; else build the worker again (make native), or test the memory"
            return failed("self test", result, advice)
        case "put_off":
            return warning("self test", result, "see the checks of the site; the node tries again by itself")
        case "absent":
            advice = "ask the site's administrator to make a golden probe (meshnet probe)"
            return warning("self test", result or "not self-tested", advice)
        case _:
            return ok("self test", "not done yet")


def _judge_relay(status: AgentStatus) -> Finding:
    if not status.is_control_connected:
        return failed("relay", "not known: the node is not connected to its site", "see the checks of the site")
    if not status.is_data_connected:
        return failed(
            "relay",
            "the node cannot reach the site's relay",
            "let this machine connect to the port of the relay (firewall)",
        )
    return ok("relay", "the node is connected to it")


@dataclass(frozen=True, slots=True)
class EnrolmentFacts:
    """Facts in the state directory about this installation's enrolment at one site.

    Attributes:
        has_key: whether there is an install key.
        node_id: the node's id at the site; empty if it is not enrolled there.
        problem: how the files are damaged, for people; empty if they are not.
    """

    has_key: bool
    node_id: str
    problem: str = ""


def judge_enrolment(facts: EnrolmentFacts) -> Finding:
    """Judge whether the site will know this node by its install key and node id. The key itself is never shown."""
    if facts.problem:
        return failed("enrolment", facts.problem, "restore the directory, or remove it to become a new node")
    if facts.node_id and not facts.has_key:
        advice = "restore install.key, or remove the directory to become a new node"
        return failed("enrolment", "enrolled, but the install key is gone", advice)
    if facts.node_id:
        return ok("enrolment", f"enrolled as {facts.node_id}")
    return ok("enrolment", "not enrolled at this site yet: the first start needs --token or MESHNET_TOKEN")
