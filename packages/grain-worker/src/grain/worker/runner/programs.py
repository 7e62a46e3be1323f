"""The external programs of a run, looked up on request.

Nothing is noted for it when a program begins: the trio task that waits for it has the context of
its run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio

from grain.eventlog.usage import ProgramState
from grain.worker.errors import command_line
from grain.worker.processes.account import attempt_of
from grain.worker.processes.fork_server_client import ForkServerClient
from grain.worker.processes.usage_now import usages_now

if TYPE_CHECKING:
    from grain.worker.guards.protocol import ProgramRequest
    from grain.worker.messages import Attempt

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
        if attempt_of(program.task) == attempt
    ]
    programs = sorted(programs, key=lambda program: _is_of_gang(program.request))[:_MOST]
    if not programs:
        return ()
    # In a thread, as it takes some ten milliseconds where processes are many; and not in one of the
    # threads that tasks may all use.
    usages = await trio.to_thread.run_sync(
        usages_now,
        [program.supervisor.pid for program in programs],
        abandon_on_cancel=True,
        limiter=trio.CapacityLimiter(1),
    )
    now = trio.current_time()
    return tuple(
        ProgramState(command_of(one.request), now - one.began, *(usage or ()))
        for one, usage in zip(programs, usages, strict=True)
    )


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
