"""Admin pages of users, API keys and node tokens.

Invariant: users make API keys and node tokens for themselves only; an administrator can list and revoke them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin

from tracker_site.accounts.models import ApiKey, BearerSecret, NodeToken, User

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

admin.site.site_header = "Meshnet"
admin.site.site_title = "Meshnet"
admin.site.index_title = "Site"


@admin.register(User)
class PersonAdmin(UserAdmin):
    """The admin pages of users. An inactive user cannot sign in, and the site refuses their keys and nodes."""

    list_display = ("username", "is_active", "is_staff", "is_superuser", "date_joined", "last_login")
    list_filter = ("is_active", "is_staff", "is_superuser", "date_joined")
    actions = ("activate", "deactivate")

    @admin.action(description="Deactivate: block sign-in, API keys and nodes", permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Deactivate the chosen users, except the administrator who asks."""
        changed = queryset.exclude(username=request.user.get_username()).update(is_active=False)
        self.message_user(request, f"Deactivated {changed} user(s).", messages.SUCCESS)

    @admin.action(description="Activate", permissions=["change"])
    def activate(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Activate the chosen users again."""
        self.message_user(request, f"Activated {queryset.update(is_active=True)} user(s).", messages.SUCCESS)


@admin.register(ApiKey, NodeToken)
class BearerSecretAdmin(admin.ModelAdmin):
    """A read-only admin list of API keys or of node tokens; its one action revokes the chosen rows."""

    list_display = ("name", "shown_prefix", "user", "created_at", "last_used_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter), "created_at")
    list_select_related = ("user",)
    search_fields = ("name", "shown_prefix", "user__username")
    readonly_fields = ("user", "name", "shown_prefix", "created_at", "last_used_at", "revoked_at")
    actions = ("revoke_selected",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: users make their own secrets."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: BearerSecret | None = None) -> bool:
        """Return False: revoked rows stay, so that a refused secret can be traced to its owner."""
        return False

    @admin.action(description="Revoke", permissions=["change"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[BearerSecret]) -> None:
        """Revoke the chosen secrets, and show the number of those that were not revoked before."""
        revoked = sum(row.revoke() for row in queryset)
        self.message_user(request, f"Revoked {revoked} of {queryset.count()} chosen.", messages.SUCCESS)
