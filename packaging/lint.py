"""`make lint`: runs every static check, even if one fails, and prints counts. With --fix (`make format`) it formats."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TYPED_PACKAGES = ["shared/meshnet", "tracker_site", "node_app"]
TEST_PROGRAMS = [f"tests/{name}" for name in ("simulators", "bench", "parity", "oracle", "golden", "vectors")]
SCRIPT_FOLDERS = ["native/tools", "packaging", "packaging/demo"]
_CHECK_TIMEOUT_S = 600


def cpp_files() -> list[str]:
    """Return our own C++ files; llama.cpp and its patches follow llama.cpp's style and are not checked."""
    folders = [ROOT / "native/src", ROOT / "native/tests", ROOT / "native/fuzz", ROOT / "native/bench"]
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in {".cpp", ".h"}]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def python_files() -> list[str]:
    """Return the Python files that git tracks, and the untracked ones that it does not ignore."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True, timeout=_CHECK_TIMEOUT_S)
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def _tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def checks(*, fix: bool) -> dict[str, list[str]]:
    """Return the command lines by name: if `fix`, of tools that change files, otherwise of those that only check."""
    cpp = cpp_files()
    if fix:
        return {
            "ruff check --fix": [_tool("ruff"), "check", "--fix", "."],
            "ruff format": [_tool("ruff"), "format", "."],
            "clang-format": [_tool("clang-format"), "-i", *cpp],
        }
    scripts = [path.relative_to(ROOT).as_posix() for folder in SCRIPT_FOLDERS for path in (ROOT / folder).glob("*.py")]
    return {
        "ruff check": [_tool("ruff"), "check", "."],
        "ruff format": [_tool("ruff"), "format", "--check", "."],
        "mypy packages": [_tool("mypy"), *TYPED_PACKAGES],
        "mypy scripts": [_tool("mypy"), *sorted(scripts)],
        "mypy test programs": [_tool("mypy"), *TEST_PROGRAMS],
        "import-linter": [_tool("lint-imports")],
        "words": [sys.executable, "packaging/words.py", "--check"],
        "clang-format": [_tool("clang-format"), "--dry-run", "-Werror", *cpp],
    }


def main() -> int:
    """Run the checks and print a summary line; return 1 if one failed or there was nothing to check."""
    fix = "--fix" in sys.argv[1:]
    failed = []
    commands = checks(fix=fix)
    for name, command in commands.items():
        print(f"lint: {name}", flush=True)
        if subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=_CHECK_TIMEOUT_S, check=False
        ).returncode:
            failed.append(name)
    python, cpp = len(python_files()), len(cpp_files())
    verdict = f"failed: {', '.join(failed)}" if failed else "ok"
    print(f"lint: {len(commands)} checks, {python} Python files, {cpp} C++ files: {verdict}", flush=True)
    return 1 if failed or not python or not cpp else 0


if __name__ == "__main__":
    sys.exit(main())
