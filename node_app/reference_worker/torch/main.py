"""`meshnet-torch-worker`: a worker for `meshnet node --worker` that computes with PyTorch.

Command line and ready line: `node_app.reference_worker.sessions.serving`. Exit status 1, with one line on stderr, if a
library of the extra [torch] is not installed.
"""

from __future__ import annotations

import sys
from typing import Final

EXIT_FAILED: Final = 1
# Not by pip alone: it may choose PyTorch's build for GPUs.
ADVICE: Final = "in Meshnet's folder: make torch (pip install -e '.[torch]' may bring the build for GPUs, several GB)"


def main() -> int:
    """Serve until told to end; return the exit status."""
    try:
        from node_app.reference_worker.torch.serving import serve  # noqa: PLC0415 - needs the extra, which is told in words
    except ModuleNotFoundError as error:
        message = f"the extra [torch] is not installed: there is no {error.name}; {ADVICE}"
        # If the worker does not start, the agent shows the line that begins with this prefix to the volunteer.
        sys.stderr.write(f"meshnet-worker: {message} [missing_extra]\n")
        return EXIT_FAILED
    serve()
    return 0
