"""The sorts of values: one `Kind` per sort of key, with the words in which to ask for it.

A kind stands beside the type in the schema's annotations (``Annotated[int | None, CORES]``).
msgspec checks types as well, but stops at its first complaint and speaks of ``$.script.cores`` and
JSON's types; users who write TOML by hand deserve all complaints at once, in their words.
"""

from __future__ import annotations

import datetime
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from grain.config.expansion import Unfit, check_defer, entries, expand_place, placeholders
from grain.config.metrics import parse_metrics
from grain.config.shared import check_offered, check_shared, counted
from grain.config.walltime import parse_walltime
from grain.files.batch_systems import BATCH_SYSTEMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class ExpansionContext(NamedTuple):
    """The environment of a file, on which the meaning of a value may depend.

    Attributes:
        folder: the folder of the file, absolute.
    """

    env: Mapping[str, str]
    folder: Path


@dataclass(frozen=True)
class Kind:
    """A sort of value.

    Attributes:
        expected: the values that fit, as a noun phrase.
        read: converts the value that TOML gave into that of the schema, or raises `Unfit`.
        place: True for a path or an address, whose default is expanded, too.
        check: raises `Unfit` for a value that was read and does not fit after all. Defaults, which
            fit, are not checked: it may have to import much.
    """

    expected: str
    read: Callable[[object, ExpansionContext], object]
    place: bool = False
    check: Callable[[object, ExpansionContext], None] | None = None


def without_key(text: str) -> str:
    """Return a text, as that of a file, without the keys of bridges, which are secret.

    >>> without_key("address = bridge://6b65790a@login.example:4747")
    'address = bridge://...@login.example:4747'
    """
    return re.sub(r"bridge://[^@\s]+", "bridge://...", text)


def described(value: object) -> str:
    """Describe a value in TOML's words, with the control characters of strings made visible."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"the string {_short(without_key(value))}"
    if isinstance(value, int):
        # Python refuses to print whole numbers of more than 4300 digits.
        return f"the number {value}" if abs(value) < 10**40 else "a number of more than 40 digits"
    if isinstance(value, float):
        return f"the number {value}"
    if isinstance(value, dict):
        return "a table" if value else "an empty table"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return f"the date or time {value}"


def _short(text: str, most: int = 60) -> str:
    return repr(text) if len(text) <= most else f"{text[:most]!r} and {len(text) - most} more"


def _string(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise Unfit
    return value


def _line(value: object) -> str:
    # These values are written into lines of a job script: a second line would be a command.
    text = _string(value)
    if not text.isprintable():
        raise Unfit("it must be one line without control characters")
    return text.strip()


def _name(value: object) -> str:
    text = _stamped(_line(value))
    if not text or len(text.split()) > 1 or "/" in text:
        raise Unfit
    return text


def _cluster(value: object) -> str:
    text = _line(value)
    if len(text.split()) > 1:
        raise Unfit
    return text


def _word(value: object) -> str:
    text = _line(value)
    if not _WORD.fullmatch(text):
        raise Unfit
    return text


def _charge(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _MOST_GB:
        raise Unfit
    return float(value)


def _pool(value: object) -> int | str:
    if value == "auto":
        return "auto"
    if isinstance(value, str):
        raise Unfit
    return _whole(value, 0, _MOST)


def _stamped(text: str) -> str:
    for name in placeholders(text):
        if name != "HHMMSS":
            raise Unfit(f"{{{{{name}}}}} is not a placeholder; there is only {{{{HHMMSS}}}}")
    return text


def _place(value: object, context: ExpansionContext) -> str:
    return _line(expand_place(_line(value), context.env))


def _address(value: object, context: ExpansionContext) -> str:
    if not (text := _place(value, context)):
        raise Unfit
    return text


def _check_address(text: object, context: ExpansionContext) -> None:
    """Refuse an address that missions and workers would refuse."""
    from grain.edge.address import TcpAddress, parse_address

    assert isinstance(text, str)
    if not text:
        return
    try:
        address = parse_address(text, context.env.get("HOME", "/"))
    except ValueError as error:  # an AddressError, which is one
        raise Unfit(str(error)) from None
    if isinstance(address, TcpAddress) and not address.port:
        raise Unfit(
            "port 0 is another port at each start, so workers cannot find it; write a port "
            "from 1 to 65535"
        )


def _metrics(value: object, context: ExpansionContext) -> str:
    """Return the place of metrics, with its variables expanded."""
    if not (text := _place(value, context)):
        return ""
    try:
        return str(parse_metrics(text))
    except ValueError as error:
        raise Unfit(str(error)) from None


def _beside(value: object, context: ExpansionContext) -> str:
    """Return the absolute path of a file that belongs to the configuration, relative to its folder.

    The batch system starts workers in directories of its choice, so the path becomes absolute.
    """
    text = _place(value, context)
    return str(context.folder / text) if text else ""


def _shebang(value: object) -> str:
    text = _line(value)
    if not text.startswith("#!"):
        raise Unfit
    return text


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit
    return value


def _whole(value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Unfit
    return value


def _gigabytes(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unfit("without quotes and without a unit" if isinstance(value, str) else "")
    if not 0 <= value <= _MOST_GB:
        raise Unfit
    return float(value)


def _lines(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Unfit("in brackets" if isinstance(value, str) else "")
    return tuple(_line(item) for item in value)


def _commands(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        commands = tuple(_string(item).rstrip() for item in value)
        commands = tuple(command for command in commands if command)
    else:
        commands = entries(_string(value))
    for command in commands:
        check_defer(command)
    return commands


def _plain(value: object) -> object:
    """Return a value that JSON can express, as workers get it on their command line."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (datetime.date, datetime.time)):
        raise Unfit("dates and times are not understood here; write a string")
    if isinstance(value, float) and not math.isfinite(value):
        raise Unfit(f"{value} is not an amount")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise Unfit("a number is too large")
    return value


def _resources(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise Unfit
    for name in value:
        if not name.isidentifier():
            raise Unfit(f"{name!r} cannot be the name of a resource")
    return {name: _plain(data) for name, data in value.items()}


def _shared(value: object) -> dict[str, object]:
    """Return the resources of the whole cluster; where a number stands, a command may tell it."""
    return {name: counted(name, data) for name, data in _resources(value).items()}


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Unfit
    for name, text in value.items():
        # Others cannot be set by a shell.
        if not (name.isascii() and name.isidentifier()):
            raise Unfit(f"{name!r} cannot be the name of a variable")
        if not isinstance(text, str) or "\0" in text:
            raise Unfit(f"the value of {name} is a string, in quotes")
    return dict(value)


def _system(value: object) -> str:
    text = _string(value)
    if text not in ("", *SYSTEMS):
        plain = text.lower().replace("-", "").replace("_", "").replace(" ", "")
        meant = plain if plain in SYSTEMS else OTHER_NAMES.get(plain)
        raise Unfit(f"did you mean {meant!r}?" if meant else "")
    return text or "local"


def _hosts(value: object) -> tuple[str, ...]:
    hosts = _lines(value)
    names = set()
    for text in hosts:
        # A name that begins with a dash would be an option of ssh.
        match = re.fullmatch(r"((?:[\w.-]+@)?\w[\w.-]*)(?::(\d{1,6}))?", text, re.ASCII)
        if not match or text.startswith("-") or (match[2] is not None and not int(match[2])):
            raise Unfit(f"{text!r} is not the name of a host")
        if match[1] in names:
            raise Unfit(f"{match[1]!r} is there twice; 'n1:2' stands for two workers on n1")
        names.add(match[1])
    return hosts


def _pattern(value: object) -> str:
    text = _line(value)
    try:
        re.compile(text)
    except re.error as error:
        raise Unfit(f"it is not a regular expression: {error}") from None
    return text


def _phases(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Unfit
    for word, phase in value.items():
        if phase not in PHASES:
            raise Unfit(f"{word} is one of {', '.join(map(repr, PHASES))}")
    return dict(value)


SYSTEMS = ("local", *BATCH_SYSTEMS, "ssh", "custom")
OTHER_NAMES = {alias: name for name, one in BATCH_SYSTEMS.items() for alias in one.aliases}
PHASES = ("pending", "stuck", "running", "ending", "gone")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_MOST_GB = 1e9
_MOST = 1_000_000
_SPAN = "a span of time: '[d-]hh:mm:ss', a number with units as '30m', or seconds as a whole number"

SYSTEM = Kind("one of " + ", ".join(map(repr, SYSTEMS)) + " or '' (local)", lambda v, _: _system(v))
HOSTS = Kind(
    "an array of hosts, each with its number of workers, such as ['n1', 'n2:2']",
    lambda v, _: _hosts(v),
)
PATTERN = Kind("a regular expression", lambda v, _: _pattern(v))
PHASES_BY_WORD = Kind(
    "a table of words, each with a phase, such as { QUE = 'pending' }", lambda v, _: _phases(v)
)
ADDRESS = Kind("an address such as 'edge:///shared/me/edge'", _address, True, _check_address)
OTHER_ADDRESS = Kind("an address, or '' for the usual one", _place, True, _check_address)
METRICS = Kind(
    "an interface and a port as '127.0.0.1:9100', the path of a Unix socket, or '' for none",
    _metrics,
)
FILE = Kind("the path of a file", _place, place=True)
STAMPED_FILE = Kind(
    "the path of a file", lambda v, context: _stamped(_place(v, context)), place=True
)
FILE_BESIDE = Kind("the path of a Python file", _beside)
DIRECTORY = Kind("the path of a directory", _place, place=True)
WORD = Kind(
    "a word of letters, digits, '_' and '-' that begins with a letter", lambda v, _: _word(v)
)
NAME = Kind("a name without spaces and slashes", lambda v, _: _name(v))
CLUSTER = Kind(
    "a name without spaces, or '' for that of the batch system", lambda v, _: _cluster(v)
)
LINE = Kind("a string", lambda v, _: _line(v))
TEXT = Kind("a string", lambda v, _: _string(v))
SHEBANG = Kind("a line that begins with '#!'", lambda v, _: _shebang(v))
FLAG = Kind("true or false", lambda v, _: _flag(v))
COUNT = Kind(f"a whole number from 0 to {_MOST}", lambda v, _: _whole(v, 0, _MOST))
POOL = Kind(
    f"a whole number from 0 to {_MOST}, or 'auto' for as many as the tasks need",
    lambda v, _: _pool(v),
)
LIMIT = Kind(
    f"a whole number from 1 to {_MOST}, or 0 for no limit", lambda v, _: _whole(v, 0, _MOST) or None
)
CHARGE = Kind("a number above 0", lambda v, _: _charge(v))
POSITIVE = Kind(f"a whole number from 1 to {_MOST}", lambda v, _: _whole(v, 1, _MOST))
CORES = Kind(
    f"a whole number from 1 to {_MOST}, or 0 for unset", lambda v, _: _whole(v, 0, _MOST) or None
)
GIGABYTES = Kind("a number of GB, 0 or more", lambda v, _: _gigabytes(v))
MEMORY = Kind("a number of GB, or 0 for unset", lambda v, _: _gigabytes(v) or None)
SPAN = Kind(_SPAN, lambda v, _: parse_walltime(v))
WALLTIME = Kind(
    f"{_SPAN}; or '' for unset", lambda v, _: None if v == "" else parse_walltime(v) or None
)
STRINGS = Kind("an array of strings of one line each", lambda v, _: _lines(v))
COMMANDS = Kind("shell commands, as lines of one string or as an array", lambda v, _: _commands(v))
ENVIRONMENT = Kind(
    "a table of environment variables, each with a string, such as XTBPATH = '/shared/xtb'",
    lambda v, _: _environment(v),
)
SHARED = Kind(
    "a table of kinds of resource, each with how many the whole cluster has, such as Licences = 5",
    lambda v, _: _shared(v),
    check=lambda v, _: check_shared(v),
)
RESOURCES = Kind(
    "a table of kinds of resource, each with its data, such as Token = { token = 'gpu' }",
    lambda v, _: _resources(v),
    check=lambda v, _: check_offered(v),
)
