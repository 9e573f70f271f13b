"""The official client against the live API: everything it can ask for, and every way it is told no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

    from tests.contract.openai.conftest import LiveSite

USER: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello"}]
PROMPT_TOKENS = 1 + 1 + len("hello") + 1


def test_models_are_listed(site: LiveSite) -> None:
    names = {model.id for model in site.client().models.list()}
    assert {"fake", "ends"} <= names
    assert "unlisted" not in names
    assert site.client().models.retrieve("fake").object == "model"


def test_a_whole_chat_answer(site: LiveSite) -> None:
    answer = site.client().chat.completions.create(model="ends", messages=USER, max_tokens=20)
    assert answer.id.startswith("chatcmpl-")
    assert (answer.object, answer.model) == ("chat.completion", "ends")
    (choice,) = answer.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "hello", "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (PROMPT_TOKENS, 6)
    assert answer.usage.total_tokens == PROMPT_TOKENS + 6
    assert answer.usage.prompt_tokens_details is not None
    assert answer.model_extra is not None
    assert answer.model_extra["telemetry"]["phase"] == "done"


def test_a_streamed_chat_answer(site: LiveSite) -> None:
    stream = site.client().chat.completions.create(
        model="alphabet", messages=USER, max_tokens=34, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert len({(chunk.id, chunk.created, chunk.object) for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "abcdefghijklmnopqrstuvwxyz🙂漢 "
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == "length"
    assert set(reasons[:-1]) == {None}
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 34
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_streamed_and_whole_answers_agree(site: LiveSite) -> None:
    options: dict[str, Any] = {"model": "fake", "messages": USER, "max_tokens": 40, "temperature": 0.8, "seed": 7}
    whole = site.client().chat.completions.create(**options)
    stream = site.client().chat.completions.create(**options, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert text == whole.choices[0].message.content
    other = site.client().chat.completions.create(**(options | {"seed": 8}))
    assert other.choices[0].message.content != text


def test_the_streaming_helper_accumulates(site: LiveSite) -> None:
    with site.client().chat.completions.stream(model="ends", messages=USER) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "hello"


def test_stop_strings(site: LiveSite) -> None:
    answer = site.client().chat.completions.create(model="alphabet", messages=USER, max_tokens=40, stop=["mno", "zzz"])
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("abcdefghijkl", "stop")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 15


def test_chat_logprobs(site: LiveSite) -> None:
    answer = site.client().chat.completions.create(
        model="fake", messages=USER, max_tokens=5, temperature=0, logprobs=True, top_logprobs=3, seed=1
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert answer.usage is not None
    # The end-of-generation token is counted and has no text, so no entry.
    assert len(logprobs.content) == answer.usage.completion_tokens - (answer.choices[0].finish_reason == "stop")
    for entry in logprobs.content:
        assert entry.logprob <= 0
        assert [top.logprob for top in entry.top_logprobs] == sorted(
            (t.logprob for t in entry.top_logprobs), reverse=True
        )
        assert entry.bytes is not None
        assert entry.top_logprobs[0].token == entry.token
    assert (
        b"".join(bytes(entry.bytes or []) for entry in logprobs.content).decode() == answer.choices[0].message.content
    )


def test_logit_bias_and_penalties_reach_the_sampler(site: LiveSite) -> None:
    answer = site.client().chat.completions.create(
        model="fake", messages=USER, max_tokens=8, temperature=0, logit_bias={"65": 100}
    )
    assert answer.choices[0].message.content == "A" * 8
    never_ends = {"257": -100}
    options: dict[str, Any] = {
        "model": "fake", "messages": USER, "max_tokens": 60, "temperature": 0, "logit_bias": never_ends
    }  # fmt: skip
    plain = site.client().chat.completions.create(**options).choices[0].message.content
    penalised = site.client().chat.completions.create(**options, presence_penalty=2).choices[0].message.content
    assert plain != penalised


def test_text_completions(site: LiveSite) -> None:
    answer = site.client().completions.create(model="alphabet", prompt="once", max_tokens=3, logprobs=1)
    assert (answer.object, answer.choices[0].text, answer.choices[0].finish_reason) == (
        "text_completion",
        "abc",
        "length",
    )
    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.text_offset == [0, 1, 2]
    stream = site.client().completions.create(model="alphabet", prompt=[1, 2, 3], stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "abcdefghijklmnop"


def test_telemetry_chunks_where_asked_for(site: LiveSite) -> None:
    stream = site.client().chat.completions.create(
        model="ends", messages=USER, stream=True, extra_body={"stream_options": {"include_telemetry": True}}
    )
    chunks = list(stream)
    phases = [chunk.model_extra["telemetry"]["phase"] for chunk in chunks if chunk.model_extra]
    assert phases[-1] == "done"
    assert chunks[0].choices == []
    assert all(not chunk.choices for chunk in chunks if chunk.model_extra)


async def test_the_asynchronous_client(site: LiveSite) -> None:
    client = openai.AsyncOpenAI(base_url=f"{site.url}/v1", api_key=site.keys["alice"], max_retries=0)
    async with client:
        stream = await client.chat.completions.create(model="ends", messages=USER, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == "hello"


@pytest.mark.parametrize(
    ("user", "options", "error", "code"),
    [
        ("revoked", {}, openai.AuthenticationError, "invalid_api_key"),
        ("alice", {"model": "unlisted"}, openai.NotFoundError, "model_not_found"),
        ("alice", {"n": 2}, openai.BadRequestError, "unsupported_value"),
        ("alice", {"messages": []}, openai.BadRequestError, "invalid_value"),
        ("alice", {"max_tokens": 40_000}, openai.BadRequestError, "context_length_exceeded"),
        ("alice", {"model": "no-route"}, openai.InternalServerError, "no_route"),
        ("alice", {"model": "no-route", "stream": True}, openai.InternalServerError, "no_route"),
        ("alice", {"model": "lost"}, openai.InternalServerError, "stage_lost"),
        ("poor", {}, openai.APIStatusError, "insufficient_credit"),
    ],
)
def test_refusals_are_the_clients_own_errors(
    site: LiveSite, user: str, options: dict[str, Any], error: type[openai.APIStatusError], code: str
) -> None:
    request: dict[str, Any] = {"model": "fake", "messages": USER} | options
    with pytest.raises(error) as caught:
        site.client(user).chat.completions.create(**request)
    assert caught.value.code == code


def test_a_stage_lost_mid_stream_is_an_error_that_names_it(site: LiveSite) -> None:
    stream = site.client().chat.completions.create(model="lost", messages=USER, stream=True)
    texts: list[str | None] = []
    with pytest.raises(openai.APIError) as caught:
        texts.extend(chunk.choices[0].delta.content for chunk in stream)
    assert "".join(text or "" for text in texts) == "abcde"
    assert caught.value.code == "stage_lost"
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["stage"] == 1
