"""Sets up the node's log: text for people, or one JSON object a line.

Invariants: logs go to stderr, since stdout belongs to the ready line. They hold ids, codes and figures, never prompts,
completions, activations, keys or tokens. A bounded number of the last lines is kept in memory; the tray shows them.
"""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from typing import Final

LIBRARIES_AT_WARNING: Final = ("websockets", "urllib3", "asyncio")

# Lines kept in memory: 100 KiB at most.
RECENT_LINES_MAX: Final = 200
RECENT_LINE_LENGTH_MAX: Final = 500


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object: time (UTC), level, logger, message, and exception if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line without a line feed."""
        fields = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class RecentLines(logging.Handler):
    """Keeps the last log lines of this process as text for people. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=RECENT_LINES_MAX)
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the lines of a log record; if there are too many, the oldest kept lines are dropped."""
        try:
            lines = self.format(record).splitlines()
        except Exception:  # noqa: BLE001 - as in every logging handler, a wrong record must not end its caller
            self.handleError(record)
        else:
            self._lines.extend(line[:RECENT_LINE_LENGTH_MAX] for line in lines)

    def tail(self) -> list[str]:
        """Return the kept lines, oldest first."""
        self.acquire()
        try:
            return list(self._lines)
        finally:
            self.release()


def configure_logging(*, as_json: bool) -> RecentLines:
    """Set up the root logger and return the handler that keeps the last lines. Called once, by `main`."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter() if as_json else logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    )
    recent = RecentLines()
    logging.basicConfig(level=logging.INFO, handlers=[handler, recent], force=True)
    for library in LIBRARIES_AT_WARNING:
        logging.getLogger(library).setLevel(logging.WARNING)
    return recent
