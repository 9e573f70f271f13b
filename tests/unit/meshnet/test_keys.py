from __future__ import annotations

import pytest

from meshnet.keys import SignatureContext, SigningKey, relay_proof_message, verify

KEY = SigningKey.from_bytes(bytes(range(32)))


def test_a_signature_is_good_for_its_key_purpose_and_message() -> None:
    signature = KEY.sign(SignatureContext.CONTROL, b"nonce")
    assert verify(KEY.public_key, SignatureContext.CONTROL, b"nonce", signature)


@pytest.mark.parametrize(
    ("public_key", "context", "message"),
    [
        (SigningKey.generate().public_key, SignatureContext.CONTROL, b"nonce"),
        (KEY.public_key, SignatureContext.RELAY, b"nonce"),
        (KEY.public_key, SignatureContext.TICKET, b"nonce"),
        (KEY.public_key, SignatureContext.CONTROL, b"other"),
    ],
)
def test_and_for_nothing_else(public_key: bytes, context: SignatureContext, message: bytes) -> None:
    signature = KEY.sign(SignatureContext.CONTROL, b"nonce")
    assert not verify(public_key, context, message, signature)


@pytest.mark.parametrize("public_key", [b"", b"\0" * 31, b"\xff" * 32, b"\0" * 33])
@pytest.mark.parametrize("signature", [b"", b"\0" * 63, b"\0" * 64, b"\xff" * 65])
def test_bytes_of_any_kind_are_just_not_valid(public_key: bytes, signature: bytes) -> None:
    assert not verify(public_key, SignatureContext.TICKET, b"", signature)


def test_a_key_survives_its_file() -> None:
    again = SigningKey.from_bytes(KEY.to_bytes())
    assert again.public_key == KEY.public_key
    assert again.sign(SignatureContext.TICKET, b"x") == KEY.sign(SignatureContext.TICKET, b"x")


def test_a_private_key_is_32_bytes() -> None:
    with pytest.raises(ValueError, match="32"):
        SigningKey.from_bytes(b"short")


def test_a_key_does_not_print_itself() -> None:
    assert KEY.to_bytes().hex() not in repr(KEY)
    assert KEY.public_key.hex()[:16] in repr(KEY)


def test_contexts_are_those_of_the_page() -> None:
    assert [context.value for context in SignatureContext] == [
        b"meshnet control v1\0",
        b"meshnet relay v1\0",
        b"meshnet ticket v1\0",
    ]
    assert relay_proof_message("relay-1", b"nonce") == b"relay-1\0nonce"
