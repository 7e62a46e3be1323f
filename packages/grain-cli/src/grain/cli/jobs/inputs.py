"""Inputs of the tasks of an array: the lines, rows or items of a file, and the words for each."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.jobs.errors import BadSubmission
from grain.inputs.errors import InputError, InputsError
from grain.inputs.splitting import Columns, Splitter, check_names, row_text
from grain.inputs.template import Template
from grain.queue.arrays import MOST_TASKS, has_task
from grain.queue.folder import is_text
from grain.queue.records import TaskInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.inputs.splitting import Record
    from grain.queue.records import ArraySpec

OPTIONS = {"each_line": "--each-line", "csv": "--csv", "from_json": "--from-json"}
"""The options for a file of inputs, by the names of their parameters."""

LONGEST = 10_000_000
"""Bytes of a file of inputs."""

_LONGEST_WORD = 131_072  # bytes with its end: execve(2) takes no more
_LONGEST_COMMANDS = 100_000_000  # bytes of the commands of all tasks


class FileInputs(NamedTuple):
    """The inputs in a file, the first one for task 1.

    Attributes:
        option: the option and the file, for messages.
        records: the columns of each input.
        entries: each input as it was given.
        names: those of the columns; empty if they have none.
    """

    option: str
    records: Sequence[Record]
    entries: Sequence[str]
    names: Record = ()

    def filled(
        self, words: Sequence[str], array: ArraySpec | None, *, is_script: bool = False
    ) -> bytes:
        """Return the inputs as `grain.queue.folder.Queue.submit` takes them.

        Args:
            words: the command, with places for the inputs as in `grain.inputs.template`.
            array: the tasks of the job; others have no line.
            is_script: True if the words are the arguments of a script.

        Raises:
            BadSubmission: an input does not fit the command.
        """
        try:
            return self._filled(words, array, is_script)
        except InputsError as error:
            raise BadSubmission(f"{self.option}: {error}") from None

    def _filled(self, words: Sequence[str], array: ArraySpec | None, is_script: bool) -> bytes:
        # A script takes the place of the program.
        words = ["./script", *words] if is_script else words
        width = {len(record) for record in self.records}
        template = Template(
            words, names=self.names, width=width.pop() if len(width) == 1 else None, append=False
        )
        if template.uses_slot:
            raise InputError("{%}: a task of a job has no slot; {#} is its number")
        lines, length = [], 0
        for task, record in enumerate(self.records, 1):
            line = b"\n"
            if array is None or has_task(array, task):
                command = template.argv(task, record)[1 if is_script else 0 :]
                for word in (*command, f"GRAIN_ENTRY={self.entries[task - 1]}"):
                    if len(word) > _LONGEST_WORD // 4 and len(os.fsencode(word)) >= _LONGEST_WORD:
                        raise InputError(
                            f"input {task} makes a word of more than 131 kB, and no program can "
                            "get one: write long inputs into files, and give their names"
                        )
                line = TaskInput(self.entries[task - 1], tuple(record), tuple(command)).line()
            lines.append(line)
            length += len(line)
            if length > _LONGEST_COMMANDS:
                raise InputError(
                    f"the commands of all tasks are longer than {_LONGEST_COMMANDS / 1e6:g} MB: "
                    "put what is the same for all of them into a script"
                )
        return b"".join(lines)


def read_inputs(parameter: str, name: str, content: bytes, *, header: bool = False) -> FileInputs:
    """Return the inputs in a file.

    Args:
        parameter: one of `OPTIONS`.
        name: of the file, for messages.
        content: that of the file.
        header: True if the first row has the names of the columns.

    Raises:
        BadSubmission: there are none, or too many, or the file is not what it should be.
    """
    option = f"{OPTIONS[parameter]} {name}"
    if len(content) > LONGEST:
        raise BadSubmission(f"{option}: it is longer than {LONGEST / 1e6:g} MB")
    if b"\0" in content:
        raise BadSubmission(f"{option}: there is a null character in it")
    try:
        if parameter == "each_line":
            found = _lines(option, content)
        elif parameter == "csv":
            found = _rows(option, name, content, header=header)
        else:
            found = _items(option, content)
    except InputsError as error:
        raise BadSubmission(f"{option}: {error}") from None
    unit = {"each_line": "line", "csv": "row", "from_json": "item"}[parameter]
    number = len(found.records)
    if not number:
        raise BadSubmission(f"{option}: there is no {unit} in it")
    if number > MOST_TASKS:
        raise BadSubmission(
            f"{option}: it has {number:,} {unit}s, and a job has at most {MOST_TASKS:,} tasks"
        )
    return found


def _lines(option: str, content: bytes) -> FileInputs:
    lines = [os.fsdecode(line.rstrip(b"\r")) for line in content.split(b"\n") if line.strip()]
    return FileInputs(option, [(line,) for line in lines], lines)


def _rows(option: str, name: str, content: bytes, *, header: bool) -> FileInputs:
    splitter = Splitter(Columns(csv=True))
    rows = [*splitter.feed(content), *splitter.end()]
    names: Record = ()
    if header:
        if not rows:
            raise InputError("there is no first line with names in it")
        names = rows.pop(0)
        check_names(names, name)
        for number, row in enumerate(rows, 1):
            if len(row) != len(names):
                raise InputError(
                    f"row {number} has {len(row)} columns, where the header has {len(names)}: "
                    f"{' '.join(row)[:200]!r}"
                )
    return FileInputs(option, rows, [row_text(row) for row in rows], names)


def _items(option: str, content: bytes) -> FileInputs:
    try:
        items = json.loads(content)
    except (ValueError, RecursionError) as error:  # also: text that is not UTF-8
        raise InputError(f"it is not JSON: {error}") from None
    if not isinstance(items, list):
        raise InputError('it has to be a list, as ["a", "b"] or [{"x": 1}, {"x": 2}]')
    names: Record = ()
    if items and isinstance(items[0], dict):
        names = tuple(items[0])
        if not names or "" in names:
            raise InputError("item 1 has no keys, or an empty one: they are the names of columns")
    records = []
    for number, item in enumerate(items, 1):
        if isinstance(item, dict) != bool(names) or (names and {*item} != {*names}):
            keys = ", ".join(names) if names else "none, as it is not an object"
            raise InputError(f"item {number} has other keys than item 1, which has {keys}")
        record = tuple(_json_text(item[key]) for key in names) if names else (_json_text(item),)
        if any("\0" in value for value in record):
            raise InputError(f"item {number} has a null character in it")
        if any(not is_text(value) for value in record):
            raise InputError(f"item {number} has half of a character in it, as \\ud800 is one")
        records.append(record)
    return FileInputs(option, records, [_json_text(item) for item in items], names)


def _json_text(value: Any) -> str:
    """Return a value as a word of a command: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
