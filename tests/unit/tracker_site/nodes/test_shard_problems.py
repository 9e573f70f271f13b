"""What is wrong with a shard is written where people look, and told to its volunteer until it is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.site import wire
from tests.site.people import make_model
from tests.site.serving import expire, serve
from tracker_site.catalog.models import Model
from tracker_site.nodes import presence
from tracker_site.nodes.models import LoadedShard, Node
from tracker_site.nodes.notices import Notice
from tracker_site.nodes.reports import parse_report
from tracker_site.nodes.shard_problems import note_problems, notice_for

if TYPE_CHECKING:
    from pytest_django import DjangoAssertNumQueries

    from tracker_site.accounts.models import User

OTHER = b"d" * 32


@pytest.fixture(autouse=True)
def model(db: None) -> Model:
    return make_model()


def a_node(
    owner: User, number: int, digest: bytes = wire.CONTRACT, *, begin: int = 0, end: int = 8, **traits: int | str
) -> Node:
    key = bytes([number]) * 32
    Node.objects.create(owner=owner, name=f"node {number}", public_key=key.hex())
    shard = wire.shard(begin, end, digest)
    for name, value in traits.items():
        setattr(shard.contract, name, value)
    return serve(key, f"channel {number}", shard)


def report_again(
    node: Node, number: int, digest: bytes = wire.CONTRACT, *, begin: int = 0, end: int = 8, recipe: str = ""
) -> Notice | None:
    shard = wire.shard(begin, end, digest)
    shard.contract.recipe = recipe
    report = parse_report(wire.report(shard))
    return presence.record_report(str(node.pk), f"channel {number}", report, is_same_shards=True)


def problems() -> dict[str, str]:
    return {shard.node.name: shard.problem for shard in LoadedShard.objects.select_related("node")}


class TestCatalogue:
    def test_a_shard_of_a_model_says_nothing(self, alice: User) -> None:
        node = a_node(alice, 1)
        assert problems() == {"node 1": ""}
        assert notice_for(str(node.pk)) == Notice()

    def test_a_file_that_is_no_models_is_explained_to_the_volunteer(self, alice: User) -> None:
        Model.objects.all().delete()
        node = a_node(alice, 1)
        notice = notice_for(str(node.pk))
        assert notice.code == "artifact_unknown"
        assert "not that of any model of this site; it may be damaged, incomplete or another quan" in notice.message
        assert problems() == {"node 1": notice.message}

    def test_it_is_over_once_the_model_is_there(self, alice: User) -> None:
        Model.objects.all().delete()
        node = a_node(alice, 1)
        still = report_again(node, 1)
        assert still is not None
        assert still.code == "artifact_unknown"
        make_model()
        assert report_again(node, 1) == Notice()
        assert problems() == {"node 1": ""}

    def test_a_model_that_is_not_offered_is_said(self, alice: User) -> None:
        Model.objects.update(is_listed=False)
        assert notice_for(str(a_node(alice, 1).pk)).code == "model_not_listed"

    @pytest.mark.parametrize("traits", [{"n_layers": 9}, {"vocab_size": 261}])
    def test_other_layers_or_tokens_than_the_models_are_said(self, alice: User, traits: dict[str, int]) -> None:
        notice = notice_for(str(a_node(alice, 1, **traits).pk))
        assert notice.code == "layers_differ"
        assert "the site's fake has 8 and 260" in notice.message

    @pytest.mark.parametrize(
        ("layers", "words"),
        [
            ((0, 3), "between layers 2 and 3"),
            ((5, 8), "between layers 4 and 5"),
            ((3, 5), "layers 2 and 3 and 4 and 5"),
        ],
    )
    def test_a_part_that_cuts_the_model_where_it_cannot_be_cut_is_said(
        self, alice: User, layers: tuple[int, int], words: str
    ) -> None:
        Model.objects.update(legal_cuts=[2, 4, 6])
        node = a_node(alice, 1, begin=layers[0], end=layers[1])
        notice = notice_for(str(node.pk))
        assert notice.code == "illegal_cut"
        assert notice.message.startswith("fake cannot be cut ")
        assert words in notice.message
        assert "choose --layers that begin and end at " in notice.message

    def test_legal_parts_and_models_that_may_be_cut_anywhere_say_nothing(self, alice: User) -> None:
        nodes = [a_node(alice, 1, begin=3, end=5)]
        Model.objects.update(legal_cuts=[2, 4, 6])
        nodes += [a_node(alice, 2, begin=0, end=4), a_node(alice, 3, begin=4, end=8), a_node(alice, 4)]
        codes = [notice_for(str(node.pk)).code for node in nodes]
        assert codes == ["illegal_cut", "", "", ""]
        Model.objects.update(legal_cuts=None)
        assert report_again(nodes[0], 1, begin=3, end=5) == Notice()

    def test_an_artifact_that_nobody_has_is_no_work(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(1):
            note_problems("ff" * 32)


class TestContracts:
    def test_equal_contracts_say_nothing(self, alice: User) -> None:
        a_node(alice, 1)
        a_node(alice, 2)
        assert set(problems().values()) == {""}

    def test_the_odd_one_out_is_told_why(self, alice: User) -> None:
        a_node(alice, 1)
        a_node(alice, 2)
        odd = a_node(alice, 3, OTHER, context_length=512)
        found = problems()
        assert (found["node 1"], found["node 2"]) == ("", "")
        assert found["node 3"].startswith("contract 646464646464 differs from 636363636363 of 2 other node(s)")
        assert "(context 512, theirs 4096)" in found["node 3"]
        assert notice_for(str(odd.pk)) == Notice("contract_mismatch", found["node 3"])

    def test_another_recipe_is_told_until_the_site_mixes_them(self, alice: User) -> None:
        for number in (1, 2):
            a_node(alice, number, recipe="llama.cpp")
        odd = a_node(alice, 3, recipe="torch f32")
        found = problems()
        assert (found["node 1"], found["node 2"]) == ("", "")
        assert found["node 3"].startswith("this node computes as torch f32 and 2 other node(s) as llama.cpp")
        assert notice_for(str(odd.pk)) == Notice("contract_mismatch", found["node 3"])
        Model.objects.update(allows_mixed_recipes=True)
        assert report_again(odd, 3, recipe="torch f32") == Notice()

    def test_the_majority_prevails_over_the_first(self, alice: User) -> None:
        first = a_node(alice, 1, OTHER)
        second = a_node(alice, 2)
        assert problems()["node 2"] != ""
        a_node(alice, 3)
        found = problems()
        assert [bool(found[f"node {number}"]) for number in (1, 2, 3)] == [True, False, False]
        # Both hear of it with their next report.
        told = [report_again(first, 1, OTHER), report_again(second, 2)]
        assert [notice is not None and notice.code for notice in told] == ["contract_mismatch", ""]

    def test_who_is_left_alone_is_no_odd_one_any_more(self, alice: User) -> None:
        first = a_node(alice, 1)
        a_node(alice, 2, OTHER)
        assert problems()["node 2"] != ""
        presence.disconnect(str(first.pk), "channel 1", "gone")
        assert problems()["node 2"] == ""

    def test_the_absent_do_not_count(self, alice: User) -> None:
        expire(a_node(alice, 1, OTHER))
        expire(a_node(alice, 2, OTHER))
        a_node(alice, 3)
        assert problems()["node 3"] == ""
