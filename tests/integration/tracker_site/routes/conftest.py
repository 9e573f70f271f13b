"""One relay for each file of routes' tests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.integration.tracker_site.relay.process import a_shared_relay
from tests.integration.tracker_site.routes.routed_site import site_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.tracker_site.routes.routed_site import SiteMaker


@pytest.fixture(scope="module")
def relay_url() -> Iterator[str]:
    with a_shared_relay() as url:
        yield url


@pytest.fixture
def a_site(relay_url: str) -> SiteMaker:
    """Makes a site with nodes of these shapes, on the module's relay."""
    return partial(site_on, relay_url)
