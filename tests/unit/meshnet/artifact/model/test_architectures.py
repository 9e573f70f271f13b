"""An architecture is served only if everything about it is known, here and in the worker."""

from __future__ import annotations

import re
from pathlib import Path

from meshnet.artifact.model import caches
from meshnet.artifact.model.architectures import ARCHITECTURES, SERVED_ARCHITECTURES, CacheLayout, CutRule

ROOT = Path(__file__).resolve().parents[5]


def names_of_the_worker(source: str) -> list[str]:
    """The names in the definition of `kArchitectures`."""
    (definition,) = re.findall(r"kArchitectures\s*=\s*\{(.*?)\};", source, flags=re.DOTALL)
    return re.findall(r'"([a-z0-9-]+)"', definition)


def test_the_worker_serves_the_same() -> None:
    (file,) = (ROOT / "native/src").rglob("llama_artifact.cpp")
    names = names_of_the_worker(file.read_text())
    assert len(names) == len(set(names)) == len(SERVED_ARCHITECTURES) > 10
    assert set(names) == set(SERVED_ARCHITECTURES)
    # The controls: one name less, and one more.
    for change in [('"llama",', ""), ('"llama",', '"llama", "lama",')]:
        assert set(names_of_the_worker(file.read_text().replace(*change))) != set(SERVED_ARCHITECTURES)


def test_the_reference_computes_those_that_say_so() -> None:
    source = (ROOT / "node_app/reference_worker/torch/model_facts.py").read_text()
    (graphs,) = re.findall(r"^GRAPHS: Final = \{\n(.*?)^\}", source, flags=re.DOTALL | re.MULTILINE)
    named = {name for name, one in ARCHITECTURES.items() if one.has_reference}
    assert set(re.findall(r'^    "([a-z0-9-]+)":', graphs, flags=re.MULTILINE)) == named != set()


def test_all_is_known_of_what_is_served() -> None:
    assert [name for name in SERVED_ARCHITECTURES if ARCHITECTURES[name].cut_rule is CutRule.UNKNOWN] == []
    assert set(caches._READERS) == set(CacheLayout)
