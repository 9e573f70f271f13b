"""The state of a member's connection to the relay.

Invariants: pure. If a member leaves too many answers unread, it is marked for dismissal, so the memory that it costs
stays bounded. Only its last message waits for a dismissed member.
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
    """The members to which messages must be written, and those that must be dismissed.

    Attributes:
        woken: ids of members to which messages must be written, or whose connections must be closed.
        overrun: members that have left too many answers unread.
    """

    woken: set[int] = field(default_factory=set)
    overrun: list[Member] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Member:
    """The connection of one member.

    Attributes:
        nonce: random bytes of its challenge.
        proof_due_s: monotonic time by which the member must have proven its key.
        answers_max: number of the relay's own messages that may wait for the member.
        public_key: empty until the member has proven it.
        granted_bytes: sum of the windows of all lanes that lead to the member.
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
        """Queue one of the relay's own messages. If a message with the same `once` still waits, do nothing.

        If `answers_max` messages wait already, the member is marked for dismissal instead.
        """
        if self.is_dismissed:
            return
        if self.outbox.answers >= self.answers_max:
            self.attention.overrun.append(self)
            return
        self.outbox.answer(message, once=once)
        self.wake()

    def wake(self) -> None:
        """Mark the member in `attention`, since messages wait to be written to it."""
        self.attention.woken.add(self.member_id)

    def dismiss(self, code: str, message: str) -> None:
        """Replace all waiting messages by one last message. The caller must end the member's bindings."""
        self.is_dismissed = True
        self.outbox.clear()
        self.outbox.answer(answers.dismissal(code, message))
        self.wake()
