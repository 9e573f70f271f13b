"""PostgreSQL, Redis and the extra [cluster], for the tests of a site that runs as several processes.

    .venv/bin/python packaging/cluster_parts.py

Run with the environment's own Python. Only `make cluster` needs it. Root installs Debian's packages of the servers;
for anybody else they are unpacked into build/cluster, so that a developer's machine gets no new service. The tests
start servers of their own, on free ports and in folders of their own, and never touch one that runs already.
Exit status 2 with one line on stderr if the servers cannot be had, 1 with pip's words if the extra cannot.
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
# PostgreSQL's compiler of queries, and the scripts that manage Debian's own databases: nothing here calls them.
_NOT_CALLED = re.compile(r"(libllvm|libz3-|perl|libperl|lib.*-perl|postgresql-common|ssl-cert|sysstat)")
_INSTALL_TIMEOUT_S = 600


@dataclass(frozen=True)
class Servers:
    """Where the programs are.

    Attributes:
        postgresql: the folder of initdb and postgres.
        redis: redis-server.
        libraries: folders that the dynamic linker must search for them.
    """

    postgresql: Path
    redis: Path
    libraries: tuple[Path, ...] = ()

    def environment(self) -> dict[str, str]:
        """Return the variables with which the programs find their libraries."""
        return {"LD_LIBRARY_PATH": ":".join(map(str, self.libraries))} if self.libraries else {}


def find(build: Path = BUILD, system: Path = Path("/")) -> Servers | None:
    """Return this machine's servers, else those unpacked into `build`, or None if either is missing in both."""
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
    """Make the servers available and return a line saying how. Idempotent.

    Raises:
        MissingPrerequisiteError: they cannot be had from this machine's packages.
    """
    if find(build) is not None:
        return "PostgreSQL and Redis: there"
    if os.geteuid() == 0:
        system_packages.install(list(PACKAGES), [])
        return "PostgreSQL and Redis: installed"
    count = system_packages.unpack(list(PACKAGES), build / "cluster", leave_out=_NOT_CALLED)
    return f"PostgreSQL and Redis: {count} packages unpacked into build/cluster"


def _servers_under(root: Path) -> Servers | None:
    # Debian keeps each version's programs in a folder of its own; the newest is taken.
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
    """Provide servers and libraries, or say what to do."""
    status = system_packages.run_provider("cluster", provide, BUILD)
    if status:
        return status
    if not _install_libraries():
        print("cluster: the extra [cluster] cannot be had here", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
