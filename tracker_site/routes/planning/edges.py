"""Plans the edges of a route: which members exchange messages, over which carrier, who dials, and with which windows.

Invariants: pure. Both ends of an edge get the same carrier and windows, and exactly one end dials a direct edge. Both
directions between a pair of nodes have the same dialler, so that they share a connection. Prompt chunks, token events
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

# Bytes of a message beside its rows: at most 160 + 24 x stages, the token ids of a chunk, and the relay's own overhead.
# Source: docs/wire.md, Frames and Relay.
MESSAGE_OVERHEAD_BYTES: Final = 4096
# Bytes of rows that one part of a frame has room for.
_PART_BYTES: Final = MAX_MESSAGE_BYTES - MESSAGE_OVERHEAD_BYTES
F32_BYTES: Final = 4
# A token event with 20 alternatives and 64 residence entries.
TOKEN_EVENT_BYTES: Final = 2048


@dataclass(frozen=True, slots=True)
class RouteEdge:
    """One directed edge between two members of a session.

    Attributes:
        hop: carrier of its messages; RELAY if one end is the Gateway.
        dialler: stage that dials a direct edge; None if the edge is not direct.
        window: frames and bytes that may be on their way; zero if no frames travel on the edge.
        carries_tokens: token events travel on it.
        codec: packing of the rows, if the edge is a seam.
    """

    edge: Edge
    hop: Hop
    window: Window
    dialler: int | None = None
    carries_tokens: bool = False
    codec: Codec = Codec.RAW

    @property
    def relay_window_bytes(self) -> int:
        """Bytes that may wait in the relay: a full window of rows with each message's overhead, and of token events."""
        tokens_bytes = TOKEN_ACK_WINDOW * TOKEN_EVENT_BYTES if self.carries_tokens else 0
        messages = self.window.frames + -(-self.window.tensor_bytes // _PART_BYTES)
        return self.window.tensor_bytes + messages * MESSAGE_OVERHEAD_BYTES + tokens_bytes


def plan_edges(stages: Sequence[Offer], windows: Sequence[Window], codecs: Sequence[Codec]) -> tuple[RouteEdge, ...]:
    """Return every edge of a route.

    Args:
        stages: offers of the stages, head first.
        windows: for each stage, head first, the window of the edge that brings its prompt rows.
        codecs: one codec for each seam, in route order.

    Raises:
        ValueError: two neighbours have no way to exchange rows, which the planner rules out; or the number of codecs is
            wrong.
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
    """Return the stage that dials: the one that cannot be dialled itself, or the earlier one if both can."""
    first, second = sorted((sender, receiver))
    return first if stages[second].reach.is_dialable else second


def seam_after(edges: Sequence[RouteEdge], stage: int) -> RouteEdge | None:
    """Return the seam over which a stage sends its rows to the next stage; None for the tail."""
    return next((one for one in edges if one.edge == Edge(stage, stage + 1)), None)


def carrier_name(edges: Sequence[RouteEdge], stage: int) -> str:
    """Return the name of the carrier that brings a stage's rows, or, to the head, the tail's tokens."""
    incoming = [one for one in edges if one.edge.to_stage == stage and one.edge.from_stage != GATEWAY_STAGE]
    return incoming[0].hop.value if incoming else Hop.RELAY.value
