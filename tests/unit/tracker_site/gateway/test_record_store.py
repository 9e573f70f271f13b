"""Records as they are kept and found: bounded, printable, one's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from meshnet.openai.specification import Face
from meshnet.openai.telemetry import Failure
from tests.site.people import make_user
from tracker_site.gateway.models import MESSAGE_CHARACTERS
from tracker_site.gateway.record_store import _find, _store
from tracker_site.gateway.records import Record
from tracker_site.gateway.settlement import Ending
from tracker_site.routes.planning.request import RouteStage

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

    from tracker_site.accounts.models import User

pytestmark = pytest.mark.django_db


def a_record(user: User) -> Record:
    return Record(
        generation_id="chatcmpl-1", user_id=user.pk, model_name="fake", face=Face.CHAT, ending=Ending.FAILED,
        finish_reason="", prompt_tokens=3, max_tokens=8, completion_tokens=2, charge_micros=5, first_token_ms=7,
        elapsed_ms=9, tokens_per_s=1.5, failure=Failure(code="engine_failed", stage=1, message="it broke"),
        stages=[
            RouteStage("n1", "anna", user.pk, 0, 4, "direct", 128, "bf16"),
            RouteStage("n2", "bert", user.pk, 4, 8, "relay"),
        ],
        shares=[],
    )  # fmt: skip


def test_a_record_is_found_by_its_owner_alone(alice: User) -> None:
    _store(a_record(alice))
    found = _find("chatcmpl-1", alice.pk)
    assert found is not None
    assert [(stage.node_name, stage.layer_begin, stage.layer_end) for stage in found.stages.all()] == [
        ("anna", 0, 4),
        ("bert", 4, 8),
    ]
    assert [stage.seam_codec for stage in found.stages.all()] == ["bf16", ""]
    assert _find("chatcmpl-1", make_user("bob").pk) is None


def test_what_a_node_says_of_its_failure_is_kept_as_one_printable_line(alice: User) -> None:
    """A stranger wrote it; PostgreSQL would refuse a zero byte, and with it the record."""
    said = Failure(code="engine_failed", stage=1, message="zero\0and\x1b[31mred\n" + "x" * 1000)
    _store(replace(a_record(alice), failure=said))
    found = _find("chatcmpl-1", alice.pk)
    assert found is not None
    assert found.failure_message.startswith("zero and [31mred x")
    assert found.failure_message.isprintable()
    assert len(found.failure_message) <= MESSAGE_CHARACTERS


@pytest.mark.parametrize("generation_id", ["\0", "chatcmpl-1\0", "a\nb"])
def test_what_cannot_be_an_id_is_not_looked_for(
    alice: User, django_assert_num_queries: DjangoAssertNumQueries, generation_id: str
) -> None:
    with django_assert_num_queries(0):
        assert _find(generation_id, alice.pk) is None
