"""Product code names a failure code by its constant: a spelling of its own would drift from the one definition."""

from __future__ import annotations

import re
from pathlib import Path

from meshnet.failure_codes import FailureCode, NodeCode

ROOT = Path(__file__).resolve().parents[3]
# Other lists of states and codes that hold the same words for other things.
OTHER_LISTS = {
    "shared/meshnet/failure_codes.py",
    "shared/meshnet/shard_facts.py",
    "tracker_site/gateway/models.py",
    "tracker_site/gateway/settlement.py",
    "tracker_site/nodes/notices.py",
    "tracker_site/nodes/refusals.py",
    "tracker_site/openai_api/generation_object.py",
}
SPELT = re.compile("|".join(rf"\"{code.value}\"" for code in (*FailureCode, *NodeCode)))


def product_files() -> list[Path]:
    found = [
        path for folder in ("shared/meshnet", "tracker_site", "node_app") for path in (ROOT / folder).rglob("*.py")
    ]
    return [path for path in found if "_pb2" not in path.name and path.parent.name != "migrations"]


def test_no_module_spells_a_code() -> None:
    files = product_files()
    assert len(files) > 300
    spelt = {path.relative_to(ROOT).as_posix(): SPELT.findall(path.read_text()) for path in files}
    assert {name: codes for name, codes in spelt.items() if codes and name not in OTHER_LISTS} == {}
    # The control: the lists that are left out do spell them.
    assert all(spelt[name] for name in OTHER_LISTS)
