"""The `meshnet` command.

Invariants: subcommands are found through the entry-point group `meshnet.commands`, so that the site and the node can be
installed apart and never import each other. It knows them by name only to say what each is for, which imports none.
"""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, cast

from meshnet import __version__
from meshnet.errors import MeshnetError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COMMAND_GROUP = "meshnet.commands"
EXIT_USAGE = 2
EXIT_FAILED = 1
# As a shell says that a program was ended by Ctrl-C.
EXIT_INTERRUPTED = 130
SUMMARIES = {
    "doctor": "look at whether a node would run on this machine",
    "inspect": "say what a GGUF model takes and where it may be cut",
    "node": "serve layers of a model from this machine",
    "probe": "make the golden probe by which nodes prove their layers of a model",
    "site": "run and administer a site",
}


def installed_commands() -> dict[str, EntryPoint]:
    """Return the subcommands that this installation declares, by name in order."""
    found = {point.name: point for point in entry_points(group=COMMAND_GROUP)}
    return dict(sorted(found.items()))


def _usage(commands: Mapping[str, EntryPoint]) -> str:
    usage = "usage: meshnet COMMAND [ARGUMENTS] | --version | --help\n"
    if not commands:
        return f"{usage}commands: none in this installation\n"
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {SUMMARIES.get(name, '')}".rstrip() for name in commands]
    return "\n".join([f"{usage}commands:", *lines, "`meshnet COMMAND --help` says more of one\n"])


def _load(name: str, point: EntryPoint) -> Callable[[Sequence[str]], int]:
    try:
        return cast("Callable[[Sequence[str]], int]", point.load())
    except ModuleNotFoundError as error:
        message = f"`meshnet {name}` needs the Python module {error.name}; install the extra it belongs to"
        raise MeshnetError("missing_extra", "Part not installed", message) from error


def run(arguments: Sequence[str], commands: Mapping[str, EntryPoint]) -> int:
    """Run one command line (without the program's name) and return its exit status.

    Status 2 means a wrong command line, 1 a failure that was told on stderr in one line, 130 an interrupt.
    """
    if arguments and arguments[0] in {"--help", "-h"}:
        sys.stdout.write(_usage(commands))
        return 0
    if arguments and arguments[0] == "--version":
        sys.stdout.write(f"meshnet {__version__}\n")
        return 0
    if not arguments or arguments[0] not in commands:
        problem = f"no such command: {arguments[0]}" if arguments else "a command is missing"
        sys.stderr.write(f"meshnet: {problem}\n{_usage(commands)}")
        return EXIT_USAGE
    name, *rest = arguments
    try:
        return _run_command(name, commands[name], rest)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run_command(name: str, point: EntryPoint, arguments: Sequence[str]) -> int:
    try:
        return _load(name, point)(arguments)
    except MeshnetError as error:
        sys.stderr.write(f"meshnet: {error.title}: {error.message} [{error.code}]\n")
        return EXIT_FAILED
    except SystemExit as stop:  # argparse has told the user
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE


def main() -> int:
    """Entry point of the console script."""
    return run(sys.argv[1:], installed_commands())
