"""Users, API keys and node tokens.

Invariants: a row holds the digest of its secret, never the secret. A revoked secret is never valid again. If a user is
inactive, none of their secrets is valid. `last_used_at` is exact to a minute, so that a busy key costs one write a
minute.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Self

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.utils import timezone

from tracker_site.accounts.bearer import SHOWN_CHARACTERS, digest_of, draw_secret, is_plausible

if TYPE_CHECKING:
    from datetime import datetime

LAST_USED_PRECISION = timedelta(minutes=1)
NAME_CHARACTERS = 64


class User(AbstractUser):
    """A person who chats, calls the API, runs nodes or administers the site.

    It is our own model since the first migration, because Django cannot replace its user model later.
    """

    class Meta(AbstractUser.Meta):
        """Sets the name that the admin shows for a user."""

        verbose_name = "user"


class BearerSecret(models.Model):
    """Base class of API keys and node tokens. Each subclass sets `KIND`, the prefix of its secrets."""

    KIND: ClassVar[str]

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="%(class)ss")
    name = models.CharField(max_length=NAME_CHARACTERS)
    shown_prefix = models.CharField(max_length=SHOWN_CHARACTERS, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        """Each subclass has a table of its own; the newest rows come first."""

        abstract = True
        ordering: ClassVar[list[str]] = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.shown_prefix}...)"

    @classmethod
    def _rows(cls) -> models.QuerySet[Self]:
        return cls._default_manager.all()

    @classmethod
    def of(cls, user: User) -> models.QuerySet[Self]:
        """Return all API keys, or all node tokens, of a user, the newest first."""
        return cls._rows().filter(user=user)

    @classmethod
    def issue(cls, user: User, name: str) -> tuple[Self, str]:
        """Create a row with a new secret.

        Returns:
            The row and the secret, which is not stored and cannot be shown again.
        """
        drawn = draw_secret(cls.KIND)
        row = cls._rows().create(
            user=user,
            name=name.strip()[:NAME_CHARACTERS] or "unnamed",
            shown_prefix=drawn.shown_prefix,
            digest=drawn.digest,
        )
        return row, drawn.raw

    @classmethod
    def find(cls, raw: str) -> Self | None:
        """Return the row of a valid secret, with its user loaded; None if there is no such row. Writes nothing."""
        if not is_plausible(raw, cls.KIND):
            return None
        usable = cls._rows().filter(revoked_at=None, user__is_active=True)
        return usable.select_related("user").filter(digest=digest_of(raw)).first()

    def is_use_due(self, now: datetime) -> bool:
        """Return whether `note_use` would store `now`, because the stored time is missing or over a minute old."""
        return self.last_used_at is None or self.last_used_at < now - LAST_USED_PRECISION

    def note_use(self, now: datetime) -> None:
        """Store `now` as the time of the last use; do nothing if a time within the last minute is stored."""
        if not self.is_use_due(now):
            return
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - LAST_USED_PRECISION)
        self._rows().filter(stale, pk=self.pk).update(last_used_at=now)
        self.last_used_at = now

    def revoke(self) -> bool:
        """Revoke the secret for good; return False if it was revoked before."""
        now = timezone.now()
        changed = self._rows().filter(pk=self.pk, revoked_at=None).update(revoked_at=now)
        self.refresh_from_db(fields=["revoked_at"])
        return bool(changed)


class ApiKey(BearerSecret):
    """A key with which programs of its user call the OpenAI API."""

    KIND = "mk"

    class Meta(BearerSecret.Meta):
        """Sets the name that the admin shows for an API key."""

        abstract = False
        verbose_name = "API key"


class NodeToken(BearerSecret):
    """A token with which nodes of its user enrol; a node needs it only to enrol, not to connect later."""

    KIND = "mt"
