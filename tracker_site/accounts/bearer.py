"""Bearer secrets: their format and their digest.

Invariants: a secret is a readable prefix followed by 32 random bytes; only its SHA-256 is stored. A slow hash would
delay every request and add no protection, because 256 random bits cannot be guessed.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

RANDOM_BYTES = 32
SHOWN_CHARACTERS = 12
# Longer than any secret of ours; such input is refused without hashing it.
MAX_SECRET_CHARACTERS = 128


@dataclass(frozen=True)
class DrawnSecret:
    """A new secret that its owner has not been shown yet.

    Attributes:
        raw: the secret. It is shown to its owner once and never stored.
        shown_prefix: the first characters of `raw`, by which the owner recognises the secret in a list.
        digest: SHA-256 of `raw` in hex.
    """

    raw: str
    shown_prefix: str
    digest: str

    def __repr__(self) -> str:
        return f"DrawnSecret({self.shown_prefix}...)"


def draw_secret(kind: str) -> DrawnSecret:
    """Draw a secret whose prefix is `kind`, for example "mk" for API keys."""
    raw = f"{kind}_{secrets.token_urlsafe(RANDOM_BYTES)}"
    return DrawnSecret(raw, raw[:SHOWN_CHARACTERS], digest_of(raw))


def digest_of(raw: str) -> str:
    """Return the SHA-256 of a secret in hex."""
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()


def is_plausible(raw: str, kind: str) -> bool:
    """Return whether a string has this kind's prefix and is short enough to be a secret; it may still be unknown."""
    return len(raw) <= MAX_SECRET_CHARACTERS and raw.startswith(f"{kind}_")
