"""Blocking work beside the event loop, in threads that never keep the process alive."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")


async def run_blocking(function: Callable[[], Result], name: str) -> Result:
    """Run `function` in a daemon thread and return what it returns or raise what it raises.

    Unlike the loop's own executor, nobody waits for the thread at exit: a volunteer who quits while a large model is
    being hashed, or while a site does not answer, quits at once. When cancelled, the result is dropped.
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
        except BaseException as error:  # noqa: BLE001 - handed to the waiter, whatever it is
            outcome = (None, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            return  # the loop has ended, and the waiter with it

    threading.Thread(target=work, name=name, daemon=True).start()
    return await future
