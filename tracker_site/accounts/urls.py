"""URLs of accounts."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path, re_path

from tracker_site.accounts import views

app_name = "accounts"

urlpatterns = [
    path("", views.overview, name="overview"),
    path("login/", views.SignInView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("register/", views.RegisterView.as_view(), name="register"),
    re_path(r"^(?P<kind>keys|tokens)/$", views.issue_secret, name="issue_secret"),
    re_path(r"^(?P<kind>keys|tokens)/(?P<pk>[0-9]{1,18})/revoke/$", views.revoke_secret, name="revoke_secret"),
]
