"""Figures as people read them."""

from __future__ import annotations

import pytest

from node_app.ui.figures import as_credits, as_layers, as_memory, as_rate, as_sentence, as_sessions, shorten
from tests.unit.node_app.statuses import a_status


@pytest.mark.parametrize(
    ("begin", "end", "text"),
    [(0, 30, "all 30"), (0, 15, "0-14 of 30"), (29, 30, "29 of 30"), (3, 5, "3-4 of 30")],
)
def test_layers_name_both_ends(begin: int, end: int, text: str) -> None:
    assert as_layers(a_status(layer_begin=begin, layer_end=end)) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (None, "-"),
        (0, "0.00"),
        (1, "0.000001"),
        (500_000, "0.50"),
        (12_345_000, "12.345"),
        (1_234_567_000_000, "1,234,567.00"),
        (2**53, "9,007,199,254.740992"),
    ],
)
def test_credits_are_exact(micros: int | None, text: str) -> None:
    assert as_credits(micros) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "-"),
        (512, "0.5 KiB"),
        (1 << 20, "1 MiB"),
        (223_346_688, "213 MiB"),
        (3 << 29, "1.5 GiB"),
        (2**53, "8.19e+03 TiB"),
    ],
)
def test_memory_in_binary_units(size_bytes: int, text: str) -> None:
    assert as_memory(size_bytes) == text


@pytest.mark.parametrize(("sessions", "text"), [(0, "no sessions"), (1, "1 session"), (8, "8 sessions")])
def test_sessions_in_words(sessions: int, text: str) -> None:
    assert as_sessions(sessions) == text


def test_a_rate_has_one_decimal() -> None:
    assert as_rate(0.04) == "0.0 tokens/s"
    assert as_rate(108.96) == "109.0 tokens/s"


@pytest.mark.parametrize(
    ("text", "sentence"), [("", ""), (" . ", ""), ("it died", "It died."), ("It died.", "It died."), ("ß", "SS.")]
)
def test_words_become_a_sentence(text: str, sentence: str) -> None:
    assert as_sentence(text) == sentence


@pytest.mark.parametrize("length", range(5, 14))
def test_a_shortened_name_keeps_both_ends(length: int) -> None:
    short = shorten("abcdefghijklm", length)
    assert len(short) == min(length, 13)
    assert short.startswith("a")
    if length < 13:
        assert "..." in short
    if length > 5:
        assert short.endswith("m")
