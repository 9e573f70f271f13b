"""The site's Ed25519 key: it signs tickets, and nodes get its public half when they connect.

Invariant: the key is drawn once and kept in the data directory with mode 0600; each process reads it once.
"""

from __future__ import annotations

from functools import cache

from django.conf import settings

from meshnet.keys import SigningKey
from tracker_site.secret_files import read_or_create


@cache
def site_signing_key() -> SigningKey:
    """Return the site's key; draw it on first use.

    Raises:
        OSError: if the data directory cannot be written.
        ValueError: if the key file holds no Ed25519 key.
    """
    return SigningKey.from_bytes(read_or_create(settings.SITE_KEY_PATH, lambda: SigningKey.generate().to_bytes()))
