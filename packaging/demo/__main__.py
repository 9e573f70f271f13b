"""`make demo`: the main job on a real model, on this machine. `--once` ends with one JSON line.

Runs in the project's environment, after the build. One thread; everything else is a child process that dies with it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from conversation import Answer, stream
from display import Display, make_display
from processes import DemoError, Family
from stack import MODEL_NAME, Paths, RunningSite, ServingNode, Stack

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "Why is the sky blue? Answer in two sentences."
MAX_TOKENS = 96
CHUNK_ROWS = 128
CONTEXT_LENGTH = 2048
UNSPLIT_DEADLINE_S = 120.0
WATCH_S = 0.5
# One node a range; None would be the whole model.
RANGES: tuple[tuple[int, int] | None, ...] = ((0, 15), (15, 30))


def find_paths(run: Path) -> Paths:
    """Where the build put its parts."""
    binaries = ROOT / "build" / "native" / "cpu" / "bin"
    manifest = json.loads((ROOT / "packaging" / "demo_model.json").read_text(encoding="utf-8"))
    model = ROOT / "build" / "models" / Path(manifest["member"]).name
    return Paths(ROOT, run, model, binaries, binaries / "meshnet-worker")


def unsplit_sha256(paths: Paths, prompt: str) -> str:
    """Digest of the text that the whole model gives in one process of its own."""
    request = {
        "prompt": prompt,
        "max_tokens": MAX_TOKENS,
        "chunk_rows": CHUNK_ROWS,
        "context_length": CONTEXT_LENGTH,
        "threads": len(os.sched_getaffinity(0)),
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("unsplit.py")), str(paths.model)],
        input=json.dumps(request).encode(),
        stdout=subprocess.PIPE,
        env=paths.environment(),
        timeout=UNSPLIT_DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise DemoError(f"the unsplit model could not be run: status {done.returncode}")
    return str(json.loads(done.stdout)["text_sha256"])


def talk(site: RunningSite, display: Display) -> Answer:
    """One completion, shown while it grows."""
    answer = None
    with display:
        for answer in stream(f"{site.url}/v1", site.credentials.api_key, MODEL_NAME, PROMPT, MAX_TOKENS):
            display.show(answer)
    if answer is None:
        raise DemoError("the site sent nothing")
    return answer


def invite(site: RunningSite, display: Display) -> None:
    """Say where a person can go on."""
    user, admin = site.credentials.user, site.credentials.admin
    display.step(f"chat:   {site.url}/        user {user.name}   password {user.password}")
    display.step(f"admin:  {site.url}/admin/  user {admin.name}  password {admin.password}")
    display.step(f"API:    {site.url}/v1      key {site.credentials.api_key}")
    display.step("Ctrl-C ends it")


def watch(family: Family) -> None:
    """Wait for Ctrl-C, or for a child to fall."""
    while (fallen := family.fallen()) is None:
        time.sleep(WATCH_S)
    raise DemoError(f"{fallen.name} ended by itself{fallen.last_words()}")


def report(answer: Answer, nodes: Sequence[ServingNode], paths: Paths, tests: dict[str, str]) -> dict[str, Any]:
    """The fields of the last line that are known while the stack runs."""
    workers = {node.name: node.worker_pid for node in nodes}
    stages = [
        {"worker_pid": workers[row.node], "layers": [row.layer_begin, row.layer_end], "carrier": row.carrier}
        for row in answer.stages
    ]
    return {
        "stages": stages,
        "self_test": tests,
        "completion_tokens": answer.completion_tokens,
        "text_sha256": answer.text_sha256,
        "unsplit_sha256": unsplit_sha256(paths, answer.prompt),
        "first_telemetry_ms": round((answer.first_telemetry_s or 0) * 1000),
        "tokens_per_s": round(answer.tokens_per_s, 1),
    }


def run(once: bool, folder: Path) -> dict[str, Any]:
    """The whole demo; the record for `--once`.

    Raises:
        DemoError: something did not work; the children are ended all the same.
    """
    started = time.monotonic()
    display = make_display()
    paths = find_paths(folder)
    paths.check()
    family = Family(folder, paths.environment())
    record: dict[str, Any] = {}
    try:
        stack = Stack(family, paths, display.step)
        site = stack.start_site()
        nodes = stack.start_nodes(site, RANGES)
        tests = stack.self_tests(nodes)
        display.step("self test: " + ", ".join(f"{name} {verdict}" for name, verdict in tests.items()))
        answer = talk(site, display)
        if once:
            record = report(answer, nodes, paths, tests)
        else:
            invite(site, display)
            watch(family)
    finally:
        family.stop()
    survivors = family.survivors()
    return record | {"survivors": len(survivors), "seconds": round(time.monotonic() - started, 1)}


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop_printing() -> None:
    """Let what Python still holds for standard output go nowhere; it would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> int:
    """Run; 0 when the answer equals the unsplit one and nothing is left running."""
    parser = argparse.ArgumentParser(prog="make demo", description="Run a site and its nodes on this machine.")
    parser.add_argument("--once", action="store_true", help="one completion, then one JSON line")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    folder = Path(tempfile.mkdtemp(prefix="meshnet-demo-"))
    try:
        record = run(arguments.once, folder)
    except KeyboardInterrupt:
        print("\ndemo: ended")
        return 0
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        _stop_printing()
        print("demo: ended, since nobody reads what it prints", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(record))
    return 0 if record["text_sha256"] == record["unsplit_sha256"] and record["survivors"] == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
