"""What a worker that dies or stops inside a step costs those who wait for its turn.

Invariants: the holder is inside one long step (a prompt that is not cut) when the signal comes; what is timed runs
from the signal to the next token of a route that waits. The control gets no signal: then the wait is what is left of
the step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.llama_routes import CONTEXT_LENGTH, Arm, LlamaRoute, llama_route
from tests.bench.progress import BenchProgress
from tests.bench.turn_situations import THREADS

KILLED, STOPPED, CONTROL = "killed", "stopped", "left_alone"
SIGNALS: Final = {KILLED: signal.SIGKILL, STOPPED: signal.SIGSTOP, CONTROL: None}
TRIALS: Final = 3
TRIAL_S: Final = 5.0
WAITER_TOKENS: Final = 240
HOLDER_ROWS: Final = CONTEXT_LENGTH - 16
BEGINS_AFTER_S: Final = 0.3
# So that whatever was under way when the holder began has arrived.
SETTLES_S: Final = 0.05


async def waits_ms(folder: Path, turn_path: str, waiter: LlamaRoute, progress: BenchProgress) -> dict[str, list[float]]:
    """Milliseconds until the waiting route's next token, by what became of the holder, one a trial.

    Raises:
        TimeoutError: nobody computed in time.
        ValueError: the waiting route was done before the signal.
    """
    found: dict[str, list[float]] = {name: [] for name in SIGNALS}
    for trial in range(TRIALS):
        for name in SIGNALS:
            progress.now(f"holder {name} {trial + 1}/{TRIALS}")
            arm = Arm(f"holder-{name}-{trial}", (), turn_path, THREADS)
            async with llama_route(folder, arm) as holder:
                found[name].append(await _wait_ms(holder, waiter, SIGNALS[name]))
            progress.advance(TRIAL_S)
    return found


async def _wait_ms(holder: LlamaRoute, waiter: LlamaRoute, sent: signal.Signals | None) -> float:
    (pid,) = holder.process_ids
    serving = asyncio.create_task(waiter.streams(WAITER_TOKENS, 1))
    await asyncio.sleep(BEGINS_AFTER_S)
    holding = asyncio.create_task(holder.prompt_tokens_per_s(HOLDER_ROWS, is_exact=True))
    try:
        await holder.until_computing()
        await asyncio.sleep(SETTLES_S)
        signal_s = time.perf_counter()
        if sent is not None:
            os.kill(pid, sent)
        (stream,) = await serving
    finally:
        serving.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        holding.cancel()
        await asyncio.gather(serving, holding, return_exceptions=True)
    later = [at for at in stream.tokens_s if at > signal_s]
    if not later:
        raise ValueError("the waiting route was done before the signal")
    return (later[0] - signal_s) * 1000


def report(found: dict[str, list[float]]) -> dict[str, object]:
    """For the last line."""
    return {
        name: {"next_token_ms": round(median(waits), 1), "trials": [round(wait, 1) for wait in waits]}
        for name, waits in found.items()
    }


def control_waits(found: dict[str, list[float]]) -> bool:
    """Whether a holder without a signal is waited for longer than a killed one: otherwise nothing was measured."""
    return min(found[CONTROL]) > 2 * max(found[KILLED])
