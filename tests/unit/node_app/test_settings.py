"""The command line and the environment: what they give, and what each mistake says."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.shard_facts import Carrier
from node_app.settings import LayerSpan, SettingsError, parse_settings, token_missing
from node_app.system.state_directory import choose_state_dir

REQUIRED = ["--site", "http://127.0.0.1:8000/", "--gguf", "model.gguf"]


def test_defaults_leave_the_choice_to_the_hardware_and_the_model() -> None:
    settings = parse_settings(REQUIRED, {})
    assert settings.site_url == "http://127.0.0.1:8000"
    assert settings.gguf_path == Path("model.gguf")
    assert (settings.layers, settings.threads, settings.context_length, settings.token) == (None, None, None, None)
    assert settings.carrier is Carrier.AUTO
    assert settings.name
    assert settings.state_dir.is_absolute()


def test_every_option_is_read() -> None:
    given = ["--token", "t", "--layers", "0:15", "--threads", "2", "--carrier", "relay", "--name", "attic"]
    given += ["--state-dir", "/s", "--worker", "/w", "--link-listen", "10.0.0.1:0", "--context", "512"]
    given += ["--max-sessions", "3", "--json-log", "--once-ready-line", "--upload-mbit", "40"]
    settings = parse_settings(REQUIRED + given, {})
    assert settings.layers == LayerSpan(0, 15)
    assert (settings.threads, settings.context_length, settings.max_sessions) == (2, 512, 3)
    assert (settings.carrier, settings.name, settings.link_listen) == (Carrier.RELAY, "attic", "10.0.0.1:0")
    assert (settings.state_dir, settings.worker_path) == (Path("/s"), Path("/w"))
    assert settings.json_log
    assert settings.once_ready_line
    assert settings.upload_bytes_per_s == 5_000_000


def test_the_environment_fills_in_and_the_command_line_wins() -> None:
    environment = {"MESHNET_TOKEN": "from-environment", "MESHNET_CARRIER": "relay", "MESHNET_NAME": ""}
    settings = parse_settings([*REQUIRED, "--carrier", "direct"], environment)
    assert settings.token == "from-environment"
    assert settings.carrier is Carrier.DIRECT


def test_without_a_site_the_node_serves_its_own_machine() -> None:
    assert parse_settings(["--gguf", "model.gguf"], {}).site_url == ""


@pytest.mark.parametrize(("given", "port"), [([], 0), (["0"], 0), (["8080"], 8080), (["none"], None)])
def test_the_local_api_takes_a_free_port_or_the_one_asked_for_or_none(given: list[str], port: int | None) -> None:
    options = ["--api-port", *given] if given else []
    assert parse_settings([*REQUIRED, *options], {}).api_port == port


@pytest.mark.parametrize(
    ("given", "bytes_per_s"), [(None, 0), ("10", 1_250_000), ("0.5", 62_500), ("1e5", 125 * 10**8)]
)
def test_a_lines_rate_is_given_in_mbit(given: str | None, bytes_per_s: int) -> None:
    options = [] if given is None else ["--upload-mbit", given]
    assert parse_settings([*REQUIRED, *options], {}).upload_bytes_per_s == bytes_per_s


def test_no_listener_is_an_empty_address() -> None:
    assert parse_settings([*REQUIRED, "--link-listen", "none"], {}).link_listen == ""


def test_the_token_is_not_in_the_representation() -> None:
    assert "secret-token" not in repr(parse_settings([*REQUIRED, "--token", "secret-token"], {}))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--gguf is missing"),
        (["--site", "http://h"], "--gguf is missing"),
        (["--gguf", "m", "--token", "t"], "--site is missing"),
        (["--site", "h:8000", "--gguf", "m"], "--site"),
        (["--site", "ftp://h", "--gguf", "m"], "--site"),
        (["--site", "http://", "--gguf", "m"], "--site"),
        (["--site", "http://h:99999", "--gguf", "m"], "--site"),
        (["--site", "http://u:p@h", "--gguf", "m"], "--site"),
        ([*REQUIRED, "--layers", "15:0"], "is no range of layers"),
        ([*REQUIRED, "--layers", "5:5"], "is no range of layers"),
        ([*REQUIRED, "--layers", "0-15"], "BEGIN:END"),
        ([*REQUIRED, "--layers", "-1:3"], "--layers"),
        ([*REQUIRED, "--layers", "0:999999"], "is no range of layers"),
        ([*REQUIRED, "--threads", "0"], "--threads"),
        ([*REQUIRED, "--threads", "two"], "--threads"),
        ([*REQUIRED, "--carrier", "pigeon"], "auto, direct, relay"),
        ([*REQUIRED, "--link-listen", "host"], "--link-listen"),
        ([*REQUIRED, "--link-listen", "host:99999"], "--link-listen"),
        ([*REQUIRED, "--context", "1"], "--context"),
        ([*REQUIRED, "--max-sessions", "0"], "--max-sessions"),
        ([*REQUIRED, "--upload-mbit", "0"], "--upload-mbit"),
        ([*REQUIRED, "--upload-mbit", "-3"], "--upload-mbit"),
        ([*REQUIRED, "--upload-mbit", "nan"], "--upload-mbit"),
        ([*REQUIRED, "--upload-mbit", "inf"], "--upload-mbit"),
        ([*REQUIRED, "--upload-mbit", "fast"], "--upload-mbit"),
        ([*REQUIRED, "--upload-mbit", "1e-9"], "--upload-mbit"),
        ([*REQUIRED, "--name", "x" * 65], "--name"),
        ([*REQUIRED, "--name", "a\nb"], "--name"),
        ([*REQUIRED, "--api-port", "65536"], "--api-port"),
        ([*REQUIRED, "--api-port", "-1"], "--api-port"),
        ([*REQUIRED, "--api-port", "any"], "--api-port"),
        ([*REQUIRED, "--unknown"], "unknown"),
        ([*REQUIRED, "stray"], "stray"),
        ([*REQUIRED, "--threads"], "--threads"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(arguments: list[str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(arguments, {})
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_the_state_directory_is_asked_for_or_named_by_the_environment_or_the_usual_one() -> None:
    environment = {"MESHNET_STATE_DIR": "/from/environment"}
    assert choose_state_dir("/asked", environment) == Path("/asked")
    assert choose_state_dir(None, environment) == choose_state_dir("", environment) == Path("/from/environment")
    assert choose_state_dir(None, {}).parts[-2:] == ("meshnet", "node")
    assert choose_state_dir("~/state", {}) == Path.home() / "state"
    assert parse_settings(REQUIRED, environment).state_dir == Path("/from/environment")


def test_a_missing_token_is_told_with_both_ways_to_give_it_and_where_it_comes_from() -> None:
    told = token_missing("https://site.example")
    for part in ("--token", "MESHNET_TOKEN", "https://site.example/account/", "meshnet site create-node-token"):
        assert part in told
