"""Forms of the account pages."""

from __future__ import annotations

from typing import ClassVar

from django import forms
from django.contrib.auth.forms import UserCreationForm

from tracker_site.accounts.models import NAME_CHARACTERS, User


class RegistrationForm(UserCreationForm):
    """A new user, where the site is open to them."""

    class Meta(UserCreationForm.Meta):
        """Our user, not Django's."""

        model = User
        fields: ClassVar[tuple[str, ...]] = ("username",)


class SecretNameForm(forms.Form):
    """What to call a new key or token."""

    name = forms.CharField(max_length=NAME_CHARACTERS, strip=True)
