"""A golden probe from `meshnet probe` through the catalogue to the nodes: who computes wrong rows never answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.answers import a_chat
from tests.e2e.conftest import CONTEXT, fake_models
from tests.e2e.golden_probes import make_probe
from tests.e2e.processes import until
from tests.e2e.stack import NodePlan, Stack, a_stack
from tests.simulators.faults import Faults
from tests.simulators.launcher import write_worker_program

pytestmark = [pytest.mark.e2e, pytest.mark.native]

MODEL = "fake"
REQUESTS = 12
GARBAGE = ("rows", "nan", "half", "width")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("self-test")
    models = fake_models(folder, (MODEL, "other"))
    with a_stack(folder, {MODEL: models[MODEL]}) as stack:
        made = make_probe(models[MODEL], folder / "golden")
        assert (made["rows"], made["cuts"], made["compared"]) == (8, 7, 64)
        made = make_probe(models["other"], folder / "golden-of-other")
        assert made["cuts"] == 7
        yield stack


def test_a_probe_of_another_file_is_refused_and_the_models_own_is_taken(stack: Stack) -> None:
    with pytest.raises(AssertionError, match="golden_of_another"):
        stack.command("import-golden", MODEL, str(stack.folder / "golden-of-other"))
    told = stack.command("import-golden", MODEL, str(stack.folder / "golden"))
    assert (told["name"], told["rows"], told["cuts"]) == (MODEL, 8, 7)


def test_workers_that_give_garbage_never_answer(stack: Stack) -> None:
    stack.launch_all([NodePlan("anna", MODEL, "0:4", CONTEXT), NodePlan("bert", MODEL, "4:8", CONTEXT)])
    for name in ("anna", "bert"):
        assert stack.agent_status(name)["self_test"] == "passed"
    broken = []
    for at, how in enumerate(GARBAGE):
        worker = write_worker_program(stack.folder, Faults(wrong_probe=how), name=f"worker-{how}")
        layers = ("0:4", "4:8", "0:8", "2:6")[at]
        plan = NodePlan(f"broken-{how}", MODEL, layers, (*CONTEXT, "--worker", str(worker)))
        stack.launch(plan)
        broken.append(plan.name)
    for name in broken:
        until(lambda name=name: has_failed(stack, name), f"{name} says that its self test failed")
    served: set[str] = set()
    for _ in range(REQUESTS):
        with stack.client.stream(a_chat(MODEL, max_tokens=8)) as stream:
            stream.read_to_end()
        assert stream.is_done, stream.error
        served |= {str(stage["node"]) for stage in stream.stages}
    for name in broken:
        status = stack.agent_status(name)
        assert (status["state"], status["worker_pid"]) == ("self_test_failed", 0)
    print(f"broken workers: {len(broken)}, requests answered: {REQUESTS}, by {sorted(served)}")
    assert served == {"anna", "bert"}


def has_failed(stack: Stack, name: str) -> bool:
    try:
        return bool(stack.agent_status(name)["state"] == "self_test_failed")
    except FileNotFoundError:
        return False  # it is still starting
