"""The tasklets' side of a gang: `lead` for the root, `keep_seat` for each other member."""

from __future__ import annotations

import base64
import math
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import trio

from grain import GVAR
from grain.files.trust import python_command
from grain.resource import Member, RootAllocation
from grain.worker.errors import CodeReplaced, ExternalError, MemberLost
from grain.worker.external import CAPTURE, ProgramCall, enforces, run_program_call
from grain.worker.gang.control import ControlError, JsonLines, accept, listen
from grain.worker.gang.members import GangMembers
from grain.worker.gang.messages import JOIN, LEAD, NO_ROOT, SILENCE
from grain.worker.gang.programs import MemoryBound
from grain.worker.processes.account import Programs, RunAccount, WorkerEnd
from grain.worker.processes.environment import allocated
from grain.worker.processes.mpi import SlurmPlace, members

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from grain.resource import Resource

T = TypeVar("T")

_GRACE = 1.0  # seconds for a process of this room to end
_GOODBYE = 5.0  # seconds for the process of the root to say goodbye to the seats


class Seat(NamedTuple):
    """A member other than the root.

    Attributes:
        name: of its worker.
        host: on which that runs.
        res: what it has for the gang.
        invitation: of its process.
    """

    name: str
    host: str
    res: Resource
    invitation: bytes


async def keep_seat(
    announce: Callable[[bytes], object],
    ends: Callable[[], Awaitable[bool]],
    *,
    silence: float = SILENCE,
) -> None:
    """Keep a seat until the root has ended or is lost; nothing of its programs is left then.

    Cancellation ends them, too.

    Args:
        announce: called with the invitation, which the root needs.
        ends: returns True if this worker is being ended; called when the root's call has failed.
        silence: seconds without a sign of life after which the root is lost.

    Raises:
        MemberLost: the root has not connected within `LEAD` times the silence.
        ExternalError: its process has failed.
    """
    failed: Exception | None = None
    account = GVAR.account_in(trio.lowlevel.current_task().context)
    name, listener = listen()

    async def serve_process() -> None:
        # The process ends if this connection does.
        async with await accept(listener) as lines:
            announce(base64.b85decode((await lines.receive())["invitation"]))
            if isinstance(account, RunAccount) and account.end is not None:
                nursery.start_soon(tell_end, account.end, lines)
            with suppress(ControlError):  # it has ended
                while True:
                    call = (await lines.receive())["failed"]
                    await lines.send(call=call, ends=await ends())

    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(serve_process)
        try:
            await _process("member", name, silence)
        except ExternalError as error:
            failed = error
            if error.returncode == NO_ROOT:
                why = f"it has not connected within {LEAD * silence:.0f} s"
                failed = MemberLost(0, "the root", why, joined=False)
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def tell_end(end: WorkerEnd, lines: JsonLines) -> None:
    """Tell the process of a seat when its worker ends, as often as that changes."""
    told = math.inf, False
    with suppress(ControlError):  # it has ended
        while True:
            # Compared, not only waited for: it may change again while a line is being sent.
            while (end.at, end.now) == told:
                await end.changed.park()
            told = end.at, end.now
            left = None if end.at == math.inf else max(end.at - trio.current_time(), 0.0)
            await lines.send(left=left, now=end.now)


async def lead(
    seats: Sequence[Seat], body: Callable[[], Awaitable[T]], *, silence: float = SILENCE
) -> T:
    """Lead a gang while a function runs, which begins when all members have joined.

    At its end all seats end.

    Args:
        seats: all other members, in order.
        body: the function. While it runs, `grain.worker.processes.mpi.members` is set, and
            ``GVAR.res.nodes`` has the members.
        silence: seconds without a sign of life after which a member is lost.

    Raises:
        MemberLost: one did not join within `JOIN` times the silence, or is lost; the function is
            cancelled.
        Exception: of the function.
    """
    leader = GangLeader(seats, silence)
    name, listener = listen()
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(leader.keep_process, name, nursery.cancel_scope)
        async with await accept(listener) as lines:
            result = await leader.serve(lines, body)
            leader.over = True
        # It says goodbye to the seats, as its connection to us has ended.
        with trio.move_on_after(_GOODBYE):
            await leader.ended.wait()
        nursery.cancel_scope.cancel()
    if leader.lost is not None:
        raise leader.lost
    if isinstance(result, Exception):
        raise result
    return result[0]


class GangEnd(WorkerEnd):
    """The end of the first worker among those of a gang: programs are warned of that."""

    def __init__(self) -> None:
        super().__init__(self._report)
        self._ends: dict[int, tuple[float, bool]] = {}
        self._own: WorkerEnd | None = None

    def set(self, member: int, at: float, now: bool) -> None:
        """Note the end of a member's worker."""
        self._ends[member] = at, now
        self.announce(
            min(at for at, _ in self._ends.values()), now=any(now for _, now in self._ends.values())
        )

    async def follow(self, own: WorkerEnd) -> None:
        """Note that of the root's own worker, as often as it changes."""
        self._own = own
        while True:
            self.set(0, own.at, own.now)
            await own.changed.park()

    def _report(self) -> None:
        """Have the root's worker take no more tasks, if it is the one that ends."""
        own = self._own
        if own is not None and (own.now or (not self.now and own.at <= self.at)):
            own.on_warned()


class GangLeader:
    """The state of `lead`.

    Attributes:
        lost: the first loss.
        over: True when the function has ended, and the process is to end.
        ended: set when the process of the root has ended.
    """

    def __init__(self, seats: Sequence[Seat], silence: float) -> None:
        self._seats = seats
        self._silence = silence
        self._addresses: dict[int, str] = {}
        self._joined = trio.Event()
        self._end = GangEnd()
        self.lost: MemberLost | None = None
        self.over = False
        self.ended = trio.Event()

    async def keep_process(self, control: str, run: trio.CancelScope) -> None:
        """Run the process of the root; if it fails, all is over."""
        why = ""
        try:
            await _process("root", control, self._silence)
        except ExternalError as error:
            why = str(error)
        self.ended.set()
        if not self.over:
            self.lose(0, f"the process of the root has ended: {why}")
            run.cancel()

    async def serve(
        self, lines: JsonLines, body: Callable[[], Awaitable[T]]
    ) -> tuple[T] | Exception:
        """Have all seats join, and run the function; return its result or its error."""
        own = GVAR.res
        cpus = [len(allocated(res)) for res in (own, *(seat.res for seat in self._seats))]
        first = await lines.receive()
        gang = GangMembers(lines, first["rsh"], cpus, first["place"])
        result: tuple[T] | Exception = RuntimeError("cancelled")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, lines, gang, nursery.cancel_scope)
            for index, seat in enumerate(self._seats, 1):
                invitation = base64.b85encode(seat.invitation).decode()
                await lines.send(join=index, invitation=invitation)
            with trio.move_on_after(JOIN * self._silence):
                await self._joined.wait()
            if self._joined.is_set():
                root = Member(GVAR.instance, socket.gethostname(), own, gang.address)
                GVAR.res = RootAllocation(own, [root, *self._others()])
                account = GVAR.account_in(trio.lowlevel.current_task().context)
                if isinstance(account, RunAccount):
                    account.res = GVAR.res  # its report names the members
                    account.programs.others = tuple(Programs() for _ in self._seats)
                    if account.end is not None:
                        nursery.start_soon(self._end.follow, account.end)
                        account.end = self._end
                token = members.set(gang)
                try:
                    if self._seats:
                        # In a thread, as it looks up the name of this host.
                        ranks = [max(count, 1) for count in cpus]
                        await trio.to_thread.run_sync(gang.allow, ranks, abandon_on_cancel=True)
                    result = (await body(),)
                except Exception as error:  # outside of the nursery's group
                    result = error
                finally:
                    members.reset(token)
            else:
                absent = next(k for k, _ in enumerate(self._seats, 1) if k not in self._addresses)
                self.lose(absent, f"it has not answered within {JOIN * self._silence:.0f} s")
            nursery.cancel_scope.cancel()
        return result

    def _others(self) -> list[Member]:
        return [
            Member(seat.name, seat.host, seat.res, self._addresses[index])
            for index, seat in enumerate(self._seats, 1)
        ]

    async def _listen(self, lines: JsonLines, gang: GangMembers, run: trio.CancelScope) -> None:
        if not self._seats:
            self._joined.set()
        try:
            while self.lost is None:
                line = await lines.receive()
                if "join" in line:
                    gang.address = line["own"]
                    gang.places[line["join"]] = SlurmPlace(**line["place"])
                    self._addresses[line["join"]] = line["address"]
                    if len(self._addresses) == len(self._seats):
                        self._joined.set()
                elif "member" in line:
                    left = math.inf if line["left"] is None else line["left"]
                    self._end.set(line["member"], trio.current_time() + left, line["now"])
                elif "lost" in line:
                    self.lose(line["lost"], line["why"], ends=line.get("ends", False))
                else:
                    gang.on_line(line)
        except ControlError:
            # The process has ended: `keep_process` knows why, and cancels all. Before that, a call
            # that waits for its end is not to end, as its failure would seem to be its own.
            await trio.sleep_forever()
        finally:
            # Also if the whole run is cancelled: then the process ends, and all seats with it, and
            # a call that waits for them would not end.
            gang.on_lost()
        run.cancel()

    def lose(self, index: int, why: str, *, ends: bool = False) -> None:
        """Note the loss of a member; only the first one counts, as others follow from it."""
        joined = self._joined.is_set()
        worker = self._seats[index - 1].name if index else ""
        name = worker or "this worker"
        if self.lost is None:
            self.lost = MemberLost(index, name, why, joined=joined, worker=worker, ends=ends)


async def _process(module: str, control: str, silence: float) -> None:
    """Run a process of this room to its end.

    Raises:
        ExternalError: it has failed.
        CodeReplaced: it would run other code than this process does.
    """
    CodeReplaced.check()
    bound = MemoryBound(getattr(GVAR.res, "M", None), enforces())
    words = [*python_command(f"grain.worker.gang.{module}"), control, str(silence), str(bound)]
    # Not it is counted and held to its memory, but each program that it runs.
    call = ProgramCall(
        words, None, {}, None, CAPTURE, CAPTURE, _GRACE, True, None, True,
        enforce=False, counted=False,
    )  # fmt: skip
    await run_program_call(call, None, check=True)
