"""Programs that are warned before their time is over: what their ends mean then."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import trio

from grain import GVAR
from grain.worker.errors import (
    ExternalError,
    ExternalStartError,
    ExternalTimeoutError,
    Failure,
)
from grain.worker.external.program import run_program_call
from grain.worker.processes.account import RunAccount
from grain.worker.processes.warning import BEFORE, EarlyWarning, UnusableWarning

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.worker.external.program import Completed, ProgramCall
    from grain.worker.processes.warning import Warn


def warning_of(
    warn: Warn | Callable[[], Awaitable[object]] | None,
    before: float | None,
    timeout: float | None,
    directory: str | None,
) -> EarlyWarning | None:
    """Return the warning that a call asks for; errors as of `run_external`."""
    if warn is None:
        if before is not None:
            raise ValueError(
                f'warn_before={before!r}: state how to warn it, too, as in warn="EXIT"'
            )
        return None
    return EarlyWarning(warn, BEFORE if before is None else before, timeout, directory)


async def run_warned(
    call: ProgramCall,
    timeout: float | None,  # noqa: ASYNC109 (it bounds the program, not the waiting)
    warning: EarlyWarning,
    *,
    check: bool,
    scope: trio.CancelScope | None = None,
) -> Completed:
    """Run the program of a call to its end, and warn it before; as `run_program_call`."""
    try:
        await warning.prepare()
    except UnusableWarning as error:
        raise ExternalStartError(call.failure(reason=str(error), errno=errno.ENOENT)) from None
    ended: Completed | ExternalError | None = None
    failed: list[Exception] = []

    async def watch() -> None:
        try:
            await warning.watch(call.request)
        except Exception as error:  # of the user's function
            failed.append(error)
            nursery.cancel_scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            try:
                ended = await run_program_call(call, timeout, check=check, scope=scope)
            except ExternalError as error:
                ended = error
            nursery.cancel_scope.cancel()
    finally:
        await warning.clear()
    if failed:
        raise failed[0]
    assert ended is not None  # or an exception has left the nursery
    _note_soft_stop(warning)
    return _after_warning(ended, warning, check=check)


def of_members(failed: Sequence[ExternalError], warning: EarlyWarning) -> ExternalError:
    """Return the error of a call whose programs have failed on some members."""
    _note_soft_stop(warning)
    error = next((one for one in failed if not is_soft(one)), failed[0])
    return _limited(error, warning) if isinstance(error, ExternalTimeoutError) else error


def is_soft(error: ExternalError) -> bool:
    """Return True if a program has stopped softly, after a warning."""
    return isinstance(error, ExternalTimeoutError) and error.stopped_softly


def _note_soft_stop(warning: EarlyWarning) -> None:
    """Have the task run again, if its program was warned of the end of a worker.

    Whatever the function makes of the error: what it returns is not the result of a program that
    has come to its end.
    """
    if warning.cause == "worker" and isinstance(GVAR.account, RunAccount):
        GVAR.account.stopped = True


def _after_warning(
    ended: Completed | ExternalError, warning: EarlyWarning, *, check: bool
) -> Completed:
    """Return the end of a program that was to be warned, or raise its error."""
    if isinstance(ended, ExternalTimeoutError):
        failure = replace(ended.failure, warned=warning.cause)
        if warning.trouble:
            failure = replace(failure, reason=f"{failure.reason}; {warning.trouble}")
        raise _limited(ExternalTimeoutError(failure), warning)
    if isinstance(ended, ExternalError):
        if not warning.cause or type(ended) is not ExternalError:
            raise ended
        failure = ended.failure
    elif not warning.cause:
        return ended
    elif warning.cause == "time" and (ended.returncode == 0 or not check):
        return replace(ended, warned=warning.cause)
    else:
        failure = Failure(
            argv=ended.argv,
            host=ended.host,
            returncode=ended.returncode,
            elapsed=ended.elapsed,
            stdout=ended.stdout,
            stderr=ended.stderr,
            overflows=ended.overflows,
            usage=ended.usage,
        )
    before = "its worker's end" if warning.cause == "worker" else "its time limit"
    reason = f"stopped softly before {before}, by {warning.told}: {ExternalError(failure).reason}"
    soft = not warning.signal or failure.returncode != -warning.signal
    if not soft:
        reason = (
            f"ended at once by {warning.told}, {warning.before:g} s before {before}: it does not "
            "handle that signal, so it has stored nothing; state another, or a file"
        )
    failure = replace(failure, reason=reason, warned=warning.cause, stopped_softly=soft)
    raise _limited(ExternalTimeoutError(failure), warning)


def _limited(error: ExternalTimeoutError, warning: EarlyWarning) -> ExternalTimeoutError:
    """Tell an error the hard limit of its task, if that was the reason, for the next attempt."""
    if warning.limit:
        error.limit = warning.limit  # type: ignore[attr-defined]
    return error
