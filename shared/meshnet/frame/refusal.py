"""How a message that breaks the rules is refused.

Invariant: an error without an address (or about an edge that the sender may not use) closes the connection; one with an
address fails only that session, since a connection carries other people's sessions. Source: docs/wire.md, Frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.errors import ProtocolError
from meshnet.failure_codes import TITLES, FailureCode

if TYPE_CHECKING:
    from meshnet.ids import Address


class MessageError(ProtocolError):
    """A frame or an edge message was refused.

    Attributes:
        address: the session and edge it named, once that much could be trusted; None before.
    """

    def __init__(self, code: FailureCode, message: str, address: Address | None = None) -> None:
        super().__init__(code, TITLES[code], message)
        self.address = address

    @property
    def closes_connection(self) -> bool:
        """Whether the sender is distrusted as a whole, not only in this session."""
        return self.address is None or self.code == FailureCode.EDGE_NOT_PERMITTED


def require(condition: bool, code: FailureCode, message: str, address: Address | None) -> None:
    """Refuse a message unless `condition` holds.

    Raises:
        MessageError: `condition` is false.
    """
    if not condition:
        raise MessageError(code, message, address)
