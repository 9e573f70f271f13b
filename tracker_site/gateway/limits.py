"""How long each phase may take and how much one caller may ask for.

Invariant: every wait of a generation is bounded by one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from meshnet.constants import TOKEN_ACK_WINDOW
from meshnet.generation.deadlines import TOKENISE_TIMEOUT_S
from meshnet.generation.fitting import CHAT_TOKENS_DEFAULT


@dataclass(frozen=True, slots=True)
class Limits:
    """Deadlines in seconds, counts in pieces.

    Attributes:
        tokenise_s: rendering and tokenising, waiting for a thread included.
        hold_s: placing the hold; the database's writer may be busy.
        routing_s: planning and opening every stage.
        prefill_stall_s: between two reports of prompt progress. One chunk on slow machines takes tens of seconds.
        decode_stall_s: between two tokens. The route's own step deadlines are shorter; these two are the last resort.
        generation_s: the whole, from admission.
        close_s: telling the stages to stop; afterwards their own idle clocks do.
        settle_s: booking the outcome; afterwards the ledger's sweeper does.
        max_tokens_default: where the request names none and the context leaves more.
        generations_per_user: at once.
        generations: of this process, at once.
        queued_tokens: delivered by the tail and not yet taken by the client; more breaks the token window.
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
