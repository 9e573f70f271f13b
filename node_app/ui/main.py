"""`meshnet-tray`: shows this machine's node in a window and as a panel icon.

Invariants: the exit status is 2 if the command line is wrong, Qt is missing or there is no display, and 1 if the state
directory cannot be used; in each case the reason is printed on stderr. Qt is imported only inside `run`, so that `main`
can report its absence. A QApplication is made only if there is a display, since without one it aborts the process.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from meshnet.errors import MeshnetError
from node_app.system.installing import installing_qt
from node_app.system.state_directory import choose_state_dir
from node_app.system.state_files import prepare_directory
from node_app.ui.display import find_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED: Final = 1
EXIT_WRONG: Final = 2


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options: `state_dir` (None means the default directory) and `hidden`."""
    parser = argparse.ArgumentParser(prog="meshnet-tray", description="Show the node of this machine.")
    parser.add_argument("--state-dir", metavar="D", help="state directory of the node (default: as `meshnet node`)")
    parser.add_argument("--hidden", action="store_true", help="show only the panel icon, if the desktop has a panel")
    return parser.parse_args(list(arguments))


def main() -> int:
    """Run the tray until it is quit, and return the exit status of the command."""
    options = parse_arguments(sys.argv[1:])
    try:
        return run(choose_state_dir(options.state_dir, os.environ), is_hidden=options.hidden)
    except MeshnetError as error:
        sys.stderr.write(f"meshnet-tray: {error.message} [{error.code}]\n")
        return EXIT_FAILED
    except ImportError as error:
        # PySide6 is not installed, or a system library that Qt needs is missing.
        sys.stderr.write(f"meshnet-tray: Qt cannot be loaded ({error}); {installing_qt(str(error))}\n")
        return EXIT_WRONG


def run(state_dir: Path, *, is_hidden: bool) -> int:
    """Run the tray of `state_dir` until it is quit; return the exit status.

    Raises:
        ImportError: Qt cannot be imported.
        StateError: the directory cannot be used.
    """
    from PySide6.QtCore import QLibraryInfo  # noqa: PLC0415 - see the module's invariants
    from PySide6.QtWidgets import QApplication  # noqa: PLC0415 - as above

    from node_app.ui.application import TrayApplication  # noqa: PLC0415 - as above
    from node_app.ui.instance import TrayInstance  # noqa: PLC0415 - as above

    problem = find_problem(os.environ, Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.PluginsPath)))
    if problem:
        sys.stderr.write(f"meshnet-tray: {problem}\n")
        return EXIT_WRONG
    prepare_directory(state_dir)
    application = QApplication(["meshnet-tray"])
    application.setDesktopFileName("meshnet-tray")
    application.setQuitOnLastWindowClosed(False)
    instance = TrayInstance(state_dir)
    if not instance.claim():
        sys.stderr.write("meshnet-tray: already running; its window was asked to show itself\n")
        return 0
    tray = TrayApplication(state_dir)
    instance.show_requested.connect(tray.show_window)
    tray.ended.connect(application.quit)
    # Python handles a signal only when Qt calls it; the watcher's timer does so every second.
    signal.signal(signal.SIGINT, lambda *_: application.quit())
    signal.signal(signal.SIGTERM, lambda *_: application.quit())
    tray.start(is_hidden=is_hidden)
    try:
        return application.exec()
    finally:
        tray.close()
        instance.release()


if __name__ == "__main__":
    sys.exit(main())
