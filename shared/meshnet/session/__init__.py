"""The two ends of one edge of one Route Session, without I/O.

Invariants: no clock, no randomness, no logging; the callers keep the deadlines. Other packages import from here.
"""

from meshnet.session.receiving import Delivered, Outcome, Pending, ReceivingEdge, Repeated, Stray
from meshnet.session.sending import SendingEdge, Window
from meshnet.session.transitions import ReceivingState

__all__ = [
    "Delivered",
    "Outcome",
    "Pending",
    "ReceivingEdge",
    "ReceivingState",
    "Repeated",
    "SendingEdge",
    "Stray",
    "Window",
]
