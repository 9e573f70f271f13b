"""Generates Python code from `shared/meshnet/v1/*.proto` with the pinned grpcio-tools.

protobuf_code.py generate   write *_pb2.py, *_pb2.pyi and, if the file defines a service, *_pb2_grpc.py
protobuf_code.py check      generate into a scratch folder and compare; status 1 if any file differs
"""

from __future__ import annotations

import argparse
import filecmp
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SERVICE = re.compile(r"^service\s+\w+", re.MULTILINE)
_GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")
_PROTOC_TIMEOUT_S = 120


def generated_files(package: Path) -> dict[str, Path]:
    """Return the paths of a package folder's generated files, by file name."""
    return {path.name: path for pattern in _GENERATED for path in sorted(package.glob(pattern))}


def generate(shared: Path, output: Path) -> int:
    """Generate code for every proto under `shared`/meshnet/v1 into `output`/meshnet/v1; return the number of protos.

    protoc searches for protos under `shared`, so that generated code has the imports `from meshnet.v1 import ...`.

    Raises:
        subprocess.CalledProcessError: protoc refused a file and has printed the reason on stderr.
    """
    protos = sorted((shared / "meshnet/v1").glob("*.proto"))
    if not protos:
        return 0
    names = [proto.relative_to(shared).as_posix() for proto in protos]
    outputs = [f"--{kind}_out={output}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={shared}", *outputs, *names]
    subprocess.run(command, check=True, timeout=_PROTOC_TIMEOUT_S, stdin=subprocess.DEVNULL)
    for proto in protos:
        if not _SERVICE.search(proto.read_text(encoding="utf-8")):
            # protoc also writes a module without any service, whose only effect would be to import grpc.
            (output / "meshnet/v1" / f"{proto.stem}_pb2_grpc.py").unlink()
    return len(protos)


def differences(present: Path, fresh: Path) -> list[str]:
    """Return a line for each generated file that differs between two package folders, or is in only one."""
    ours, theirs = generated_files(present), generated_files(fresh)
    found = [f"{name}: no proto generates it" for name in sorted(ours.keys() - theirs.keys())]
    found += [f"{name}: missing" for name in sorted(theirs.keys() - ours.keys())]
    same_names = sorted(ours.keys() & theirs.keys())
    return found + [f"{name}: differs" for name in same_names if not filecmp.cmp(ours[name], theirs[name], False)]


def check(shared: Path) -> int:
    """Compare the checkout's generated files with newly generated ones, print counts, return the exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        protos = generate(shared, Path(scratch))
        fresh = Path(scratch) / "meshnet/v1"
        found = differences(shared / "meshnet/v1", fresh)
        files = len(generated_files(fresh))
    for line in found:
        print(f"proto-check: {line}; run `make proto`", file=sys.stderr)
    print(f"proto-check: {protos} protos, {files} generated files compared, {len(found)} differences")
    return 1 if found or not files else 0


def write(shared: Path) -> int:
    """Generate into the checkout, remove files that no proto generates any more, and return the exit status."""
    package = shared / "meshnet/v1"
    with tempfile.TemporaryDirectory() as scratch:
        protos = generate(shared, Path(scratch))
        fresh = generated_files(Path(scratch) / "meshnet/v1")
        for name in generated_files(package).keys() - fresh.keys():
            (package / name).unlink()
        for name, path in fresh.items():
            shutil.copyfile(path, package / name)
    print(f"proto: {protos} protos, {len(fresh)} files written")
    return 0


def main() -> int:
    """Parse the command line, run the command and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["generate", "check"])
    command = parser.parse_args().command
    return write(ROOT / "shared") if command == "generate" else check(ROOT / "shared")


if __name__ == "__main__":
    sys.exit(main())
