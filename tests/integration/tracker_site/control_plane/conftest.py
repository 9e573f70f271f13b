from __future__ import annotations

import pytest

from tests.integration.tracker_site.control_plane.node_end import KEY
from tests.site.people import make_model, make_user
from tracker_site.control_plane.open_stages import open_stages
from tracker_site.nodes.models import Node


@pytest.fixture
def node(transactional_db: None) -> Node:
    """Alice's enrolled node; the site has the model that it serves."""
    make_model()
    return Node.objects.create(owner=make_user("alice"), name="attic", public_key=KEY.public_key.hex())


@pytest.fixture(autouse=True)
def _no_stage_is_left() -> object:
    yield
    left = len(open_stages)
    open_stages._channels.clear()
    assert left == 0
