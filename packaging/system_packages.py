"""Provides the Debian and Ubuntu packages that the native build needs: installs them, or unpacks them into a folder.

If the user is root, or sudo asks for no password, packages are installed. Otherwise nothing outside the checkout
changes: apt downloads the missing packages with their dependencies (and checks them against its signed lists), and they
are unpacked into build/prefix, which native/cmake/dependencies.cmake searches first.
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

# Packages of the headers and libraries that the native part is compiled with.
LIBRARY_PACKAGES = (
    "libgrpc++-dev",
    "libgtest-dev",
    "libprotobuf-dev",
    "libssl-dev",
    "nlohmann-json3-dev",
    "protobuf-compiler",
    "protobuf-compiler-grpc",
)
# Packages of programs. If the program on the right is on the path, the package is not needed.
PROGRAM_PACKAGES = {"g++": "c++", "make": "make", "patch": "patch", "ccache": "ccache"}
# Programs that cannot be unpacked into a prefix: a compiler there would need its own C library and headers.
_NEEDED_WITHOUT_ROOT = ("c++", "make", "dpkg", "apt-get")
# Packages of the C and C++ run time. One in the prefix would hide the system's own, so they are never unpacked.
_NEVER_UNPACKED = re.compile(r"(libc6|libc-(bin|dev|l10n)|libgcc-|libstdc\+\+|gcc-|g\+\+|cpp-|binutils|linux-libc)")
_INSTALLED_BY_APT = re.compile(r"^Inst (\S+) (?:\[[^\]]*\] )?\((\S+) ", re.MULTILINE)
_APT_TIMEOUT_S = 1800
_EXIT_PREREQUISITE = 2


class MissingPrerequisiteError(Exception):
    """Something must be installed before bootstrap can go on; the message is one line and says how."""


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
    """Return whether this Python can make virtual environments; on Debian that takes the package python3-venv."""
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0


def missing_packages() -> list[str]:
    """Return the needed packages that this machine lacks, in a stable order."""
    missing = [package for package in LIBRARY_PACKAGES if not _installed(package)]
    missing += [package for package, program in PROGRAM_PACKAGES.items() if shutil.which(program) is None]
    return missing if has_venv() else [*missing, "python3-venv"]


def root_command() -> list[str] | None:
    """Return the words to put before a command to run it as root: [] if the user is root, None if impossible."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    probe = subprocess.run(["sudo", "-n", "true"], capture_output=True, timeout=60, check=False)
    # `env` because sudo drops the caller's environment.
    return ["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"] if probe.returncode == 0 else None


def install(packages: list[str], as_root: list[str]) -> None:
    """Install packages without questions and without recommended packages.

    Args:
        packages: their names.
        as_root: the result of `root_command`.

    Raises:
        MissingPrerequisiteError: apt failed.
    """
    _run([*as_root, *_apt("update")])
    _run([*as_root, *_apt("install", "-y", "--no-install-recommends", *packages)])


def unpack(packages: list[str], prefix: Path, *, leave_out: re.Pattern[str] = _NEVER_UNPACKED) -> int:
    """Unpack packages and those of their dependencies that this machine lacks; return the number of packages.

    Args:
        packages: their names.
        prefix: the folder to unpack into; if it exists, it is replaced.
        leave_out: matches names of packages that are not unpacked, beside those of `_NEVER_UNPACKED`.

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
    """Point broken `*.so` links under `prefix` to the same path under `root`; return the number of mended links.

    A development package contains a link to a library of another package. If that package is installed on the machine,
    it is not unpacked and the link is broken; the linker would then take a static library instead.
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
    """Return apt options that select the system's package lists; if these do not suffice, download lists to `work`."""
    # Name the status file explicitly; otherwise a state folder of our own would come with an empty one.
    private = ["Debug::NoLocking=1", f"Dir::Cache={work}/cache", "Dir::State::status=/var/lib/dpkg/status"]
    options = [part for setting in private for part in ("-o", setting)]
    try:
        _simulate(packages, options)
    except MissingPrerequisiteError:
        (work / "state/lists/partial").mkdir(parents=True)
        (work / "cache/archives/partial").mkdir(parents=True)
        options = ["-o", f"Dir::State={work}/state", *options]
        _run(_apt(*options, "update"))
    return options


def provide(build: Path) -> str:
    """Make every needed package available and return a line that says how. Idempotent.

    Raises:
        MissingPrerequisiteError: something must be installed by hand first, or apt failed.
    """
    if shutil.which("dpkg-query") is None:
        raise MissingPrerequisiteError("this set-up works on Debian and Ubuntu only: dpkg-query is not on the path")
    missing = missing_packages()
    if not missing:
        return "system packages: none are missing"
    as_root = root_command()
    if as_root is not None:
        install(missing, as_root)
        return f"system packages: {len(missing)} installed"
    absent = [program for program in _NEEDED_WITHOUT_ROOT if shutil.which(program) is None]
    absent += [] if has_venv() else ["python3-venv"]
    if absent:
        raise MissingPrerequisiteError(f"install these first, which needs root: {' '.join(absent)}")
    count = unpack([package for package in missing if package != "ccache"], build / "prefix")
    return f"system packages: {count} unpacked into build/prefix"


def run_provider(name: str, provider: Callable[[Path], str], build: Path) -> int:
    """Call `provider(build)` and print its line; return 0, or 2 after an error line if a prerequisite is missing."""
    build.mkdir(exist_ok=True)
    try:
        print(provider(build))
    except MissingPrerequisiteError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return _EXIT_PREREQUISITE
    return 0
