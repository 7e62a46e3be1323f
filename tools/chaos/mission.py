"""A mission, as a user's script: it submits its tasks, and enters each resolution in the books.

Usage: mission.py BOOKS PLAN, where PLAN is a JSON file with a `MissionPlan`, the address, and
the arguments for a Gnaw that it starts. Each start of one that `grain run -d` starts has a name of
its own: m3 is m3-1, and m3-2 when it was resumed.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import outcome
import trio

from grain.delayed import delayed, run
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.util import as_completed
from grain.worker import Call
from tools.chaos.books import BEGINS, ENDS, Book
from tools.chaos.processes import OWNER
from tools.chaos.schedule import LOCAL

if TYPE_CHECKING:
    from grain.resource import Resource

Result = tuple[str, int, bytes]

JOB = str(Path(__file__).with_name("job.py"))


async def program(
    folder: str, mission: str, task: int, plan: dict[str, Any], job: str, data: bytes
) -> Result:
    """Run the external program; return the name of the run, the result, and the data reversed."""
    from grain import GVAR
    from grain.worker.external import run_external

    words = [
        *(sys.executable, "-I", "-S", job, folder, mission, str(task), os.environ[OWNER]),
        *(",".join(map(str, GVAR.res.ids)), str(plan["seconds"]), str(plan["daemons"])),
        *("stubborn" if plan["stubborn"] else "mild", "3" if plan["kind"] == "failing" else "0"),
    ]
    done = await run_external(words, grace=0.5, scratch=True)
    name, value = done.stdout_text.split()
    return name, int(value), data[::-1]


async def gang(
    folder: str, mission: str, task: int, plan: dict[str, Any], job: str, data: bytes
) -> Result:
    """Run the external program on each member."""
    from grain import GVAR
    from grain.worker.external import run_on_members
    from tools.chaos.books import Book, expected

    nodes = GVAR.res.nodes
    names = ",".join(node.name for node in nodes)
    book = Book(folder)
    name, locks = book.begin(mission, task, os.environ[OWNER], [], gang=names)
    book.release(locks)
    done = await run_on_members(
        lambda number: [
            *(sys.executable, "-I", "-S", job, folder, mission, str(task), nodes[number].name),
            *(",".join(map(str, nodes[number].c)), str(plan["seconds"]), str(plan["daemons"])),
            *("stubborn" if plan["stubborn"] else "mild", "0", names),
        ],
        grace=0.5,
    )
    values = {int(one.stdout_text.split()[1]) for one in done}
    if values != {expected(mission, task)}:
        raise RuntimeError(f"its members have {values}")
    book.append("end", mission, task, run=name)
    return name, expected(mission, task), data[::-1]


async def brief(folder: str, mission: str, task: int, plan: dict[str, Any], data: bytes) -> Result:
    """Do the same in the runner itself; or raise the number of the task."""
    import trio

    from grain import GVAR
    from tools.chaos.books import Book, expected

    book = Book(folder)
    name, locks = book.begin(mission, task, os.environ[OWNER], GVAR.res.ids)
    try:
        await trio.sleep(plan["seconds"])
        book.append("end", mission, task, run=name)
    finally:
        book.release(locks)
    if plan["kind"] == "raising":
        raise ValueError(task)
    return name, expected(mission, task), data[::-1]


class Mission:
    """The tasks of one plan.

    Args:
        folder: the books.
        plan: as `MissionPlan`, in plain data.
        name: of this start of it.
    """

    def __init__(self, folder: str, plan: dict[str, Any], name: str) -> None:
        self.name = name
        self._book = Book(folder)
        self._folder = folder
        self._plan = plan
        self._resolved = 0

    def enter(self, what: str) -> None:
        """Enter the beginning or the end of the mission."""
        self._book.append(what, self.name, host=socket.gethostname(), pid=os.getpid())

    def calls(self) -> list[tuple[Any, tuple[Any, ...]]]:
        """Return the function and the arguments of each task."""
        calls: list[tuple[Any, tuple[Any, ...]]] = []
        for number, task in enumerate(self._plan["tasks"]):
            words = (self._folder, self.name, number, task)
            if task["kind"] in {"program", "failing", "gang"}:
                function = gang if task["kind"] == "gang" else program
                calls.append((function, (*words, JOB, self._data(number))))
            else:
                calls.append((brief, (*words, self._data(number))))
        return calls

    def _data(self, task: int) -> bytes:
        size: int = self._plan["tasks"][task]["size"]
        return (f"{self.name} {task} ".encode() * size)[:size]

    def resolve(self, task: int, ended: outcome.Outcome[Result]) -> None:
        """Enter the resolution of a task."""
        self._resolved += 1
        try:
            name, value, data = ended.unwrap()
        except Exception as error:
            detail = getattr(error, "returncode", None)
            # The class of a user's exception travels; one of Grain's says what went wrong.
            text = f"{type(error).__name__} {error.args if detail is None else detail}"
            apart = sum(crash.absent != "" for crash in getattr(error, "crashes", ()))
            self._book.append("resolved", self.name, task, error=text[:2000], apart=apart)
        else:
            whole = data[::-1] == self._data(task)
            self._book.append("resolved", self.name, task, run=name, value=value, whole=whole)

    async def delayed(self) -> None:
        """Call delayed functions."""

        async def value(r_: Any) -> Any:
            return await r_

        numbers = {
            (delayed(function) @ request_of(function))(*arguments): number
            for number, (function, arguments) in enumerate(self.calls())
        }
        async for r_ in as_completed(numbers):
            self.resolve(numbers[r_], await outcome.acapture(value, r_))

    async def executor(self, together: int = 0) -> None:
        """Submit calls to an executor, which calls back for each resolution.

        Args:
            together: how many calls may be unresolved at a time; 0 for all.
        """
        room = trio.Semaphore(together or len(self._plan["tasks"]))

        def resolve(number: int, ended: outcome.Outcome[Result]) -> None:
            self.resolve(number, ended)
            room.release()

        address = self._plan["address"]
        connector = GnawConnector(
            address, name=self.name, log_file=self._plan["log"], arguments=self._plan["arguments"]
        )
        async with RemoteExecutor(
            address,
            name=self.name,
            connect=connector.connect,
            until_direct=connector.until_direct,
        ) as executor:
            for number, (function, arguments) in enumerate(self.calls()):
                call = Call(function, arguments, {})
                await room.acquire()
                executor.submit_call(request_of(function), call, partial(resolve, number))
            await executor.join()


def request_of(function: object) -> Resource:
    """Return what a task asks for."""
    return 2 * Cores(1) if function is gang else Cores(1)


def name_of_start(folder: str, mission: str) -> str:
    """Return a name that no other start of a mission has."""
    for number in itertools.count(1):
        with suppress(FileExistsError):
            Path(folder, f"{mission}-{number}").mkdir()
            break
    return f"{mission}-{number}"


def main(words: list[str]) -> None:
    """Run the mission."""
    folder, file = words
    plan = json.loads(Path(file).read_text())
    name = plan["name"]
    if plan["login"]:
        if os.environ[OWNER] == name:
            # In the same process, in whose environment others see the name of this start.
            environ = {**os.environ, OWNER: name_of_start(folder, name)}
            os.execve(sys.executable, [sys.executable, __file__, *words], environ)
        name = os.environ[OWNER]
    mission = Mission(folder, plan, name)
    mission.enter(BEGINS)
    if plan["interface"] in LOCAL:
        isolated = plan["interface"] == "isolated"
        run(
            mission.delayed,
            local=Cores(2),
            isolated=isolated,
            config_file=False,
            name=mission.name,
            progress=False,
        )
    elif plan["interface"] == "delayed":
        run(mission.delayed, name=mission.name, progress=False)
    else:
        trio.run(mission.executor, 2 if plan["interface"] == "serial" else 0)
    mission.enter(ENDS)


if __name__ == "__main__":
    main(sys.argv[1:])
