"""`meshnet-torch-worker`: a worker for `meshnet node --worker` that computes with PyTorch.

`node_app.reference_worker.sessions.serving` describes its command line and its output. If a library of the extra
[torch] is not installed, it prints one line on stderr and the exit status is 1.
"""

from __future__ import annotations

import sys
from typing import Final

EXIT_FAILED: Final = 1
# Not by pip alone: it may choose PyTorch's build for GPUs.
ADVICE: Final = "in Meshnet's folder: make torch (pip install -e '.[torch]' may bring the build for GPUs, several GB)"


def main() -> int:
    """Run the worker until it is told to end; return the exit status."""
    try:
        from node_app.reference_worker.torch.serving import serve  # noqa: PLC0415 - needs the extra, which is told in words
    except ModuleNotFoundError as error:
        message = f"the extra [torch] is not installed: there is no {error.name}; {ADVICE}"
        # If the worker does not start, the agent shows the line that begins with this prefix to the volunteer.
        sys.stderr.write(f"meshnet-worker: {message} [missing_extra]\n")
        return EXIT_FAILED
    serve()
    return 0
