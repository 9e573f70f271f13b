"""Fuzz the worker's readers of messages from peers and relays; print one line of JSON at the end.

    fuzz.py [--seconds N]

The program builds the fuzzer, writes its seeds from the byte vectors of tests/vectors, and runs it for N seconds over a
corpus that build/fuzz keeps and every run extends. As a control, a second fuzzer runs over a reader with a planted
mistake that no seed reaches, and must find it. Exit status 1: the fuzzer found a crash or executed no more than its
seeds, or the control found nothing. Exit status 2, with one line on stderr: clang is missing and cannot be installed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from build import build
from source_tree import SourceError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

import system_packages  # noqa: E402 - after the path is set

PACKAGES = ("clang", "libclang-rt-dev")
BINARIES = ROOT / "build/native/fuzz/bin"
FOLDER = ROOT / "build/fuzz"
FUZZER, CONTROL = "wire_fuzzer", "planted_bug_fuzzer"
SECONDS = 60
CONTROL_SECONDS = 120
# Seconds that a run may take beyond its time, to read the corpus and to end its last input.
END_SECONDS = 120
EXIT_PREREQUISITE = 2
# If a single input takes longer or more memory than this, that is a finding too.
INPUT_TIMEOUT_S = 10
MEMORY_MB = 2048
INPUT_BYTES = 64 * 1024
_EXECUTIONS = re.compile(r"^stat::number_of_executed_units:\s*(\d+)$", re.MULTILINE)
_FINDINGS = ("crash-*", "leak-*", "oom-*", "timeout-*")

# Bits of a record's kind, as in native/fuzz/wire_records.h.
EDGE_MESSAGE, TO_TAIL, FROM_BRIDGE = 1, 2, 4
RECORD_MAX_BYTES = 0xFFFF


@dataclass(frozen=True, slots=True)
class Run:
    """Result of one fuzzer's run. `seconds` is wall time; `findings` are input files; `status` is the exit status."""

    executions: int
    findings: list[Path]
    seconds: float
    status: int
    output: str


def record(kind: int, message: bytes) -> bytes:
    """Return one record of a fuzzer's input: kind (1 byte), length of the message (2, little-endian), message."""
    return bytes([kind]) + len(message).to_bytes(2, "little") + message


def seeds(vectors: Path) -> dict[str, bytes]:
    """Return the fuzzer's seed inputs by name, made from the test vectors in the folder `vectors`.

    Each vector becomes four inputs: to the head and to the tail, from a peer and from the bridge. Further inputs hold
    all good vectors of one kind, and all good vectors.
    """
    found: dict[str, bytes] = {}
    rows = dict.fromkeys(range(8), b"")
    for file, is_edge in (("frames.json", 0), ("edge_messages.json", EDGE_MESSAGE)):
        for group, vector in _vectors(vectors / file):
            message = bytes.fromhex(vector["hex"])
            if len(message) > RECORD_MAX_BYTES:
                continue
            for kind in (0, TO_TAIL, FROM_BRIDGE, TO_TAIL | FROM_BRIDGE):
                found[f"{group}-{vector['name']}-{kind | is_edge}"] = record(kind | is_edge, message)
                if group == "good":
                    rows[kind | is_edge] += record(kind | is_edge, message)
    return found | {f"row-{kind}": row for kind, row in rows.items()} | {"all": b"".join(rows.values())}


def _vectors(path: Path) -> list[tuple[str, dict[str, str]]]:
    groups: dict[str, list[dict[str, str]]] = json.loads(path.read_text(encoding="utf-8"))
    return [(group, vector) for group, vectors in groups.items() for vector in vectors]


def executions_in(output: str) -> int:
    """Return the number of inputs that a fuzzer says it executed (-print_final_stats=1); 0 if it says none."""
    found = _EXECUTIONS.findall(output)
    return int(found[-1]) if found else 0


def provide_clang() -> None:
    """Install clang and its fuzzer library if they are missing.

    Raises:
        MissingPrerequisiteError: they are missing and cannot be installed.
    """
    if shutil.which("clang++") and _builds_a_fuzzer():
        return
    as_root = system_packages.root_command()
    if as_root is None:
        wanted = " ".join(PACKAGES)
        raise system_packages.MissingPrerequisiteError(f"install these first, which needs root: {wanted}")
    system_packages.install(list(PACKAGES), as_root)


def _builds_a_fuzzer() -> bool:
    """Return whether clang can link a fuzzer; the fuzzer's run-time library is a package of its own."""
    program = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
    command = ["clang++", "-fsanitize=fuzzer,address,undefined", "-x", "c++", "-", "-o", "/dev/null"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0


def write_seeds(folder: Path) -> int:
    """Replace `folder` by a folder of the seeds and return their number."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    inputs = seeds(ROOT / "tests/vectors")
    for name, data in inputs.items():
        (folder / name).write_bytes(data)
    return len(inputs)


def run(name: str, corpora: list[Path], limit: str, seconds: int) -> Run:
    """Run a fuzzer program and keep its findings in build/fuzz/NAME-findings.

    Args:
        name: the program.
        corpora: folders of inputs; new inputs go into the first.
        limit: the fuzzer's option that ends the run, for example "-max_total_time=60".
        seconds: the time that the run is expected to take.

    Raises:
        subprocess.TimeoutExpired: the program has not ended END_SECONDS after `seconds`.
    """
    findings = FOLDER / f"{name}-findings"
    shutil.rmtree(findings, ignore_errors=True)
    for folder in (findings, *corpora):
        folder.mkdir(parents=True, exist_ok=True)
    limits = [f"-timeout={INPUT_TIMEOUT_S}", f"-rss_limit_mb={MEMORY_MB}", f"-max_len={INPUT_BYTES}"]
    command = [str(BINARIES / name), *limits, "-print_final_stats=1", f"-artifact_prefix={findings}/", limit]
    started_s = time.monotonic()
    done = subprocess.run(
        [*command, *map(str, corpora)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds + END_SECONDS,
        check=False,
    )
    found = [path for pattern in _FINDINGS for path in sorted(findings.glob(pattern))]
    return Run(executions_in(done.stderr), found, time.monotonic() - started_s, done.returncode, done.stderr)


def fuzz(seconds: int) -> int:
    """Run the fuzzer and the control with the planted mistake; print the JSON line and return the exit status."""
    n_seeds = write_seeds(FOLDER / "seeds")
    print(f"fuzz: {FUZZER} for {seconds} s from {n_seeds} seeds", flush=True)
    corpus = FOLDER / "corpus"
    main = run(FUZZER, [corpus, FOLDER / "seeds"], f"-max_total_time={seconds}", seconds)
    if main.status or main.findings:
        print(main.output[-8000:], file=sys.stderr)
    shutil.rmtree(FOLDER / "control-corpus", ignore_errors=True)
    inputs = [FOLDER / "control-corpus", FOLDER / "seeds"]
    harmless = run(CONTROL, inputs, "-runs=0", 0)
    control = run(CONTROL, inputs, f"-max_total_time={CONTROL_SECONDS}", CONTROL_SECONDS)
    if harmless.status:
        print("fuzz: a seed already reaches the planted mistake, so the control proves nothing", file=sys.stderr)
    figures = {
        "executions": main.executions,
        "seconds": round(main.seconds, 1),
        "corpus": len(list(corpus.iterdir())),
        "crashes": len(main.findings),
        "control_crashes": 0 if harmless.status else len(control.findings),
        "control_seconds": round(control.seconds, 1),
    }
    print(json.dumps(figures))
    is_sound = main.status == 0 and main.executions > n_seeds and figures["control_crashes"] > 0
    return 0 if is_sound and not main.findings else 1


def main() -> int:
    """Parse the command line, build and fuzz; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    of_control = f"the control then takes at most {CONTROL_SECONDS} s more"
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help=f"run time of the fuzzer (default: {SECONDS}); {of_control}"
    )
    arguments = parser.parse_args()
    try:
        provide_clang()
        return build("fuzz", [FUZZER, CONTROL], []) or fuzz(arguments.seconds)
    except system_packages.MissingPrerequisiteError as error:
        print(f"fuzz: {error}", file=sys.stderr)
        return EXIT_PREREQUISITE
    except SourceError as error:
        print(f"fuzz: {error}", file=sys.stderr)
    except subprocess.TimeoutExpired as error:
        print(f"fuzz: {Path(error.cmd[0]).name} did not end within {error.timeout:g} s", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
