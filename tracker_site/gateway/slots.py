"""Limits the generations that one user and this process may have at once.

Invariants: a user's slot is free before the client can know that its answer has ended, so that a client that asks one
question after another is never refused because of its own last answer. Generations that are being settled still count
for the process. For the user a second limit, `_SETTLING_FACTOR` times as high, includes them. Both counts of a slot are
given back once. `Slots` belongs to one event loop.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from meshnet.openai.errors import RATE_LIMITED, SERVER_ERROR, RequestError

# If the ledger is slow, this limit refuses the next questions of one user before the process's limit refuses everybody.
_SETTLING_FACTOR: Final = 2


class Slots:
    """Counts each user's generations: those being answered, and those that are not settled yet."""

    def __init__(self, per_user: int, at_once: int) -> None:
        """Allow at most `per_user` generations of one user and `at_once` generations of this process."""
        self._per_user = per_user
        self._at_once = at_once
        self._answering: Counter[int] = Counter()
        self._alive: Counter[int] = Counter()

    @property
    def alive(self) -> int:
        """The number of taken slots, including those of generations that are being settled."""
        return self._alive.total()

    def take(self, user_id: int) -> Slot:
        """Take a slot for one more generation.

        Raises:
            RequestError: status 429 `too_many_generations` if the user has too many generations; status 503 `site_busy`
                if this process has.
        """
        if self._answering[user_id] >= self._per_user or self._alive[user_id] >= self._per_user * _SETTLING_FACTOR:
            message = f"You have {self._per_user} generations running; wait for one to end."
            raise RequestError("too_many_generations", message, status=429, error_type=RATE_LIMITED)
        if self.alive >= self._at_once:
            raise site_busy()
        return Slot(self._answering, self._alive, user_id)


class Slot:
    """One generation's count against the limits: as being answered until `answered`, as unsettled until `release`."""

    def __init__(self, answering: Counter[int], alive: Counter[int], user_id: int) -> None:
        self._user_id = user_id
        self._held = [answering, alive]
        for counts in self._held:
            counts[user_id] += 1

    def answered(self) -> None:
        """Note that the answer has ended, so that the user may ask again; the generation is not settled yet."""
        self._give_back(1)

    def release(self) -> None:
        """Give the slot back, because the generation is settled or has not begun. Idempotent."""
        self._give_back(0)

    def _give_back(self, keep: int) -> None:
        while len(self._held) > keep:
            counts = self._held.pop(0)
            counts[self._user_id] -= 1
            if counts[self._user_id] <= 0:
                del counts[self._user_id]


def site_busy() -> RequestError:
    """Return the error of status 503 for a request that the site cannot take, since it is full or stopping."""
    return RequestError("site_busy", "The site is busy; try again in a moment.", status=503, error_type=SERVER_ERROR)
