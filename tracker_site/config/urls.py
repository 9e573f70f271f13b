"""All URLs of the site."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", include("tracker_site.ops.urls")),
    path("account/", include("tracker_site.accounts.urls")),
    path("account/credits/", include("tracker_site.billing.urls")),
    path("api/nodes/", include("tracker_site.nodes.urls")),
    path("api/models/", include("tracker_site.catalog.urls")),
    path("", RedirectView.as_view(pattern_name="chat:page"), name="start"),
    path("chat/", include("tracker_site.chat.urls")),
    path("v1/", include("tracker_site.openai_api.urls")),
    path("admin/", admin.site.urls),
]

handler400 = "tracker_site.config.refusals.bad_request"
