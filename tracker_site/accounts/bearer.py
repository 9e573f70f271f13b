"""Bearer secrets: how they look, and what is stored of them.

Invariants: a secret is 32 random bytes behind a readable prefix; only its SHA-256 is stored. A slow hash would add
nothing, since nobody can guess 256 random bits, and it would cost every request.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

RANDOM_BYTES = 32
SHOWN_CHARACTERS = 12
# Longer input is not ours; it is not even hashed.
MAX_SECRET_CHARACTERS = 128


@dataclass(frozen=True)
class DrawnSecret:
    """A new secret, while it can still be shown.

    Attributes:
        raw: the secret; shown to its owner once, never stored.
        shown_prefix: enough of it to tell one from another in a list.
        digest: SHA-256 as hex.
    """

    raw: str
    shown_prefix: str
    digest: str

    def __repr__(self) -> str:
        return f"DrawnSecret({self.shown_prefix}...)"


def draw_secret(kind: str) -> DrawnSecret:
    """Draw a secret of a kind, e.g. "mk" for API keys."""
    raw = f"{kind}_{secrets.token_urlsafe(RANDOM_BYTES)}"
    return DrawnSecret(raw, raw[:SHOWN_CHARACTERS], digest_of(raw))


def digest_of(raw: str) -> str:
    """SHA-256 of a secret as hex."""
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()


def is_plausible(raw: str, kind: str) -> bool:
    """Whether a string from outside could be a secret of this kind at all."""
    return len(raw) <= MAX_SECRET_CHARACTERS and raw.startswith(f"{kind}_")
