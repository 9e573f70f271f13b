"""Figures as people read them.

Invariant: pure; what is not known is shown as `NOTHING`, never as zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from meshnet.constants import MICROS_PER_CREDIT

if TYPE_CHECKING:
    from node_app.status.agent_status import AgentStatus

NOTHING: Final = "-"
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


def as_layers(status: AgentStatus) -> str:
    """Return the served layers, both ends named, counted from 0 as everywhere else."""
    if status.layer_begin == 0 and status.layer_end == status.n_layers:
        return f"all {status.n_layers}"
    first, last = status.layer_begin, status.layer_end - 1
    span = str(first) if first == last else f"{first} to {last}"
    return f"{span} of {status.n_layers}"


def as_sentence(text: str) -> str:
    """Return words of another program as a sentence; empty where there are none."""
    stripped = text.strip().rstrip(".")
    return f"{stripped[:1].upper()}{stripped[1:]}." if stripped else ""


def as_sessions(sessions: int) -> str:
    """Return a number of sessions in words."""
    return "1 session" if sessions == 1 else f"{sessions or 'no'} sessions"


def as_rate(tokens_per_s: float) -> str:
    """Return a rate."""
    return f"{tokens_per_s:.1f} tokens/s"


def as_credits(micros: int | None) -> str:
    """Return micro-credits as credits, exact: two decimals, more where they are not zero."""
    if micros is None:
        return NOTHING
    whole, rest = divmod(micros, MICROS_PER_CREDIT)
    decimals = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{whole:,}.{decimals}"


def as_memory(size_bytes: int) -> str:
    """Return a size in binary units."""
    if size_bytes == 0:
        return NOTHING
    size = size_bytes / 1024
    for unit in _UNITS[:-1]:
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} {_UNITS[-1]}"


def shorten(text: str, length_max: int) -> str:
    """Return `text`, its middle left out where it is longer: names differ at both ends."""
    if len(text) <= length_max:
        return text
    kept = length_max - 3
    return f"{text[: kept - kept // 2]}...{text[len(text) - kept // 2 :]}"
