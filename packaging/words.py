"""Counts the words of product code's comments and docstrings, to see if a stranger can read them. `make words`.

words.py                     print the figures of every folder and the longest sentences
words.py --check             the same; status 1 if a folder misses a bar
words.py --draw 40 --seed 1  print so many docstrings, drawn at random, for reading
words.py ... FOLDER          read only this folder of product code, for example shared/meshnet

English that is read once says its conditions with "if" and names its things; "what" and "where" stand for a name that
the writer did not look for. The whole of Python's own library has 9.9 "if", 0.4 "what" and 0.7 "where" in 1,000 words.
The last line is JSON.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import random
import re
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
PYTHON_ROOTS = ("shared/meshnet", "tracker_site", "node_app", "packaging", "native/tools")
CPP_ROOTS = ("native/src",)
AT_LEAST = {"if": 4.0}
AT_MOST = {"what": 3.0, "where": 2.5}
# With fewer words, a single "where" would miss its bar. A smaller folder is counted with others: `by_folder`.
FOLDER_WORDS_MIN = 400
_LONGEST_SENTENCES = 20
_GENERATED = re.compile(r"_pb2(_grpc)?\.py$|/migrations/")
_WORD = re.compile(r"[^\W\d]\w*(?:-\w+)*")
# Comments that a tool reads, and the ends of include guards and namespaces.
_DIRECTIVE = re.compile(r"!|noqa|type: ignore|mypy:|ruff:|NOLINT|clang-format (on|off)|namespace\b|[A-Z0-9_]+_H_\Z")
# A number may hold single quotes, and a string may hold slashes, so both are matched before comments are looked for.
_CPP_TOKEN = re.compile(
    r'(?P<other>\b\d[\w\'.]*|R"(?P<fence>[^\s()\\]*)\(.*?\)(?P=fence)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\')'
    r"|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)",
    re.DOTALL,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n\s*\n|\n\s*(?=[-*] |\w+: )")


@dataclass(frozen=True)
class Passage:
    """A docstring, or the comments of consecutive lines. `path` is relative to the checkout; `line` counts from 1."""

    path: str
    line: int
    text: str
    is_docstring: bool

    def sentences(self) -> Iterator[tuple[int, str]]:
        """Yield each sentence as a pair: the number of the line that it begins on, and its text."""
        begin = 0
        ends = [(found.start(), found.end()) for found in _SENTENCE_END.finditer(self.text)]
        for end, following in [*ends, (len(self.text), len(self.text))]:
            sentence = self.text[begin:end]
            if sentence.strip():
                leading = len(sentence) - len(sentence.lstrip())
                yield self.line + self.text.count("\n", 0, begin + leading), " ".join(sentence.split())
            begin = following


@dataclass
class Count:
    """The number of words in a folder, and of each judged word: those that have a bar in AT_LEAST or AT_MOST."""

    words: int = 0
    judged: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*AT_LEAST, *AT_MOST), 0))

    def add(self, text: str) -> None:
        """Count the words of a text."""
        for word in words_of(text):
            self.words += 1
            if word in self.judged:
                self.judged[word] += 1

    def merge(self, other: Count) -> None:
        """Add another count to this one."""
        self.words += other.words
        for word, number in other.judged.items():
            self.judged[word] += number

    def rate(self, word: str) -> float:
        """Return how often a judged word occurs in 1,000 words; 0 if there are none."""
        return 1000 * self.judged[word] / self.words if self.words else 0.0

    def missed(self) -> list[str]:
        """Return the judged words that are rarer, or more frequent, than their bar allows."""
        few = [word for word, bar in AT_LEAST.items() if self.rate(word) < bar]
        return few + [word for word, bar in AT_MOST.items() if self.rate(word) > bar]


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case; an identifier or a hyphenated word is one."""
    return [found.lower() for found in _WORD.findall(text)]


def python_passages(source: str, path: str) -> list[Passage]:
    """Return the docstrings and comments of a Python file.

    Raises:
        SyntaxError: the source is not Python.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            found.append(Passage(path, first.lineno, first.value.value, is_docstring=True))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [
        _Comment(token.start[0], token.string.lstrip("#"), not token.line[: token.start[1]].strip())
        for token in tokens
        if token.type == tokenize.COMMENT
    ]
    return found + _joined(comments, path)


def cpp_passages(source: str, path: str) -> list[Passage]:
    """Return the comments of a C++ file."""
    comments = []
    for found in _CPP_TOKEN.finditer(source):
        begin = found.start()
        line = source.count("\n", 0, begin) + 1
        is_alone = not source[source.rfind("\n", 0, begin) + 1 : begin].strip()
        if found["line"]:
            comments.append(_Comment(line, found["line"].lstrip("/"), is_alone))
        elif found["block"]:
            rows = found["block"][2:-2].split("\n")
            comments += [_Comment(line + at, row.strip().lstrip("*"), is_alone) for at, row in enumerate(rows)]
    return _joined(comments, path)


@dataclass(frozen=True)
class _Comment:
    """One line of a comment, without its `#` or `//`. `is_alone`: no code stands before it on the line."""

    line: int
    text: str
    is_alone: bool


def _joined(comments: Iterable[_Comment], path: str) -> list[Passage]:
    """Make one passage of comments that fill consecutive lines; leave out those for tools and those without words."""
    blocks: list[list[_Comment]] = []
    for comment in comments:
        if _DIRECTIVE.match(comment.text.strip()):
            continue
        last = blocks[-1][-1] if blocks else None
        if last and last.is_alone and comment.is_alone and comment.line == last.line + 1:
            blocks[-1].append(comment)
        else:
            blocks.append([comment])
    texts = ["\n".join(comment.text for comment in block) for block in blocks]
    return [
        Passage(path, block[0].line, text, is_docstring=False)
        for block, text in zip(blocks, texts, strict=True)
        if words_of(text)
    ]


def read_root(checkout: Path, root: str) -> list[Passage]:
    """Return the passages of one root of product code, sorted by path, without generated code and migrations."""
    kinds = {".cpp": cpp_passages, ".h": cpp_passages} if root in CPP_ROOTS else {".py": python_passages}
    found = []
    for path in sorted((checkout / root).rglob("*")):
        name = path.relative_to(checkout).as_posix()
        if path.suffix in kinds and not _GENERATED.search(name):
            found += kinds[path.suffix](path.read_text(encoding="utf-8"), name)
    return found


def by_folder(passages: Iterable[Passage], root: str) -> dict[str, Count]:
    """Count the passages of a root by its folders.

    A folder with few words is counted with the root's own files. If these have few words too, they are counted with
    the largest folder.
    """
    counts: dict[str, Count] = {}
    for passage in passages:
        below = passage.path.removeprefix(f"{root}/").split("/")
        counts.setdefault(f"{root}/{below[0]}" if len(below) > 1 else root, Count()).add(passage.text)
    for name in [name for name, count in counts.items() if name != root and count.words < FOLDER_WORDS_MIN]:
        counts.setdefault(root, Count()).merge(counts.pop(name))
    if root in counts and len(counts) > 1 and counts[root].words < FOLDER_WORDS_MIN:
        few = counts.pop(root)
        max(counts.values(), key=lambda count: count.words).merge(few)
    return dict(sorted(counts.items()))


def print_longest(passages: Iterable[Passage]) -> None:
    """Print the longest sentences, the longest first."""
    sentences = [
        (len(words_of(text)), f"{passage.path}:{line}", text)
        for passage in passages
        for line, text in passage.sentences()
    ]
    for length, place, text in sorted(sentences, reverse=True)[:_LONGEST_SENTENCES]:
        print(f"{length} words  {place}  {text}")


def draw(passages: Iterable[Passage], number: int, seed: int) -> list[Passage]:
    """Return docstrings of Python and comments of C++, drawn at random; the same seed draws the same ones."""
    drawn_from = [passage for passage in passages if passage.is_docstring or not passage.path.endswith(".py")]
    return random.Random(seed).sample(drawn_from, min(number, len(drawn_from)))  # noqa: S311 - guards no secret


def report(checkout: Path, only: str) -> tuple[list[Passage], dict[str, Count]]:
    """Return the passages in the folder `only`, or in all roots if it is "", and their counts by folder.

    Raises:
        LookupError: a root holds no words, so its figures would say nothing.
    """
    passages: list[Passage] = []
    folders: dict[str, Count] = {}
    for root in (*PYTHON_ROOTS, *CPP_ROOTS):
        if not _lies_in(root, only) and not _lies_in(only, root):
            continue
        found = [passage for passage in read_root(checkout, root) if _lies_in(passage.path, only)]
        if not found:
            raise LookupError(f"no words in {root}")
        passages += found
        folders |= by_folder(found, root)
    if not passages:
        raise LookupError(f"{only} is no folder of product code")
    return passages, folders


def _lies_in(path: str, folder: str) -> bool:
    return not folder or f"{path}/".startswith(f"{folder}/")


def print_figures(folders: dict[str, Count]) -> None:
    """Print one line for each folder, and one for all of them."""
    total = Count()
    for count in folders.values():
        total.merge(count)
    width = max(map(len, folders))
    bars = [f"{word} >= {bar}" for word, bar in AT_LEAST.items()] + [
        f"{word} <= {bar}" for word, bar in AT_MOST.items()
    ]
    print(f"in 1,000 words: {', '.join(bars)}")
    for name, count in [*folders.items(), ("total", total)]:
        rates = "  ".join(f"{word} {count.rate(word):5.1f}" for word in count.judged)
        missed = f"  misses {', '.join(count.missed())}" if count.missed() else ""
        print(f"{name:<{width}}  {count.words:6} words  {rates}{missed}")
    failing = [name for name, count in folders.items() if count.missed()]
    print(json.dumps({"folders": len(folders), "words": total.words, **total.judged, "failing": failing}))


def main(checkout: Path = ROOT) -> int:
    """Print the figures or draw docstrings; status 1 if there are no words, or a bar is missed with `--check`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="", help="a folder of product code; all of them if it is left out")
    parser.add_argument("--check", action="store_true", help="status 1 if a folder misses a bar")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="print N docstrings instead of figures")
    parser.add_argument("--seed", type=int, default=1, help="chooses the docstrings")
    options = parser.parse_args()
    try:
        passages, folders = report(checkout, options.folder.strip("/"))
    except LookupError as error:
        print(f"words: {error.args[0]}", file=sys.stderr)
        return 1
    if options.draw:
        drawn = draw(passages, options.draw, options.seed)
        for passage in drawn:
            print(f"--- {passage.path}:{passage.line}\n{passage.text}")
        print(json.dumps({"drawn": len(drawn), "seed": options.seed}))
        return 0
    print_longest(passages)
    print_figures(folders)
    return 1 if options.check and any(count.missed() for count in folders.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
