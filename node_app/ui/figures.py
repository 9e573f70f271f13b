"""Formats figures for people.

Invariant: pure. An unknown figure is shown as `NOTHING`, never as zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.constants import MICROS_PER_CREDIT

if TYPE_CHECKING:
    from node_app.status.agent_status import AgentStatus

NOTHING: Final = "-"
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


def as_layers(status: AgentStatus) -> str:
    """Return the served layers: "all 30", or the first and the last one, counted from 0, as in "0-14 of 30"."""
    if status.layer_begin == 0 and status.layer_end == status.n_layers:
        return f"all {status.n_layers}"
    first, last = status.layer_begin, status.layer_end - 1
    span = str(first) if first == last else f"{first}-{last}"
    return f"{span} of {status.n_layers}"


def as_sentence(text: str) -> str:
    """Return another program's text with a capital first letter and a full stop; empty if the text is empty."""
    stripped = text.strip().rstrip(".")
    return f"{stripped[:1].upper()}{stripped[1:]}." if stripped else ""


def as_sessions(sessions: int) -> str:
    """Return a number of sessions with its unit: "no sessions", "1 session", "2 sessions"."""
    return "1 session" if sessions == 1 else f"{sessions or 'no'} sessions"


def as_rate(tokens_per_s: float) -> str:
    """Return a rate with one decimal and its unit: "12.3 tokens/s"."""
    return f"{tokens_per_s:.1f} tokens/s"


def as_credits(micros: int | None) -> str:
    """Return micro-credits as exact credits, with two to six decimals."""
    if micros is None:
        return NOTHING
    whole, rest = divmod(micros, MICROS_PER_CREDIT)
    decimals = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{whole:,}.{decimals}"


def as_memory(size_bytes: int) -> str:
    """Return a size in binary units with three significant digits, as in "1.53 GiB"; 0 bytes means unknown."""
    if size_bytes == 0:
        return NOTHING
    size = size_bytes / 1024
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} {_UNITS[-1]}"


def shorten(text: str, length_max: int) -> str:
    """Return `text`; if it is longer than `length_max`, "..." replaces its middle, since names differ at both ends."""
    if len(text) <= length_max:
        return text
    kept = length_max - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"
