"""The settings of a worker as options of ``grain-worker``: written into jobs, and read again.

An option follows from the key in `grain.config.schema`: its name, the form of its value, and what
fits. So the script of a job and the command agree on every key.
"""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from grain.config.expansion import Unfit
from grain.config.kinds import ExpansionContext, Kind
from grain.config.schema import ConfigTable, Option

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

Settings = TypeVar("Settings", bound=ConfigTable)


class _Key(NamedTuple):
    """A key that is an option."""

    name: str
    type: Any
    kind: Kind
    option: Option
    default: Any

    @property
    def word(self) -> str:
        no = "no-" if self.default is True else ""
        return f"--{no}{(self.option.name or self.name).replace('_', '-')}"


def option_words(table: type[ConfigTable], settings: ConfigTable) -> list[str]:
    """Return the options that state what differs from the defaults, quoted for a shell.

    Args:
        settings: the values of its keys; it may have others beside them.

    >>> from grain.config.schema import Worker, WorkerSettings
    >>> option_words(WorkerSettings, Worker(name="w1", cwd="/my work"))
    ["--cwd '/my work'"]
    """
    stated = []
    for key in _keys(table):
        value = getattr(settings, key.name)
        if value == key.default:
            continue
        if key.type is bool:
            stated.append(key.word)
        else:
            text = value if key.type is str else msgspec.json.encode(value).decode()
            stated.append(f"{key.word} {shlex.quote(text)}")
    return stated


def add_options(parser: argparse.ArgumentParser, table: type[ConfigTable]) -> None:
    """Let a parser take the keys of a table as options."""
    for key in _keys(table):
        more: dict[str, Any] = {"dest": key.name, "default": key.default, "help": key.option.help}
        if key.type is bool:
            action = "store_false" if key.default else "store_true"
            parser.add_argument(key.word, action=action, **more)
        else:
            more["metavar"] = key.option.metavar
            parser.add_argument(key.word, type=partial(_read, key), **more)


def read_options(options: argparse.Namespace, table: type[Settings]) -> Settings:
    """Return the values of the options that `add_options` made of a table."""
    return table(**{key.name: getattr(options, key.name) for key in _keys(table)})


def _keys(table: type[ConfigTable]) -> Iterator[_Key]:
    hints = get_type_hints(table, include_extras=True)
    for field in msgspec.structs.fields(table):
        match get_args(hints[field.name]):
            case (type_, Kind() as kind, Option() as option):
                yield _Key(field.name, type_, kind, option, field.default)


def _read(key: _Key, text: str) -> Any:
    """Return the value that a word of a command line states.

    Text is taken as it is: a shell has expanded it, and a path starts where the command does, not
    at a configuration file.

    Raises:
        argparse.ArgumentTypeError: it does not fit.
    """
    if key.type is str:
        return text
    from argparse import ArgumentTypeError  # missions read no options

    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text  # as a span of time, 30m
    try:
        return key.kind.read(value, ExpansionContext({}, Path()))
    except Unfit:
        raise ArgumentTypeError(f"{text!r} is not {key.kind.expected}") from None
