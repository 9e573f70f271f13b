"""One notice a node, in words of bounded length."""

from __future__ import annotations

from tracker_site.nodes import notices
from tracker_site.nodes.notices import MESSAGE_CHARACTERS, Notice


def test_nothing_wrong_is_the_empty_notice() -> None:
    assert notices.notice_of([]) == Notice("", "")
    assert notices.notice_of([Notice(), Notice()]) == Notice("", "")


def test_the_first_problem_gives_the_code_and_each_is_said_once() -> None:
    unknown, delisted = notices.artifact_unknown("ab" * 32), notices.model_not_listed("fake")
    assert notices.notice_of([Notice(), unknown, unknown]) == unknown
    both = notices.notice_of([delisted, unknown])
    assert both.code == "model_not_listed"
    assert both.message.startswith(f"{delisted.message}; the file's digest (abababababab...)")


def test_every_code_has_its_words() -> None:
    assert set(notices.LABELS) == set(notices.NoticeCode)


def test_every_notice_fits_where_it_is_kept() -> None:
    found = [
        notices.artifact_unknown("f" * 64),
        notices.model_not_listed("m" * 100),
        notices.layers_differ("m" * 100, (4096, 2**31), (4096, 2**31)),
        notices.illegal_cut("m" * 100, [2001, 3001], [*range(1000, 1010), 2002, 3002]),
        notices.contract_mismatch("c" * 64, "d" * 64, 10_000, ["context 2147483647, theirs 2147483647"]),
    ]
    assert max(len(notice.message) for notice in found) <= MESSAGE_CHARACTERS
    assert len(notices.notice_of(found).message) == MESSAGE_CHARACTERS
