from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from meshnet.frame import Codec
from meshnet.shard_facts import NodeState
from meshnet.v1 import frame_pb2
from tests.site import wire
from tests.site.serving import KEY, expire, serve
from tracker_site.nodes import presence
from tracker_site.nodes.models import LoadedShard, Node
from tracker_site.nodes.registry import live_shards
from tracker_site.nodes.reports import parse_report
from tracker_site.routes.node_access import read_offer

if TYPE_CHECKING:
    from tracker_site.accounts.models import User


@pytest.fixture
def node(alice: User) -> Node:
    return Node.objects.create(owner=alice, name="attic", public_key=KEY.hex())


def test_a_connected_node_offers_nothing_before_its_report(node: Node) -> None:
    connected, replaced = presence.connect(KEY, "first", "1.0")
    assert (connected.pk, connected.state, replaced) == (node.pk, NodeState.LOADING, "")
    assert connected.is_present(timezone.now())
    assert live_shards(wire.ARTIFACT) == []


def test_a_report_becomes_an_offer(node: Node, alice: User) -> None:
    serve(KEY, "first", wire.shard(0, 3), wire.shard(3, 8))
    head, tail = live_shards(wire.ARTIFACT)
    offer = read_offer(head)
    shard, figures, reach = offer.shard, offer.figures, offer.reach
    assert (head.layer_begin, head.layer_end, tail.layer_begin, tail.layer_end, shard.n_layers) == (0, 3, 3, 8, 8)
    assert (shard.layer_begin, shard.layer_end, shard.artifact_digest) == (0, 3, wire.ARTIFACT)
    assert (offer.node_id, offer.owner_id, offer.public_key) == (str(node.pk), alice.pk, KEY)
    assert (shard.contract_digest, shard.seam_bytes_per_row, shard.needs_token_ids) == (wire.CONTRACT, 64, True)
    assert (reach.link_address, reach.link_fingerprint, reach.carrier) == ("127.0.0.1:4711", b"f" * 32, "auto")
    assert (figures.kv_cells_free, figures.max_sessions, figures.sessions, reach.data_connected) == (8000, 8, 1, True)
    assert (reach.latency_ms, reach.upload_bytes_per_s) == (12.5, 2_500_000)
    assert live_shards(b"\xff" * 32) == []


def test_an_offer_says_what_is_spoken_and_how_fast_the_line_is(node: Node) -> None:
    shard = wire.shard(0, 3)
    shard.contract.codecs.extend([frame_pb2.CODEC_Q8_0, frame_pb2.CODEC_BF16])
    said = wire.report(shard, wire.shard(3, 8))
    said.upload_bytes_per_s = 2**39
    presence.connect(KEY, "first", "1.0")
    presence.record_report(str(node.pk), "first", parse_report(said), is_same_shards=False)
    head, tail = live_shards(wire.ARTIFACT)
    first, second = read_offer(head), read_offer(tail)
    assert (first.shard.codecs, second.shard.codecs) == ({Codec.BF16, Codec.Q8_0}, frozenset())
    assert {first.reach.upload_bytes_per_s, second.reach.upload_bytes_per_s} == {2**39}


@pytest.mark.parametrize("how", ["lease", "blocked", "owner", "disconnected", "paused"])
def test_what_is_not_live_is_not_offered(node: Node, alice: User, how: str) -> None:
    serve(KEY, "first", wire.shard())
    assert len(live_shards(wire.ARTIFACT)) == 1
    if how == "lease":
        expire(node)
    elif how == "blocked":
        Node.objects.update(is_blocked=True)
    elif how == "owner":
        alice.is_active = False
        alice.save()
    elif how == "disconnected":
        presence.disconnect(str(node.pk), "first", "gone")
    else:
        Node.objects.update(state=NodeState.PAUSED)
    assert live_shards(wire.ARTIFACT) == []


def test_another_range_replaces_the_old_one(node: Node) -> None:
    serve(KEY, "first", wire.shard(0, 3))
    presence.record_report(str(node.pk), "first", parse_report(wire.report(wire.shard(3, 8))), is_same_shards=False)
    assert [(shard.layer_begin, shard.layer_end) for shard in LoadedShard.objects.all()] == [(3, 8)]
    presence.record_report(str(node.pk), "first", parse_report(wire.report()), is_same_shards=False)
    assert not LoadedShard.objects.exists()


def test_new_figures_of_the_same_shard_overwrite_the_old(node: Node) -> None:
    serve(KEY, "first", wire.shard())
    first = LoadedShard.objects.get()
    busy = wire.shard()
    busy.sessions, busy.kv_cells_free = 7, 1
    presence.record_report(str(node.pk), "first", parse_report(wire.report(busy)), is_same_shards=True)
    now = LoadedShard.objects.get()
    assert (now.pk, now.first_seen_at) == (first.pk, first.first_seen_at)
    assert (now.figures.sessions, now.figures.kv_cells_free) == (7, 1)


def test_a_second_connection_replaces_the_first_which_is_then_powerless(node: Node) -> None:
    serve(KEY, "first", wire.shard())
    _, replaced = presence.connect(KEY, "second", "1.1")
    assert replaced == "first"
    report = parse_report(wire.report())
    assert not presence.record_report(str(node.pk), "first", report, is_same_shards=False)
    assert not presence.disconnect(str(node.pk), "first", "gone")
    node.refresh_from_db()
    assert (node.channel_name, node.software_version) == ("second", "1.1")
    assert LoadedShard.objects.count() == 1


def test_disconnecting_says_why_and_counts_once(node: Node) -> None:
    serve(KEY, "first", wire.shard())
    assert presence.disconnect(str(node.pk), "first", "the control connection closed (1006)")
    assert not presence.disconnect(str(node.pk), "first", "again")
    node.refresh_from_db()
    assert (node.state, node.reason) == (Node.OFFLINE, "the control connection closed (1006)")
    assert presence.current_channel(str(node.pk)) == ""


def test_leases_expire_by_the_sites_clock(node: Node) -> None:
    serve(KEY, "first", wire.shard())
    assert presence.expire_leases() == 0
    expire(node)
    assert presence.current_channel(str(node.pk)) == ""
    assert presence.expire_leases() == 1
    assert presence.expire_leases() == 0
    node.refresh_from_db()
    assert (node.state, node.reason) == (Node.OFFLINE, "no report within the lease")


def test_a_restarted_site_forgets_connections(node: Node) -> None:
    serve(KEY, "first", wire.shard())
    assert presence.forget_connections() == 1
    assert presence.forget_connections() == 0
    assert live_shards(wire.ARTIFACT) == []


@pytest.mark.django_db
def test_a_key_nobody_enrolled_cannot_connect() -> None:
    with pytest.raises(presence.NodeUnknownError):
        presence.connect(KEY, "first", "1.0")


def test_a_blocked_node_and_one_of_an_inactive_user_cannot_connect(node: Node, alice: User) -> None:
    Node.objects.update(is_blocked=True)
    with pytest.raises(presence.NodeBlockedError):
        presence.connect(KEY, "first", "1.0")
    Node.objects.update(is_blocked=False)
    alice.is_active = False
    alice.save()
    with pytest.raises(presence.NodeUnknownError):
        presence.connect(KEY, "first", "1.0")


def test_a_node_that_was_turned_away_says_why_unless_it_is_here_after_all(node: Node) -> None:
    assert presence.note_unusable(KEY, "0.9", "versions differ")
    node.refresh_from_db()
    assert (node.reason, node.software_version, node.last_seen_at is None) == ("versions differ", "0.9", False)
    serve(KEY, "first", wire.shard())
    assert not presence.note_unusable(KEY, "0.9", "versions differ")
    assert not presence.note_unusable(b"\x02" * 32, "0.9", "nobody's")
