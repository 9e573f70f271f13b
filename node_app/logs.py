"""Log lines of the node: for people, or one JSON object a line.

Invariants: to stderr, stdout belongs to the ready line; what is logged are ids, codes and figures, never prompts,
completions, activations, keys or tokens.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Final

LIBRARIES_AT_WARNING: Final = ("websockets", "urllib3", "asyncio")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def configure_logging(*, as_json: bool) -> None:
    """Set up the root logger, once, at the composition root."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for library in LIBRARIES_AT_WARNING:
        logging.getLogger(library).setLevel(logging.WARNING)
