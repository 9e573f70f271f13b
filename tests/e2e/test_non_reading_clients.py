"""Clients that ask, keep their connection for a minute and never read: they cost neither memory nor others' rate."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import psutil
import pytest

from tests.e2e.answers import a_long_chat
from tests.e2e.conftest import NODES
from tests.e2e.processes import until
from tests.e2e.raw_clients import SMALL_BUFFER_BYTES, Reader, ask
from tests.e2e.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.native, pytest.mark.timeout(240)]

MIB = 1024 * 1024
GROWTH_MAX_BYTES = 32 * MIB
KEPT_MIN = 0.90
SILENT_S = 60.0
CALM_S = 8.0
CONTROL_S = 4.0
CONTROL_READERS = 6
SLICE_S = 0.5


def unshared_bytes(pids: dict[str, int]) -> dict[str, int]:
    """Memory that ending each process would free."""
    return {name: psutil.Process(pid).memory_full_info().uss for name, pid in pids.items()}


def growth_bytes(before: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    return {name: now[name] - before[name] for name in before}


def rates(readers: list[Reader], for_s: float) -> list[float]:
    """Pieces per second of all readers together, slice by slice from now on."""
    found = []
    end_s = time.monotonic() + for_s
    while (begin_s := time.monotonic()) < end_s:
        time.sleep(SLICE_S)  # the slice itself
        now_s = time.monotonic()
        found.append(sum(reader.pieces(begin_s, now_s) for reader in readers) / (now_s - begin_s))
    return found


def undisturbed(found: list[float]) -> float:
    """The upper quartile: what other work on this machine takes from some slices is not what is measured."""
    return statistics.quantiles(found, n=4)[2]


def test_a_minute_of_not_reading_costs_the_site_no_memory_and_the_others_nothing(stack: Stack) -> None:
    """Two clients read all the time; four more do not read for a minute; then six more do read: the control."""
    watched = {"site": stack.site_pid, "relay": stack.relay_pid}
    with ExitStack() as reading, ExitStack() as silent:
        readers = [reading.enter_context(Reader(stack, a_long_chat(model)).reading()) for model in NODES]
        until(lambda: all(reader.pieces(0, time.monotonic()) > 100 for reader in readers), "the others are served")
        calm = rates(readers, CALM_S)
        before = unshared_bytes(watched)
        for number in range(4):
            body = a_long_chat(list(NODES)[number % 2], f"nobody reads {number}")
            silent.enter_context(ask(stack, body, buffer_bytes=SMALL_BUFFER_BYTES))
        begin_s = time.monotonic()
        beside, largest = [], before
        while time.monotonic() - begin_s < SILENT_S:
            beside += rates(readers, 5.0)
            now = unshared_bytes(watched)
            largest = {name: max(largest[name], now[name]) for name in watched}
        silent_s = time.monotonic() - begin_s
        silent.close()
        calm += rates(readers, CALM_S)
        for number in range(CONTROL_READERS):
            model = list(NODES)[number % 2]
            reading.enter_context(Reader(stack, a_long_chat(model, f"more {number}")).reading())
        crowded = rates(readers, CONTROL_S)
    grown = growth_bytes(before, largest)
    kept = undisturbed(beside) / undisturbed(calm)
    shared = undisturbed(crowded) / undisturbed(calm)
    print(
        f"4 clients did not read for {silent_s:.0f} s: at most "
        + ", ".join(f"{name} {grown[name] / MIB:+.1f} MiB" for name in watched)
        + f"; 2 others {undisturbed(beside):.0f} pieces/s beside them, {undisturbed(calm):.0f} without: "
        f"{kept:.3f} of their rate; control, {CONTROL_READERS} more that do read: {shared:.3f}"
    )
    assert silent_s >= SILENT_S
    assert max(grown.values()) <= GROWTH_MAX_BYTES
    assert kept >= KEPT_MIN
    assert shared < KEPT_MIN
    stack.until_idle()
    stack.assert_settled()


def test_the_measure_sees_what_is_kept_for_nobody() -> None:
    """The control of the growth: a process that keeps 40 MiB is over the bar."""
    program = (
        "import sys; kept = None\nfor line in sys.stdin: kept = bytes(b'x' * int(line)); print(len(kept), flush=True)"
    )
    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        sizes = []
        for kept_bytes in (1, 40 * MIB):
            keeper.stdin.write(f"{kept_bytes}\n")
            keeper.stdin.flush()
            assert json.loads(keeper.stdout.readline()) == kept_bytes
            sizes.append(unshared_bytes({"keeper": keeper.pid}))
        keeper.stdin.close()
    grown = growth_bytes(*sizes)["keeper"]
    print(f"control, a process that keeps 40 MiB: {grown / MIB:+.1f} MiB")
    assert grown > GROWTH_MAX_BYTES
