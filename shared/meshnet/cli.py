"""The `meshnet` command, which finds the subcommands that are installed and runs one of them.

Invariants: subcommands are found through the entry-point group `meshnet.commands`, so the site and the node can be
installed separately and never import each other. This file names subcommands only in `SUMMARIES`, the lines of the
help; so the help imports none of them.
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
# The status that a shell reports if Ctrl-C ended a program.
EXIT_INTERRUPTED = 130
SUMMARIES = {
    "doctor": "check if a node would run on this machine",
    "inspect": "report a GGUF model's memory and legal cuts",
    "node": "serve layers of a model from this machine",
    "probe": "make the golden probe by which nodes prove their layers of a model",
    "site": "run and administer a site",
}


def installed_commands() -> dict[str, EntryPoint]:
    """Return the subcommands of this installation by name, in alphabetical order."""
    found = {point.name: point for point in entry_points(group=COMMAND_GROUP)}
    return dict(sorted(found.items()))


def _usage(commands: Mapping[str, EntryPoint]) -> str:
    usage = "usage: meshnet COMMAND [ARGUMENTS] | --version | --help\n"
    if not commands:
        return f"{usage}commands: none in this installation\n"
    width = max(map(len, commands))
    lines = [f"  {name:{width}}  {SUMMARIES.get(name, '')}".rstrip() for name in commands]
    return "\n".join([f"{usage}commands:", *lines, "`meshnet COMMAND --help` describes one of them\n"])


def _load(name: str, point: EntryPoint) -> Callable[[Sequence[str]], int]:
    try:
        return cast("Callable[[Sequence[str]], int]", point.load())
    except ModuleNotFoundError as error:
        message = f"`meshnet {name}` needs the Python module {error.name}; install the extra that it belongs to"
        raise MeshnetError("missing_extra", "Part not installed", message) from error


def run(arguments: Sequence[str], commands: Mapping[str, EntryPoint]) -> int:
    """Run one command line (without the program's name) and return its exit status.

    The status is 2 if the command line is wrong, 1 if the subcommand raised a `MeshnetError` (printed on stderr in one
    line), and 130 if it was interrupted. Otherwise it is the subcommand's own.
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
    except SystemExit as stop:  # argparse has already told the user
        return stop.code if isinstance(stop.code, int) else EXIT_USAGE


def main() -> int:
    """Run the command line of this process; the entry point of the console script."""
    return run(sys.argv[1:], installed_commands())
