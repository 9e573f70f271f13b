"""`make parity`: split equals unsplit, bit for bit between processes that give logits, token for token elsewhere.

Progress goes to standard error; the last line of standard output is one JSON object. Exit status 1 when anything
differs, when nothing was compared, or when the control sees no difference. See docs/parity.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.parity.record import ARCHITECTURES, EVERYTHING, SHORT, Plan, Record
from tests.parity.run import run

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run the comparison and print its record."""
    parser = argparse.ArgumentParser(prog="make parity")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--short", action="store_true", help="one cut, two prompts and the control; no site")
    parts.add_argument("--architectures", action="store_true", help="the tiny models of all architectures alone")
    parser.add_argument("--threads", type=int, default=1, help="of every process alike: see docs/parity.md")
    arguments = parser.parse_args()
    plan: Plan = SHORT if arguments.short else ARCHITECTURES if arguments.architectures else EVERYTHING
    started = time.monotonic()

    def progress(text: str) -> None:
        print(f"parity {time.monotonic() - started:6.1f} s: {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="meshnet-parity-") as folder:
        record: Record = run(plan, ROOT, Path(folder), arguments.threads, progress)
    print(json.dumps(record.as_json() | {"seconds": round(time.monotonic() - started, 1)}))
    return 0 if record.is_good(plan) else 1


if __name__ == "__main__":
    raise SystemExit(main())
