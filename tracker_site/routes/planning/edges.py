"""Who talks to whom on a planned route, and how: carriers, diallers and windows.

Invariants: pure. Both ends of an edge get the same carrier and windows, and exactly one of them dials a direct one; the
two directions between a pair of nodes have one dialler, so that they share a connection. Prompt chunks, token events
and failures always go through the relay, since the site dials nobody.
Source: docs/wire.md, Addresses, Credits and Links between workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from meshnet.constants import DECODE_WINDOW_FRAMES, GATEWAY_STAGE, MAX_MESSAGE_BYTES, TOKEN_ACK_WINDOW
from meshnet.frame import Codec
from meshnet.ids import Edge
from meshnet.session import Window
from tracker_site.routes.planning.offers import Hop, hop_between

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracker_site.routes.planning.offers import Offer

# Beside its rows a message holds 160 + 24 x stages bytes at most, a chunk's token ids, and what the relay counts for
# holding it. Source: docs/wire.md, Frames and Relay.
MESSAGE_OVERHEAD_BYTES: Final = 4096
# Rows that one part of a frame holds, at least.
_PART_BYTES: Final = MAX_MESSAGE_BYTES - MESSAGE_OVERHEAD_BYTES
F32_BYTES: Final = 4
# A token event with 20 alternatives and 64 residence entries.
TOKEN_EVENT_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class RouteEdge:
    """One directed edge between two members of a session.

    Attributes:
        hop: how it is carried; RELAY where an end is the Gateway.
        dialler: stage that dials a direct edge; None otherwise.
        window: of frames; no frames where it is zero.
        carries_tokens: token events travel on it.
        codec: how a seam's rows are packed.
    """

    edge: Edge
    hop: Hop
    window: Window
    dialler: int | None = None
    carries_tokens: bool = False
    codec: Codec = Codec.RAW

    @property
    def relay_window_bytes(self) -> int:
        """Bytes that may wait in the relay: all rows that credits allow, with the overhead of each message."""
        tokens_bytes = TOKEN_ACK_WINDOW * TOKEN_EVENT_BYTES if self.carries_tokens else 0
        messages = self.window.frames + -(-self.window.tensor_bytes // _PART_BYTES)
        return self.window.tensor_bytes + messages * MESSAGE_OVERHEAD_BYTES + tokens_bytes


def plan_edges(stages: Sequence[Offer], windows: Sequence[Window], codecs: Sequence[Codec]) -> tuple[RouteEdge, ...]:
    """Every edge of a route.

    Args:
        stages: head first.
        windows: of the way to each stage, head first.
        codecs: of the seams, one for each.

    Raises:
        ValueError: two neighbours have no way to exchange rows, which the planner never gives; or a codec for each seam
            is not there.
    """
    tail = len(stages) - 1
    edges = []
    for stage in range(len(stages)):
        prompt = windows[0] if stage == 0 else Window(0, 0)
        edges.append(RouteEdge(Edge(GATEWAY_STAGE, stage), Hop.RELAY, prompt))
        edges.append(RouteEdge(Edge(stage, GATEWAY_STAGE), Hop.RELAY, Window(0, 0), carries_tokens=stage == tail))
    for (sender, receiver), codec in zip(pairwise(range(len(stages))), codecs, strict=True):
        edges.append(replace(_seam(stages, sender, receiver, windows[receiver]), codec=codec))
    ring = Window(DECODE_WINDOW_FRAMES, 0)
    if tail == 0:
        edges.append(RouteEdge(Edge(0, 0), Hop.LOCAL, ring))
    else:
        edges.append(_seam(stages, tail, 0, ring))
    return tuple(edges)


def _seam(stages: Sequence[Offer], sender: int, receiver: int, window: Window) -> RouteEdge:
    hop = hop_between(stages[sender], stages[receiver])
    if hop is None:
        raise ValueError(f"stages {sender} and {receiver} cannot exchange rows")
    dialler = _dialler(stages, sender, receiver) if hop is Hop.DIRECT else None
    return RouteEdge(Edge(sender, receiver), hop, window, dialler)


def _dialler(stages: Sequence[Offer], sender: int, receiver: int) -> int:
    """The end that cannot be dialled dials; of two that can, the earlier stage."""
    first, second = sorted((sender, receiver))
    return first if stages[second].reach.is_dialable else second


def seam_after(edges: Sequence[RouteEdge], stage: int) -> RouteEdge | None:
    """The seam that a stage hands its rows on; None after the tail."""
    return next((one for one in edges if one.edge == Edge(stage, stage + 1)), None)


def carrier_name(edges: Sequence[RouteEdge], stage: int) -> str:
    """How a stage's rows come in, for people: over the seam before it, or on the head the way back."""
    incoming = [one for one in edges if one.edge.to_stage == stage and one.edge.from_stage != GATEWAY_STAGE]
    return incoming[0].hop.value if incoming else Hop.RELAY.value
