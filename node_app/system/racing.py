"""Runs several tasks until the first one ends, and then cancels the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def race(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Run `coroutines` until the first one ends, cancel the others, and raise the error of the first one if it failed.

    If the caller is cancelled, all of them are cancelled. None of them is left running in any case.
    """
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
