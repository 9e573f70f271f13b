"""Debian and Ubuntu packages that the native build needs: installed, or unpacked into a local prefix.

As root, or where sudo asks for no password, packages are installed. Elsewhere nothing on the machine is changed: the
packages that are missing, with all they depend on, are downloaded by apt (which checks them against the signed lists)
and unpacked into build/prefix, where native/cmake/dependencies.cmake looks first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# What the native part is compiled against.
LIBRARY_PACKAGES = (
    "libgrpc++-dev",
    "libgtest-dev",
    "libprotobuf-dev",
    "libssl-dev",
    "nlohmann-json3-dev",
    "protobuf-compiler",
    "protobuf-compiler-grpc",
)
# Programs; the right-hand side is what must be on the path for the package not to be needed.
PROGRAM_PACKAGES = {"g++": "c++", "make": "make", "patch": "patch", "ccache": "ccache"}
# These cannot be had without root: a compiler in a prefix would need its own C library and headers.
_NEEDED_WITHOUT_ROOT = ("c++", "make", "dpkg", "apt-get")
# The C and C++ run time of the running system must never be shadowed by another one in the prefix.
_NEVER_UNPACKED = re.compile(r"(libc6|libc-(bin|dev|l10n)|libgcc-|libstdc\+\+|gcc-|g\+\+|cpp-|binutils|linux-libc)")
_INSTALLED_BY_APT = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ", re.MULTILINE)
_APT_TIMEOUT_S = 1800
_EXIT_PREREQUISITE = 2


class MissingPrerequisiteError(Exception):
    """Something must exist before bootstrap can go on; the message is one line that says what and how."""


def _apt(*arguments: str) -> list[str]:
    return ["apt-get", "-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300", *arguments]


def _run(command: list[str], cwd: Path | None = None) -> None:
    print("+ " + " ".join(command), flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, timeout=_APT_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise MissingPrerequisiteError(f"`{' '.join(command)}` failed with exit status {done.returncode}")


def _installed(package: str) -> bool:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", package]
    found = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    return found.returncode == 0 and found.stdout.strip() == "installed"


def has_venv() -> bool:
    """Tell whether this Python can make virtual environments (Debian splits that into a package of its own)."""
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0


def missing_packages() -> list[str]:
    """Return the packages whose parts this machine lacks, in a stable order."""
    missing = [package for package in LIBRARY_PACKAGES if not _installed(package)]
    missing += [package for package, program in PROGRAM_PACKAGES.items() if shutil.which(program) is None]
    return missing if has_venv() else [*missing, "python3-venv"]


def root_command() -> list[str] | None:
    """Return the words that run a command as root (none for root itself), or None where that is not possible."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    probe = subprocess.run(["sudo", "-n", "true"], capture_output=True, timeout=60, check=False)
    # `env` because sudo drops the caller's environment.
    return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"] if probe.returncode == 0 else None


def install(packages: list[str], as_root: list[str]) -> None:
    """Install `packages` without questions or recommendations; `as_root` is `root_command`'s answer.

    Raises:
        MissingPrerequisiteError: apt failed.
    """
    _run([*as_root, *_apt("update")])
    _run([*as_root, *_apt("install", "-y", "--no-install-recommends", *packages)])


def unpack(packages: list[str], prefix: Path, *, leave_out: re.Pattern[str] = _NEVER_UNPACKED) -> int:
    """Unpack `packages` and what they depend on and this machine lacks; return the number of packages unpacked.

    Args:
        packages: their names.
        prefix: the folder, made anew.
        leave_out: packages that are depended on and not wanted, beside those that are never unpacked.

    Raises:
        MissingPrerequisiteError: apt does not know a package, or failed.
    """
    work = prefix.parent / "apt"
    shutil.rmtree(work, ignore_errors=True)
    archives = work / "archives"
    archives.mkdir(parents=True)
    options = _lists_options(packages, work)
    simulated = _simulate(packages, options)
    wanted = [
        f"{name}={version}"
        for name, version in simulated
        if not _NEVER_UNPACKED.match(name) and not leave_out.match(name)
    ]
    _run(_apt(*options, "download", *wanted), cwd=archives)
    fresh = work / "fresh"
    for archive in sorted(archives.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(archive), str(fresh)], check=True, timeout=_APT_TIMEOUT_S)
    complete_links(fresh, Path("/"))
    shutil.rmtree(prefix, ignore_errors=True)
    fresh.replace(prefix)
    shutil.rmtree(work)
    return len(wanted)


def complete_links(prefix: Path, root: Path) -> int:
    """Point links of an unpacked prefix that lead nowhere to what `root` has in the same place; return their number.

    A development package links to the library beside it, which is in a package that the machine may have installed, and
    which is then not unpacked. The linker would take a static library in its place.
    """
    count = 0
    for link in prefix.rglob("*.so"):
        if not link.is_symlink() or link.exists() or link.readlink().is_absolute():
            continue
        installed = root / link.parent.relative_to(prefix) / link.readlink()
        if installed.exists():
            link.unlink()
            link.symlink_to(installed)
            count += 1
    return count


def _simulate(packages: list[str], options: list[str]) -> list[tuple[str, str]]:
    command = _apt(*options, "--simulate", "--no-install-recommends", "install", *packages)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_APT_TIMEOUT_S, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode:
        raise MissingPrerequisiteError(f"apt cannot resolve {' '.join(packages)}: {done.stderr.strip()}")
    return _INSTALLED_BY_APT.findall(done.stdout)


def _lists_options(packages: list[str], work: Path) -> list[str]:
    """Return apt options that reach package lists: the system's where they suffice, else fresh ones under `work`."""
    # The status file is named outright: a state folder of our own would otherwise come with an empty one.
    private = ["Debug::NoLocking=1", f"Dir::Cache={work}/cache", "Dir::State::status=/var/lib/dpkg/status"]
    options = [word for setting in private for word in ("-o", setting)]
    try:
        _simulate(packages, options)
    except MissingPrerequisiteError:
        (work / "state/lists/partial").mkdir(parents=True)
        (work / "cache/archives/partial").mkdir(parents=True)
        options = ["-o", f"Dir::State={work}/state", *options]
        _run(_apt(*options, "update"))
    return options


def provide(build: Path) -> str:
    """Make every needed package available and return a line saying how. Idempotent.

    Raises:
        MissingPrerequisiteError: something must be installed by hand first, or apt failed.
    """
    if shutil.which("dpkg-query") is None:
        raise MissingPrerequisiteError("this set-up knows Debian and Ubuntu only: dpkg-query is not on the path")
    missing = missing_packages()
    if not missing:
        return "system packages: all there"
    as_root = root_command()
    if as_root is not None:
        install(missing, as_root)
        return f"system packages: {len(missing)} installed"
    absent = [program for program in _NEEDED_WITHOUT_ROOT if shutil.which(program) is None]
    absent += [] if has_venv() else ["python3-venv"]
    if absent:
        raise MissingPrerequisiteError(f"without root these must be installed first: {' '.join(absent)}")
    count = unpack([package for package in missing if package != "ccache"], build / "prefix")
    return f"system packages: {count} unpacked into build/prefix"


def run_provider(name: str, provider: Callable[[Path], str], build: Path) -> int:
    """Provide something as a program does: say how in one line; else what to do, on stderr, with exit status 2."""
    build.mkdir(exist_ok=True)
    try:
        print(provider(build))
    except MissingPrerequisiteError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return _EXIT_PREREQUISITE
    return 0
