"""The resources of the whole cluster, as ``[head.res]`` states them, and commands that count them.

    shared = SharedResources({"Licences": {"orca": 5, "vasp": {"command": "lmstat", ...}}})
    service = HubService(cluster=shared.pool)
    nursery.start_soon(shared.keep_counting, service.dispatch, service.on_uncounted)

A number stands as it is. A command tells its number again and again: it is an external program with
a time limit, which ends with all that it has started. Of the number that it tells, tasks get what
others do not use, as `grain.head.scheduler.cluster.OthersUse` judges by what is in use.
A command that fails changes nothing: the last number counts, and 0 before the first one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import trio

from grain.head.gnaw import asking
from grain.head.gnaw.asking import MANY, SEARCHING, CountFailed, Told
from grain.head.scheduler.cluster import ClusterPool, OthersUse
from grain.resource import Opaque, Resource, from_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LIMIT = 30.0
"""Seconds in which a command has to end."""

_log = logging.getLogger("grain.head")


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
        """Record the numbers, with what each task held at any time while the command ran."""
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
        most = {kind: self._made(kind, MANY) for kind in data}
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
                told = await ask(count.command, count.pattern)
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


async def ask(command: str, pattern: str, limit: float = LIMIT) -> Told:
    """Run a shell command, and return the numbers that the pattern finds in what it prints.

    Both are an external program, of which nothing is left when this returns, raises or is
    cancelled.

    Raises:
        CountFailed: it fails, does not end in time, or tells no numbers.
    """
    # Imported where it is used, as that takes time and memory, and most schedulers need none.
    from grain.worker.external import ExternalError, ExternalTimeoutError, run_external

    words = [sys.executable, "-I", "-S", asking.__file__, command, pattern]
    try:
        # With this directory, also if it was removed.
        where = f"/proc/{os.getpid()}/cwd"
        done = await run_external(words, cwd=where, timeout=limit, grace=0.0, here=True)
    except ExternalTimeoutError as error:
        if SEARCHING.encode() in (error.stdout or b""):
            why = f"the pattern '{pattern}' has found nothing within {limit:g} s: simplify it"
        else:
            why = f"it has not ended within {limit:g} s"
        raise CountFailed(why) from None
    except ExternalError as error:
        raise CountFailed(f"it cannot be asked: {error.reason}") from None
    except OSError as error:
        raise CountFailed(f"it cannot be started: {error.strerror}") from None
    answer = json.loads(done.stdout_text.splitlines()[-1])
    if "failed" in answer:
        raise CountFailed(answer["failed"])
    return Told(**answer)
