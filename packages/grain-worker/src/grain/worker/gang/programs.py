"""`MemberPrograms`: the programs that a member runs for the root of its gang."""

from __future__ import annotations

import errno
import json
import math
import os
import shlex
import socket
import sys
import time
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import trio
from msgspec import structs

from grain import resource
from grain.resource import GPU_LISTS, THREADS, named_by_numbers
from grain.worker.errors import ExternalError, ExternalMemoryError, ExternalStartError, Failure
from grain.worker.external import (
    CAPTURE,
    STDOUT,
    Completed,
    ProgramCall,
    run_program_call,
    run_warned,
)
from grain.worker.gang.messages import OUTPUT, UNWATCHED
from grain.worker.processes.account import Programs
from grain.worker.processes.environment import ALLOCATED, NOT_BATCH, UNBOUND
from grain.worker.processes.mpi import RSH
from grain.worker.processes.warning import OrderedWarning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from grain.eventlog.usage import Usage
    from grain.worker.gang.messages import ProgramOrder

MEMBER = "GRAIN_MEMBER"
"""The variable of a member's programs with what is its own: see `own_facts`."""

NOT_FOUND, CANNOT = 127, 255
"""The statuses of a program that is not there, as of a shell, and of one that cannot be run for
another reason, as of ssh."""

# Variables by which an MPI launcher on the root speaks to its own children, and those by which
# programs of the root find launchers' files and sockets there.
_OF_LAUNCHERS = (
    "PMI_", "PMIX_", "HYDI_",
    RSH, "OMPI_MCA_plm", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_plm",
    "PRTE_MCA_prte_default_hostfile", "HYDRA_LAUNCHER", "HYDRA_HOST_FILE", "I_MPI_HYDRA_",
)  # fmt: skip
# The same of a batch system, of whose job the root is. Those of a job in Grain's queue say of which
# job all members are.
_NOT_PASSED = ("SLURM_", "SLURMD_", "PBS_", *_OF_LAUNCHERS)
# What each member has by itself, beside its allocation: the root's would lead astray.
_OWN = frozenset(
    (
        *THREADS, ALLOCATED.decode(), MEMBER, "HOSTNAME",
        "TMPDIR", "TMP", "TEMP", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK",
    )
)  # fmt: skip


class MemoryBound(NamedTuple):
    """The memory that the task of a gang has on each member.

    Attributes:
        amount: in GB; None if it asked for none.
        enforced: True to end programs that have more, unless their call says otherwise.
    """

    amount: float | None = None
    enforced: bool = False

    @classmethod
    def parse(cls, word: str) -> MemoryBound:
        """Return the bound that `str` has turned into a word."""
        amount, _, enforced = word.partition(":")
        return cls(float(amount) if amount else None, bool(enforced))

    def __str__(self) -> str:
        amount = "" if self.amount is None else repr(float(self.amount))
        return f"{amount}:{'enforced' if self.enforced else ''}"


Outcome: TypeAlias = Completed | ExternalError
"""The end of a program: its result, or its error."""

NO_BOUND = MemoryBound()

_GRAIN = str(Path(resource.__file__).parents[2])
_LOOK = 0.02  # seconds between two looks whether a program has begun


class CallUse:
    """The use of a call's programs on one member.

    Attributes:
        exceeded: the error of one that ended for want of memory; None if none has.
    """

    def __init__(self) -> None:
        self._programs = Programs()
        self.exceeded: ExternalMemoryError | None = None

    @property
    def usage(self) -> Usage:
        """The use of those that have ended."""
        return self._programs.total

    def begin(self, program: object) -> None:
        """Note the start of a program, which is any object of its own."""
        self._programs.begin(program, time.monotonic())

    def end(self, program: object, outcome: Outcome | None) -> None:
        """Add what a program has used; None if it never ran."""
        used = None if outcome is None else outcome.usage
        self._programs.end(program, time.monotonic(), used)
        if isinstance(outcome, ExternalMemoryError):
            self.exceeded = self.exceeded or outcome

    def add(self, usage: Usage, exceeded: ExternalMemoryError | None) -> None:
        """Add what others have used that ran at another time."""
        program = object()
        self._programs.begin(program, time.monotonic())
        self._programs.end(program, time.monotonic(), usage)
        self.exceeded = self.exceeded or exceeded


class MemberPrograms:
    """The programs of one member; each is started, perhaps ended, and reported once.

    Args:
        nursery: in which they run; its cancellation ends them.
        wrote: called with number, stream and data, as of `ProgramOutput`, of a program that
            ``streams``; the next call for a stream waits for `take`, but at the end of the program.
        exited: called with number and outcome, when nothing of a program is left. Of its output
            there is the end, unless it was passed on.
        bound: the memory that each may have.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        wrote: Callable[[int, int, bytes], object],
        exited: Callable[[int, Outcome], object],
        bound: MemoryBound = NO_BOUND,
    ) -> None:
        self._nursery = nursery
        self._wrote = wrote
        self._exited = exited
        self._bound = bound
        self._scopes: dict[int, trio.CancelScope] = {}
        self._taken: dict[tuple[int, int], trio.Event] = {}
        self._warnings: dict[int, OrderedWarning] = {}
        # Of programs that read: each sender gives a piece when the one before has been taken.
        self._given: dict[int, trio.MemorySendChannel[bytes]] = {}

    def start(self, number: int, order: ProgramOrder) -> None:
        """Start a program."""
        self._scopes[number] = trio.CancelScope()
        if order.warn is not None:
            self._warnings[number] = OrderedWarning(*order.warn)
        given: trio.MemoryReceiveChannel[bytes] | None = None
        if order.reads:
            self._given[number], given = trio.open_memory_channel[bytes](math.inf)
        self._nursery.start_soon(self._run, number, order, given)

    def end(self, number: int) -> None:
        """End a program, unless it has ended."""
        scope = self._scopes.get(number)
        if scope is not None:
            scope.cancel()

    def warn(self, number: int, *, worker: bool) -> None:
        """Warn a program of the end of a worker, or of a time limit, unless it has ended."""
        warning = self._warnings.get(number)
        if warning is not None:
            warning.order("worker" if worker else "time")

    def take(self, number: int, stream: int) -> None:
        """Record that what a program wrote last to a stream was taken."""
        taken = self._taken.get((number, stream))
        if taken is not None:
            taken.set()

    def give(self, number: int, data: bytes) -> None:
        """Pass on a piece of what a program reads, b"" at the end; `wrote` is called then."""
        given = self._given.get(number)
        if given is not None:
            given.send_nowait(data)

    async def _run(
        self, number: int, order: ProgramOrder, given: trio.MemoryReceiveChannel[bytes] | None
    ) -> None:
        argv = tuple(map(os.fsdecode, order.argv))
        facts = Failure(argv, socket.gethostname(), os.fsdecode(order.cwd))
        call: ProgramCall | None = None
        outcome: Outcome | None = None
        with self._scopes[number]:
            try:
                async with self._streams(number, order, given) as (stdout, stderr):
                    if given is not None:
                        # It opens the pipe itself: so a pipe without a writer holds up only that.
                        argv = (
                            *argv[:2],
                            f"exec <{shlex.quote(str(_place(number, 0)))}\n{argv[2]}",
                        )
                    call = ProgramCall(
                        argv, facts.cwd, _environment(order), None, stdout, stderr, order.grace,
                        True, order.threads, False,
                        memory=self._bound.amount, memory_signs=order.memory_signs,
                        enforce=self._bound.enforced if order.enforce is None else order.enforce,
                    )  # fmt: skip
                    warning = self._warnings.get(number)
                    if warning is None:
                        outcome = await run_program_call(call, order.timeout, check=True)
                    else:
                        outcome = await run_warned(call, order.timeout, warning, check=True)
            except ExternalError as error:
                outcome = error
            except (OSError, ValueError) as error:
                outcome = ExternalError(replace(facts, reason=str(error)))
        # On its own cancellation, too: nothing is left then.
        if outcome is None:
            used = None if call is None else call.used_until_cancelled()
            facts = replace(facts, reason="ended, as its call has ended", usage=used)
            outcome = ExternalError(facts)
        del self._scopes[number]
        self._warnings.pop(number, None)
        self._given.pop(number, None)
        self._exited(number, _cut(outcome, streams=order.streams))

    @asynccontextmanager
    async def _streams(
        self, number: int, order: ProgramOrder, given: trio.MemoryReceiveChannel[bytes] | None
    ) -> AsyncIterator[tuple[Any, Any]]:
        """Open the places for what a program reads and writes; pass that on where it streams."""
        if not order.streams:
            yield CAPTURE if order.stdout is None else os.fsdecode(order.stdout), STDOUT
            return
        with ExitStack() as files:
            pipes = [files.enter_context(_pipe(number, stream)) for stream in (1, 2)]
            error: Exception | None = None
            async with trio.open_nursery() as nursery:
                for stream, (fd, _) in enumerate(pipes, 1):
                    nursery.start_soon(self._pass_on, number, stream, fd)
                if given is not None:
                    os.mkfifo(_place(number, 0), 0o600)
                    files.callback(_place(number, 0).unlink, missing_ok=True)
                    nursery.start_soon(self._feed, number, given)
                try:
                    yield pipes[0][1], pipes[1][1]
                except Exception as failed:  # outside of the nursery's group
                    error = failed
                nursery.cancel_scope.cancel()
            for stream, (fd, _) in enumerate(pipes, 1):
                while data := _read(fd):
                    self._wrote(number, stream, data)
            if error is not None:
                raise error

    async def _feed(self, number: int, given: trio.MemoryReceiveChannel[bytes]) -> None:
        """Pass a program what it reads, until that or the program has ended."""
        while (fd := _writing_end(_place(number, 0))) < 0:  # noqa: ASYNC110 - nothing tells of it
            await trio.sleep(_LOOK)
        try:
            async for data in given:
                left = data
                while left:
                    try:
                        left = left[os.write(fd, left) :]
                    except BlockingIOError:
                        await trio.lowlevel.wait_writable(fd)
                self._wrote(number, 0, b"1" if data else b"")
                if not data:
                    break
        except BrokenPipeError:
            self._wrote(number, 0, b"")
        finally:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)

    async def _pass_on(self, number: int, stream: int, fd: int) -> None:
        """Pass on what is written to a pipe."""
        try:
            while True:
                await trio.lowlevel.wait_readable(fd)
                if data := _read(fd):
                    taken = self._taken[number, stream] = trio.Event()
                    self._wrote(number, stream, data)
                    await taken.wait()
        finally:
            self._taken.pop((number, stream), None)


@contextmanager
def _pipe(number: int, stream: int) -> Iterator[tuple[int, Path]]:
    """Make a pipe with a name; return the end to read from, which is not blocking, and the name.

    This process opens it for writing, too. So it does not end where one of several writers does,
    and a writer need not be there first (fifo(7)).
    """
    path = _place(number, stream)
    os.mkfifo(path, 0o600)
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield fd, path
    finally:
        os.close(fd)
        path.unlink(missing_ok=True)


def _place(number: int, stream: int) -> Path:
    """Return the name of the pipe for a stream of a program."""
    return Path(os.environ["TMPDIR"], f"stream-{number}-{stream}")


def _writing_end(path: Path) -> int:
    """Return the end of a pipe to write to, which is not blocking; -1 if it has no reader yet."""
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return -1


def _read(fd: int) -> bytes:
    """Return what is in a pipe, at most `OUTPUT` bytes."""
    try:
        return os.read(fd, OUTPUT)
    except BlockingIOError:
        return b""


def end_unwatched() -> None:
    """End this process, as a program goes on whose guards were killed: its supervisor ends both.

    The gang then counts as crashed. To say how the program ended would be to guess, and it would
    go on beside the next attempt.
    """
    print(
        "the fork server and the supervisor of a program were killed (SIGKILL), and no other "
        "process could end it",
        file=sys.stderr,
    )
    sys.stderr.flush()
    os._exit(UNWATCHED)


def as_of_ssh(outcome: Outcome) -> tuple[int, str]:
    """Return the status and the output of a program, as ssh would have them."""
    if isinstance(outcome, ExternalStartError):
        return NOT_FOUND, str(outcome)
    if outcome.returncode is None:
        return CANNOT, str(outcome)
    return outcome.returncode, (outcome.stdout or b"").decode(errors="replace")


def own_facts() -> str:
    """Return what is a member's own, as JSON: the CPUs, and the variables of devices and threads.

    With GPUs, also if they have names, and the folder by which ``rank`` finds their rules.

    Some launchers give ranks the variables of the root over those of their member. They pass on
    variables that the root does not have: so ``rank`` finds these facts in one of them.
    """
    own = _OWN.union(_allocated(os.environb))
    variables = {name: os.environ[name] for name in sorted(own) if name in os.environ}
    facts: dict[str, object] = {"cpus": sorted(os.sched_getaffinity(0)), "variables": variables}
    if not GPU_LISTS.isdisjoint(variables):
        facts |= {"named": not named_by_numbers(variables), "grain": _GRAIN}
    return json.dumps(facts)


def _cut(outcome: Outcome, *, streams: bool) -> Outcome:
    """Return an outcome with the end of its output, and without the files of a program's pipes."""
    facts: Any = outcome if isinstance(outcome, Completed) else outcome.failure
    usage = facts.usage
    if streams and usage is not None:
        usage = structs.replace(usage, outputs=())
    facts = replace(facts, stdout=facts.stdout and facts.stdout[-OUTPUT:], usage=usage)
    return facts if isinstance(outcome, Completed) else type(outcome)(facts)


def _environment(order: ProgramOrder) -> dict[str, str | None]:
    """Return the changes that make the environment of a program from that of this process.

    A program of a job in the queue has the variables of its job, as on the root: those of the
    worker here are another job's.
    """
    variables: dict[str, str | None] = {}
    asked = {os.fsdecode(name): os.fsdecode(value) for name, value in order.environment}
    of_job = "GRAIN_JOB_ID" in asked
    # Those of the root's allocation have no meaning here, and the member has its own.
    own = _OWN.union(_allocated(dict(order.environment)), _allocated(os.environb))
    if order.streams:  # a launcher passes on numbers of threads: they are those of its ranks
        own = own.difference(THREADS)
    if of_job:
        variables = dict.fromkeys(os.environ.keys() - own - UNBOUND.keys() - NOT_BATCH.keys())
    not_passed = _OF_LAUNCHERS if of_job else _NOT_PASSED
    for name, value in asked.items():
        if name not in own and not name.startswith(not_passed):
            variables[name] = value
    variables[MEMBER] = own_facts()
    for raw, change in order.changes:
        variables[os.fsdecode(raw)] = None if change is None else os.fsdecode(change)
    return variables


def _allocated(variables: Mapping[bytes, bytes]) -> list[str]:
    """Return the names of the variables that tell a program its allocation."""
    return [name for name in os.fsdecode(variables.get(ALLOCATED, b"")).split(",") if name]
