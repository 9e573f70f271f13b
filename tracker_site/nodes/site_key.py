"""The site's Ed25519 key, which signs tickets and which nodes learn when they connect.

Invariant: drawn once, kept 0600 in the data directory, read once a process.
"""

from __future__ import annotations

from functools import cache

from django.conf import settings

from meshnet.keys import SigningKey
from tracker_site.secret_files import read_or_create


@cache
def site_signing_key() -> SigningKey:
    """The site's key, drawn on first use.

    Raises:
        OSError: the data directory cannot be written.
        ValueError: the key file holds something else.
    """
    return SigningKey.from_bytes(read_or_create(settings.SITE_KEY_PATH, lambda: SigningKey.generate().to_bytes()))
