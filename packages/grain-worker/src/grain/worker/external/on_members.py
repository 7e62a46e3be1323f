"""`run_on_members`: a program on each worker of a gang at the same time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import trio

from grain import GVAR
from grain.worker.errors import ExternalError
from grain.worker.external.arguments import CAPTURE, STDOUT, check_timeout
from grain.worker.external.program import ProgramCall, run_program_call
from grain.worker.external.warned import is_soft, of_members, run_warned, warning_of
from grain.worker.processes.mpi import members

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from grain.worker.external.arguments import StrPath
    from grain.worker.external.program import Completed
    from grain.worker.processes.mpi import MembersCall
    from grain.worker.processes.warning import EarlyWarning, Warn


async def run_on_members(
    argv: Sequence[StrPath] | Callable[[int], Sequence[StrPath]],
    *,
    cwd: StrPath | None = None,
    env: Mapping[str, str | None] | None = None,
    output: Callable[[int], StrPath] | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 (it bounds the programs, not the waiting)
    grace: float = 1.0,
    threads: int | None = None,
    enforce: bool | None = None,
    memory_signs: Sequence[str] = (),
    warn: Warn | Callable[[], Awaitable[object]] | None = None,
    warn_before: float | None = None,
) -> list[Completed]:
    """Run a program on each member of the task's gang at the same time, and wait for all ends.

    It is for programs that find each other by themselves, without MPI::

        host = GVAR.res.nodes[0].address
        await run_on_members(
            lambda number: ["torchrun", "--nnodes=4", f"--node-rank={number}",
                            f"--master-addr={host}", "--master-port=29500", "train.py"]
        )

    Each program has the CPUs, GPUs and threads of its member, and the environment of this process
    but for what is a member's own, such as TMPDIR. A task on one worker runs one program.

    The first program that fails ends all others. When the call returns, raises or is cancelled,
    nothing of the programs is left on any member, as with `run_external`.

    Args:
        argv: the program and its arguments, or a function that returns them for the number of a
            member: 0 is the one where the task runs. Look at ``GVAR.res.nodes[number]``.
        cwd: the directory to run in, as in `run_external`; each member needs it.
        env: changes to the environment, which win over what is the member's own.
        output: a function that returns the file for what a member's program writes to stdout and
            stderr, relative to `cwd`. By default, the last 64 kB are in the result.
        timeout: seconds after which all are ended, and `ExternalTimeoutError` is raised.
        grace, threads, enforce, memory_signs, warn_before: as in `run_external`, for each program.
        warn: likewise. All are warned at the same time, and one that stops softly does not end the
            others. A file is made on each member, and removed here when all have ended; elsewhere,
            where the directory is not shared, at the next start. A function is called once, here.

    Returns:
        How the programs have ended, one for each member, in order.

    Raises:
        ExternalError: one has failed. The message has member and host, and the last lines of its
            output. Subclasses as of `run_external`.
        ValueError, TypeError: for arguments that no program can have.
    """
    check_timeout(timeout)
    if output is not None and not callable(output):
        raise TypeError(
            f"output={output!r}: write a function of the member's number, as members may share "
            'the directory: output=lambda number: f"out.{number}"'
        )
    gang = members.get()
    programs = [
        ProgramCall(
            argv(number) if callable(argv) else argv,
            cwd, env or {}, None, CAPTURE if output is None else output(number), STDOUT, grace,
            True, threads, False, enforce=enforce, memory_signs=memory_signs,
        )
        for number in range(1 if gang is None else len(gang.cpus))
    ]  # fmt: skip
    warning = warning_of(warn, warn_before, timeout, programs[0].cwd)
    if gang is None:
        if warning is None:
            return [await run_program_call(programs[0], timeout, check=True)]
        return [await run_warned(programs[0], timeout, warning, check=True)]
    call = gang.call(enforce, memory_signs, warning)
    return await _run_members(
        call, programs, {**GVAR.env, **(env or {})}, timeout, threads, warning
    )


async def _run_members(
    members_call: AbstractAsyncContextManager[MembersCall],
    programs: Sequence[ProgramCall],
    changes: Mapping[str, str | None],
    timeout: float | None,  # noqa: ASYNC109 (it bounds the programs, not the waiting)
    threads: int | None,
    warning: EarlyWarning | None,
) -> list[Completed]:
    """Run the programs of all members, as `run_on_members`."""
    completed: dict[int, Completed] = {}
    failed: list[ExternalError] = []
    of_warning: list[Exception] = []  # what the user's function has raised

    async def run(number: int) -> None:
        request = programs[number].request
        try:
            completed[number] = await call.run(
                number,
                argv=request["argv"],
                cwd=os.fsencode(programs[number].cwd or ""),
                changes=changes,
                stdout=request["stdout"],
                timeout=timeout,
                grace=request["grace"],
                threads=threads,
            )
        except ExternalError as error:
            failed.append(error)
            if not is_soft(error):
                nursery.cancel_scope.cancel()

    async def watch(warning: EarlyWarning) -> None:
        try:
            await warning.watch(programs[0].request, call.warn)
        except Exception as error:
            of_warning.append(error)
            nursery.cancel_scope.cancel()

    try:
        async with members_call as call, trio.open_nursery() as watching:
            async with trio.open_nursery() as nursery:
                if warning is not None:
                    watching.start_soon(watch, warning)
                for number in range(len(programs)):
                    nursery.start_soon(run, number)
            watching.cancel_scope.cancel()
    finally:
        if warning is not None:
            await warning.clear()
    if of_warning:
        raise of_warning[0]
    if failed:
        raise failed[0] if warning is None else of_members(failed, warning)
    if call.refused:
        raise programs[0].refused(call.refused)
    return [completed[number] for number in range(len(programs))]
