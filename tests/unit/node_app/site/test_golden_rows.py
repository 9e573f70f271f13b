"""What a site answers is taken within its bounds of time, bytes and form, or not at all."""

from __future__ import annotations

import threading
import time

import pytest

from meshnet.errors import TransferError
from meshnet.golden.probe import write_golden
from node_app.settings import LayerSpan
from node_app.site.golden_rows import GoldenSource
from tests.unit.meshnet.golden.goldens import DIGEST, fake_golden
from tests.unit.node_app.answering_site import DRIP_S, a_site, answer_of, answers_of_no_site, at_once

LAYERS = LayerSpan(0, 4)
GOLDEN = fake_golden()
DEADLINE_S = 0.3
# Bytes of the longest drip: it would take five times as long as is waited for it here.
DRIPPED = 1250
END_S = 5.0


def dripping_body() -> tuple[bytes, int]:
    answer = answer_of(bytes(DRIPPED))
    return answer, len(answer) - DRIPPED


def test_a_whole_answer_is_taken_as_it_is_and_kept() -> None:
    with a_site(at_once(answer_of(write_golden(GOLDEN)))) as site:
        source = GoldenSource(site.url)
        assert source.find(DIGEST, LAYERS) == GOLDEN
        assert source.find(DIGEST, LAYERS) == GOLDEN
    assert len(site.asked) == 1
    assert b"accept-encoding: identity\r\n" in site.asked[0].lower()


def test_an_answer_in_chunks_is_taken() -> None:
    data = write_golden(GOLDEN)
    parts = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (data[:100], data[100:]))
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with a_site(at_once(head + parts + b"0\r\n\r\n")) as site:
        assert GoldenSource(site.url).find(DIGEST, LAYERS) == GOLDEN


def test_a_site_that_drips_bytes_is_left_at_the_deadline() -> None:
    with a_site(dripping_body()) as site:
        begin_s = time.monotonic()
        with pytest.raises(TransferError, match="in time"):
            GoldenSource(site.url, DEADLINE_S).find(DIGEST, LAYERS)
        taken_s = time.monotonic() - begin_s
    assert DEADLINE_S <= taken_s < END_S


def test_an_answer_that_ends_early_is_no_answer() -> None:
    data = write_golden(GOLDEN)
    with (
        a_site(at_once(answer_of(data[:-1], promised=len(data)))) as site,
        pytest.raises(TransferError, match="reached"),
    ):
        GoldenSource(site.url).find(DIGEST, LAYERS)


@pytest.mark.parametrize("answer", answers_of_no_site().values(), ids=answers_of_no_site())
def test_what_is_no_answer_puts_the_test_off(answer: bytes) -> None:
    with a_site(at_once(answer)) as site, pytest.raises(TransferError, match="no_golden") as refused:
        GoldenSource(site.url).find(DIGEST, LAYERS)
    assert refused.value.message.isprintable()


def test_one_answer_is_read_at_a_time() -> None:
    with a_site(dripping_body()) as site:
        source = GoldenSource(site.url, DEADLINE_S)
        errors: list[TransferError] = []

        def find() -> None:
            with pytest.raises(TransferError) as caught:
                source.find(DIGEST, LAYERS)
            errors.append(caught.value)

        first = threading.Thread(target=find)
        first.start()
        while not site.asked and first.is_alive():
            time.sleep(DRIP_S)
        begin_s = time.monotonic()
        find()
        assert time.monotonic() - begin_s < DEADLINE_S
        first.join(END_S)
    assert (len(errors), len(site.asked)) == (2, 1)
