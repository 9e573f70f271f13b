"""Where PyTorch comes from: a build for CPUs, from wherever pip looks first, then from its own index; then the rest."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from types import SimpleNamespace

import pytest

import torch_extra

Runs = list[list[str]]


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runs]:
    """A pip whose calls end with the given statuses, None for never, on a machine without PyTorch."""

    def prepare(*statuses: int | None) -> Runs:
        commands: Runs = []
        left = iter(statuses)

        def run(command: list[str], *, timeout: float, **_options: object) -> SimpleNamespace:
            commands.append(command)
            status = next(left)
            if status is None:
                raise subprocess.TimeoutExpired(command, timeout)
            return SimpleNamespace(returncode=status)

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
        return commands

    return prepare


def test_pips_own_indexes_are_enough_where_they_have_it(pip: Callable[..., Runs]) -> None:
    commands = pip(0, 0)
    assert torch_extra.provide()
    torch, libraries = commands
    assert f"torch=={torch_extra.VERSION}+cpu" in torch
    assert torch_extra.CPU_INDEX not in torch
    assert libraries[-2:] == ["safetensors", "transformers"]


@pytest.mark.parametrize("status", [1, None])
def test_pytorchs_index_is_asked_where_they_do_not(pip: Callable[..., Runs], status: int | None) -> None:
    commands = pip(status, 0, 0)
    assert torch_extra.provide()
    assert [torch_extra.CPU_INDEX in command for command in commands] == [False, True, False]


@pytest.mark.parametrize("statuses", [(1, 1), (None, None), (0, 1), (1, 0, None)])
def test_a_machine_that_cannot_have_it_says_so(
    pip: Callable[..., Runs], capsys: pytest.CaptureFixture[str], statuses: tuple[int | None, ...]
) -> None:
    pip(*statuses)
    assert torch_extra.main() == 1
    assert torch_extra.VERSION in capsys.readouterr().err


def test_nothing_is_fetched_twice(pip: Callable[..., Runs], monkeypatch: pytest.MonkeyPatch) -> None:
    commands = pip()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert torch_extra.main() == 0
    assert not commands
