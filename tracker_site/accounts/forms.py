"""Forms of the account pages."""

from __future__ import annotations

from typing import ClassVar

from django import forms
from django.contrib.auth.forms import UserCreationForm

from tracker_site.accounts.models import NAME_CHARACTERS, User


class RegistrationForm(UserCreationForm):
    """The form that asks a new user for name and password. `RegisterView` shows it only if registration is open."""

    class Meta(UserCreationForm.Meta):
        """Uses our `User` in place of Django's."""

        model = User
        fields: ClassVar[tuple[str, ...]] = ("username",)


class SecretNameForm(forms.Form):
    """The form that asks for the name of a new API key or node token."""

    name = forms.CharField(max_length=NAME_CHARACTERS, strip=True)
