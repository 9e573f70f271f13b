from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.core.cache import cache
from django.test import Client

from tests.site.people import make_admin, make_user

if TYPE_CHECKING:
    from tracker_site.accounts.models import User


@pytest.fixture(autouse=True)
def _empty_cache() -> None:
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


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def alices_client(alice: User) -> Client:
    return signed_in(alice)


@pytest.fixture
def charlies_client(charlie: User) -> Client:
    return signed_in(charlie)


@pytest.fixture
def doras_client(dora: User) -> Client:
    return signed_in(dora)
