"""Routes of each kind of worker there is, behind one name: joined through their bridges, with the FakeEngine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from tests.integration.native.native_routes import native_route
from tests.integration.simulators.routes_of_workers import running_route
from tests.simulators.bridged_route import BridgedRoute, Filter


class Routes(Protocol):
    """Starts workers for the ranges between `cuts`, loads and joins them; they end with the body."""

    def __call__(
        self, cuts: list[int], *, keep: Filter | None = None, **load: int
    ) -> AbstractAsyncContextManager[BridgedRoute]: ...


@contextlib.asynccontextmanager
async def simulated(
    folder: Path, cuts: list[int], *, keep: Filter | None = None, **load: int
) -> AsyncIterator[BridgedRoute]:
    """Workers in this process."""
    async with running_route(folder, cuts, keep=keep, **load) as running:
        yield running.route


@contextlib.asynccontextmanager
async def native(
    folder: Path, cuts: list[int], *, keep: Filter | None = None, **load: int
) -> AsyncIterator[BridgedRoute]:
    """Worker processes that listen for no links."""
    async with native_route(folder, cuts, keep=keep, listeners=set(), **load) as running:
        yield running.route
