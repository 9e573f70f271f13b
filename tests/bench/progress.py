"""How far a benchmark is and how long it will take: a bar on a terminal, a line for every part elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class BenchProgress:
    """Counts seconds of work as they were estimated; the estimate is corrected by how fast they really pass."""

    def __init__(self, progress: Progress, total_s: float) -> None:
        self._progress = progress
        self._task = progress.add_task("starting", total=total_s)

    def now(self, what: str) -> None:
        """Say what is being done."""
        self._progress.update(self._task, description=what)

    def say(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        self._progress.console.print(line, highlight=False, soft_wrap=True)

    def advance(self, estimated_s: float) -> None:
        """A part that was estimated to take so long is done."""
        self._progress.advance(self._task, estimated_s)

    def more(self, estimated_s: float) -> None:
        """There is more to do than was known."""
        self._progress.update(self._task, total=(self._progress.tasks[0].total or 0.0) + estimated_s)


@contextmanager
def bench_progress(total_s: float) -> Iterator[BenchProgress]:
    """Show progress for the body's time, on the error output: the last line of the output is the result."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as progress:
        yield BenchProgress(progress, total_s)
