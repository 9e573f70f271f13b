"""Serves static files without moving other requests off the event loop.

Invariant: a request for anything else passes through unchanged and stays asynchronous. WhiteNoise's own middleware is
synchronous, and one synchronous middleware in the chain moves every request, streams included, into a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # WhiteNoise has no types
    """WhiteNoise for synchronous and asynchronous chains of middleware; only a path below STATIC_URL costs a thread."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> object:
        """Answer with a static file, or pass the request on; in an asynchronous chain the result is a coroutine."""
        return self._call_async(request) if self.is_async else super().__call__(request)

    async def _call_async(self, request: HttpRequest) -> object:
        if not request.path_info.startswith(self.static_prefix):
            return await self.get_response(request)
        response = await sync_to_async(self._read, thread_sensitive=False)(request)
        return response if response is not None else await self.get_response(request)

    def _read(self, request: HttpRequest) -> HttpResponse | None:
        static_file = self.find_file(request.path_info) if self.autorefresh else self.files.get(request.path_info)
        if static_file is None:
            return None
        streamed = self.serve(static_file, request)
        try:
            whole = HttpResponse(b"".join(streamed.streaming_content), status=streamed.status_code)
        finally:
            streamed.close()
        del whole["content-type"]
        for name, value in streamed.items():
            whole[name] = value
        return whole
