"""Cases of sampling.json and fake_engine.json, computed by the Python reference.

Invariant: no case sits so close to a decision (a draw at a boundary) that another correct `exp` could decide otherwise;
`sampling_cases` refuses to give such a case.
"""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, replace
from typing import Any

from meshnet.sampling import (
    SamplingTerms,
    draw_uniform,
    log_probability,
    sample,
    top_log_probabilities,
)
from tests.simulators.fake_engine import (
    ASSISTANT_TOKEN_ID,
    BOS_TOKEN_ID,
    END_TOKEN_ID,
    USER_TOKEN_ID,
    FakeSequence,
    FakeShard,
    logits_of,
)

# Source: Random123's known-answer file (kat_vectors), philox4x32 with 10 rounds.
PHILOX_KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
_SMALLEST_MARGIN = 1e-9
PROMPT = [BOS_TOKEN_ID, USER_TOKEN_ID, *b"Say hello", ASSISTANT_TOKEN_ID]


def philox_cases() -> list[dict[str, Any]]:
    return [{"counter": list(c), "key": list(k), "words": list(w)} for c, k, w in PHILOX_KNOWN_ANSWERS]


def uniform_cases() -> list[dict[str, Any]]:
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**64 - 1, 2**31 - 1, 7), (0x123456789ABCDEF0, 2000, 0)]
    return [
        {"seed": seed, "position": position, "choice": choice, "uniform": draw_uniform(seed, position, choice)}
        for seed, position, choice in keys
    ]


def sampling_cases() -> list[dict[str, Any]]:
    flat = [0.0] * 8
    slope = [math.ldexp(float(-i), -1) for i in range(12)]
    tied = [1.0, 3.0, 3.0, 2.0]
    spread = [f32(4.0 * math.sin(1.7 * i)) for i in range(64)]
    warm = SamplingTerms(temperature=1.0, seed=42)
    cases: list[tuple[str, list[float], SamplingTerms, dict[int, int], int]] = [
        ("arg_max_ties_by_smaller_id", tied, SamplingTerms(), {}, 0),
        ("arg_max_with_bias", tied, SamplingTerms(logit_bias={3: 1.5}), {}, 0),
        ("arg_max_with_penalties", tied, SamplingTerms(frequency_penalty=0.75, presence_penalty=0.5), {1: 2, 2: 1}, 5),
        ("flat", flat, warm, {}, 3),
        ("slope", slope, warm, {}, 4),
        ("cold", slope, replace(warm, temperature=0.25), {}, 9),
        ("hot_and_spread", spread, replace(warm, temperature=2.0), {}, 100),
        ("top_k", spread, replace(warm, temperature=1.5, top_k=3), {}, 101),
        ("top_k_splits_a_tie_by_id", [1.0, 1.0, 1.0, 1.0], replace(warm, top_k=2), {}, 8),
        ("top_p", spread, replace(warm, top_p=0.5), {}, 102),
        ("top_p_of_zero_keeps_one", spread, replace(warm, top_p=0.0), {}, 102),
        ("min_p", spread, replace(warm, temperature=1.5, min_p=0.3), {}, 103),
        ("everything", spread, replace(warm, temperature=0.9, top_k=20, top_p=0.9, min_p=0.05), {7: 3}, 104),
        ("penalised_draw", slope, replace(warm, frequency_penalty=1.0, presence_penalty=0.25), {0: 2, 1: 1}, 6),
        ("second_choice", flat, replace(warm, choice=1), {}, 3),
        ("other_seed", flat, replace(warm, seed=2**63 + 5), {}, 3),
    ]
    cases += [(f"walk_{position}", spread, warm, {}, position) for position in range(16)]
    return [_sampling_case(*case) for case in cases]


def _sampling_case(
    name: str, logits: list[float], terms: SamplingTerms, counts: dict[int, int], position: int
) -> dict[str, Any]:
    token_id = sample(logits, terms, counts, position)
    _refuse_close_decision(name, logits, terms, counts, position)
    fields = asdict(terms)
    for unused in ("logprobs", "top_logprobs"):
        del fields[unused]
    fields["logit_bias"] = [{"token_id": token, "bias": bias} for token, bias in terms.logit_bias.items()]
    return {
        "name": name,
        "logits": logits,
        "terms": fields,
        "counts": [{"token_id": token, "count": count} for token, count in counts.items()],
        "position": position,
        "token_id": token_id,
        "logprob": log_probability(logits, token_id),
        "top": [{"token_id": t.token_id, "logprob": t.logprob} for t in top_log_probabilities(logits, 3)],
    }


def _refuse_close_decision(
    name: str, logits: list[float], terms: SamplingTerms, counts: dict[int, int], position: int
) -> None:
    """Raise when slightly warmer or cooler arithmetic would give another token."""
    if terms.temperature == 0:
        return
    expected = sample(logits, terms, counts, position)
    for nudge in (1 - _SMALLEST_MARGIN, 1 + _SMALLEST_MARGIN):
        nudged = replace(terms, temperature=terms.temperature * nudge)
        if sample(logits, nudged, counts, position) != expected:
            raise ValueError(f"sampling case {name} sits on a decision")


def fake_cases() -> list[dict[str, Any]]:
    """Models with their rows after every cut, their logits, and generations."""
    shapes = [("tiny", 2, 4), ("default", 8, 16), ("wide", 3, 33)]
    return [_fake_case(name, n_layers, width) for name, n_layers, width in shapes]


def _fake_case(name: str, n_layers: int, width: int) -> dict[str, Any]:
    after_layer: list[dict[str, Any]] = []
    for layer_end in range(1, n_layers + 1):
        rows = FakeSequence(FakeShard(n_layers, width, 0, layer_end)).step_tokens(PROMPT)
        after_layer.append({"layer_end": layer_end, "rows": [list(row) for row in rows]})
    last_row = tuple(after_layer[-1]["rows"][-1])
    sampled = SamplingTerms(temperature=1.0, top_p=0.95, seed=7)
    return {
        "name": name,
        "n_layers": n_layers,
        "width": width,
        "prompt": PROMPT,
        "after_layer": after_layer,
        "logits_of_last_row": logits_of(last_row),
        "greedy": {"max_tokens": 48, "token_ids": generate(n_layers, width, SamplingTerms(), 48)},
        "sampled": {
            "max_tokens": 48,
            "temperature": sampled.temperature,
            "top_p": sampled.top_p,
            "seed": sampled.seed,
            "token_ids": generate(n_layers, width, sampled, 48),
        },
        "rewind": _rewind_case(n_layers, width),
    }


def generate(n_layers: int, width: int, terms: SamplingTerms, max_tokens: int) -> list[int]:
    """What an unsplit fake model says after `PROMPT`; ends with the end token or at `max_tokens`."""
    sequence = FakeSequence(FakeShard(n_layers, width, 0, n_layers))
    row = sequence.step_tokens(PROMPT)[-1]
    generated: list[int] = []
    while len(generated) < max_tokens and END_TOKEN_ID not in generated:
        counts = {token: generated.count(token) for token in generated}
        generated.append(sample(logits_of(row), terms, counts, len(PROMPT) + len(generated)))
        row = sequence.step_tokens(generated[-1:])[0]
    return generated


def _rewind_case(n_layers: int, width: int) -> dict[str, Any]:
    """Tokens, then a truncation to `position`, then other tokens: the rows of the latter."""
    sequence = FakeSequence(FakeShard(n_layers, width, 0, n_layers))
    position, again = 4, [10, 20, 30]
    sequence.step_tokens(PROMPT)
    sequence.truncate(position)
    rows = sequence.step_tokens(again)
    return {"position": position, "token_ids": again, "rows": [list(row) for row in rows]}


def f32(value: float) -> float:
    """The nearest f32, exact in JSON."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
