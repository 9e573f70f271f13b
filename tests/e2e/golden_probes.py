"""Golden probes as an administrator makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.stack import BINARIES

PROBE = "import sys; from node_app.golden_maker.main import main; sys.exit(main(sys.argv[1:]))"
TIMEOUT_S = 90


def make_probe(model: Path, golden: Path) -> dict[str, object]:
    """Run `meshnet probe` with the native worker; what it printed."""
    command = [sys.executable, "-c", PROBE, str(model), "-o", str(golden)]
    command += ["--worker", str(BINARIES / "meshnet-worker"), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True)
    made: dict[str, object] = json.loads(done.stdout)
    return made
