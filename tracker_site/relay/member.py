"""A member's connection as the rules see it.

Invariants: pure. A member whose unread answers pile up is marked for dismissal instead of growing; a dismissed one
holds nothing but its last message.
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
    """Members that the driver or the rules have to look at next.

    Attributes:
        woken: have something to write, or are to be closed.
        overrun: their answers pile up.
    """

    woken: set[int] = field(default_factory=set)
    overrun: list[Member] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Member:
    """One connection.

    Attributes:
        nonce: of its challenge.
        public_key: empty until proven.
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
        """Queue a message of the relay's own."""
        if self.is_dismissed:
            return
        if self.outbox.answers >= self.answers_max:
            self.attention.overrun.append(self)
            return
        self.outbox.answer(message, once=once)
        self.wake()

    def wake(self) -> None:
        """Something waits to be written."""
        self.attention.woken.add(self.member_id)

    def dismiss(self, code: str, message: str) -> None:
        """Replace everything that waits by one last message. The caller ends its places."""
        self.is_dismissed = True
        self.outbox.clear()
        self.outbox.answer(answers.dismissal(code, message))
        self.wake()
