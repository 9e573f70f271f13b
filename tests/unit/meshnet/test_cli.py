import argparse
from importlib.metadata import EntryPoint

import pytest

from meshnet import __version__, cli
from meshnet.errors import RouteError

GROUP = cli.COMMAND_GROUP


def echo(arguments):
    print(" ".join(arguments))
    return 7


def failing(arguments):
    raise RouteError("no_route", "No route", "Nobody serves this model.")


def interrupted(arguments):
    raise KeyboardInterrupt


def parsing(arguments):
    argparse.ArgumentParser(prog="meshnet parsing").parse_args(arguments)
    return 7


@pytest.fixture
def commands(monkeypatch):
    targets = {"echo": echo, "failing": failing, "interrupted": interrupted, "parsing": parsing}
    monkeypatch.setattr(EntryPoint, "load", lambda self: targets[self.name])
    return {name: EntryPoint(name, "tests:unused", GROUP) for name in targets}


def test_runs_a_command_with_the_remaining_arguments_and_returns_its_status(commands, capsys):
    assert cli.run(["echo", "--site", "URL"], commands) == 7
    assert capsys.readouterr().out == "--site URL\n"


def test_an_error_of_ours_is_one_line_and_a_status(commands, capsys):
    assert cli.run(["failing"], commands) == cli.EXIT_FAILED
    assert capsys.readouterr().err == "meshnet: No route: Nobody serves this model. [no_route]\n"


def test_an_interrupt_is_a_status_and_no_traceback(commands, capsys):
    assert cli.run(["interrupted"], commands) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["--nonsense"], [""]])
def test_a_wrong_command_line_is_told_with_the_usage(arguments, commands, capsys):
    assert cli.run(arguments, commands) == cli.EXIT_USAGE
    assert "commands:\n  echo\n  failing\n  interrupted\n  parsing\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status"), [([], 7), (["--help"], 0), (["--nonsense"], cli.EXIT_USAGE), (["word"], cli.EXIT_USAGE)]
)
def test_what_a_command_s_parser_says_is_its_status(arguments, status, commands, capsys):
    assert cli.run(["parsing", *arguments], commands) == status
    assert ("usage: meshnet parsing" in "".join(capsys.readouterr())) == (status != 7)


def test_version_and_help(commands, capsys):
    assert cli.run(["--version"], {}) == 0
    assert cli.run(["--help"], {}) == 0
    assert f"meshnet {__version__}\n" in capsys.readouterr().out


def test_a_missing_extra_names_the_module(capsys):
    point = EntryPoint("tray", "no_such_module_of_ours:main", GROUP)
    assert cli.run(["tray"], {"tray": point}) == cli.EXIT_FAILED
    assert "no_such_module_of_ours" in capsys.readouterr().err


def test_installed_commands_are_sorted():
    names = list(cli.installed_commands())
    assert names == sorted(names)


def test_the_usage_says_what_each_installed_command_is_for_and_loads_none(monkeypatch, capsys):
    monkeypatch.setattr(EntryPoint, "load", lambda self: pytest.fail(f"{self.name} was loaded"))
    commands = cli.installed_commands()
    assert cli.run(["--help"], commands) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [name for name, _ in lines] == list(commands)
    assert set(cli.SUMMARIES) == set(commands)
    assert len({words for _, words in lines}) == len(commands)


def test_an_installation_without_commands_says_so(capsys):
    assert cli.run(["--help"], {}) == 0
    assert "commands: none in this installation\n" in capsys.readouterr().out
