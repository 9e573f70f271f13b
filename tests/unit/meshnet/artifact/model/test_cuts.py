"""Where models may be cut, and what is said of other cuts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.architectures import CutRule
from meshnet.artifact.model.cuts import LegalCuts, cuts_beside, legal_cuts, wrong_cuts
from meshnet.errors import ArtifactError
from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash
from tests.unit.meshnet.artifact.model.headers import a_header

if TYPE_CHECKING:
    from tests.simulators.gguf_header import Value

EVERYWHERE = (
    "deepseek2", "fake", "gemma3", "glm4moe", "gpt-oss", "llama", "qwen2", "qwen3", "qwen35", "qwen35moe", "qwen3moe",
)  # fmt: skip


@pytest.mark.parametrize("architecture", EVERYWHERE)
def test_most_models_may_be_cut_anywhere(architecture: str, tmp_path: Path) -> None:
    assert legal_cuts(a_header(tmp_path, architecture, 5)) == LegalCuts(CutRule.EVERY, (1, 2, 3, 4))


def test_what_nobody_has_looked_at_is_not_cut(tmp_path: Path) -> None:
    found = legal_cuts(a_header(tmp_path, "gemma3n", 5))
    assert found == LegalCuts(CutRule.UNKNOWN, ())
    assert found.wrong_cut(0, 5, 5) is None
    assert found.wrong_cut(0, 4, 5) == 4


# Figures of a glm-dsa model of twelve layers -> legal cuts.
INDEXERS: dict[str, tuple[dict[str, Value], tuple[int, ...]]] = {
    "before shared indexers": ({"context_length": 202_752}, tuple(range(1, 12))),
    "shared, and the file does not say where": ({"context_length": 1_048_576}, (1, 2, 6, 10)),
    "as the file says": (
        {"context_length": 1_048_576, "attention.indexer.types": [1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0]},
        (3, 4, 8, 9),
    ),
    "as the file says in words of truth": (
        {"context_length": 4096, "attention.indexer.types": [True, False] * 6},
        (2, 4, 6, 8, 10),
    ),
}


@pytest.mark.parametrize(("figures", "cuts"), INDEXERS.values(), ids=INDEXERS)
def test_a_shared_indexer_stays_with_its_layers(
    figures: dict[str, Value], cuts: tuple[int, ...], tmp_path: Path
) -> None:
    assert legal_cuts(a_header(tmp_path, "glm-dsa", 12, figures)).cuts == cuts


def test_the_published_layers_of_glm_5_2_can_be_cut_at_twenty_places(tmp_path: Path) -> None:
    found = legal_cuts(a_header(tmp_path, "glm-dsa", 79, {"context_length": 1_048_576, "nextn_predict_layers": 1}))
    assert found.rule is CutRule.INDEXER
    assert found.cuts == (1, *range(2, 78, 4))
    assert len(found.cuts) == 20


def test_every_selecting_layer_of_deepseek_v4_flash_has_an_indexer_of_its_own(tmp_path: Path) -> None:
    found = legal_cuts(read_header(write_deepseek_v4_flash(tmp_path / "v4.gguf")))
    assert found == LegalCuts(CutRule.EVERY, tuple(range(1, 43)))


def test_deepseek4_layers_that_reuse_a_selection_are_not_cut_off_from_it(tmp_path: Path) -> None:
    # Layers 2, 4 and 6 attend to a selection; 4 takes that of 2. Behind layer 6 nobody needs one.
    figures: dict[str, Value] = {
        "attention.compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128],
        "attention.indexer.types": [1, 1, 1, 1, 0, 1, 1, 1],
    }
    assert legal_cuts(a_header(tmp_path, "deepseek4", 8, figures)).cuts == (1, 2, 5, 6, 7)


def test_figures_that_do_not_fit_the_layers_are_refused(tmp_path: Path) -> None:
    header = a_header(tmp_path, "glm-dsa", 4, {"attention.indexer.types": [1, 0]})
    with pytest.raises(ArtifactError, match="bad_metadata"):
        legal_cuts(header)


@pytest.mark.parametrize(
    ("ends", "legal", "wrong"),
    [
        ((0, 8), (), []),
        ((0, 5), (), [5]),
        ((3, 5), (5,), [3]),
        ((5, 3), (), [5, 3]),
        ((3, 5), frozenset({3, 5}), []),
        ((3, 5), None, []),
        ((), (), []),
    ],
)
def test_a_model_s_own_ends_are_no_cuts(
    ends: tuple[int, ...], legal: tuple[int, ...] | frozenset[int] | None, wrong: list[int]
) -> None:
    assert wrong_cuts(ends, 8, legal) == wrong


def test_the_cuts_beside_one_are_the_nearest() -> None:
    legal = (2, 4, 6)
    assert [cuts_beside(cut, legal) for cut in (1, 3, 4, 7)] == [[2], [2, 4], [2, 6], [6]]
    assert cuts_beside(3, ()) == []


def test_a_refusal_names_the_cut_and_the_ones_beside_it() -> None:
    cuts = LegalCuts(CutRule.INDEXER, (2, 6))
    assert cuts.wrong_cut(2, 5, 8) == 5
    assert cuts.wrong_cut(3, 5, 8) == 3
    assert cuts.wrong_cut(2, 8, 8) is None
    assert "may not be cut between layers 4 and 5" in cuts.explain(5)
    assert cuts.explain(5).endswith("the legal cuts beside it are 2 and 6")
    assert cuts.explain(7).endswith("the legal cuts beside it are 6")
    assert LegalCuts(CutRule.UNKNOWN, ()).explain(1).endswith("it is served whole")
