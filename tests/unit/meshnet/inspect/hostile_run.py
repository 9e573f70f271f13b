"""Inspects hostile files one after the other and prints what came of them, as one JSON object.

Run as a program, so that a bound on its memory holds for it alone: `python -m ... --count N --seed S [--unchecked]`.
With `--unchecked` the reader's checks are taken out: the control, in which something must go wrong.
"""

from __future__ import annotations

import argparse
import io
import json
import resource
import tempfile
import time
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path

from meshnet.artifact.gguf import header, part, reader
from meshnet.errors import MeshnetError
from meshnet.inspect.main import main as inspect
from tests.simulators.hostile_gguf import Mutator

# Of the whole process; a length that is believed before it is checked goes far beyond.
ADDRESS_SPACE_BYTES = 1 << 30
# Of a message, which may stand on a terminal.
MESSAGE_LENGTH_MAX = 500
QUESTIONS = ([], ["--memory", "1G,1G"], ["--layers", "1:3"], ["--context", "8192", "--sequences", "3"])


def judge(path: Path, arguments: list[str]) -> str:
    """The error's code, or "accepted"; with "!", another exception's type or what a message or a sum is."""
    told, shown = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(told):
            inspect([str(path), "--json", *arguments])
        found = json.loads(told.getvalue())
        with redirect_stdout(shown):
            inspect([str(path), *arguments])
    except MeshnetError as error:
        is_shown = error.message.isprintable() and len(error.message) < MESSAGE_LENGTH_MAX
        return error.code if is_shown else "!message"
    except Exception as error:  # noqa: BLE001 - what must not happen is counted
        return f"!{type(error).__name__}"
    if not all(line.isprintable() for line in shown.getvalue().split("\n")):
        return "!tables"
    sums = found["tensor_bytes"] + found["metadata_bytes"] + found["padding_bytes"] == found["file_bytes"]
    return "accepted" if sums and found["padding_bytes"] >= 0 and found["layers"] >= 1 else "!wrong sums"


def run(count: int, seed: int) -> dict[str, object]:
    verdicts: Counter[str] = Counter()
    slowest_s = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        mutator = Mutator(seed, Path(folder) / "sound.gguf")
        for number in range(count):
            path.write_bytes(mutator.next())
            begun_s = time.monotonic()
            verdicts[judge(path, QUESTIONS[number % len(QUESTIONS)])] += 1
            slowest_s = max(slowest_s, time.monotonic() - begun_s)
    untyped = sum(times for verdict, times in verdicts.items() if verdict.startswith("!"))
    accepted = verdicts["accepted"]
    return {
        "mutations": count,
        "kinds": mutator.kinds,
        "typed_errors": count - accepted - untyped,
        "accepted": accepted,
        "untyped": untyped,
        "verdicts": dict(verdicts.most_common()),
        "slowest_s": round(slowest_s, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unchecked", action="store_true")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    if given.unchecked:
        for module in (header, part, reader):
            module.require = lambda *_: None  # type: ignore[attr-defined]
    print(json.dumps(run(given.count, given.seed)))


if __name__ == "__main__":
    main()
