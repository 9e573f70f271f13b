"""How many generations one user and this process may have at once.

Invariants: a user's slot is free before the client can know that its answer is over, so that whoever asks one question
after the other never meets its own last one; what is still being settled counts for the process, and for the user at
`_SETTLING_FACTOR` times its limit. Both parts of a slot are given back once. Belongs to one event loop.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from meshnet.openai.errors import RATE_LIMITED, SERVER_ERROR, RequestError

# A ledger that is slow holds back one user's next questions, not the whole process.
_SETTLING_FACTOR: Final = 2


class Slots:
    """Counts what is being answered and what is alive."""

    def __init__(self, per_user: int, at_once: int) -> None:
        """Args: per_user, at_once: generations of one user and of this process."""
        self._per_user = per_user
        self._at_once = at_once
        self._answering: Counter[int] = Counter()
        self._alive: Counter[int] = Counter()

    @property
    def alive(self) -> int:
        """Slots that are taken, those of generations that are being settled included."""
        return self._alive.total()

    def take(self, user_id: int) -> Slot:
        """A slot for one more generation.

        Raises:
            RequestError: 429 `too_many_generations` or 503 `site_busy`.
        """
        if self._answering[user_id] >= self._per_user or self._alive[user_id] >= self._per_user * _SETTLING_FACTOR:
            message = f"You have {self._per_user} generations running; wait for one to end."
            raise RequestError("too_many_generations", message, status=429, error_type=RATE_LIMITED)
        if self.alive >= self._at_once:
            raise site_busy()
        return Slot(self._answering, self._alive, user_id)


class Slot:
    """One generation's place; `release` gives back what `answered` did not."""

    def __init__(self, answering: Counter[int], alive: Counter[int], user_id: int) -> None:
        self._user_id = user_id
        self._held = [answering, alive]
        for counts in self._held:
            counts[user_id] += 1

    def answered(self) -> None:
        """The user may ask again; the generation is still to be settled."""
        self._give_back(1)

    def release(self) -> None:
        """The generation is settled, or never began."""
        self._give_back(0)

    def _give_back(self, keep: int) -> None:
        while len(self._held) > keep:
            counts = self._held.pop(0)
            counts[self._user_id] -= 1
            if counts[self._user_id] <= 0:
                del counts[self._user_id]


def site_busy() -> RequestError:
    """503: this process has as much to do as it may."""
    return RequestError("site_busy", "The site is busy; try again.", status=503, error_type=SERVER_ERROR)
