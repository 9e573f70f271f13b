"""Build the native part: fetch llama.cpp's source, configure, compile, and show progress.

    build.py [PRESET] [--target NAME ...] [--option NAME=VALUE ...]

If standard output is a terminal, progress is a bar; otherwise it is a line every 15 s. The full output is in
build/reports.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import llama_source
from job_count import job_count
from source_tree import SourceError

ROOT = Path(__file__).resolve().parents[2]
_STEP = re.compile(r"\[(\d+)/(\d+)\] (.*)")
_BAR_CELLS = 30
_SPARSE_INTERVAL_S = 15.0
_KEPT_LINES = 120
EXIT_INTERRUPTED = 130


@dataclass
class Progress:
    """Turns ninja's `[k/n]` lines into a progress bar if `terminal`, otherwise into a line every 15 s."""

    terminal: bool
    started_s: float
    shown_s: float = float("-inf")
    done: int = 0
    total: int = 0
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_LINES))

    def receive(self, line: str, now_s: float) -> str:
        """Take one line of output and return the text to print now, which may be empty."""
        self.recent.append(line)
        match = _STEP.match(line)
        if match is None:
            return ""
        self.done, self.total = int(match[1]), int(match[2])
        if self.terminal:
            filled = _BAR_CELLS * self.done // self.total
            bar = "#" * filled + "." * (_BAR_CELLS - filled)
            return f"\r\x1b[K[{bar}] {self.done}/{self.total} {now_s - self.started_s:.0f} s"
        if self.done < self.total and now_s - self.shown_s < _SPARSE_INTERVAL_S:
            return ""
        self.shown_s = now_s
        return f"native: {self.done}/{self.total} after {now_s - self.started_s:.0f} s\n"


def _run_with_progress(command: list[str], log: Path) -> int:
    progress = Progress(terminal=sys.stdout.isatty(), started_s=time.monotonic())
    with (
        log.open("w", encoding="utf-8") as record,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        if process.stdout is None:
            raise RuntimeError("the build's output is not a pipe")
        for line in process.stdout:
            record.write(line)
            sys.stdout.write(progress.receive(line.rstrip("\n"), time.monotonic()))
            sys.stdout.flush()
    if progress.terminal and progress.total:
        sys.stdout.write("\n")
    if process.returncode:
        sys.stderr.write(
            "\n".join(progress.recent) + f"\nnative: failed; the full output is in {log.relative_to(ROOT)}\n"
        )
    return process.returncode


def _tool(name: str) -> str:
    """Return the path of a tool in the virtual environment; if it is not there, the bare name, for PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name


def build(preset: str, targets: list[str], options: list[str]) -> int:
    """Configure and build one preset; return the exit status of the step that failed, or 0.

    Raises:
        SourceError: llama.cpp's source does not match the provenance manifest.
    """
    reports = ROOT / "build" / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    print(llama_source.fetch(llama_source.places(ROOT)), flush=True)
    definitions = [f"-D{option}" for option in [f"CMAKE_MAKE_PROGRAM={_tool('ninja')}", *options]]
    configure = [_tool("cmake"), "-S", "native", "--preset", preset, *definitions]
    status = _run_with_progress(configure, reports / f"configure-{preset}.log")
    if status:
        return status
    jobs = job_count()
    print(f"native: building preset {preset} with {jobs} jobs", flush=True)
    compile_command = [_tool("cmake"), "--build", f"build/native/{preset}", f"-j{jobs}"]
    compile_command += ["--target", *targets] if targets else []
    return _run_with_progress(compile_command, reports / f"build-{preset}.log")


def main() -> int:
    """Parse the command line, build, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", nargs="?", default="cpu", help="a preset of native/CMakePresets.json (cpu)")
    parser.add_argument("--target", action="append", default=[], help="build only this target; may be repeated")
    parser.add_argument("--option", action="append", default=[], help="a CMake option NAME=VALUE; may be repeated")
    arguments = parser.parse_args()
    try:
        return build(arguments.preset, arguments.target, arguments.option)
    except SourceError as error:
        print(f"native: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nnative: interrupted; the next run continues from here", file=sys.stderr)
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
