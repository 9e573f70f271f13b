"""Shows the demo to people: as a live picture if standard output is a terminal, otherwise as plain lines."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from conversation import Answer, Stage

REFRESH_PER_S = 12


def figures(answer: Answer) -> str:
    """Return a line with the answer's phase, number of tokens, rate and time until the first token."""
    parts = [answer.phase, f"{answer.tokens} tokens", f"{answer.tokens_per_s:.1f} tokens/s"]
    if answer.first_token_s is not None:
        parts.append(f"first token after {answer.first_token_s * 1000:.0f} ms")
    return " · ".join(parts)


def seam(row: Stage) -> str:
    """Return, as text, the bytes per token and the codec of the rows that a stage sends on; the tail sends tokens."""
    return f"{row.seam_bytes_per_token:,} B per token, {row.seam_codec}" if row.seam_bytes_per_token else "tokens"


class Display(Protocol):
    """Shows lines about the start of site and nodes, and then the growing answer."""

    def step(self, text: str) -> None:
        """Show one line about the start."""

    def show(self, answer: Answer) -> None:
        """Show the answer as far as it has arrived; called after every chunk."""

    def __enter__(self) -> Self:
        """Begin to show an answer."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop updating the answer; its last state stays visible."""


class PlainDisplay:
    """Prints lines: each stage of the route once, the progress of the prefill, and at the end the whole answer."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._last: Answer | None = None

    def step(self, text: str) -> None:
        """Print the line at once."""
        print(f"demo: {text}", flush=True)

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.step(text)

    def show(self, answer: Answer) -> None:
        """Print the stages of the route and the progress of the prefill, as far as they are new since the last call."""
        self._last = answer
        for row in answer.stages:
            layers = f"layers {row.layer_begin}:{row.layer_end}"
            self._once(f"route: stage {row.stage}  {row.node}  {layers}  {row.carrier}  hands on {seam(row)}")
        if answer.prefill_total:
            self._once(f"prefill: {answer.prefill_done}/{answer.prefill_total} prompt tokens")

    def __enter__(self) -> Self:
        """Do nothing: there is nothing to set up."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Print the answer's text and the line of `figures`."""
        if self._last is not None:
            self.step(f"answer: {self._last.text!r}")
            self.step(figures(self._last))


class LiveDisplay:
    """Draws the route, the progress of the prefill and the answer's text, and redraws them in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=REFRESH_PER_S)

    def step(self, text: str) -> None:
        """Print the line above the picture."""
        self._console.print(f"[bold cyan]demo[/] {text}", highlight=False)

    def show(self, answer: Answer) -> None:
        """Redraw the picture with the answer as far as it has arrived."""
        self._live.update(self._picture(answer))

    def _picture(self, answer: Answer) -> Group:
        route = Table(
            "stage", "node", "layers", "carrier", "hands on", title="route", title_justify="left", expand=True
        )
        for row in answer.stages:
            route.add_row(str(row.stage), row.node, f"{row.layer_begin}:{row.layer_end}", row.carrier, seam(row))
        prefill = Table.grid(padding=(0, 1), expand=True)
        prefill.add_row(
            f"prefill {answer.prefill_done}/{answer.prefill_total}",
            ProgressBar(total=max(answer.prefill_total, 1), completed=answer.prefill_done),
        )
        said = Group(Text(f"> {answer.prompt}", style="dim"), Text(answer.text))
        return Group(route, prefill, Panel(said, subtitle=figures(answer)))

    def __enter__(self) -> Self:
        """Start drawing at the bottom of the terminal."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing; the last picture stays."""
        self._live.stop()


def make_display() -> Display:
    """Return a live display if standard output is a terminal, otherwise one of plain lines."""
    return LiveDisplay(Console()) if sys.stdout.isatty() else PlainDisplay()
