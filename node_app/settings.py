"""The node's settings. Each comes from the command line, else from the environment, else from a default.

Invariants: only this module parses the node's options and their variables MESHNET_<OPTION>; the state directory alone
is chosen in `system/state_directory.py`. Settings are frozen. If a value is wrong, the `SettingsError` names the option
and the reason in one line. The token never appears in a `repr`.
"""

from __future__ import annotations

import argparse
import math
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import urlsplit, urlunsplit

from meshnet.constants import PORT_MAX
from meshnet.errors import MeshnetError
from meshnet.shard_facts import Carrier
from node_app.system.state_directory import choose_state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Value = TypeVar("Value")

NAME_LENGTH_MAX = 64
LAYERS_MAX = 4096
THREADS_MAX = 1024
CONTEXT_LENGTH_MIN = 16
CONTEXT_LENGTH_MAX = 1 << 24
SESSIONS_MAX = 4096
DEFAULT_SESSIONS = 4
UPLOAD_MBIT_MAX = 100_000
BYTES_PER_S_OF_MBIT = 125_000
ENVIRONMENT_PREFIX = "MESHNET_"


class SettingsError(MeshnetError):
    """An option of the command line or the environment is missing, unknown or wrong."""

    def __init__(self, message: str, code: str = "bad_settings") -> None:
        super().__init__(code, "Wrong settings", message)


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """A half-open range of a model's layers, counted from 0; written as `0:15`."""

    layer_begin: int
    layer_end: int

    def __str__(self) -> str:
        return f"{self.layer_begin}:{self.layer_end}"


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """All settings of a node.

    Attributes:
        site_url: http(s) address of the site, without a trailing slash; empty if the node serves this machine only.
        token: enrolment token of a user; needed until this installation is enrolled.
        gguf_path: the model file; the first one if the model is split.
        layers: the shard to serve; None for the whole model.
        threads: number of threads that compute; None for the number of cores that this process may use.
        carrier: how hidden rows may travel to and from this node: directly, through the relay, or either way.
        upload_bytes_per_s: the upload rate of this machine's line; 0 if the volunteer does not say.
        name: the node's name, for people.
        state_dir: folder of the install key and of everything else that the node keeps.
        worker_path: the worker program; None for the one that was built or installed.
        link_listen: `host:port` at which other nodes' workers dial this node's worker; None if the node chooses it;
            empty if the worker must not listen.
        context_length: the most positions of a session; None for 4,096 or the model's number, whichever is smaller.
        max_sessions: the most sessions at once; the node serves fewer if its memory is too small.
        api_port: port of the local API on 127.0.0.1; 0 for any free port; None if the API is not opened.
        json_log: whether log lines are JSON objects.
        once_ready_line: whether the ready line is printed only when the node serves for the first time.
    """

    site_url: str
    token: str | None = field(repr=False)
    gguf_path: Path
    layers: LayerSpan | None
    threads: int | None
    carrier: Carrier
    upload_bytes_per_s: int
    name: str
    state_dir: Path
    worker_path: Path | None
    link_listen: str | None
    context_length: int | None
    max_sessions: int
    api_port: int | None
    json_log: bool
    once_ready_line: bool


class OptionParser(argparse.ArgumentParser):
    """An argument parser that raises SettingsError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise SettingsError with argparse's message."""
        raise SettingsError(message)


def parse_site_url(text: str) -> str:
    """Return a site's address without a trailing slash.

    Raises:
        ValueError: the address is not http(s), has a user, query or fragment, or its port is wrong.
    """
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text!r} is not an http:// or https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("the site's address must not have a user, query or fragment")
    _ = parts.port  # raises ValueError if it is no port number
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def parse_layers(text: str) -> LayerSpan:
    """Parse `BEGIN:END` (half-open); raises ValueError with a reason."""
    begin_text, separator, end_text = text.partition(":")
    if not separator or not begin_text.isdecimal() or not end_text.isdecimal():
        raise ValueError(f"{text!r} is not BEGIN:END, e.g. 0:15")
    span = LayerSpan(int(begin_text), int(end_text))
    if span.layer_begin >= span.layer_end or span.layer_end > LAYERS_MAX:
        raise ValueError(
            f"{text!r} is no range of layers: END, the first layer not served, must be from BEGIN + 1 to {LAYERS_MAX}"
        )
    return span


def parse_listen_address(text: str) -> str:
    """Return `HOST:PORT` as it is, or an empty string for `none`; raises ValueError with a reason for other text."""
    if text == "none":
        return ""
    host, _, port_text = text.rpartition(":")
    if not host or not port_text.isdecimal() or int(port_text) > PORT_MAX:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return text


def parse_number(text: str, lowest: int, highest: int) -> int:
    """Parse a decimal number from `lowest` to `highest`; raises ValueError with a reason."""
    if not text.isdecimal() or not lowest <= int(text) <= highest:
        raise ValueError(f"{text!r} is not a number from {lowest} to {highest}")
    return int(text)


def parse_upload_mbit(text: str) -> int:
    """Parse a rate in Mbit/s, also a fraction, and return it in bytes a second; raises ValueError with a reason."""
    try:
        mbit = float(text)
    except ValueError:
        mbit = math.nan
    bytes_per_s = round(mbit * BYTES_PER_S_OF_MBIT) if 0 < mbit <= UPLOAD_MBIT_MAX else 0
    if bytes_per_s < 1:
        raise ValueError(f"{text!r} is not a rate in Mbit/s, up to {UPLOAD_MBIT_MAX}")
    return bytes_per_s


def parse_api_port(text: str) -> int | None:
    """Parse a port number, 0 for a free port, or `none`, which gives None; raises ValueError with a reason."""
    return None if text == "none" else parse_number(text, 0, PORT_MAX)


def parse_carrier(text: str) -> Carrier:
    """Parse `auto`, `direct` or `relay`; raises ValueError with a reason."""
    if text not in set(Carrier):
        raise ValueError(f"{text!r} is not one of {', '.join(Carrier)}")
    return Carrier(text)


def parse_name(text: str) -> str:
    """Return the node's name unchanged; raises ValueError if it is too long or has unprintable characters."""
    if len(text) > NAME_LENGTH_MAX or not text.isprintable():
        raise ValueError(f"a name must be of printable characters, at most {NAME_LENGTH_MAX}")
    return text


def _build_parser() -> OptionParser:
    parser = OptionParser(
        prog="meshnet node", description="Serve layers of a model from this machine.", exit_on_error=False
    )
    parser.add_argument("--site", metavar="URL", help="address of the site (default: none, serve this machine only)")
    parser.add_argument("--token", metavar="T", help="enrolment token (needed once)")
    parser.add_argument("--gguf", metavar="PATH", help="model file; the first one if the model is split")
    parser.add_argument("--layers", metavar="B:E", help="layers to serve, e.g. 0:15 (default: all)")
    parser.add_argument("--threads", metavar="N", help="threads (default: as many as this process may use cores)")
    parser.add_argument("--carrier", metavar="HOW", help="direct, relay or auto (default)")
    parser.add_argument("--upload-mbit", metavar="N", help="upload rate of this line in Mbit/s (default: unknown)")
    parser.add_argument("--name", metavar="N", help="name shown on the site (default: this machine's)")
    parser.add_argument("--state-dir", metavar="D", help="folder of the install key and the state")
    parser.add_argument("--worker", metavar="PATH", help="worker program (default: the one built or installed)")
    parser.add_argument("--link-listen", metavar="HOST:PORT", help="address on which peers may dial, or none")
    parser.add_argument("--context", metavar="N", help="positions per session")
    parser.add_argument("--max-sessions", metavar="N", help="sessions at once (default 4)")
    parser.add_argument("--api-port", metavar="N", help="port of the local API, or none (default: a free port)")
    parser.add_argument("--json-log", action="store_true", help="log lines as JSON objects")
    parser.add_argument("--once-ready-line", action="store_true", help="print the ready line the first time only")
    return parser


class OptionValues:
    """Gives the value of each option: from the command line, else from its variable MESHNET_<OPTION>."""

    def __init__(self, arguments: argparse.Namespace, environment: Mapping[str, str]) -> None:
        self._arguments = arguments
        self._environment = environment

    def text(self, option: str) -> str | None:
        """Return the option's text; None if it is not given or empty."""
        given: str | None = getattr(self._arguments, option)
        return given or self._environment.get(ENVIRONMENT_PREFIX + option.upper()) or None

    def required(self, option: str) -> str:
        """Return the option's text; raises SettingsError if it is missing."""
        value = self.text(option)
        if value is None:
            flag, variable = option.replace("_", "-"), ENVIRONMENT_PREFIX + option.upper()
            raise SettingsError(f"--{flag} is missing (or {variable} in the environment)")
        return value

    def parsed(self, option: str, parse: Callable[[str], Value]) -> Value | None:
        """Return the value that `parse` makes of the option's text; None if the option is not given.

        Raises:
            SettingsError: `parse` raised a ValueError, whose text is the reason.
        """
        value = self.text(option)
        if value is None:
            return None
        try:
            return parse(value)
        except ValueError as error:
            raise SettingsError(f"--{option.replace('_', '-')}: {error}") from error

    def path(self, option: str) -> Path | None:
        """Return the option as a path, with `~` expanded; None if it is not given."""
        value = self.text(option)
        return None if value is None else Path(value).expanduser()


def token_missing(site_url: str) -> str:
    """Return the error message for a node that has no token to enrol at a site; the message says how to get one."""
    sources = f"make one at {site_url}/account/, or ask the site's administrator (`meshnet site create-node-token`)"
    return f"--token is missing (or {ENVIRONMENT_PREFIX}TOKEN in the environment); {sources}"


def number_parser(lowest: int, highest: int) -> Callable[[str], int]:
    """Return a parser of numbers from `lowest` to `highest`, for `OptionValues.parsed`."""
    return lambda text: parse_number(text, lowest, highest)


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> NodeSettings:
    """Return the node's settings.

    Args:
        arguments: the command line after `meshnet node`.
        environment: the process's variables; MESHNET_<OPTION> is used if the option is not given.

    Raises:
        SettingsError: an option is missing, unknown or wrong.
        SystemExit: --help was given; the status is 0.
    """
    try:
        parsed = _build_parser().parse_args(list(arguments))
    except argparse.ArgumentError as error:
        raise SettingsError(str(error)) from error
    values = OptionValues(parsed, environment)
    if parsed.token and values.text("site") is None:
        raise SettingsError("--site is missing: name the site that gave you the token")
    return NodeSettings(
        site_url=values.parsed("site", parse_site_url) or "",
        token=values.text("token"),
        gguf_path=Path(values.required("gguf")).expanduser(),
        layers=values.parsed("layers", parse_layers),
        threads=values.parsed("threads", number_parser(1, THREADS_MAX)),
        carrier=values.parsed("carrier", parse_carrier) or Carrier.AUTO,
        name=values.parsed("name", parse_name) or platform.node() or "node",
        state_dir=choose_state_dir(parsed.state_dir, environment),
        worker_path=values.path("worker"),
        link_listen=values.parsed("link_listen", parse_listen_address),
        context_length=values.parsed("context", number_parser(CONTEXT_LENGTH_MIN, CONTEXT_LENGTH_MAX)),
        max_sessions=values.parsed("max_sessions", number_parser(1, SESSIONS_MAX)) or DEFAULT_SESSIONS,
        upload_bytes_per_s=values.parsed("upload_mbit", parse_upload_mbit) or 0,
        api_port=values.parsed("api_port", parse_api_port) if values.text("api_port") else 0,
        json_log=parsed.json_log,
        once_ready_line=parsed.once_ready_line,
    )
