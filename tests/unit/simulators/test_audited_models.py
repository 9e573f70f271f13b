"""The figures of docs/models are those that `meshnet inspect` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.artifact.gguf import read_header
from meshnet.artifact.model.caches import read_caches
from meshnet.artifact.model.cuts import legal_cuts
from meshnet.artifact.model.seam import read_seam
from meshnet.frame import Codec
from tests.simulators.audited_models import MODELS, write_audited_model

ROOT = Path(__file__).resolve().parents[3]
# Layers, cuts, raw bytes of a seam, KV bytes a token, state a session.
FIGURES = {"glm-5.2": (78, 20, 24_576, 95_232, 0), "ornith-1.0-397b": (60, 59, 16_384, 30_720, 195_379_200)}
PAGES = {"glm-5.2": "glm-5.2.md", "ornith-1.0-397b": "ornith.md"}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_read_is_what_is_told(name: str, tmp_path: Path) -> None:
    header = read_header(write_audited_model(name, tmp_path / "model.gguf"))
    caches, seam = read_caches(header), read_seam(header)
    found = (
        header.n_layers,
        len(legal_cuts(header).cuts),
        seam.row_bytes(Codec.RAW),
        caches.bytes_per_token,
        caches.state_bytes,
    )
    assert found == FIGURES[name]
    page = (ROOT / "docs/models" / PAGES[name]).read_text()
    told = [f"{figure:,.0f}" for figure in (seam.row_bytes(Codec.RAW) or 0, caches.bytes_per_token, caches.state_bytes)]
    assert all(figure in page for figure in told if figure != "0")


def test_the_targets_page_tells_what_inspect_does(tmp_path: Path) -> None:
    from tests.simulators.deepseek_v4_flash import write_deepseek_v4_flash

    header = read_header(write_deepseek_v4_flash(tmp_path / "v4.gguf"))
    (part,) = header.parts
    padding_bytes = part.whole_bytes - part.tensor_bytes - part.header_bytes
    figures = [part.whole_bytes, part.tensor_bytes, part.header_bytes, padding_bytes, len(header.tensors)]
    page = (ROOT / "docs/models/deepseek-v4-flash.md").read_text()
    missing = [figure for figure in figures if f"{figure:,}" not in page]
    assert not missing
