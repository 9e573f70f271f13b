"""Stop strings: the outcome is that of reading character by character, however the text is split."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.openai.stop_strings import StopStrings

LETTERS = st.text(alphabet="abé", max_size=24)
STOPS = st.lists(st.text(alphabet="abé", min_size=1, max_size=4), max_size=4).map(tuple)


def read(text: str, stops: tuple[str, ...], cuts: list[int]) -> tuple[str, str | None]:
    matcher = StopStrings(stops)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    released = "".join(matcher.push(text[begin:end]) for begin, end in itertools.pairwise(edges))
    return released + matcher.finish(), matcher.matched


def oracle(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(text=LETTERS, stops=STOPS, cuts=st.lists(st.integers(min_value=0), max_size=8))
def test_any_split_gives_the_outcome_of_single_characters(text: str, stops: tuple[str, ...], cuts: list[int]) -> None:
    assert read(text, stops, cuts) == oracle(text, stops)


@given(text=LETTERS, stops=STOPS)
def test_at_most_the_longest_stop_less_one_character_is_held_back(text: str, stops: tuple[str, ...]) -> None:
    matcher = StopStrings(stops)
    released = matcher.push(text)
    if matcher.matched is None:
        assert len(text) - len(released) < max((len(stop) for stop in stops), default=1)


def test_without_stop_strings_text_passes_at_once() -> None:
    matcher = StopStrings(())
    assert matcher.push("anything") == "anything"
    assert matcher.finish() == ""


def test_after_a_match_nothing_more_is_released() -> None:
    matcher = StopStrings(("END",))
    assert matcher.push("text EN") == "text "
    assert matcher.push("D more") == ""
    assert matcher.matched == "END"
    assert matcher.push("still more") == ""
    assert matcher.finish() == ""


def test_a_prefix_that_comes_to_nothing_is_released() -> None:
    matcher = StopStrings(("\n\nUser:",))
    assert matcher.push("a\n\nUs") == "a"
    assert matcher.push("ual") == "\n\nUsual"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopStrings(("",))
