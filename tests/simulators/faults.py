"""What a simulated worker does wrong on request.

Invariant: without a fault set it does nothing wrong. Positions are those of a step's rows.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields


@dataclass(slots=True)
class Faults:
    """Set by a test before or during a run, or on the command line (`--fault-step-delay-ms 50`).

    Attributes:
        step_delay_ms: added to every engine step, Probe's included.
        fail_at_position: the engine fails (`engine_failed`) a step that reaches this position.
        stall_at_position: the engine never ends a step that reaches this position.
        crash_at_position: the process ends at once in a step that reaches this position.
        bad_token_at_index: the token event of this index carries an id outside the vocabulary.
        skip_token_at_index: the token event of this index is not sent.
        refuse_open: every session is refused with this code; empty: none.
        garble_rows: outgoing hidden rows are off by one, so that results differ.
        wrong_probe: what probes give is wrong: "rows" (other values), "nan", "width" (rows of another width), or "half"
            (the last half of each row is zero); empty: nothing.
    """

    step_delay_ms: int = 0
    fail_at_position: int = -1
    stall_at_position: int = -1
    crash_at_position: int = -1
    bad_token_at_index: int = -1
    skip_token_at_index: int = -1
    refuse_open: str = ""
    garble_rows: bool = False
    wrong_probe: str = ""


def add_fault_arguments(parser: argparse.ArgumentParser) -> None:
    """One `--fault-NAME` a field."""
    for field in fields(Faults):
        option = f"--fault-{field.name.replace('_', '-')}"
        if isinstance(field.default, bool):
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=type(field.default), default=field.default)


def faults_of(arguments: argparse.Namespace) -> Faults:
    return Faults(**{field.name: getattr(arguments, f"fault_{field.name}") for field in fields(Faults)})
