"""A node's control connection with the real consumer, channel layer and database."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from meshnet.ids import SessionKey
from meshnet.keys import SigningKey
from meshnet.v1 import control_pb2
from tests.integration.tracker_site.control_plane.node_end import DEADLINE_S, KEY, NodeEnd, eventually
from tests.site import wire
from tests.site.people import make_model
from tracker_site import database
from tracker_site.billing.ledger import account_of
from tracker_site.billing.models import Account
from tracker_site.catalog.models import Model
from tracker_site.control_plane import control
from tracker_site.control_plane.consumers import CLOSE_REFUSED
from tracker_site.control_plane.control import StageError, StageNews
from tracker_site.nodes import presence
from tracker_site.nodes.models import Node
from tracker_site.nodes.refusals import ControlRefusalCode
from tracker_site.nodes.registry import live_shards

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db(transaction=True)


async def fetch(node: Node) -> Node:
    return await database.read(Node.objects.get, pk=node.pk)


async def is_live() -> bool:
    return len(await database.read(live_shards, wire.ARTIFACT)) == 1


async def news_of(channel: str) -> StageNews:
    async with asyncio.timeout(DEADLINE_S):
        return await control.receive_news(channel)


async def no_news(channel: str) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await control.receive_news(channel)


@asynccontextmanager
async def serving() -> AsyncIterator[NodeEnd]:
    async with NodeEnd(KEY) as end:
        await end.serve()
        yield end


def opening(
    node: Node, channel: str = "unread", *, timeout_s: float = DEADLINE_S, **names: object
) -> asyncio.Task[object]:
    stage = wire.open_stage(**names)  # type: ignore[arg-type]
    return asyncio.create_task(control.open_stage(str(node.pk), stage, reply_channel=channel, timeout_s=timeout_s))


async def open_session(node: Node, end: NodeEnd, channel: str, session: bytes = wire.SESSION) -> None:
    task = opening(node, channel, session=session)
    await end.accept_stage()
    await task


async def close_session(node: Node, session: bytes = wire.SESSION) -> None:
    await control.close_stage(str(node.pk), session, 1, "done")


class TestPresence:
    async def report(self, end: NodeEnd, report_id: int) -> None:
        report = wire.report(wire.shard())
        report.report_id = report_id
        await end.send(report=report)
        assert (await end.receive()).stored.report_id == report_id

    async def test_a_report_is_confirmed_once_it_can_be_planned_with(self, node: Node) -> None:
        async with NodeEnd(KEY) as end:
            await end.greet()
            report = wire.report(wire.shard())
            report.report_id = 7
            await end.send(report=report)
            assert (await end.receive()).stored.report_id == 7
            assert await is_live()

    async def test_a_node_is_told_what_its_owner_earned_now_and_then(self, node: Node) -> None:
        account = await database.write(account_of, node.owner_id, Account.Kind.EARNINGS)
        account.balance_micros = 1_500_000
        await database.write(account.save)
        async with NodeEnd(KEY) as end:
            await end.greet()
            told = []
            for report_id in (1, 2):
                report = wire.report(wire.shard())
                report.report_id = report_id
                await end.send(report=report)
                told.append((await end.receive()).stored)
        assert told[0].earned_micros == 1_500_000
        assert not told[1].HasField("earned_micros")

    async def test_a_node_is_welcomed_and_offered(self, node: Node, settings: SettingsWrapper) -> None:
        async with NodeEnd(KEY) as end:
            welcome = (await end.greet()).welcome
            assert welcome.node_id == str(node.pk)
            assert (welcome.relay_url, welcome.heartbeat_ms) == (settings.RELAY_URL, settings.CONTROL_HEARTBEAT_MS)
            assert len(welcome.site_public_key) == 32
            assert not await is_live()
            await end.send(report=wire.report(wire.shard()))
            await eventually(is_live)
        assert not await is_live()
        gone = await fetch(node)
        assert (gone.state, gone.reason, gone.channel_name) == ("offline", "the control connection closed (1001)", "")

    async def test_only_the_newest_report_counts(self, node: Node) -> None:
        async with serving() as end:
            for sessions in range(1, 8):
                shard = wire.shard()
                shard.sessions = sessions
                await end.send(report=wire.report(shard))

            async def newest_is_stored() -> bool:
                return [shard.figures.sessions for shard in await database.read(live_shards, wire.ARTIFACT)] == [7]

            await eventually(newest_is_stored)

    async def test_a_shard_of_no_model_is_told_so_once_and_told_again_when_it_is_mended(self, node: Node) -> None:
        await database.write(Model.objects.all().delete)
        async with serving() as end:
            notice = (await end.receive()).notice
            assert notice.code == "artifact_unknown"
            assert "damaged, incomplete or another quantisation" in notice.message
            await self.report(end, 1)
            await database.write(make_model)
            await self.report(end, 2)
            mended = await end.receive()
            assert (mended.WhichOneof("body"), mended.notice.code, mended.notice.message) == ("notice", "", "")

    async def test_a_node_of_other_wire_versions_is_turned_away_and_the_admin_knows_why(self, node: Node) -> None:
        async with NodeEnd(KEY) as end:
            hello = wire.hello(KEY, (await end.receive()).challenge.nonce)
            hello.hello.wire_version_min = hello.hello.wire_version_max = 99
            await end.socket.send_to(bytes_data=hello.SerializeToString())
            assert await end.refused() == "version_mismatch"

        async def is_noted() -> bool:
            return (await fetch(node)).reason.startswith("the site speaks wire versions 1 to 1, the node 99 to 99")

        await eventually(is_noted)

    async def test_a_second_connection_replaces_the_first(self, node: Node) -> None:
        channel = await control.new_reply_channel()
        async with serving() as first:
            await open_session(node, first, channel)
            async with NodeEnd(KEY) as second:
                welcome = (await second.greet((wire.SESSION, 1))).welcome
                assert [ref.session for ref in welcome.keep] == [wire.SESSION]
                assert await first.refused() == "replaced"
                await first.leave()
                await no_news(channel)
                assert (await fetch(node)).channel_name != ""
                await close_session(node)
                assert (await second.receive()).WhichOneof("body") == "close"

    async def test_silence_ends_the_lease(self, node: Node, settings: SettingsWrapper) -> None:
        settings.CONTROL_LEASE_MS = 100
        async with serving() as end:
            assert await end.refused() == "lease_expired"
        assert (await fetch(node)).state == "offline"

    async def test_the_end_leaves_no_task(self, node: Node) -> None:
        async with serving():
            await eventually(is_live)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert others == set()

    async def test_a_cancelled_connection_is_recorded_as_gone(self, node: Node) -> None:
        channel = await control.new_reply_channel()
        async with serving() as end:
            await open_session(node, end, channel)
            end.socket.future.cancel()
            news = await news_of(channel)
            assert (news.kind, news.code) == ("node_gone", "stage_lost")
        assert (await fetch(node)).reason == "the control connection was cut off"
        await close_session(node)


class TestRefusals:
    async def test_an_unknown_key(self, node: Node) -> None:
        async with NodeEnd(SigningKey.from_bytes(b"x" * 32)) as end:
            assert (await end.greet()).refusal.code == "unknown_node"
            assert await end.closed() == CLOSE_REFUSED
        assert (await fetch(node)).last_seen_at is None

    async def test_a_blocked_node(self, node: Node) -> None:
        await database.write(Node.objects.update, is_blocked=True)
        async with NodeEnd(KEY) as end:
            assert (await end.greet()).refusal.code == "node_blocked"

    async def test_somebody_elses_signature(self, node: Node) -> None:
        thief = SigningKey.from_bytes(b"x" * 32)
        async with NodeEnd(KEY) as end:
            hello = wire.hello(thief, (await end.receive()).challenge.nonce)
            hello.hello.public_key = KEY.public_key
            await end.send(hello=hello.hello)
            assert await end.refused() == "bad_signature"

    async def test_a_replayed_hello(self, node: Node) -> None:
        async with NodeEnd(KEY) as first:
            recorded = wire.hello(KEY, (await first.receive()).challenge.nonce)
        async with NodeEnd(KEY) as end:
            await end.receive()
            await end.send(hello=recorded.hello)
            assert await end.refused() == "bad_signature"

    @pytest.mark.parametrize(
        ("data", "code"),
        [(b"\xff\xff", "malformed"), (b"\0" * 300_000, "message_too_large"), ("text", "malformed")],
        ids=["garbage", "oversize", "text"],
    )
    async def test_what_is_no_message(self, node: Node, data: bytes | str, code: str) -> None:
        async with serving() as end:
            field = "text_data" if isinstance(data, str) else "bytes_data"
            await end.socket.send_to(**{field: data})
            assert await end.refused() == code
        assert (await fetch(node)).state == "offline"

    async def test_a_report_before_the_hello(self, node: Node) -> None:
        async with NodeEnd(KEY) as end:
            await end.receive()
            await end.send(report=wire.report())
            assert await end.refused() == "unexpected_message"

    async def test_no_hello_in_time(self, node: Node, settings: SettingsWrapper) -> None:
        settings.CONTROL_HELLO_TIMEOUT_S = 0.05
        async with NodeEnd(KEY) as end:
            await end.receive()
            assert await end.refused() == "hello_timeout"

    async def test_an_administrator_blocks_a_connected_node(self, node: Node) -> None:
        async with serving() as end:
            await control.drop_connection(str(node.pk), ControlRefusalCode.NODE_BLOCKED, "blocked")
            assert await end.refused() == "node_blocked"
        await control.drop_connection(str(node.pk), ControlRefusalCode.NODE_BLOCKED, "nobody there")


class TestStages:
    async def test_a_stage_is_opened_and_closed(self, node: Node) -> None:
        channel = await control.new_reply_channel()
        async with serving() as end:
            task = opening(node, channel)
            asked = await end.accept_stage()
            assert (asked.spec.session, asked.artifact_digest) == (wire.SESSION, wire.ARTIFACT)
            opened = await task
            assert isinstance(opened, control_pb2.StageOpened)
            assert opened.contract == wire.contract()
            for _ in range(2):  # closing is idempotent
                await close_session(node)
                close = (await end.receive()).close
                assert (close.session, close.epoch, close.reason) == (wire.SESSION, 1, "done")
        await no_news(channel)

    async def test_a_refusal_carries_the_nodes_code(self, node: Node) -> None:
        async with serving() as end:
            task = opening(node, stage=3)
            request_id = (await end.receive()).open.request_id
            await end.send(refused=control_pb2.StageRefused(request_id=request_id, code="kv_exhausted", message="full"))
            with pytest.raises(StageError) as caught:
                await task
        error = caught.value
        assert (error.code, error.message, error.title) == ("kv_exhausted", "full", "No KV cells left")
        assert (error.node_id, error.stage) == (str(node.pk), 3)

    async def test_no_answer_in_time(self, node: Node) -> None:
        async with serving() as end:
            began = time.monotonic()
            task = opening(node, timeout_s=0.1)
            request_id = (await end.receive()).open.request_id
            with pytest.raises(StageError) as caught:
                await task
            assert caught.value.code == "stage_lost"
            assert time.monotonic() - began < 2.0
            # What the node opens all the same is closed again.
            await end.send(opened=control_pb2.StageOpened(request_id=request_id))
            assert (await end.receive()).close.session == wire.SESSION

    async def test_a_cancelled_caller_leaves_nothing_open(self, node: Node) -> None:
        async with serving() as end:
            task = opening(node)
            request_id = (await end.receive()).open.request_id
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await end.receive()).close.session == wire.SESSION
            await end.send(opened=control_pb2.StageOpened(request_id=request_id))
            assert (await end.receive()).close.session == wire.SESSION

    async def test_an_absent_node(self, node: Node) -> None:
        with pytest.raises(StageError, match="not connected"):
            await opening(node)
        await close_session(node)

    async def test_a_node_that_goes_away_before_it_answers(self, node: Node) -> None:
        async with serving() as end:
            task = opening(node)
            await end.receive()
            await end.leave()
            with pytest.raises(StageError) as caught:
                await task
            assert caught.value.code == "stage_lost"

    async def test_many_at_once_answered_in_any_order(self, node: Node) -> None:
        sessions = [bytes([number]) * 16 for number in range(50)]
        async with serving() as end:
            tasks = [opening(node, session=session) for session in sessions]
            asked = [(await end.receive()).open for _ in sessions]
            for one in reversed(asked):
                await end.send(opened=control_pb2.StageOpened(request_id=one.request_id))
            await asyncio.gather(*tasks)
            for session in sessions:
                await close_session(node, session)

    async def test_a_session_that_ends_by_itself_is_news_once(self, node: Node) -> None:
        channel = await control.new_reply_channel()
        async with serving() as end:
            await open_session(node, end, channel)
            ended = control_pb2.StageEnded(session=wire.SESSION, epoch=1, stage=1, code="idle", message="60 s")
            for _ in range(2):
                await end.send(ended=ended)
            news = await news_of(channel)
            assert news == StageNews("stage_ended", str(node.pk), SessionKey(wire.SESSION, 1), 1, "idle", "60 s")
            await no_news(channel)

    async def test_the_loss_of_the_node_is_news_of_each_session(self, node: Node) -> None:
        channel = await control.new_reply_channel()
        other = b"o" * 16
        async with serving() as end:
            await open_session(node, end, channel)
            await open_session(node, end, channel, other)
        heard = [await news_of(channel), await news_of(channel)]
        assert {(news.kind, news.key.session) for news in heard} == {("node_gone", wire.SESSION), ("node_gone", other)}
        for session in (wire.SESSION, other):
            await close_session(node, session)


class TestReconnecting:
    async def test_it_keeps_what_is_wanted_and_confesses_what_it_lost(self, node: Node) -> None:
        channel = await control.new_reply_channel()
        kept, closed, lost = (bytes([number]) * 16 for number in range(3))
        async with serving() as end:
            for session in (kept, closed, lost):
                await open_session(node, end, channel, session)
        for _ in range(3):
            assert (await news_of(channel)).kind == "node_gone"
        await close_session(node, closed)
        async with NodeEnd(KEY) as end:
            welcome = (await end.greet((kept, 1), (closed, 1), (b"z" * 16, 1))).welcome
            assert [(ref.session, ref.epoch) for ref in welcome.keep] == [(kept, 1)]
            news = await news_of(channel)
            assert (news.kind, news.key.session, news.code) == ("stage_ended", lost, "stage_lost")
            await close_session(node, kept)

    async def test_after_a_restart_of_the_site_nothing_is_kept(self, node: Node) -> None:
        async with serving() as end:
            await eventually(is_live)
            assert await database.write(presence.forget_connections) == 1
            assert not await is_live()
            await end.leave()
        async with NodeEnd(KEY) as end:
            assert list((await end.greet((wire.SESSION, 1))).welcome.keep) == []
