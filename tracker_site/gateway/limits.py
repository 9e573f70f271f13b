"""Limits of generations: the deadline of each phase, and the largest numbers of generations and tokens.

Invariant: each wait of a generation has one of these deadlines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.generation.deadlines import TOKENISE_TIMEOUT_S
from meshnet.generation.fitting import CHAT_TOKENS_DEFAULT


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines in seconds, and largest numbers of tokens and generations.

    Attributes:
        tokenise_s: time to render and tokenise the prompt, including the wait for a thread.
        hold_s: time to place the hold, including the wait for the database's writer.
        routing_s: time to plan a route and open every stage.
        prefill_stall_s: time between two reports of prompt progress; one chunk takes tens of seconds on slow machines.
        decode_stall_s: time between two tokens. This limit and `prefill_stall_s` are the last resort, since a route's
            own step deadlines are shorter.
        generation_s: time from the placing of the hold to the end of the answer.
        close_s: time to tell the stages that the session is over; if it passes, their idle timers end the session.
        settle_s: time to settle the hold; if it passes, the ledger's sweep releases the hold.
        max_tokens_default: longest answer of a chat that names no limit, if the context has room for it.
        generations_per_user: generations of one user that may run at once.
        generations: generations of this process that may be running or being settled at once.
        queued_tokens: tokens that have arrived from the tail and that the client has not read yet. A tail that sends
            more violates the token window.
    """

    tokenise_s: float = TOKENISE_TIMEOUT_S
    hold_s: float = 10.0
    routing_s: float = 30.0
    prefill_stall_s: float = 90.0
    decode_stall_s: float = 60.0
    generation_s: float = 1800.0
    close_s: float = 1.0
    settle_s: float = 30.0
    max_tokens_default: int = CHAT_TOKENS_DEFAULT
    generations_per_user: int = 8
    generations: int = 256
    queued_tokens: int = 2 * TOKEN_ACK_WINDOW


LIMITS: Final = Limits()
