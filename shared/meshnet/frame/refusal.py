"""The error for a message that breaks the rules, and its effect on the connection.

Invariant: if the error has no address, or if it is about an edge that the sender may not use, the connection is closed.
Otherwise only the session at that address fails, since a connection carries other sessions too. Source: docs/wire.md,
Frames.
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
        address: the session and edge that the message named; None if it named no valid ones.
    """

    def __init__(self, code: FailureCode, message: str, address: Address | None = None) -> None:
        super().__init__(code, TITLES[code], message)
        self.address = address

    @property
    def closes_connection(self) -> bool:
        """Tell if the whole connection to the sender must be closed, not only this session."""
        return self.address is None or self.code == FailureCode.EDGE_NOT_PERMITTED


def require(condition: bool, code: FailureCode, message: str, address: Address | None) -> None:
    """Refuse a message unless `condition` holds.

    Raises:
        MessageError: with `code`, if `condition` is false.
    """
    if not condition:
        raise MessageError(code, message, address)
