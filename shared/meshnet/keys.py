"""Ed25519 keys, and signatures that each serve one purpose.

Invariants: a signature covers a context string followed by the message, so a signature for one purpose is worthless for
another. A private key never appears in a `repr`, an error or a log. Source: docs/wire.md, Signatures.
"""

from __future__ import annotations

from enum import Enum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PRIVATE_KEY_BYTES = 32
PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64


class SignatureContext(bytes, Enum):
    """The purpose of a signature. The signed bytes are this value followed by the message."""

    CONTROL = b"meshnet control v1\0"
    RELAY = b"meshnet relay v1\0"
    TICKET = b"meshnet ticket v1\0"


class SigningKey:
    """A private Ed25519 key, which signs messages. It is immutable, and any thread may use it."""

    __slots__ = ("_private", "public_key")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key: bytes = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> SigningKey:
        """Draw a new key from the operating system's generator."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, private_key: bytes) -> SigningKey:
        """Read a key that `to_bytes` wrote.

        Raises:
            ValueError: `private_key` does not have 32 bytes.
        """
        return cls(Ed25519PrivateKey.from_private_bytes(private_key))

    def to_bytes(self) -> bytes:
        """Return the 32 private bytes; if they are stored, only their owner may be able to read them."""
        return self._private.private_bytes_raw()

    def sign(self, context: SignatureContext, message: bytes) -> bytes:
        """Return the signature of `message` for one purpose, 64 bytes."""
        return self._private.sign(context.value + message)

    def __repr__(self) -> str:
        return f"SigningKey(public_key={self.public_key.hex()[:16]})"


def verify(public_key: bytes, context: SignatureContext, message: bytes, signature: bytes) -> bool:
    """Tell if the owner of `public_key` signed `message` for this purpose.

    The arguments may be untrusted bytes. The result is False if the key or the signature has the wrong length.
    """
    if len(public_key) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, context.value + message)
    except (InvalidSignature, ValueError):
        return False
    return True


def relay_proof_message(relay_id: str, nonce: bytes) -> bytes:
    """Return the message that a member signs (context `RELAY`) to prove to a relay that it owns its key."""
    return relay_id.encode() + b"\0" + nonce
