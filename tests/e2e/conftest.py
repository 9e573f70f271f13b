"""One stack for all tests that leave it as it was: four nodes; one model is reached directly, one by the relay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import NodePlan, Stack, a_stack
from tests.simulators.fake_model import write_fake_model

CONTEXT_LENGTH = 32_768
CONTEXT = ("--context", str(CONTEXT_LENGTH))
# Head and tail by model; the name of a model is how its stages reach each other.
NODES = {"direct": ("anna", "bert"), "relay": ("carl", "dora")}
PLANS = tuple(
    NodePlan(name, model, layers, (*CONTEXT, "--carrier", "relay" if model == "relay" else "auto"))
    for model, names in NODES.items()
    for name, layers in zip(names, ("0:4", "4:8"), strict=True)
)


def fake_models(folder: Path, names: tuple[str, ...]) -> dict[str, Path]:
    """One file a name; the names make their digests differ."""
    return {name: write_fake_model(folder / f"{name}.gguf", context_length=CONTEXT_LENGTH, name=name) for name in names}


@pytest.fixture(scope="package")
def whole_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with a_stack(folder, fake_models(folder, tuple(NODES))) as stack:
        stack.launch_all(PLANS)
        yield stack


@pytest.fixture
def stack(whole_stack: Stack) -> Stack:
    """The shared stack, idle."""
    whole_stack.until_idle()
    return whole_stack
