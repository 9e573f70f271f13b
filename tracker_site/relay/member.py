"""State of a member's connection.

Invariants: pure. If a member leaves too many answers unread, it is marked for dismissal, so its memory stays bounded. A
dismissed member holds only its last message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tracker_site.relay import answers
from tracker_site.relay.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(slots=True)
class Attention:
    """Members that need the driver's attention or the flow's.

    Attributes:
        woken: ids of members that have messages to write or are to be closed.
        overrun: members that have left too many answers unread.
    """

    woken: set[int] = field(default_factory=set)
    overrun: list[Member] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Member:
    """One connection.

    Attributes:
        nonce: random bytes of its challenge.
        public_key: empty until the member has proven it.
        granted_bytes: sum of the windows of all lanes that lead here.
    """

    member_id: int
    nonce: bytes
    proof_due_s: float
    answers_max: int
    attention: Attention
    public_key: bytes = b""
    is_dismissed: bool = False
    granted_bytes: int = 0
    outbox: Outbox = field(default_factory=Outbox)

    def answer(self, message: bytes, *, once: Hashable = None) -> None:
        """Queue a message of the relay's own. If another with the same `once` still waits, do nothing."""
        if self.is_dismissed:
            return
        if self.outbox.answers >= self.answers_max:
            self.attention.overrun.append(self)
            return
        self.outbox.answer(message, once=once)
        self.wake()

    def wake(self) -> None:
        """Tell the driver that messages wait to be written."""
        self.attention.woken.add(self.member_id)

    def dismiss(self, code: str, message: str) -> None:
        """Replace all waiting messages by one last message. The caller must end the member's bindings."""
        self.is_dismissed = True
        self.outbox.clear()
        self.outbox.answer(answers.dismissal(code, message))
        self.wake()
