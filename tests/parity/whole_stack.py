"""The same prompts through the whole stack: the official client, the site, the relay and two nodes.

The demo's own launcher starts everything, with the carrier named. Texts and token counts are compared with the unsplit
model's, prompt by prompt, alone and then all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conversation import Answer, stream
from processes import DemoError, Family
from stack import MODEL_NAME, Paths, RunningSite, Stack
from tests.parity.reference import Reference

RANGES = ((0, 15), (15, 30))
# A llama.cpp worker has cells for half as many whole contexts; all prompts at once need one each.
SESSIONS_MAX = 16


@dataclass(slots=True)
class StackComparison:
    """Answers compared, and those that differ; `together_mismatched` are the ones of them that were asked at once."""

    prompts: int = 0
    mismatched: int = 0
    together_mismatched: int = 0
    survivors: int = 0


def _ask(site: RunningSite, prompt: str, tokens_max: int) -> Answer | DemoError:
    """The whole answer, or why there is none: one failure must not hide what the other prompts give."""
    try:
        *_, answer = stream(f"{site.url}/v1", site.credentials.api_key, MODEL_NAME, prompt, tokens_max)
    except DemoError as error:
        return error
    return answer


def _difference(answer: Answer | DemoError, reference: Reference, carrier: str) -> str | None:
    """What is wrong with an answer, in figures only; None where it equals the reference over the right route."""
    if isinstance(answer, DemoError):
        return str(answer)
    carriers = [stage.carrier for stage in answer.stages]
    if carriers != [carrier] * len(RANGES):
        return f"the route was carried by {carriers}"
    if (answer.text, answer.completion_tokens) == (reference.text, reference.completion_tokens):
        return None
    same = next((at for at, (a, b) in enumerate(zip(answer.text, reference.text, strict=False)) if a != b), None)
    where = "in length only" if same is None else f"from character {same}"
    return f"{answer.completion_tokens} tokens for {reference.completion_tokens}, another text {where}"


def compare_stack(
    paths: Paths,
    carrier: str,
    threads: int,
    prompts: Sequence[str],
    references: Sequence[Reference],
    progress: Callable[[str], None],
) -> StackComparison:
    """Start the stack, ask every prompt alone and then all at once, end it.

    Raises:
        DemoError: something did not start in time.
    """
    found = StackComparison()
    family = Family(paths.run, paths.environment())
    tokens_max = len(references[0].tokens)
    try:
        stack = Stack(family, paths, lambda text: progress(f"{carrier}: {text}"))
        site = stack.start_site()
        options = ("--carrier", carrier, "--max-sessions", str(SESSIONS_MAX), "--threads", str(threads))
        stack.start_nodes(site, RANGES, options)
        alone = [_ask(site, prompt, tokens_max) for prompt in prompts]
        with ThreadPoolExecutor(len(prompts)) as clients:
            together = list(clients.map(lambda prompt: _ask(site, prompt, tokens_max), prompts))
    finally:
        family.stop()
    found.survivors = len(family.survivors())
    for answers, is_together in ((alone, False), (together, True)):
        for answer, reference in zip(answers, references, strict=True):
            found.prompts += 1
            difference = _difference(answer, reference, carrier)
            if difference is None:
                continue
            found.mismatched += 1
            found.together_mismatched += int(is_together)
            how = "at once" if is_together else "alone"
            progress(f"{carrier}, {how}, prompt of {len(reference.prompt)} tokens: {difference}")
    return found


def stack_paths(root: Path, run: Path, model: Path, worker: Path) -> Paths:
    """What the demo's launcher needs."""
    return Paths(root, run, model, worker.parent, worker)
