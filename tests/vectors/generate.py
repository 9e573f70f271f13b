"""Write the byte vectors that Python and C++ both decode; `--check` fails when a file is not what this writes.

Run from the repository's root: `python tests/vectors/generate.py [--check]`. The last line is JSON with the counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "shared")]

from tests.vectors import edge_cases, engine_cases, frame_cases, seam_cases  # noqa: E402 - the path comes first

BadFields = dict[str, tuple[dict[str, Any], str, bool]]
BadBytes = dict[str, tuple[str, str, int | None]]


def wire_file(cases: Any) -> dict[str, Any]:
    """One file of frames or edge messages from the module that lists its cases."""
    return {
        "good": [
            {"name": name, "hex": cases.encode(fields).hex(), "fields": fields} for name, fields in cases.GOOD.items()
        ],
        "bad": [
            *_bad_fields(cases.BAD_FIELDS, cases.encode),
            *_bad_bytes(cases.BAD_BYTES),
        ],
    }


def _bad_fields(cases: BadFields, encode: Callable[[dict[str, Any]], bytes]) -> list[dict[str, Any]]:
    return [
        {"name": name, "hex": encode(fields).hex(), "limit_bytes": None, "code": code, "addressed": addressed}
        for name, (fields, code, addressed) in cases.items()
    ]


def _bad_bytes(cases: BadBytes) -> list[dict[str, Any]]:
    return [
        {"name": name, "hex": data, "limit_bytes": limit_bytes, "code": code, "addressed": False}
        for name, (data, code, limit_bytes) in cases.items()
    ]


def files() -> dict[str, dict[str, Any]]:
    """Every file's content by name."""
    return {
        "frames.json": wire_file(frame_cases),
        "edge_messages.json": wire_file(edge_cases),
        "sampling.json": {
            "philox": engine_cases.philox_cases(),
            "uniform": engine_cases.uniform_cases(),
            "samples": engine_cases.sampling_cases(),
        },
        "fake_engine.json": {"models": engine_cases.fake_cases()},
        "seam_codecs.json": {
            "good": seam_cases.good_cases(),
            "odd_packed": seam_cases.odd_packed_cases(),
            "refused_rows": seam_cases.refused_rows_cases(),
            "refused_packed": seam_cases.refused_packed_cases(),
        },
    }


def rendered(content: dict[str, Any]) -> str:
    """One case a line, so that a change shows as the cases it touches."""
    sections = []
    for name, cases in content.items():
        lines = ",\n".join(json.dumps(case, allow_nan=False) for case in cases)
        sections.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(sections) + "\n}\n"


def main(arguments: list[str]) -> int:
    differing = []
    counts = {}
    for name, content in files().items():
        path, text = FOLDER / name, rendered(content)
        counts[name] = sum(len(cases) for cases in content.values())
        if "--check" not in arguments:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            differing.append(name)
    print(json.dumps({"cases": counts, "differing": differing}))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
