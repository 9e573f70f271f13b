"""The route machine while the prompt is computed: chunks, progress, silence."""

from __future__ import annotations

import pytest

from meshnet.frame import Ack, PrefillProgress
from meshnet.generation.progress import PrefillAdvanced
from tests.unit.tracker_site.routes.route_kit import (
    DEADLINES,
    Driven,
    a_request,
    driven_to,
    failure_of,
    from_stage,
    sent_chunks,
)
from tracker_site.routes.session import machine_io as io
from tracker_site.routes.session.transitions import RouteState


@pytest.mark.parametrize("prompt_tokens", [1, 127, 128, 129, 384, 1000])
def test_chunks_cover_the_prompt_once_within_the_window(prompt_tokens: int) -> None:
    driven = Driven(a_request(prompt_tokens))
    driven.plan()
    frames = [chunk.frame for chunk in sent_chunks(driven.open())]
    rows, window = driven.chunking.rows, driven.chunking.windows[0].frames
    assert len(frames) <= window
    acknowledged = 0
    while acknowledged < len(frames):
        frames.extend(chunk.frame for chunk in sent_chunks(driven.give(from_stage(0, Ack(acknowledged)))))
        acknowledged += 1
        assert len(frames) - acknowledged <= window
    assert tuple(token for frame in frames for token in frame.token_ids) == driven.request.prompt_tokens
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    assert [frame.position for frame in frames] == list(range(0, prompt_tokens, rows))
    assert [frame.prompt_end for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert [frame.logits_rows for frame in frames][:-1] == [()] * (len(frames) - 1)
    assert frames[-1].logits_rows == (frames[-1].rows - 1,)


def test_progress_is_what_the_whole_route_has_computed() -> None:
    driven = Driven()
    driven.plan()
    driven.open()
    driven.give(from_stage(0, PrefillProgress(256)), from_stage(1, PrefillProgress(128)))
    driven.give(from_stage(1, PrefillProgress(128)), from_stage(1, PrefillProgress(300)))
    assert driven.machine.events() == [PrefillAdvanced(128, 300), PrefillAdvanced(300, 300)]


def test_a_prompt_that_makes_progress_has_all_the_time_it_needs() -> None:
    driven = Driven(a_request(3000))
    driven.plan()
    driven.open()
    for seq in range(24):
        driven.wait(9.0)
        driven.give(from_stage(0, Ack(seq)), from_stage(1, PrefillProgress(min(3000, 128 * (seq + 1)))))
    assert driven.state() is RouteState.PREFILL


def test_silence_ends_the_route_and_names_the_most_silent_stage() -> None:
    driven = Driven()
    driven.plan()
    driven.open()
    driven.wait(1.0)
    driven.give(from_stage(0, Ack(0)))
    driven.wait(60.0)
    assert failure_of(driven) == ("step_timeout", 1)
    assert len(driven.closes) == 1


@pytest.mark.parametrize(
    ("state", "gone", "blamed"),
    [
        (RouteState.PREFILL, None, 0),  # nobody was heard: the head owes an ack
        (RouteState.DECODE, None, 1),  # the last token was everybody's: the tail owes the next
        (RouteState.PREFILL, 1, 1),
        (RouteState.DECODE, 0, 0),
    ],
)
def test_silence_is_laid_to_who_left_or_owes_the_next_word(state: RouteState, gone: int | None, blamed: int) -> None:
    driven = driven_to(state)
    driven.wait(5.0)
    if gone is not None:
        driven.give(io.NodeQuiet(1, gone))
    driven.wait(60.0)
    assert failure_of(driven) == ("step_timeout", blamed)


def test_the_gateway_s_deadline_passes_after_the_stages_own() -> None:
    driven = Driven()
    driven.plan()
    driven.open()
    terms = driven.machine.terms
    assert terms is not None
    driven.wait(terms.step_s * terms.n_stages + DEADLINES.margin_s / 2)
    assert driven.state() is RouteState.PREFILL
