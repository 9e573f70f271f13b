"""Implements the gateway's `Ledger` with the billing app.

Invariant: an error of the database becomes a `LedgerError`, the only exception that callers must catch.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from django.db import DatabaseError

from meshnet.errors import LedgerError
from tracker_site import database
from tracker_site.accounts.models import User
from tracker_site.billing import holds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracker_site.billing.pricing import Share


class SiteLedger:
    """Places and settles holds of the billing app, on a writer thread of `tracker_site.database`."""

    async def place(self, user_id: int, amount_micros: int, generation_id: str) -> uuid.UUID:
        """Set `amount_micros` micro-credits of the user aside and return the hold's id."""
        try:
            return await database.write(_place, user_id, amount_micros, generation_id)
        except DatabaseError as error:
            raise _unavailable() from error

    async def settle(self, hold_id: uuid.UUID, charge_micros: int, shares: Sequence[Share]) -> None:
        """Charge the user, pay the nodes' owners and return the rest of the hold to the user."""
        try:
            await database.write(holds.settle, hold_id, charge_micros, shares)
        except DatabaseError as error:
            raise _unavailable() from error


def _place(user_id: int, amount_micros: int, generation_id: str) -> uuid.UUID:
    return holds.place(User.objects.get(pk=user_id), amount_micros, generation_id).pk


def _unavailable() -> LedgerError:
    return LedgerError("ledger_unavailable", "Ledger not available", "The site's ledger did not answer; try again.")
