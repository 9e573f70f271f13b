from __future__ import annotations

import asyncio

import pytest

from node_app.system.racing import race


async def test_the_first_to_end_ends_the_others() -> None:
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        await race(forever("a"), fail(), forever("b"))
    assert sorted(ended) == ["a", "b"]
