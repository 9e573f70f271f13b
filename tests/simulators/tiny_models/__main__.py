"""Make the tiny models where the native tests look for them; at once where they are there already."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.simulators.tiny_models import TINY_MODELS, tiny_model

FOLDER = Path(__file__).resolve().parents[3] / "build/models/tiny"


def main() -> int:
    """Make or check every file and print how many there are."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulators.tiny_models")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    try:
        paths = [tiny_model(model, folder) for model in TINY_MODELS]
    except ValueError as error:
        print(f"tiny models: {error}", file=sys.stderr)
        return 1
    print(f"tiny models: {len(paths)} in {folder}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
