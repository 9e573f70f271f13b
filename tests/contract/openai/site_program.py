"""The site under Daphne with fake routes, for tests that need a real server: `python site_program.py DATA_DIRECTORY`.

Prints one JSON line when it listens. What a route does is chosen by the model's name, so that a client can ask for
every fault.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "shared")]

if TYPE_CHECKING:
    from tests.simulators.fake_route import FakeRoute, Script
    from tracker_site.routes.planning.request import RouteRequest

N_LAYERS = 2
CONTEXT_LENGTH = 32_768
# What a model may well write; a page must show it and nothing more.
HOSTILE_ANSWER = """\
<script>document.title='taken'</script><img src=x onerror="document.title='taken'">

**bold** [link](javascript:document.title='taken') ![image](https://example.invalid/x.png) <b>not bold</b>

```html
<iframe src="javascript:document.title='taken'"></iframe>
```
<style>body { display: none }</style>
"""


def scripts() -> dict[str, Script]:
    """What happens, by the model's name."""
    from meshnet.errors import RouteError
    from tests.simulators.fake_route import Script, StageLostError

    alphabet = list("abcdefghijklmnopqrstuvwxyz🙂漢 ".encode())
    no_route = RouteError("no_route", "No route", "No live node serves layers 0-1 of 2.")
    return {
        "fake": Script(),
        "alphabet": Script(token_ids=alphabet),
        "ends": Script(token_ids=[*b"hello", 257]),
        "slow": Script(token_ids=alphabet, step_s=0.02),
        "endless": Script(token_ids=list(b"x" * 64)),
        "lost": Script(token_ids=alphabet, fail_at=5, failure=StageLostError(1)),
        "lost-early": Script(fail_at=0, failure=StageLostError(0)),
        "no-route": Script(refuse=no_route),
        "stalled": Script(stall_at=3),
        "hostile": Script(token_ids=[*HOSTILE_ANSWER.encode(), 257]),
    }


class ScriptedRoutes:
    """Routes by model."""

    def __init__(self) -> None:
        from tests.simulators.fake_route import FakeRoutes

        self._routes = {
            _digest(index): FakeRoutes(owner_ids=(1, 1), script=script)
            for index, script in enumerate(scripts().values())
        }

    async def open_route(self, request: RouteRequest) -> FakeRoute:
        return await self._routes[request.artifact_digest].open_route(request)

    async def warm_up(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        for routes in self._routes.values():
            await routes.close()


def _digest(index: int) -> bytes:
    return bytes([index]) * 32


def _fill_database() -> dict[str, str]:
    """Users, keys, models; returns the secrets."""
    from tracker_site.accounts.models import ApiKey, User
    from tracker_site.billing.ledger import grant
    from tracker_site.catalog.models import Model

    alice, poor, bob, gone = (
        User.objects.create_user(name, password="a long pass phrase") for name in ("alice", "poor", "bob", "gone")
    )
    for user in (alice, bob, gone):
        grant(user, 10**12, idempotency_key=f"start:{user.pk}")
    for index, name in enumerate(scripts()):
        Model.objects.create(
            name=name, artifact_digest=_digest(index).hex(), architecture="fake", n_layers=N_LAYERS,
            context_length=CONTEXT_LENGTH, vocab_size=260, size_bytes=1, vocabulary_file="unused", end_tokens=[257],
            prompt_micros=1_000_000, completion_micros=10_000_000,
        )  # fmt: skip
    Model.objects.create(
        name="unlisted", artifact_digest="f" * 64, architecture="fake", n_layers=2, context_length=64, vocab_size=260,
        size_bytes=1, vocabulary_file="unused", end_tokens=[257], is_listed=False,
    )  # fmt: skip
    revoked, revoked_secret = ApiKey.issue(alice, "revoked")
    revoked.revoke()
    keys = {user.username: ApiKey.issue(user, "test")[1] for user in (alice, poor, bob, gone)}
    gone.is_active = False
    gone.save()
    return keys | {"revoked": revoked_secret}


def main() -> None:
    os.environ["MESHNET_SITE_DATA"] = sys.argv[1]
    os.environ["DJANGO_SETTINGS_MODULE"] = "tracker_site.config.settings"
    from tracker_site.ops.server import bind

    listening = bind("127.0.0.1", 0, "--port")
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    keys = _fill_database()

    from tracker_site.config.asgi import application
    from tracker_site.gateway.composition import composition
    from tracker_site.ops.backpressure import BackpressureServer

    composition.use_routes(ScriptedRoutes)
    host, port = listening.getsockname()[:2]
    server = BackpressureServer(
        application,
        endpoints=[f"fd:fileno={listening.fileno()}"],
        verbosity=0,
        ready_callable=lambda: print(json.dumps({"url": f"http://{host}:{port}", "keys": keys}), flush=True),
    )
    server.run()


if __name__ == "__main__":
    main()
