"""Who appears in tests of the site: Alice owns things, Bob has his own, Charlie is an outsider, Dora administers."""

from __future__ import annotations

from tracker_site.accounts.models import User

PASSWORD = "correct horse battery"


def make_user(name: str, **traits: bool) -> User:
    return User.objects.create_user(name, password=PASSWORD, **traits)


def make_admin(name: str) -> User:
    return make_user(name, is_staff=True, is_superuser=True)
