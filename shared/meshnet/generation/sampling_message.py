"""Writes a request's sampling parameters as the protobuf message that the tail receives. Source: session.proto."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.v1 import session_pb2

if TYPE_CHECKING:
    from meshnet.openai.specification import SamplingSpec


def sampling_message(sampling: SamplingSpec) -> session_pb2.Sampling:
    """Return a request's sampling parameters as a protobuf message.

    Raises:
        ValueError: no seed is set.
    """
    if sampling.seed is None:
        raise ValueError("the seed must be drawn before a route is asked for")
    return session_pb2.Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=sampling.seed,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_bias=dict(sampling.logit_bias),
        logprobs=sampling.logprobs,
        top_logprobs=sampling.top_logprobs,
    )
