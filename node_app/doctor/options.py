"""The doctor's command line: the options of `meshnet node` that a check needs, and the same environment variables.

Invariant: this module and its imports need no package beside `meshnet` and the standard library, so that the doctor
can report a missing one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshnet.shard_facts import Carrier
from node_app.settings import (
    CONTEXT_LENGTH_MAX,
    CONTEXT_LENGTH_MIN,
    DEFAULT_SESSIONS,
    SESSIONS_MAX,
    LayerSpan,
    OptionParser,
    OptionValues,
    number_parser,
    parse_carrier,
    parse_layers,
    parse_listen_address,
    parse_site_url,
)
from node_app.system.state_directory import choose_state_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of the doctor. If one is None, the checks that need it are left out or use the node's default.

    Attributes:
        link_listen: `HOST:PORT` at which peers dial the node; empty if it must not listen.
    """

    site_url: str | None
    gguf_path: Path | None
    layers: LayerSpan | None
    context_length: int | None
    max_sessions: int
    state_dir: Path
    worker_path: Path | None
    carrier: Carrier
    link_listen: str | None
    as_json: bool


def _build_parser() -> OptionParser:
    parser = OptionParser(prog="meshnet doctor", description="Check whether a node would run on this machine.")
    parser.add_argument("--site", metavar="URL", help="address of the site that the node will serve")
    parser.add_argument("--gguf", metavar="PATH", help="model file, or the first part of a split model")
    parser.add_argument("--layers", metavar="B:E", help="layers to serve, half-open: 0:15 means 0 to 14 (default: all)")
    parser.add_argument("--context", metavar="N", help="positions per session")
    parser.add_argument("--max-sessions", metavar="N", help="sessions at the same time (default: 4)")
    parser.add_argument("--state-dir", metavar="D", help="state directory of the node")
    parser.add_argument("--worker", metavar="PATH", help="worker program (default: the one built or installed)")
    parser.add_argument("--carrier", metavar="HOW", help="direct, relay or auto (default: auto)")
    parser.add_argument("--link-listen", metavar="HOST:PORT", help="address at which peers dial this node, or none")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    return parser


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> DoctorOptions:
    """Return the options. If an option is not on the command line, its variable MESHNET_<OPTION> is used.

    Raises:
        SettingsError: an option is unknown or its value is wrong.
        SystemExit: with status 0, if --help was given.
    """
    parsed = _build_parser().parse_args(list(arguments))
    values = OptionValues(parsed, environment)
    return DoctorOptions(
        site_url=values.parsed("site", parse_site_url),
        gguf_path=values.path("gguf"),
        layers=values.parsed("layers", parse_layers),
        context_length=values.parsed("context", number_parser(CONTEXT_LENGTH_MIN, CONTEXT_LENGTH_MAX)),
        max_sessions=values.parsed("max_sessions", number_parser(1, SESSIONS_MAX)) or DEFAULT_SESSIONS,
        state_dir=choose_state_dir(parsed.state_dir, environment),
        worker_path=values.path("worker"),
        carrier=values.parsed("carrier", parse_carrier) or Carrier.AUTO,
        link_listen=values.parsed("link_listen", parse_listen_address),
        as_json=parsed.json,
    )
