"""An architecture is served only where all that is known of it was extended with it."""

from __future__ import annotations

import pytest

from meshnet.artifact.model import caches, cuts
from node_app.doctor.judging.model import SERVED_ARCHITECTURES


@pytest.mark.parametrize(
    "known", [cuts._RULES, caches._READERS], ids=["where it may be cut", "what is kept of each token"]
)
def test_what_is_served_is_known(known: dict[str, object]) -> None:
    assert len(SERVED_ARCHITECTURES) > 1
    assert set(SERVED_ARCHITECTURES) - known.keys() == set()


def test_no_served_architecture_has_an_unknown_cut() -> None:
    unknown = [name for name in SERVED_ARCHITECTURES if cuts._RULES[name] is cuts.CutRule.UNKNOWN]
    assert unknown == []
