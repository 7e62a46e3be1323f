"""The choice of a configuration file, and reading it."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import msgspec

from grain.config.check import check
from grain.config.errors import ConfigError, Mistake
from grain.config.kinds import ExpansionContext, without_key
from grain.config.search import NAME, find, untrusted
from grain.eventlog.files import open_plain
from grain.eventlog.names import with_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.config.schema import Config

VARIABLE = "GRAIN_CONFIG"
# A configuration has a few kB. What is larger is another file, or a device without an end.
MOST_BYTES = 1 << 20
_POSITION = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def load(
    config_file: str | os.PathLike[str] | Literal[False] | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    cwd: str | os.PathLike[str] | None = None,
) -> Config:
    """Find, read and check the configuration.

    Args:
        config_file: a file's path; or None for the file that the variable ``GRAIN_CONFIG`` names,
            else ``grain.toml`` in the current directory or the nearest one above it, up to the home
            directory or the root of a git repository, else the defaults; or False for the defaults,
            in which case no file is looked for.
        env: the environment: ``GRAIN_CONFIG`` and what ``$NAME`` and ``~`` expand to.
        cwd: the directory from which relative names of config files start; the current one by
            default.

    Returns:
        The configuration; its ``source`` is the file that it came from.

    Raises:
        ConfigError: the file that was named does not exist or cannot be read; the file that was
            found could be another user's work; it is not TOML, or says something that is not
            understood. Its text names file, key and remedy.
        TypeError: ``config_file`` is none of the above.
    """
    env = with_home(env)
    chosen = choose(config_file, env, cwd)
    if chosen is None:
        return _config({}, ExpansionContext(env, Path()), "the defaults")
    path = Path(cwd or ".") / chosen.name
    raw = _read(path, chosen)
    path = path.absolute()
    if chosen.unnamed:
        _check_ours(path, path, chosen.name)
    config = _config(_parse(raw, chosen.name), ExpansionContext(env, path.parent), chosen.name)
    config = _without_keys(config, path, chosen.name, env)
    if chosen.unnamed:
        for module in {config.contextmod, config.head.contextmod, config.worker.contextmod} - {""}:
            # A module that only workers have cannot be checked here.
            if Path(module).exists():
                _check_ours(Path(module), path, f"{chosen.name}: contextmod")
    return msgspec.structs.replace(config, source=str(path))


class Choice(NamedTuple):
    """The file to read.

    Attributes:
        name: as the user wrote it, or as it was found.
        named_by: the origin of the name, to be added to messages; empty if the user gave it here.
        unnamed: True if no user named it.
    """

    name: str
    named_by: str = ""
    unnamed: bool = False


def choose(
    config_file: str | os.PathLike[str] | Literal[False] | None,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str] | None = None,
) -> Choice | None:
    """Choose the file; None if none is to be read. An empty variable counts as unset."""
    if config_file is False:
        return None
    if config_file is None:
        if name := env.get(VARIABLE):
            return Choice(name, f" (named by {VARIABLE})")
        return _file_above(env, cwd)
    if isinstance(config_file, (str, os.PathLike)):
        return Choice(os.fspath(config_file))
    raise TypeError(f"config_file is a path, None or False, not {config_file!r}")


def _file_above(env: Mapping[str, str], cwd: str | os.PathLike[str] | None) -> Choice | None:
    try:
        start = Path(cwd or ".").absolute()
    except FileNotFoundError:
        return None  # the current directory is gone
    path = find(start, env.get("HOME", ""))
    if path is None:
        return None
    return Choice(NAME if path.parent == start else str(path), unnamed=True)


def _check_ours(path: Path, config_file: Path, name: str) -> None:
    """Refuse a file that was found, and that another user may have written.

    Raises:
        ConfigError: one may.
    """
    try:
        problem = untrusted(path)
    except OSError as error:
        problem = f"{path} cannot be looked at: {error.strerror}"
    if problem:
        quoted = shlex.quote(str(config_file))
        _fail(
            name,
            f"not used, as other users may have written it: {problem}. If you trust it, name it: "
            f"grain -c {quoted}, or {VARIABLE}={quoted}",
        )


def _without_keys(config: Config, path: Path, name: str, env: Mapping[str, str]) -> Config:
    """Put files that only this user may read in the place of keys of bridges in addresses.

    Addresses travel in argument lists and in messages.

    Raises:
        ConfigError: other users may read the configuration, or the file cannot be written.
    """
    has_key = re.compile(r"bridge://[^@]")
    written = (
        config.address, config.head.listen, config.worker.dial, config.worker.cli_dial,
    )  # fmt: skip
    if not any(map(has_key.match, written)):
        return config
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        _fail(
            name,
            "other users may read it, and the key of a bridge stands in it: run `chmod 600 "
            f"{shlex.quote(str(path))}`, or put the key into a file of your own: "
            "bridge://@/path/of/key@host:port",
        )
    from grain.edge.public import without_key

    try:
        address, listen, dial, cli_dial = (without_key(one, env) for one in written)
    except OSError as error:
        _fail(name, f"the key of the bridge cannot be stored: {error.filename}: {error.strerror}")
    replace = msgspec.structs.replace
    return replace(
        config,
        address=address,
        head=replace(config.head, listen=listen),
        worker=replace(config.worker, dial=dial, cli_dial=cli_dial),
    )


def _config(data: Mapping[str, object], context: ExpansionContext, name: str) -> Config:
    config, mistakes = check(data, context)
    if config is None:
        raise ConfigError(name, tuple(mistakes))
    return config


def _read(path: Path, chosen: Choice) -> bytes:
    """Read a file, not more of it than is sane.

    Raises:
        ConfigError: it cannot be read.
    """
    if not chosen.name:
        _fail("config_file", "found an empty name, expected the path of a file")
    try:
        # A pipe that the user names is read to its end; one that lies about would hang a command.
        with open_plain(path) if chosen.unnamed else path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        _fail(chosen.name, f"no such file{chosen.named_by}")
    except IsADirectoryError:
        _fail(chosen.name, f"found a directory, expected a file{chosen.named_by}")
    except (OSError, ValueError) as error:
        # A ValueError is a name with a null character in it.
        reason = error.strerror if isinstance(error, OSError) else error
        _fail(chosen.name, f"cannot be read: {reason}{chosen.named_by}")
    if len(raw) > MOST_BYTES:
        _fail(chosen.name, f"larger than {MOST_BYTES} bytes, so it is not a config file")
    return raw


def _parse(raw: bytes, name: str) -> dict[str, Any]:
    """Parse TOML, whatever the bytes are.

    Raises:
        ConfigError: they are not UTF-8, or not TOML.
    """
    try:
        # Some editors put a byte order mark in front, which TOML does not know.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        _fail(f"{name}:{line}", f"found the byte 0x{raw[error.start]:02x}, expected text in UTF-8")
    # A TOML reader takes some milliseconds to import, which runs without a file need not pay.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except RecursionError:
        _fail(name, "not valid TOML: nested too deeply")
    except ValueError as error:
        # Mostly TOMLDecodeError, a ValueError itself; a bare one for numbers beyond any sense.
        _refuse_toml(str(error), text, name)


def _refuse_toml(message: str, text: str, name: str) -> NoReturn:
    position = _POSITION.fullmatch(message)
    if position is None:
        _fail(name, f"not valid TOML: {message}")
    # tomllib counts characters as the file has them, except that it takes CRLF for one.
    lines = text.replace("\r\n", "\n").split("\n")
    row = int(position[2] or len(lines))
    column = int(position[3] or len(lines[-1]) + 1)
    shown = without_key(lines[row - 1].strip())[:80] if row <= len(lines) else ""
    where = f", in {shown!r}" if shown else ""
    _fail(f"{name}:{row}:{column}", f"not valid TOML: {position[1]}{where}")


def _fail(file: str, text: str) -> NoReturn:
    raise ConfigError(file, (Mistake("", text),)) from None
