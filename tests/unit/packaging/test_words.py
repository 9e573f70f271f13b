"""`make words`: counts what a stranger reads, and fails if a folder misses a bar or there is nothing to count."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import words

PLAIN = '"""Return the row if it is there, and raise an error if it is missing."""\n'
VAGUE = '"""What is here of what was sent, where it goes, and what is left of it."""\n'


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout whose product code is plain everywhere."""
    for root in words.PYTHON_ROOTS:
        (tmp_path / root).mkdir(parents=True)
        (tmp_path / root / "plain.py").write_text(PLAIN)
    for root in words.CPP_ROOTS:
        (tmp_path / root).mkdir(parents=True)
        (tmp_path / root / "plain.h").write_text("// Waits if the queue is empty.\n")
    return tmp_path


def run(checkout, monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["words.py", *arguments])
    status = words.main(checkout)
    return status, capsys.readouterr()


def test_docstrings_and_comments_of_python_are_read_and_nothing_else():
    source = (
        '"""Module."""\n'
        "# First line\n"
        "# and second.\n"
        'text = """Not a docstring."""\n'
        "value = 1  # beside code\n"
        "other = '# no comment'  # noqa: S105\n"
        "class Thing:\n"
        '    """Class."""\n'
        "    async def act(self):\n"
        "        '''Function.'''\n"
    )
    found = [(p.line, p.text.strip(), p.is_docstring) for p in words.python_passages(source, "a.py")]
    assert found == [
        (1, "Module.", True),
        (8, "Class.", True),
        (10, "Function.", True),
        (2, "First line\n and second.", False),
        (5, "beside code", False),
    ]


def test_comments_of_cpp_are_read_and_strings_are_not():
    source = (
        "// One comment\n// of two lines.\n"
        'auto url = "https://example.org"; // after a string\n'
        "int n = 1'000'000; char c = '\"'; /* a block\n * of two */\n"
        'auto raw = R"x(// not a comment)x";\n// NOLINT\n// last\n'
    )
    found = [(p.line, p.text.split()) for p in words.cpp_passages(source, "a.h")]
    assert found == [
        (1, ["One", "comment", "of", "two", "lines."]),
        (3, ["after", "a", "string"]),
        (4, ["a", "block"]),
        (5, ["of", "two"]),
        (8, ["last"]),
    ]


def test_words_are_whole_and_without_case():
    count = words.Count()
    count.add("If it differs, whatever that IF means; what_if is one word. Where? somewhere")
    assert count.words == 13
    assert count.judged == {"if": 2, "what": 0, "where": 1}


def test_sentences_end_at_stops_and_list_items_and_know_their_line():
    text = "First sentence\nover two lines. Second one.\n\nArgs:\n    name: of a thing.\n    other: thing.\n"
    passage = words.Passage("a.py", 10, text, is_docstring=True)
    assert list(passage.sentences()) == [
        (10, "First sentence over two lines."),
        (11, "Second one."),
        (13, "Args:"),
        (14, "name: of a thing."),
        (15, "other: thing."),
    ]


@pytest.mark.parametrize(
    ("of_the_root", "expected"),
    [
        (words.FOLDER_WORDS_MIN, {"node_app": words.FOLDER_WORDS_MIN + 1, "node_app/large": words.FOLDER_WORDS_MIN}),
        (2, {"node_app/large": words.FOLDER_WORDS_MIN + 3}),
    ],
)
def test_few_words_are_counted_with_more(of_the_root, expected):
    passages = [
        words.Passage("node_app/main.py", 1, "word " * of_the_root, is_docstring=True),
        words.Passage("node_app/small/a.py", 1, "three", is_docstring=True),
        words.Passage("node_app/large/deep/a.py", 1, "word " * words.FOLDER_WORDS_MIN, is_docstring=True),
    ]
    counts = words.by_folder(passages, "node_app")
    assert {name: count.words for name, count in counts.items()} == expected


def test_plain_code_passes_and_the_last_line_is_json(checkout, monkeypatch, capsys):
    status, printed = run(checkout, monkeypatch, capsys, "--check")
    figures = json.loads(printed.out.splitlines()[-1])
    assert status == 0
    assert figures == {"folders": 6, "words": 81, "if": 11, "what": 0, "where": 0, "failing": []}


@pytest.mark.parametrize("wrong", [VAGUE, '"""A sentence without any condition."""\n'])
def test_one_folder_that_misses_a_bar_fails_the_check_alone(wrong, checkout, monkeypatch, capsys):
    (checkout / "node_app/plain.py").write_text(wrong)
    status, printed = run(checkout, monkeypatch, capsys, "--check")
    assert status == 1
    assert json.loads(printed.out.splitlines()[-1])["failing"] == ["node_app"]
    status, _ = run(checkout, monkeypatch, capsys)
    assert status == 0


def test_generated_code_and_migrations_are_not_read(checkout, monkeypatch, capsys):
    for name in ("shared/meshnet/v1/link_pb2.py", "tracker_site/nodes/migrations/0001_initial.py"):
        (checkout / name).parent.mkdir(parents=True)
        (checkout / name).write_text(VAGUE)
    status, _ = run(checkout, monkeypatch, capsys, "--check")
    assert status == 0


@pytest.mark.parametrize("root", [*words.PYTHON_ROOTS, *words.CPP_ROOTS])
def test_a_root_without_words_fails_even_without_check(root, checkout, monkeypatch, capsys):
    for path in (checkout / root).glob("plain.*"):
        path.write_text("")
    status, printed = run(checkout, monkeypatch, capsys)
    assert status == 1
    assert f"no words in {root}" in printed.err


def test_a_folder_that_is_no_product_code_fails(checkout, monkeypatch, capsys):
    status, printed = run(checkout, monkeypatch, capsys, "docs")
    assert status == 1
    assert "docs is no folder of product code" in printed.err


def test_equal_seeds_draw_equal_docstrings(checkout, monkeypatch, capsys):
    _, first = run(checkout, monkeypatch, capsys, "--draw", "3", "--seed", "7")
    _, second = run(checkout, monkeypatch, capsys, "--draw", "3", "--seed", "7")
    assert first.out == second.out
    assert first.out.count("--- ") == 3
    assert json.loads(first.out.splitlines()[-1]) == {"drawn": 3, "seed": 7}


def test_the_longest_sentences_come_first_with_their_place(checkout, monkeypatch, capsys):
    (checkout / "node_app/plain.py").write_text(PLAIN + "\n# If " + "very " * 30 + "long.\n")
    _, printed = run(checkout, monkeypatch, capsys, "node_app")
    assert printed.out.startswith("32 words  node_app/plain.py:3  If very")


def test_the_checkout_itself_is_read():
    done = subprocess.run(
        [sys.executable, "packaging/words.py"], cwd=words.ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1])["words"] > 10_000


@pytest.mark.parametrize(("comment", "counts"), [("namespace meshnet", 0), ("MESHNET_EDGE_H_", 0), ("Waits.", 1)])
def test_ends_of_guards_and_namespaces_are_no_words(comment, counts):
    assert len(words.cpp_passages(f"}}  // {comment}\n", "a.h")) == counts
