"""When the tokens of streams that are served together came, and what that was like for each. Pure.

Invariants: times are seconds of one clock; a stream's first token is not a gap; nothing is concluded from streams
without tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median, quantiles


@dataclass(slots=True)
class Stream:
    """One stream: when it was asked for, and when each of its tokens came."""

    asked_s: float
    tokens_s: list[float] = field(default_factory=list)

    @property
    def first_ms(self) -> float:
        """From asking to the first token."""
        return (self.tokens_s[0] - self.asked_s) * 1000

    def gaps_ms(self, since_s: float = float("-inf"), until_s: float = float("inf")) -> list[float]:
        """Between neighbouring tokens, of those gaps that end within these moments."""
        return [(at - before) * 1000 for before, at in pairwise(self.tokens_s) if since_s <= at <= until_s]


def repeated(some: tuple[int, ...], length: int) -> tuple[int, ...]:
    """A prompt of that length, of some tokens over and over."""
    return tuple(some[position % len(some)] for position in range(length))


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Somebody with a long prompt who comes while others are being served.

    Attributes:
        prompt_tokens: of the prompt.
    """

    prompt_tokens: int

    def is_due(self, streams: Sequence[Stream], tokens: int) -> bool:
        """Whether all streams have had a third of their tokens."""
        return all(3 * len(stream.tokens_s) >= tokens for stream in streams)

    def prompt(self, some: tuple[int, ...]) -> tuple[int, ...]:
        """A prompt of that length, of some tokens over and over."""
        return repeated(some, self.prompt_tokens)


def gaps_around(streams: Sequence[Stream], newcomer: Stream) -> tuple[list[float], list[float]]:
    """Gaps of the others before the newcomer asked, and from then until its first token: milliseconds."""
    first_s = newcomer.tokens_s[0]
    before = [gap for stream in streams for gap in stream.gaps_ms(until_s=newcomer.asked_s)]
    during = [gap for stream in streams for gap in stream.gaps_ms(newcomer.asked_s, first_s)]
    return before, during


def total_rate(streams: Sequence[Stream]) -> float:
    """Tokens per second of all of them together, from the first token to the last: without prompts and opening.

    Raises:
        ValueError: a stream without tokens, or all came at once.
    """
    if not streams or not all(stream.tokens_s for stream in streams):
        raise ValueError("a stream without tokens has no rate")
    moments = [at for stream in streams for at in stream.tokens_s]
    took_s = max(moments) - min(moments)
    if took_s <= 0:
        raise ValueError("tokens that all came at once have no rate")
    return (len(moments) - 1) / took_s


def served_rate(streams: Sequence[Stream]) -> float:
    """Tokens per second of all of them together, from the first asking to the last token: with their prompts.

    Raises:
        ValueError: a stream without tokens.
    """
    if not streams or not all(stream.tokens_s for stream in streams):
        raise ValueError("a stream without tokens has no rate")
    took_s = max(stream.tokens_s[-1] for stream in streams) - min(stream.asked_s for stream in streams)
    return sum(len(stream.tokens_s) for stream in streams) / took_s


def p50_p95(values: Sequence[float]) -> dict[str, float]:
    """The median and the 95th percentile, for a report.

    Raises:
        ValueError: fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("too few values for quantiles")
    return {"p50": round(median(values), 2), "p95": round(quantiles(values, n=20)[-1], 2)}
