"""Who and what appears in tests of the site: Alice owns things, Bob has his own, Charlie is an outsider, Dora
administers; nodes serve the one model that the catalogue has.
"""

from __future__ import annotations

from django.test import Client

from tests.site import wire
from tracker_site.accounts.models import User
from tracker_site.catalog.models import Model

PASSWORD = "correct horse battery"


def make_user(name: str, **traits: bool) -> User:
    return User.objects.create_user(name, password=PASSWORD, **traits)


def make_model(name: str = "fake", artifact_digest: bytes = wire.ARTIFACT, **traits: object) -> Model:
    """The model that `wire.shard` is of, as if imported."""
    return Model.objects.create(
        name=name, artifact_digest=artifact_digest.hex(), architecture="fake", n_layers=8, context_length=4096,
        vocab_size=260, size_bytes=1, vocabulary_file="unused", end_tokens=[257], **traits,
    )  # fmt: skip


def make_admin(name: str) -> User:
    return make_user(name, is_staff=True, is_superuser=True)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
