"""The resources of the whole cluster, as ``[head.res]`` states them, and commands that count them.

    shared = SharedResources({"Licences": {"orca": 5, "vasp": {"command": "lmstat", ...}}})
    service = HubService(cluster=shared.pool)
    nursery.start_soon(shared.keep_counting, service.dispatch, service.on_uncounted)

A number stands as it is. A command tells its number again and again: it runs with a time limit in a
session of its own, whose processes are killed with it. Of the number that it tells, tasks get what
others do not use, as `grain.head.scheduler.cluster.OthersUse` judges by what is in use.
A command that fails changes nothing: the last number counts, and 0 before the first one.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from grain.head.scheduler.cluster import ClusterPool, OthersUse
from grain.resource import Opaque, Resource, from_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LIMIT = 30.0
"""Seconds in which a command has to end."""

_MANY = 1_000_000_000  # a number that a command may tell is less
_SHOWN = 200  # characters of what a command printed, in messages

_log = logging.getLogger("grain.head")


class CountFailed(Exception):
    """A command did not tell a number; the text says why."""


class Told(NamedTuple):
    """The numbers that a command has told.

    Attributes:
        used: how many are in use, by tasks and by others; None if it does not tell that.
    """

    total: int
    used: int | None


class Count:
    """A command that tells how many there are of a kind, or of one sort of it.

    Args:
        table: its command, pattern and seconds between two calls.

    Attributes:
        kind, name: of what; the name is empty for a kind without sorts.
        number: how many tasks may use at a time; None before the first answer.
        others: an estimate of how many others use.
        failed: why the last call failed; empty if it did not.
    """

    def __init__(self, kind: str, name: str, table: Mapping[str, Any]) -> None:
        self.kind = kind
        self.name = name
        self.command: str = table["command"]
        self.pattern: str = table["pattern"]
        self.every = float(table["every"])
        self.number: int | None = None
        self.others = OthersUse()
        self.failed = ""

    @property
    def what(self) -> str:
        """The name for display."""
        return f"{self.kind} {self.name}".strip()

    def note(self) -> str:
        """Return a clause on the number; empty if there is nothing to say."""
        name = f"{self.name}: " * (self.name != "")
        if self.number is None:
            why = self.failed or "it has not answered yet"
            return f"{name}how many there are is not known, as {self.command!r} says: {why}"
        parts = [f"others use {self.others.number}"] * (self.others.number > 0)
        if self.failed:
            parts.append(f"as {self.command!r} said last, which fails now")
        return f"{name}{', '.join(parts)}" if parts else ""

    def on_told(self, told: Told, held: Mapping[int, int], now: float) -> None:
        """Take in the numbers, with what each task held at any time while the command ran."""
        if told.used is not None:
            self.others.on_answer(told.used, held, now)
        self.number = max(told.total - self.others.number, 0)
        self.failed = ""


class SharedResources:
    """The resources of the whole cluster of one scheduler.

    Args:
        data: as ``head.res`` of the configuration has it.

    Attributes:
        pool: the account of them.
        counts: the commands that tell some of the numbers.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)
        # By the identity of its table, in whose place a number is put.
        self._by_table = {id(one[2]): Count(*one) for one in _tables(data)}
        self.counts = list(self._by_table.values())
        total = {kind: self._made(kind) for kind in data}
        most = {kind: self._made(kind, _MANY) for kind in data}
        self.pool = ClusterPool(total, most)
        for kind, resource in total.items():
            if isinstance(resource, Opaque):
                self.pool.notes[kind] = {
                    "": "the scheduler has no class of this kind, and so hands out none: install "
                    "the package that has it as an entry point"
                }
        self._note()

    async def keep_counting(
        self, on_changed: Callable[[], object], on_trouble: Callable[[str, str], object]
    ) -> None:
        """Ask all commands again and again, until cancelled.

        Args:
            on_changed: called when a number may have changed.
            on_trouble: called once with the command, and the reason, when one fails; and with an
                empty reason when it works again.
        """
        async with trio.open_nursery() as nursery:
            for count in self.counts:
                nursery.start_soon(self._keep_asking, count, on_changed, on_trouble)

    async def _keep_asking(
        self,
        count: Count,
        on_changed: Callable[[], object],
        on_trouble: Callable[[str, str], object],
    ) -> None:
        while True:
            held = self.pool.holding(count.kind, count.name)
            failed = count.failed
            try:
                told = read(count.pattern, await run_command(count.command))
            except CountFailed as error:
                count.failed = str(error)
                if not failed:
                    last = "none is handed out" if count.number is None else "the last one counts"
                    why = (
                        f"{count.command!r} does not tell how many there are of {count.what}, so "
                        f"{last}: {error}"
                    )
                    _log.warning("%s", why)
                    on_trouble(f"the command {count.command!r}", why)
            else:
                held.update(self.pool.holding(count.kind, count.name))
                count.on_told(told, held, trio.current_time())
                if failed:
                    _log.info("%r tells again how many there are of %s", count.command, count.what)
                    on_trouble(f"the command {count.command!r}", "")
                self.pool.set_total(count.kind, self._made(count.kind))
            self._note()
            on_changed()
            await trio.sleep(count.every)

    def _made(self, kind: str, otherwise: int | None = None) -> Resource:
        """Return what there is of a kind, with a number in the place of each command."""
        from grain.config import with_counts  # most schedulers need none of that

        def number(table: dict[str, Any]) -> int:
            return otherwise or self._by_table[id(table)].number or 0

        return from_data({kind: with_counts(self._data[kind], number)}, unknown="keep")

    def _note(self) -> None:
        for kind in {count.kind for count in self.counts}:
            self.pool.notes[kind] = {
                count.name: count.note() for count in self.counts if count.kind == kind
            }


def _tables(data: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each command with the kind, and the name of the sort."""
    for kind, value in data.items():
        if isinstance(value, dict):
            several = {"": value} if "command" in value else value
            for name, one in several.items():
                if isinstance(one, dict) and "command" in one:
                    yield kind, name, one


def read(pattern: str, output: str) -> Told:
    """Return the numbers in the output of a command.

    Raises:
        CountFailed: they are not there.
    """
    match = re.search(pattern, output, re.MULTILINE)
    if match is None:
        raise CountFailed(f"its output does not match the pattern '{pattern}': {_short(output)}")
    groups = match.groupdict()
    try:
        total, used = int(groups["total"]), groups.get("used")
        told = Told(total, None if used is None else int(used))
    except (TypeError, ValueError):
        raise CountFailed(f"its numbers are not whole numbers: {_short(match[0])}") from None
    if told.total < 0 or told.total >= _MANY or (told.used or 0) < 0:
        raise CountFailed(f"its numbers cannot be: {_short(match[0])}")
    return told


async def run_command(command: str, limit: float = LIMIT) -> str:
    """Run a shell command; return what it prints.

    Cancelled, it kills all processes of the command's session.

    Raises:
        CountFailed: it fails, or does not end in time.
    """
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        with trio.move_on_after(limit):
            done = await trio.run_process(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                start_new_session=True,
                deliver_cancel=_kill_session,
            )
    except OSError as error:
        raise CountFailed(f"it cannot be started: {error.strerror}") from None
    if done is None:
        raise CountFailed(f"it has not ended within {limit:g} s")
    if done.returncode:
        status = done.returncode
        how = f"exit status {status}" if status > 0 else signal.Signals(-status).name
        raise CountFailed(f"{how}: {_short((done.stderr or done.stdout).decode(errors='replace'))}")
    return done.stdout.decode(errors="replace")


async def _kill_session(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _short(text: str) -> str:
    """Return the beginning of a text, in one line."""
    line = " ".join(text.split())
    return (line if len(line) <= _SHOWN else f"{line[:_SHOWN]} ...") or "(nothing)"
