"""Text from elsewhere is one bounded line that prints, whatever it held."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.printable import NAME_LENGTH_MAX, SENTENCE_LENGTH_MAX, one_line, printable, printable_path

ROOT = Path(__file__).resolve().parents[3]


@given(text=st.text(max_size=400))
def test_what_comes_out_prints(text: str) -> None:
    assert printable(text).isprintable()
    assert len(printable(text)) == min(len(text), NAME_LENGTH_MAX)
    assert one_line(text).isprintable()
    assert len(one_line(text)) <= SENTENCE_LENGTH_MAX


@pytest.mark.parametrize(
    ("text", "name", "sentence"),
    [("a\nb", "a?b", "a b"), (" \x1b[2J x  y ", " ?[2J x  y ", "[2J x y"), ("\udcff", "?", ""), ("é漢", "é漢", "é漢")],
)
def test_names_keep_their_length_and_sentences_their_words(text: str, name: str, sentence: str) -> None:
    assert (printable(text), one_line(text)) == (name, sentence)


def test_a_path_keeps_its_folders() -> None:
    assert printable_path(Path("/a/b\n/c.gguf")) == "/a/b?/c.gguf"


def test_nobody_else_makes_text_printable() -> None:
    files = [
        path for folder in ("shared/meshnet", "tracker_site", "node_app") for path in (ROOT / folder).rglob("*.py")
    ]
    makers = {path.relative_to(ROOT).as_posix() for path in files if "isprintable() else" in path.read_text()}
    assert makers == {"shared/meshnet/printable.py"}
