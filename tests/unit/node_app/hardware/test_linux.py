from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from node_app.hardware.detect import detect_hardware
from node_app.hardware.linux import LinuxHardware, parse_cpu_quota, parse_limit_bytes, parse_meminfo
from node_app.hardware.null import NullHardware

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3


def machine(root: Path, *, cgroup: str = "/outer/inner") -> LinuxHardware:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {8 * GIB // 1024} kB\nMemAvailable: {6 * GIB // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(f"0::{cgroup}\n")
    (root / "cgroup/outer/inner").mkdir(parents=True)
    return LinuxHardware(root / "proc", root / "cgroup")


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    figures = machine(tmp_path).figures()
    assert (figures.memory_total_bytes, figures.memory_available_bytes) == (8 * GIB, 6 * GIB)
    assert figures.cores >= 1


def test_the_tightest_limit_around_the_process_counts(tmp_path: Path) -> None:
    hardware = machine(tmp_path)
    (tmp_path / "cgroup/outer/memory.max").write_text(f"{4 * GIB}\n")
    (tmp_path / "cgroup/outer/memory.current").write_text(f"{3 * GIB}\n")
    (tmp_path / "cgroup/outer/inner/memory.max").write_text("max\n")
    (tmp_path / "cgroup/outer/inner/cpu.max").write_text("50000 100000\n")
    figures = hardware.figures()
    assert (figures.memory_total_bytes, figures.memory_available_bytes, figures.cores) == (4 * GIB, 1 * GIB, 1)


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    hardware = machine(tmp_path)
    (tmp_path / "cgroup/outer/memory.max").write_text("1000\n")
    (tmp_path / "cgroup/outer/memory.current").write_text("2000\n")
    assert hardware.figures().memory_available_bytes == 0


def test_a_group_outside_the_tree_is_not_followed(tmp_path: Path) -> None:
    hardware = machine(tmp_path, cgroup="/../../etc")
    assert hardware.figures().memory_total_bytes == 8 * GIB


def test_what_the_kernel_does_not_tell_is_absent(tmp_path: Path) -> None:
    figures = LinuxHardware(tmp_path / "no-proc", tmp_path / "no-cgroup").figures()
    assert (figures.memory_total_bytes, figures.memory_available_bytes) == (None, None)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", None), ("100000 100000", 1), ("150000 100000", 2), ("1 100000", 1), ("5 0", None), ("", None)],
)
def test_cpu_quota(text: str, cores: int | None) -> None:
    assert parse_cpu_quota(text) == cores


def test_odd_lines_are_left_out() -> None:
    assert parse_meminfo("A: 1 kB\nB: x kB\nC: 5\nnonsense\n") == {"A": 1024}
    assert parse_limit_bytes("max\n") is None
    assert parse_limit_bytes("-1") is None


def test_each_system_has_a_backend() -> None:
    assert isinstance(detect_hardware("linux"), LinuxHardware)
    assert isinstance(detect_hardware("plan9"), NullHardware)
    assert detect_hardware("darwin").figures().cores >= 1
    assert detect_hardware("plan9").figures().memory_total_bytes is None
