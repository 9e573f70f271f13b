"""Runs blocking work beside the event loop, in threads that never keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


async def run_blocking(function: Callable[[], Result], name: str) -> Result:
    """Run `function` in a daemon thread, wait for it on the event loop, and return its result or raise its error.

    Python does not wait for a daemon thread at exit, as it does for the threads of the loop's executor. So the node
    quits at once, even if a large model is being hashed or a site does not answer. If the caller is cancelled, the
    thread runs on and its result is dropped.

    Args:
        function: must not use the event loop, since it runs in the thread.
        name: the thread's name.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # None only where Result allows it

    def work() -> None:
        try:
            outcome: tuple[Result | None, BaseException | None] = (function(), None)
        except BaseException as error:  # noqa: BLE001 - handed to the waiter
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            return  # the loop has ended, so nobody waits any more

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future
