"""The reasons for which the site closes a node's control connection, as codes and titles.

Invariant: a code is never renamed or reused, since a node decides by the code whether to connect again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from meshnet.errors import ProtocolError


class ControlRefusalCode(StrEnum):
    """Reason for which the site closes a control connection, as `ControlRefusal.code` names it on the wire."""

    MALFORMED = "malformed"
    MESSAGE_TOO_LARGE = "message_too_large"
    UNEXPECTED_MESSAGE = "unexpected_message"
    VERSION_MISMATCH = "version_mismatch"
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_NODE = "unknown_node"
    NODE_BLOCKED = "node_blocked"
    REPLACED = "replaced"
    HELLO_TIMEOUT = "hello_timeout"
    LEASE_EXPIRED = "lease_expired"


TITLES: Final[dict[ControlRefusalCode, str]] = {
    ControlRefusalCode.MALFORMED: "Malformed message",
    ControlRefusalCode.MESSAGE_TOO_LARGE: "Message too large",
    ControlRefusalCode.UNEXPECTED_MESSAGE: "Unexpected message",
    ControlRefusalCode.VERSION_MISMATCH: "Versions differ",
    ControlRefusalCode.BAD_SIGNATURE: "Wrong signature",
    ControlRefusalCode.UNKNOWN_NODE: "Node not enrolled",
    ControlRefusalCode.NODE_BLOCKED: "Node blocked",
    ControlRefusalCode.REPLACED: "Connected elsewhere",
    ControlRefusalCode.HELLO_TIMEOUT: "No hello",
    ControlRefusalCode.LEASE_EXPIRED: "No report",
}


BLOCKED_MESSAGE: Final = "an administrator has blocked this node; ask the site's administrator to unblock it"


class ControlError(ProtocolError):
    """The control connection must end, because the node sent a wrong message or none in time."""

    def __init__(self, code: ControlRefusalCode, message: str) -> None:
        super().__init__(code, TITLES[code], message)
        self.refusal_code = code
