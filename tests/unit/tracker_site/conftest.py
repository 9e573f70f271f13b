from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.cache import cache

from tests.site.people import make_admin, make_user, signed_in

if TYPE_CHECKING:
    from django.test import Client

    from tracker_site.accounts.models import User


@pytest.fixture
def empty_cache() -> None:
    """Nobody has used up what one address may ask for in a minute."""
    cache.clear()


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def bob(db: None) -> User:
    return make_user("bob")


@pytest.fixture
def charlie(db: None) -> User:
    return make_user("charlie")


@pytest.fixture
def dora(db: None) -> User:
    return make_admin("dora")


@pytest.fixture
def alices_client(alice: User) -> Client:
    return signed_in(alice)


@pytest.fixture
def charlies_client(charlie: User) -> Client:
    return signed_in(charlie)


@pytest.fixture
def doras_client(dora: User) -> Client:
    return signed_in(dora)
