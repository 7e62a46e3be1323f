"""The external programs of runs: looked up on request, and ended where the node is short of memory.

Nothing is noted for it when a program begins: the trio task that waits for it has the context of
its run.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import trio

from grain import GVAR
from grain.eventlog.usage import ProgramState
from grain.resource import Memory
from grain.worker.errors import command_line
from grain.worker.node.shortage import MemoryHolder, most_over
from grain.worker.processes.account import HeldTree, RunAccount, attempt_of
from grain.worker.processes.environment import USABLE, allocated
from grain.worker.processes.fork_server_client import ForkServerClient
from grain.worker.processes.usage_now import memory_of, usages_now

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from grain.worker.guards.protocol import ProgramRequest
    from grain.worker.messages import Attempt
    from grain.worker.node.shortage import MemoryRoom

T = TypeVar("T")

LOOK, CLOSE = 1.0, 0.2
"""Seconds between two looks at the node's memory while programs run, and where little is left."""

_MOST = 20  # programs
_LONGEST = 300  # characters of a command


def _is_of_gang(request: ProgramRequest) -> bool:
    """Return True for a process of Grain's that starts programs of a task on several workers."""
    return any(word.startswith(b"grain.worker.gang.") for word in request["argv"])


async def programs_of(attempt: Attempt) -> tuple[ProgramState, ...]:
    """Return the programs that a run of this process runs, and what they use now."""
    programs = [
        program
        for program in ForkServerClient.programs_of_this_run()
        if attempt_of(program.context) == attempt
    ]
    programs = sorted(programs, key=lambda program: _is_of_gang(program.request))[:_MOST]
    if not programs:
        return ()
    pids = [program.supervisor.pid for program in programs]
    usages = await _in_thread(partial(usages_now, pids))
    now = trio.current_time()
    return tuple(
        ProgramState(command_of(one.request), now - one.began, *(usage or ()))
        for one, usage in zip(programs, usages, strict=True)
    )


async def _in_thread(look: Callable[[], T]) -> T:
    """Return the result of a look, which takes some ten milliseconds where processes are many.

    It is not in one of the threads that tasks may all use.
    """
    limiter = trio.CapacityLimiter(1)
    return await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=limiter)


def command_of(request: ProgramRequest) -> str:
    """Return the command of a program, shortened, and the files that take what it prints."""
    if _is_of_gang(request):
        return "what the task has started on this worker, such as ranks"
    text = command_line(tuple(word.decode(errors="replace") for word in request["argv"]))
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} ..."
    for sign, path in (">", request["stdout"]), ("2>", request["stderr"]):
        if path is not None:
            text += f" {sign} {os.path.join(request['cwd'] or b'', path).decode(errors='replace')}"  # noqa: PTH118
    return text


async def watch_memory(
    running: Collection[object],
    may_end: Callable[[Attempt], bool],
    end: Callable[[Attempt], object],
    read: Callable[[], list[MemoryRoom]],
) -> None:
    """Watch the node's memory as long as programs run; where it is short, end a run.

    Functions in processes are programs here.

    Args:
        running: the programs that there are, or are about to be, as of `RunnersPrograms`.
        may_end: returns True for a run that can be ended so.
        end: ends a run, whose programs are killed by then.
        read: returns the memory within each limit.
    """
    dying: list[HeldTree] = []
    while running:
        rooms, trees = read(), [one for one in running if isinstance(one, HeldTree)]
        trees += ForkServerClient.programs_of_this_run()
        # One after the other: what a run had may be enough, and takes some time to be given back.
        dying = [one for one in dying if one in trees]
        if not dying and any(room.short for room in rooms):
            total = min(room.total for room in rooms)
            dying = await _most_over(trees, may_end, total)
            for tree in dying:
                tree.kill()  # a grace would only make it shorter
            if dying and (attempt := attempt_of(dying[0].context)) is not None:
                end(attempt)
        await trio.sleep(CLOSE if any(room.tight for room in rooms) else LOOK)


async def _most_over(
    trees: list[HeldTree], may_end: Callable[[Attempt], bool], total: float
) -> list[HeldTree]:
    """Return the programs of the run to end, whose account gets the reason; none if there is none.

    Args:
        total: GB that all runs may have together.
    """
    runs: dict[Attempt, list[HeldTree]] = {}
    for tree in trees:
        attempt = attempt_of(tree.context)
        if attempt is not None and may_end(attempt):
            runs.setdefault(attempt, []).append(tree)
    chosen = list(runs.values())
    accounts = [GVAR.account_in(one[0].context) for one in chosen]
    holders = []
    for number, account in enumerate(accounts):
        assert isinstance(account, RunAccount)
        memory = account.res.get(Memory)
        # One by itself has the cores of all.
        cores = max(len(allocated(account.res)), 1) if len(runs) > 1 else len(USABLE)
        pids = [tree.top for tree in chosen[number]]
        used = await _in_thread(partial(memory_of, pids, exact=False))
        holders.append(
            MemoryHolder(
                number,
                used,
                float(memory.M) if isinstance(memory, Memory) else None,
                total * min(cores / len(USABLE), 1.0),
            )
        )
    # The exact figures are dear: only of those that may be the one.
    while (most := most_over(holders)) is not None and not most.exact:
        pids = [tree.top for tree in chosen[most.number]]
        used = await _in_thread(partial(memory_of, pids, exact=True))
        holders[most.number] = most._replace(used=min(used, most.used), exact=True)
    if most is None:
        return []
    bound = (
        f"its task has asked for {most.amount:.3g}"
        if most.amount is not None
        else f"{most.share:.3g} belong to its cores, and it has asked for no amount"
    )
    account = accounts[most.number]
    assert isinstance(account, RunAccount)
    account.short = f"ended as its node was short of memory: it had {most.used:.3g} GB; {bound}"
    return chosen[most.number]
