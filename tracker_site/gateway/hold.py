"""Places and settles the hold of one generation.

Invariants: if a hold is placed after the deadline for placing it, it is released at once. A hold is settled at most
once. If settling fails or takes too long, the hold stays open until `billing.holds.sweep` releases it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from meshnet.errors import LedgerError

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from tracker_site.billing.pricing import Share
    from tracker_site.gateway.ports import Ledger

logger = logging.getLogger(__name__)


class Hold:
    """The hold of one generation, which is placed once and settled once."""

    def __init__(self, ledger: Ledger, generation_id: str) -> None:
        self._ledger = ledger
        self._generation_id = generation_id
        self._hold_id: uuid.UUID | None = None
        self._late: asyncio.Task[None] | None = None

    async def place(self, user_id: int, amount_micros: int, timeout_s: float) -> None:
        """Set `amount_micros` micro-credits of the user aside.

        Raises:
            LedgerError: `insufficient_credit`, or `ledger_timeout` if the ledger does not answer within `timeout_s`.
        """
        placing = asyncio.ensure_future(self._ledger.place(user_id, amount_micros, self._generation_id))
        done, _pending = await asyncio.wait({placing}, timeout=timeout_s)
        if not done:
            self._late = asyncio.create_task(self._release_late(placing))
            raise LedgerError("ledger_timeout", "Ledger busy", "The site's ledger did not answer in time; try again.")
        self._hold_id = placing.result()

    async def settle(self, charge_micros: int, shares: Sequence[Share], timeout_s: float) -> bool:
        """Charge the user `charge_micros` and pay the nodes' owners their shares, within `timeout_s`.

        Return False if there is no hold, or if settling failed, so that `billing.holds.sweep` must release the hold.
        """
        if self._hold_id is None:
            return False
        hold_id, self._hold_id = self._hold_id, None
        try:
            async with asyncio.timeout(timeout_s):
                await self._ledger.settle(hold_id, charge_micros, shares)
        except (LedgerError, TimeoutError):
            logger.exception("hold %s of %s was not settled", hold_id, self._generation_id)
            return False
        return True

    async def _release_late(self, placing: asyncio.Future[uuid.UUID]) -> None:
        try:
            self._hold_id = await placing
        except LedgerError as refusal:
            logger.info("the late hold of %s was refused: %s", self._generation_id, refusal.code)
            return
        await self.settle(0, [], timeout_s=60.0)
