"""The doctor's command line: as the node's, with what is wrong in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.shard_facts import Carrier
from node_app.doctor.checks import plan_checks
from node_app.doctor.main import main
from node_app.doctor.options import parse_options
from node_app.settings import LayerSpan, SettingsError

ALWAYS = ["python", "packages", "worker", "devices", "hardware", "descriptors", "clock", "state", "disk", "node"]


def names(*arguments: str) -> list[str]:
    return [check.name for check in plan_checks(parse_options(arguments, {}))]


def test_everything_is_read() -> None:
    arguments = "--site https://s.example/ --gguf m.gguf --layers 0:4 --context 512 --json --max-sessions 2"
    places = "--state-dir /s --worker /w --link-listen 0.0.0.0:7 --carrier direct"
    options = parse_options([*arguments.split(), *places.split()], {})
    assert options.site_url == "https://s.example"
    assert (options.gguf_path, options.layers) == (Path("m.gguf"), LayerSpan(0, 4))
    assert (options.context_length, options.max_sessions) == (512, 2)
    assert (options.state_dir, options.worker_path) == (Path("/s"), Path("/w"))
    assert (options.carrier, options.link_listen, options.as_json) == (Carrier.DIRECT, "0.0.0.0:7", True)


def test_the_environment_of_a_node_is_used() -> None:
    environment = {"MESHNET_SITE": "http://127.0.0.1:8", "MESHNET_GGUF": "m", "MESHNET_STATE_DIR": "/s"}
    options = parse_options([], environment)
    assert (options.site_url, options.gguf_path, options.state_dir) == ("http://127.0.0.1:8", Path("m"), Path("/s"))
    assert parse_options(["--site", "http://other"], environment).site_url == "http://other"


def test_what_is_not_asked_for_is_not_checked() -> None:
    assert names() == ALWAYS
    assert names("--gguf", "m") == [*ALWAYS, "model"]
    assert names("--site", "http://s") == [*ALWAYS, "site", "control", "enrolment", "peers"]
    assert names("--link-listen", "127.0.0.1:5") == ALWAYS  # without a site a node listens for nobody


@pytest.mark.parametrize(
    "wrong",
    [
        ["--site", "s.example"],
        ["--layers", "4"],
        ["--context", "3"],
        ["--max-sessions", "none"],
        ["--link-listen", "here"],
        ["--carrier", "pigeon"],
        ["--nonsense"],
        ["extra"],
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError):
        parse_options(wrong, {})
    assert main(wrong) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("meshnet doctor: ")
    assert told.err.count("\n") == 1
