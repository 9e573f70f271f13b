"""`make demo`: runs a site and two nodes on this machine, and one completion of a real model over them.

It runs in the virtual environment, after the build. With `--once` it prints one JSON line and ends. It has one thread;
the site and the nodes are child processes, which end with it.
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
# Half-open ranges of layers, one node each; None stands for the whole model.
RANGES: tuple[tuple[int, int] | None, ...] = ((0, 15), (15, 30))


def find_paths(run: Path) -> Paths:
    """Return the paths of the build's outputs, and of the folder `run` for the files of this run."""
    binaries = ROOT / "build" / "native" / "cpu" / "bin"
    manifest = json.loads((ROOT / "packaging" / "demo_model.json").read_text(encoding="utf-8"))
    model = ROOT / "build" / "models" / Path(manifest["member"]).name
    return Paths(ROOT, run, model, binaries, binaries / "meshnet-worker")


def unsplit_sha256(paths: Paths, prompt: str) -> str:
    """Return the SHA-256 of the text that the unsplit model generates, in a process of its own.

    Raises:
        DemoError: that process failed.
    """
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
    """Ask for one completion, show it while it grows and return it.

    Raises:
        DemoError: the completion failed, or the site sent nothing.
    """
    answer = None
    with display:
        for answer in stream(f"{site.url}/v1", site.credentials.api_key, MODEL_NAME, PROMPT, MAX_TOKENS):
            display.show(answer)
    if answer is None:
        raise DemoError("the site sent nothing")
    return answer


def invite(site: RunningSite, display: Display) -> None:
    """Show the addresses, passwords and key with which a person can use the site."""
    user, admin = site.credentials.user, site.credentials.admin
    display.step(f"chat:   {site.url}/        user {user.name}   password {user.password}")
    display.step(f"admin:  {site.url}/admin/  user {admin.name}  password {admin.password}")
    display.step(f"API:    {site.url}/v1      key {site.credentials.api_key}")
    display.step("Ctrl-C ends it")


def watch(family: Family) -> None:
    """Wait for Ctrl-C.

    Raises:
        DemoError: a child process ended by itself.
    """
    while (fallen := family.fallen()) is None:
        time.sleep(WATCH_S)
    raise DemoError(f"{fallen.name} ended by itself{fallen.last_error_lines()}")


def report(answer: Answer, nodes: Sequence[ServingNode], paths: Paths, tests: dict[str, str]) -> dict[str, Any]:
    """Return those fields of the JSON line that are known before the site and its nodes stop."""
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
    """Run the whole demo. If `once`, return the fields of the JSON line; otherwise run until Ctrl-C.

    Raises:
        DemoError: a step failed. The child processes are ended in this case too.
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
    """Discard Python's buffered standard output; otherwise Python would complain about the broken pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> int:
    """Run the demo; return 0 if the answer equals that of the unsplit model and no child process is left."""
    parser = argparse.ArgumentParser(prog="make demo", description="Run a site and its nodes on this machine.")
    parser.add_argument("--once", action="store_true", help="end after one completion with one JSON line")
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
        print("demo: ended, because the reader of its output is gone", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(record))
    return 0 if record["text_sha256"] == record["unsplit_sha256"] and record["survivors"] == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
