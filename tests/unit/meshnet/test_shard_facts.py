"""The one definition of a shard's facts: every field survives JSON, and a row from before a field is still read."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.frame import Codec
from meshnet.shard_facts import (
    STATE_MESSAGES,
    Carrier,
    NodeReach,
    NodeState,
    ShardFigures,
    ShardIdentity,
    facts_from_json,
    facts_to_json,
)
from meshnet.v1 import control_pb2

IDENTITY = ShardIdentity(
    artifact_digest=b"a" * 32, architecture="llama", layer_begin=0, layer_end=15, n_layers=30,
    contract_digest=b"\xff" * 32,
    exact_class=b"\x00\x80", context_length=8192, vocab_size=49152, needs_token_ids=True, seam_bytes_per_row=2304,
    codecs=frozenset({Codec.BF16, Codec.Q8_0}), recipe="llama.cpp",
)  # fmt: skip
FIGURES = ShardFigures(0.5, 0.01, 2.0, 8192, 4096, 8, 3)


def test_every_fact_survives_json() -> None:
    document = json.loads(json.dumps(facts_to_json(IDENTITY, FIGURES)))
    assert facts_from_json(ShardIdentity, document) == IDENTITY
    assert facts_from_json(ShardFigures, document) == FIGURES
    names = [field.name for facts in (IDENTITY, FIGURES) for field in fields(facts)]
    assert len(names) == len(set(names)) == len(document) >= 20  # no fact hides another
    # The control: each value above differs from its default, so a fact that got lost would show.
    defaults = {**facts_to_json(ShardIdentity(), ShardFigures())}
    assert [name for name in names if document[name] == defaults[name]] == ["layer_begin"]


@pytest.mark.parametrize("name", ["recipe", "codecs", "exact_class"])
def test_a_row_without_a_fact_has_its_default(name: str) -> None:
    document = facts_to_json(IDENTITY)
    del document[name]
    read = facts_from_json(ShardIdentity, {**document, "unknown": 1})
    assert getattr(read, name) == getattr(ShardIdentity(), name)


@given(max_sessions=st.integers(0, 9), sessions=st.integers(0, 9))
def test_sessions_that_are_free_are_never_negative(max_sessions: int, sessions: int) -> None:
    assert ShardFigures(max_sessions=max_sessions, sessions=sessions).sessions_free == max(0, max_sessions - sessions)


def test_every_state_has_its_message() -> None:
    told = {value for name, value in control_pb2.NodeReport.State.items() if name != "STATE_UNSPECIFIED"}
    assert set(STATE_MESSAGES) == set(NodeState)
    assert set(STATE_MESSAGES.values()) == told


@pytest.mark.parametrize(
    ("reach", "is_dialable", "has_link"),
    [
        (NodeReach(), False, False),
        (NodeReach(link_address="h:1", link_fingerprint=b"f"), True, True),
        (NodeReach(Carrier.RELAY, "h:1", b"f"), False, True),
        (NodeReach(Carrier.DIRECT, "", b"f"), False, True),
    ],
)
def test_who_may_be_dialled(reach: NodeReach, *, is_dialable: bool, has_link: bool) -> None:
    assert (reach.is_dialable, reach.has_link) == (is_dialable, has_link)
