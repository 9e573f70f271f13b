"""The model of the local API: its name, whether it can be asked now, and its vocabulary, loaded once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from meshnet.openai.errors import describe_error
from meshnet.openai.specification import TextPrompt
from meshnet.vocab import ByteVocabulary, Vocabulary, VocabularyError
from node_app.agent.state import WorkerPhase
from node_app.loopback.openai import served_model
from node_app.loopback.openai.served_model import ServedModel, model_name
from node_app.worker.refusal import StageRefusedError
from tests.unit.node_app.loopback.openai.stand_ins import a_model, an_agent
from tests.unit.node_app.sessions.local.local_kit import CONTEXT_LENGTH, SHARD

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("tiny.gguf", "tiny"),
        ("SmolLM2-135M.Q4_1.gguf", "SmolLM2-135M.Q4_1"),
        ("big-00001-of-00003.gguf", "big"),
        ("big-1-of-3.gguf", "big-1-of-3"),
    ],
)
def test_a_model_is_called_as_its_file(file: str, name: str) -> None:
    assert model_name(a_model(file)) == name


def test_what_the_worker_has_loaded() -> None:
    model = ServedModel(an_agent(), a_model())
    assert model.shard() == SHARD
    assert model.to_object().context_length == CONTEXT_LENGTH


@pytest.mark.parametrize(
    ("phase", "reason", "said"),
    [
        (WorkerPhase.DOWN, "", "still being loaded"),
        (WorkerPhase.LOADED, "", "still being loaded"),
        (WorkerPhase.DOWN, "the worker ended (killed)", "restarted: the worker ended (killed)"),
    ],
)
def test_a_worker_that_does_not_serve_is_503(phase: WorkerPhase, reason: str, said: str) -> None:
    with pytest.raises(StageRefusedError) as caught:
        ServedModel(an_agent(phase, reason), a_model()).shard()
    reply = describe_error(caught.value)
    assert (reply.status, reply.body.error.code) == (503, "not_ready")
    assert said in reply.body.error.message


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Vocabulary]]:
    """What the next loads do, first to last."""
    planned: list[Callable[[], Vocabulary]] = []
    monkeypatch.setattr(served_model, "open_vocabulary", lambda _path, **_options: planned.pop(0)())
    return planned


def llama_is_missing() -> Vocabulary:
    raise VocabularyError("llama_missing", "llama.cpp missing", "Install the extra [llama].")


async def test_the_vocabulary_is_loaded_once_for_all_who_wait(loads: list[Callable[[], Vocabulary]]) -> None:
    loads.append(lambda: ByteVocabulary(64))
    model = ServedModel(an_agent(), a_model())
    first, second = await asyncio.gather(model.vocabulary(64), model.vocabulary(64))
    assert first is second is await model.vocabulary(64)


async def test_missing_bindings_are_a_503_that_says_what_to_install_and_are_looked_for_again(
    loads: list[Callable[[], Vocabulary]],
) -> None:
    loads += [llama_is_missing, lambda: ByteVocabulary(64)]
    model = ServedModel(an_agent(), a_model(architecture="llama"))
    with pytest.raises(VocabularyError) as caught:
        await model.vocabulary(64)
    reply = describe_error(caught.value)
    assert (reply.status, reply.body.error.code) == (503, "llama_missing")
    assert "[llama]" in reply.body.error.message
    assert (await model.vocabulary(64)).context_length == 64


async def test_a_caller_that_leaves_does_not_end_the_loading_for_others(
    loads: list[Callable[[], Vocabulary]],
) -> None:
    loads.append(lambda: ByteVocabulary(64))
    model = ServedModel(an_agent(), a_model())
    leaving = asyncio.create_task(model.vocabulary(64))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    assert (await model.vocabulary(64)).context_length == 64


async def test_prompts_are_tokenised_in_a_thread() -> None:
    model = ServedModel(an_agent(), a_model())
    assert await model.tokenise(ByteVocabulary(64), TextPrompt("hi")) == (256, *b"hi")
