"""llama.cpp's own programs as peers: `llama-bench`, alone and over two RPC servers.

Built from the worker's source by the presets `peers` (the worker's flags) and `peers-upstream` (as upstream builds it).
`llama-bench` reports rates of one run after a warm-up of its own; loading does not count.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.programs import output_of, running_server
from tests.simulators.ports import free_port

_BUILD: Final = Path(__file__).resolve().parents[2] / "build/native"
OURS, UPSTREAM = "peers", "peers-upstream"
_RUN_TIMEOUT_S: Final = 120.0
_RPC_SERVERS: Final = 2


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of one stream."""

    decode: float
    prefill: float


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a model.

    Attributes:
        decode_tokens: generated in one run.
        prompt_tokens: of the prompt that is timed, which is computed as one batch.
    """

    decode_tokens: int
    prompt_tokens: int


def program(preset: str, name: str) -> Path:
    """Where a preset's build puts a program."""
    return _BUILD / preset / "bin" / name


class LlamaBench:
    """One model in `llama-bench`. `devices` name RPC servers, host:port; none: this process' own threads."""

    def __init__(self, preset: str, model: Path, threads: int, devices: tuple[str, ...] = ()) -> None:
        self._command = [str(program(preset, "llama-bench")), "-m", str(model), "-t", str(threads)]
        self._command += ["-fa", "on", "-r", "1", "-o", "json"]
        if devices:
            names = "/".join(f"RPC{number}" for number in range(len(devices)))
            shares = "/".join("1" for _ in devices)
            self._command += ["--rpc", ",".join(devices), "-dev", names, "-ngl", "99", "-ts", shares]

    async def rates(self, load: Load) -> Rates:
        """Run once.

        Raises:
            TimeoutError: it did not end.
            ProgramError: it failed.
            ValueError: it reported something else than what was asked for.
        """
        wanted = ["-p", str(load.prompt_tokens), "-n", str(load.decode_tokens)]
        return read_rates(await output_of([*self._command, *wanted], _RUN_TIMEOUT_S), load)


def read_rates(output: bytes, load: Load) -> Rates:
    """The two rates of a report.

    Raises:
        ValueError: one of them is missing, or no positive number.
    """
    found = {(test["n_prompt"], test["n_gen"]): test["avg_ts"] for test in json.loads(output)}
    try:
        rates = Rates(found[0, load.decode_tokens], found[load.prompt_tokens, 0])
    except KeyError as missing:
        raise ValueError(f"llama-bench reported no test of {missing} (prompt, generated) tokens") from missing
    if not (rates.decode > 0 and rates.prefill > 0):
        raise ValueError(f"llama-bench reported {rates}")
    return rates


@contextlib.asynccontextmanager
async def rpc_bench(preset: str, model: Path, threads: int) -> AsyncIterator[LlamaBench]:
    """`llama-bench` whose layers lie half and half in two RPC servers on this machine.

    Its servers start threads for every graph, and only OpenMP keeps them: built with the worker's flags they are far
    slower than as upstream builds them.
    """
    async with contextlib.AsyncExitStack() as stack:
        devices = []
        for _ in range(_RPC_SERVERS):
            port = free_port()
            command = [str(program(preset, "ggml-rpc-server")), "-H", "127.0.0.1", "-p", str(port), "-t", str(threads)]
            await stack.enter_async_context(running_server(command, port))
            devices.append(f"127.0.0.1:{port}")
        yield LlamaBench(preset, model, threads, tuple(devices))
