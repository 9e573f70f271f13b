import pytest

from job_count import available_memory_bytes, job_count, quota_processors


@pytest.mark.parametrize(
    ("content", "expected"),
    [("max 100000", float("inf")), ("150000 100000", 1.5), ("", float("inf")), ("-1 100000", float("inf"))],
)
def test_quota_of_a_container(content, expected, tmp_path):
    (tmp_path / "cpu.max").write_text(content)
    assert quota_processors(tmp_path) == expected


def test_memory_is_cut_to_the_containers_limit(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4096 kB\n")
    assert available_memory_bytes(tmp_path, tmp_path / "meminfo") == 4096 * 1024
    (tmp_path / "memory.max").write_text("1000")
    assert available_memory_bytes(tmp_path, tmp_path / "meminfo") == 1000
    (tmp_path / "memory.max").write_text("max")
    assert available_memory_bytes(tmp_path, tmp_path / "meminfo") == 4096 * 1024


def test_there_is_always_one_job(tmp_path):
    (tmp_path / "memory.max").write_text("1000")
    (tmp_path / "cpu.max").write_text("10000 100000")
    assert job_count(tmp_path, tmp_path / "none") == 1
