"""`/healthz` for process supervisors and `/metrics.json` for administrators.

Invariants: neither page shows anything about a single user or request. The health check queries the database each time.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import Error
from django.db.models import Count, Sum
from django.http import JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from meshnet.shard_facts import NodeState
from tracker_site.accounts.authentication import bearer_secret
from tracker_site.billing.models import Account, Hold, Transfer
from tracker_site.catalog.models import Model
from tracker_site.gateway.composition import composition
from tracker_site.nodes.models import LoadedShard, Node

if TYPE_CHECKING:
    from django.http import HttpRequest


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - a view's signature
    """Answer 200 if the database answers, otherwise 503."""
    try:
        Model.objects.exists()
    except Error:
        return JsonResponse({"status": "no_database"}, status=503)
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
async def metrics(request: HttpRequest) -> JsonResponse:
    """Answer with counts; only administrators and holders of the metrics token may ask."""
    if not await sync_to_async(_may_see_metrics)(request):
        return JsonResponse(
            {"error": {"code": "forbidden", "message": "sign in as an administrator or send the metrics token"}},
            status=403,
        )
    return JsonResponse(await sync_to_async(_database_figures)() | _process_figures())


def _process_figures() -> dict[str, int]:
    """Return counts of this process alone; if `tasks` keeps growing, some task is never ended."""
    return {"generations": composition.live_generations, "tasks": len(asyncio.all_tasks())}


def _database_figures() -> dict[str, object]:
    present = Node.objects.filter(lease_expires_at__gt=timezone.now()).exclude(channel_name="")
    by_state = present.order_by().values_list("state").annotate(count=Count("pk"))
    serving = LoadedShard.objects.filter(node__in=present, node__state=NodeState.SERVING)
    return {
        "nodes_enrolled": Node.objects.count(),
        "nodes_present": dict(by_state),
        "shards": serving.count(),
        "shards_mismatched": serving.exclude(problem_code="").count(),
        "sessions": sum(serving.values_list("facts__sessions", flat=True)),
        "models_listed": Model.objects.filter(is_listed=True).count(),
        "holds_open": Hold.objects.filter(state=Hold.State.OPEN).count(),
        "transfers": Transfer.objects.count(),
        "ledger_sum_micros": Account.objects.aggregate(total=Sum("balance_micros"))["total"] or 0,
    }


def _may_see_metrics(request: HttpRequest) -> bool:
    if request.user.is_authenticated and request.user.is_staff:
        return True
    shown, expected = bearer_secret(request.headers), settings.METRICS_TOKEN
    return bool(expected) and shown is not None and secrets.compare_digest(shown.encode(), expected.encode())
