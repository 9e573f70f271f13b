"""Spellings of control tokens are found, hidden from templates and brought back as plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.vocab.control_text import ControlSpellings, Sentinels, Span

SPELLINGS = ("<a>", "<a><b>", "<b>", "b>")
TEXTS = st.text(alphabet="<ab> \n", max_size=24)


@given(text=TEXTS)
def test_spans_joined_are_the_text_and_only_plain_ones_spell(text: str) -> None:
    spans = ControlSpellings(SPELLINGS).split(text)
    assert "".join(span.text for span in spans) == text
    for span in spans:
        assert (span.text in SPELLINGS) if span.is_plain else not any(spelling in span.text for spelling in SPELLINGS)


@given(text=TEXTS)
def test_what_is_protected_is_restored(text: str) -> None:
    sentinels = Sentinels(ControlSpellings(SPELLINGS), "n0nce")
    protected = sentinels.protect(text)
    assert not any(spelling in protected for spelling in SPELLINGS)
    assert "".join(span.text for span in sentinels.restore(f"[{protected}]")) == f"[{text}]"


def test_the_longest_spelling_wins() -> None:
    assert ControlSpellings(SPELLINGS).split("x<a><b>y") == [Span("x", False), Span("<a><b>", True), Span("y", False)]


def test_a_sentinel_of_another_request_is_text() -> None:
    earlier = Sentinels(ControlSpellings(SPELLINGS), "first").protect("<a>")
    assert Sentinels(ControlSpellings(SPELLINGS), "second").restore(earlier) == [Span(earlier, False)]


def test_a_template_may_repeat_or_drop_a_message() -> None:
    sentinels = Sentinels(ControlSpellings(SPELLINGS), "n")
    protected = sentinels.protect("<a>")
    assert sentinels.restore(protected * 2) == [Span("<a>", True)] * 2
    assert sentinels.restore("") == []


@pytest.mark.parametrize("nonce", ["", "a b", "a.b", "\u00e9"])
def test_a_nonce_is_letters_and_digits(nonce: str) -> None:
    with pytest.raises(ValueError, match="nonce"):
        Sentinels(ControlSpellings(SPELLINGS), nonce)
