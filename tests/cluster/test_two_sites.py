"""One site served by two processes: whichever is asked, it knows all nodes, and the ledger adds up."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.cluster.conftest import PLANS
from tests.cluster.sites import Sites
from tests.e2e.answers import Stream, a_chat, a_long_chat
from tests.e2e.processes import until
from tests.e2e.stack import COMPLETION_MICROS, CREDITS, PROMPT_MICROS, USER, Stack
from tracker_site.billing.holds import HOLD_LEASE

if TYPE_CHECKING:
    import psycopg

pytestmark = [pytest.mark.cluster, pytest.mark.native, pytest.mark.timeout(240)]

N_NODES = sum(len(plans) for plans in PLANS.values())
MICROS_PER_CREDIT = 1_000_000
AT_ONCE = 4
LONG_ANSWER_TOKENS = 30_000  # see `a_long_chat`
# What is left of a killed site: the lease of its holds, and the turn of the job that looks for them.
ORPHANED_S = HOLD_LEASE.total_seconds() + 30
RECONNECT_S = 20.0
# More tokens than may be on their way between a stage and a client that reads.
BUFFERED = 200


@pytest.fixture(autouse=True)
def _idle(sites: Sites) -> Iterator[None]:
    sites.until_idle()
    yield
    sites.until_idle()


def connected(sites: Sites) -> psycopg.Connection:
    # Imported here, since only `make cluster` installs it, and the module is collected in every run.
    import psycopg

    return psycopg.connect(sites.servers.database_url)


def rows(sites: Sites, query: str) -> list[tuple[Any, ...]]:
    """Query the database as its owner, beside the site."""
    with connected(sites) as connection:
        found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
        return found


def spent_micros(sites: Sites) -> int:
    """What the user no longer has."""
    query = (
        "SELECT account.balance_micros FROM billing_account account JOIN accounts_user person "
        f"ON person.id = account.user_id WHERE person.username = '{USER}' AND account.kind = 'credits'"
    )
    ((balance_micros,),) = rows(sites, query)
    return CREDITS * MICROS_PER_CREDIT - int(balance_micros)


def test_the_database_is_postgresql_and_has_every_migration(sites: Sites) -> None:
    ((version,),) = rows(sites, "SELECT version()")
    applied = rows(sites, "SELECT app, name FROM django_migrations")
    again = sites.a.command("migrate")
    print(f"{version}: {len(applied)} migrations; again: {again}")
    assert str(version).startswith("PostgreSQL")
    assert {"accounts", "billing", "catalog", "gateway", "nodes"} <= {app for app, _ in applied}
    assert rows(sites, "SELECT app, name FROM django_migrations") == applied


@pytest.mark.parametrize("statement", ["UPDATE billing_transfer SET amount_micros = 1", "DELETE FROM billing_transfer"])
def test_the_database_itself_keeps_transfers_as_they_were_booked(sites: Sites, statement: str) -> None:
    before = sites.a.audit()
    with connected(sites) as connection, pytest.raises(Exception, match="transfers are immutable"):
        connection.execute(statement)
    assert sites.a.audit() == before


def test_both_know_all_nodes(sites: Sites) -> None:
    for site in (sites.a, sites.b):
        figures = site.metrics()
        assert figures["nodes_present"] == {"serving": N_NODES}
        assert (figures["shards"], figures["shards_mismatched"]) == (N_NODES, 0)


@pytest.mark.parametrize("model", list(PLANS))
@pytest.mark.parametrize("asked", ["a", "b"])
def test_an_answer_streams_wherever_its_nodes_are_connected(sites: Sites, asked: str, model: str) -> None:
    site, other = sites.named(asked), sites.named("b" if asked == "a" else "a")
    before_micros = spent_micros(sites)
    with site.client.stream(a_long_chat(model) | {"max_tokens": 64}) as stream:
        stream.read_to_end()
    assert stream.is_done, stream.error
    assert stream.deltas == 64
    assert len(stream.stages) == len(PLANS[model])
    # Settled by one, told by both.
    record = site.client.record(stream.generation_id)
    assert other.client.record(stream.generation_id) == record
    usage = record["usage"]
    charge_micros = usage["prompt_tokens"] * PROMPT_MICROS + usage["completion_tokens"] * COMPLETION_MICROS
    assert record["charge_micros"] == charge_micros
    assert spent_micros(sites) - before_micros == charge_micros


def test_a_client_that_leaves_one_site_frees_a_node_of_the_other(sites: Sites) -> None:
    with sites.a.client.stream(a_long_chat("at-b")) as stream:
        stream.read_deltas(20)
        assert sites.b.busy_nodes(["bert"])
    sites.b.until_idle(deadline_s=5)


def test_the_ledger_adds_up_when_both_book_at_once(sites: Sites) -> None:
    before_micros, before = spent_micros(sites), sites.a.audit()
    asked = [(site, model) for site in (sites.a, sites.b) for model in PLANS for _ in range(AT_ONCE)]

    def ask(site: Stack, model: str) -> dict[str, Any]:
        def answer() -> requests.Response | None:
            # Of one user only so many may run at a time; the others come again.
            found = site.client.post(a_chat(model, max_tokens=16))
            assert found.status_code in {200, 429}, found.text
            return found if found.status_code == 200 else None

        found = until(answer, f"{model} answers")
        assert found is not None
        return site.client.record(found.headers["X-Request-Id"])

    with ThreadPoolExecutor(AT_ONCE) as threads:
        records = list(threads.map(ask, *zip(*asked, strict=True)))
    charged_micros = sum(record["charge_micros"] for record in records)
    audit = sites.a.assert_settled()
    print(f"{len(records)} answers, {charged_micros} micro-credits, {audit}")
    assert charged_micros > 0
    assert spent_micros(sites) - before_micros == charged_micros
    assert audit["transfers"] > before["transfers"]
    assert sites.b.assert_settled() == audit


def read_what_comes(stream: Stream) -> None:
    """Read to the end; a process that is killed cuts its connections."""
    with contextlib.suppress(requests.RequestException):
        stream.read_to_end()


def until_more(stream: Stream) -> None:
    """Wait for tokens that were computed after this call."""
    seen = stream.deltas
    until(lambda: stream.deltas > seen + BUFFERED, "tokens go on")


def answers(site: Stack, model: str) -> bool:
    """Whether a request is answered; one that is not has a structured error."""
    answer = site.client.post(a_chat(model, max_tokens=4))
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert (answer.status_code, bool(error["message"])) == (503, True), answer.text
        assert error["code"] in {"no_route", "stage_lost"}, answer.text
    return answer.status_code == 200


def serve_again(site: Stack) -> None:
    """Start the process again where it was: its nodes know that address alone."""
    site.serve(int(site.site_url.rsplit(":", 1)[1]), relay_port=None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_site_that_ends_takes_its_own_answers_along_and_the_other_goes_on(
    sites: Sites, number: signal.Signals
) -> None:
    """Three answers: B gives one; A gives one over a node that B holds; A gives one of its own node."""
    assert sites.b.site is not None
    with (
        ThreadPoolExecutor(3) as threads,
        sites.b.client.stream(a_long_chat("at-a")) as through_b,
        sites.a.client.stream(a_long_chat("across")) as held_by_b,
        sites.a.client.stream(a_long_chat("at-a")) as untouched,
    ):
        # All are read all the time, since a client that does not read is dropped.
        reading = [threads.submit(read_what_comes, stream) for stream in (through_b, held_by_b, untouched)]
        for stream in (through_b, held_by_b, untouched):
            until_more(stream)
        os.kill(sites.b.site.pid, number)
        reading[0].result()
        sites.b.site.wait()
        # Tokens come by the relay: neither answer needs the process that is gone.
        until_more(held_by_b)
        assert answers(sites.a, "at-a")
        assert not answers(sites.a, "at-b")

        back_s = time.monotonic()
        serve_again(sites.b)
        # The process that comes back knows of no session, so its node drops the one that it kept.
        for one in reading:
            one.result()
    assert not through_b.is_done
    assert (through_b.error is None) == (number is signal.SIGKILL)
    assert through_b.error is None or through_b.error["code"] == "site_stopping"
    assert held_by_b.error is not None
    assert (held_by_b.error["code"], held_by_b.error["stage"]) == ("stage_lost", 1)
    assert (untouched.is_done, untouched.deltas) == (True, LONG_ANSWER_TOKENS)
    for site in (sites.a, sites.b):
        for model in PLANS:
            until(lambda site=site, model=model: answers(site, model), f"{model} answers", RECONNECT_S)  # type: ignore[misc]
    routable_s = time.monotonic() - back_s
    assert sites.b.metrics()["nodes_present"] == {"serving": N_NODES}

    # Nobody can prove what the killed process delivered: the hold goes back to the user, and there is no record.
    until(lambda: sites.a.metrics()["holds_open"] == 0, "no hold is open", ORPHANED_S)
    settled_s = time.monotonic() - back_s
    audit = sites.a.assert_settled()
    print(
        f"B {number.name}: through B {through_b.error}, held by B {held_by_b.error['message']!r}; "
        f"all routable after {routable_s:.1f} s, settled after {settled_s:.1f} s: {audit}"
    )
    found = sites.a.client.find_record(through_b.generation_id)
    assert found.status_code == (404 if number is signal.SIGKILL else 200)
