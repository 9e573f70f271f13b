"""URLs of the catalogue."""

from __future__ import annotations

from django.urls import path, register_converter

from tracker_site.catalog import views


class DigestConverter:
    """Lets a URL hold a SHA-256 as 64 lower-case hex digits."""

    regex = "[0-9a-f]{64}"

    def to_python(self, value: str) -> str:
        """Return the digest unchanged."""
        return value

    def to_url(self, value: str) -> str:
        """Return the digest unchanged."""
        return value


register_converter(DigestConverter, "digest")

app_name = "catalog"

urlpatterns = [path("<digest:digest>/golden/<int:layer_begin>/<int:layer_end>", views.golden, name="golden")]
