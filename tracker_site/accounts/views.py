"""Account pages: registration, sign-in, and making and revoking API keys and node tokens.

Invariants: a user reaches only their own keys and tokens; a request for another user's gets 404. A new secret is in
exactly one response, which no cache may keep. Revoking a secret twice is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST
from django.views.generic import FormView

from tracker_site.accounts.forms import RegistrationForm, SecretNameForm
from tracker_site.accounts.models import ApiKey, BearerSecret, NodeToken, User
from tracker_site.accounts.rate_limit import RateLimit, client_address

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

SECRETS: dict[str, type[BearerSecret]] = {"keys": ApiKey, "tokens": NodeToken}
SECRETS_PER_USER = 100
SIGN_IN_ATTEMPTS_PER_MINUTE = 20  # of one address


def _signed_in(request: HttpRequest) -> User:
    user = request.user
    if not isinstance(user, User):  # login_required guarantees it; this check is for the type checker
        raise TypeError("the view needs login_required")
    return user


@require_GET
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """Show the user's API keys and node tokens."""
    user = _signed_in(request)
    context = {
        "keys": ApiKey.of(user),
        "tokens": NodeToken.of(user),
        "site_url": request.build_absolute_uri("/").rstrip("/"),
    }
    return render(request, "accounts/overview.html", context)


@require_POST
@login_required
@never_cache
def issue_secret(request: HttpRequest, kind: str) -> HttpResponse:
    """Make an API key or node token and show its secret in this response only."""
    user, model = _signed_in(request), SECRETS[kind]
    form = SecretNameForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Give it a name of at most 64 characters, so that you can recognise it later.")
        return redirect("accounts:overview")
    if model.of(user).filter(revoked_at=None).count() >= SECRETS_PER_USER:
        messages.error(request, f"You already have {SECRETS_PER_USER} of these; revoke one first.")
        return redirect("accounts:overview")
    row, raw = model.issue(user, form.cleaned_data["name"])
    site_url = request.build_absolute_uri("/").rstrip("/")
    context = {"row": row, "raw": raw, "is_key": model is ApiKey, "site_url": site_url}
    response = render(request, "accounts/issued.html", context)
    add_never_cache_headers(response)
    return response


@require_POST
@login_required
def revoke_secret(request: HttpRequest, kind: str, pk: int) -> HttpResponse:
    """Revoke one of the user's own keys or tokens."""
    row = get_object_or_404(SECRETS[kind], pk=pk, user=_signed_in(request))
    row.revoke()
    messages.success(request, f"{row.name} is revoked.")
    return redirect("accounts:overview")


class SignInView(LoginView):
    """Django's sign-in page; one address has at most `SIGN_IN_ATTEMPTS_PER_MINUTE` attempts a minute."""

    template_name = "accounts/login.html"

    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Count the attempt; answer 429 if the limit is exceeded, otherwise let Django check the password."""
        if not RateLimit("sign-in", SIGN_IN_ATTEMPTS_PER_MINUTE).admit(client_address(request)):
            return render(request, "accounts/too_many_attempts.html", status=429)
        return super().post(request, *args, **kwargs)


@method_decorator(sensitive_post_parameters(), name="dispatch")
class RegisterView(FormView):
    """Registration of new users. It is refused unless the administrator has opened it."""

    form_class = RegistrationForm
    template_name = "accounts/register.html"

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        """Answer 403 with an explanation if registration is closed."""
        if not settings.OPEN_REGISTRATION:
            return render(request, "accounts/registration_closed.html", status=403)
        return super().dispatch(request, *args, **kwargs)  # type: ignore[return-value]  # stubs say HttpResponseBase

    def form_valid(self, form: RegistrationForm) -> HttpResponse:
        """Create the user and sign them in."""
        login(self.request, form.save())
        return redirect("accounts:overview")
