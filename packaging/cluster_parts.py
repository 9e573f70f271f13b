"""Provides PostgreSQL, Redis and the extra [cluster], for the tests of a site that runs as several processes.

    .venv/bin/python packaging/cluster_parts.py

Run it with the Python of the virtual environment; only `make cluster` needs it. If the user is root, Debian's packages
of the servers are installed; otherwise they are unpacked into build/cluster, so that a developer's machine gets no new
service. The tests start servers of their own, on free ports and in folders of their own, and never touch one that runs
already. If the servers cannot be provided, the program prints one line on stderr and returns exit status 2. If the
extra cannot be installed, pip prints the reason, and the exit status is 1.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import system_packages

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
PACKAGES = ("postgresql", "redis-server")
# The import name and the requirement of each library in the extra [cluster].
LIBRARIES = {"channels_redis": "channels-redis", "psycopg": "psycopg[binary,pool]"}
# Packages that are not unpacked, because no test uses them: PostgreSQL's compiler of queries, and the scripts that
# manage Debian's own databases.
_NOT_CALLED = re.compile(r"(libllvm|libz3-|perl|libperl|lib.*-perl|postgresql-common|ssl-cert|sysstat)")
_INSTALL_TIMEOUT_S = 600


@dataclass(frozen=True)
class Servers:
    """Paths of the servers' programs.

    Attributes:
        postgresql: the folder that contains initdb and postgres.
        redis: the program redis-server.
        libraries: folders that the dynamic linker must search for them.
    """

    postgresql: Path
    redis: Path
    libraries: tuple[Path, ...] = ()

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which the programs find their libraries; {} if they need none."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


def find(build: Path = BUILD, system: Path = Path("/")) -> Servers | None:
    """Return the installed servers, or else those unpacked into `build`; None if neither has both."""
    prefix = build / "cluster"
    installed = _servers_under(system)
    if installed is not None:
        return installed
    unpacked = _servers_under(prefix)
    if unpacked is None:
        return None
    libraries = tuple(sorted({path.parent for path in prefix.rglob("lib*.so.*")}))
    return Servers(unpacked.postgresql, unpacked.redis, libraries)


def missing_libraries() -> list[str]:
    """Return the requirements of the extra [cluster] that this environment lacks."""
    return [wanted for module, wanted in LIBRARIES.items() if importlib.util.find_spec(module) is None]


def provide(build: Path) -> str:
    """Make the servers available and return a line that says how. Idempotent.

    Raises:
        MissingPrerequisiteError: this machine's package manager cannot provide them.
    """
    if find(build) is not None:
        return "PostgreSQL and Redis: none is missing"
    if os.geteuid() == 0:
        system_packages.install(list(PACKAGES), [])
        return "PostgreSQL and Redis: installed"
    count = system_packages.unpack(list(PACKAGES), build / "cluster", leave_out=_NOT_CALLED)
    return f"PostgreSQL and Redis: {count} packages unpacked into build/cluster"


def _servers_under(root: Path) -> Servers | None:
    # Debian has a folder for the programs of each version of PostgreSQL; take the newest version.
    versions = [path.parent for path in (root / "usr/lib/postgresql").glob("*/bin/initdb")]
    redis = root / "usr/bin/redis-server"
    if not versions or not redis.exists():
        return None
    return Servers(max(versions, key=lambda folder: int(folder.parent.name)), redis)


def _install_libraries() -> bool:
    missing = missing_libraries()
    if not missing:
        return True
    pip = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off"]
    command = [*pip, "--constraint", str(ROOT / "packaging/constraints.txt"), *missing]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, timeout=_INSTALL_TIMEOUT_S, check=False)
    return done.returncode == 0


def main() -> int:
    """Provide servers and libraries; if that fails, print the remedy. Returns the exit status."""
    status = system_packages.run_provider("cluster", provide, BUILD)
    if status:
        return status
    if not _install_libraries():
        print("cluster: the extra [cluster] could not be installed", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
