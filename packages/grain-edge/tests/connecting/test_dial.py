"""The head that a dialler ends up with, by trio's mock clock; the routes to it are stand-ins."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from socket import gethostname
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
from msgspec import structs

from grain.edge.connecting.dial import Dialler
from grain.edge.connecting.race import Route
from grain.edge.errors import DialError, NoEdgeFile
from grain.edge.meeting.block import MeetingRecord
from grain.edge.messages import CORE
from grain.files.processes import start_time, this_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from trio.testing import MockClock

    from grain.edge.meeting.meeting import Meeting


class Thing(trio.abc.AsyncResource):
    """A stand-in for a connection."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()


class Stage(Dialler):
    """A dialler of a meeting that is led by one head, and from some time on by another.

    Args:
        opens: the way to the head of each epoch.
        change: when the second leads, in seconds from now.
    """

    def __init__(self, opens: dict[int, Callable[[], Awaitable[Any]]], change: float) -> None:
        super().__init__("edge:///nowhere", "worker", "w", CORE, frozenset())
        self._opens = opens
        self._change = trio.current_time() + change
        self.looks = 0
        self.meeting = cast("Meeting", self)
        self.path = "/nowhere"

    async def read(self) -> MeetingRecord:
        """As `Meeting` does."""
        self.looks += 1
        await trio.lowlevel.checkpoint()
        left = self._change - trio.current_time()
        if 0 < left < 2:
            raise NoEdgeFile("/nowhere")
        return MeetingRecord("a", 1 if left > 0 else 2, True, "n1", "boot", 1, 1, 1)

    async def changed(self) -> None:
        """As `Meeting` does where the kernel reports nothing."""
        await trio.sleep_forever()

    def _routes(self, record: MeetingRecord) -> list[Route[Any]]:
        return [Route("reverse", "any interface", self._opens[record.epoch], deadline=20.0)]


async def never() -> Any:
    await trio.sleep_forever()


async def test_a_dead_head_is_given_up_for_its_successor(autojump_clock: MockClock) -> None:
    """At once, and not when every way to it has taken its time."""
    thing = Thing()

    async def second() -> Thing:
        return thing

    began = trio.current_time()
    opened, _ = await Stage({1: never, 2: second}, change=5.0).patiently(60)

    assert thing is cast("object", opened)
    assert trio.current_time() - began < 10
    assert not thing.closed


async def test_a_slow_head_is_waited_for(autojump_clock: MockClock) -> None:
    """While it leads, and with a look at the file once a second."""
    thing = Thing()

    async def slow() -> Thing:
        await trio.sleep(19)
        return thing

    stage = Stage({1: slow}, change=1000.0)
    opened, _ = await stage.patiently(60)

    assert thing is cast("object", opened)
    assert stage.looks < 30


class Empty(Dialler):
    """A dialler whose meeting has no head yet; `looks` has the seconds from its begin."""

    def __init__(self) -> None:
        super().__init__("edge:///nowhere", "worker", "w", CORE, frozenset())
        self.looks: list[float] = []

    async def once(self, *_: Any, **__: Any) -> None:
        self.looks.append(trio.current_time())
        await trio.lowlevel.checkpoint()


class Unled(Stage):
    """A dialler of a meeting that no head leads, or one whose process is what `pid` says."""

    def __init__(self, pid: int) -> None:
        super().__init__({2: never}, 0.0)
        self._pid = pid

    async def read(self) -> MeetingRecord:
        """As `Meeting` does."""
        record = await super().read()
        if not self._pid:
            raise NoEdgeFile("/nowhere")
        me = this_process()
        return structs.replace(
            record, host=me.host, boot=me.boot, space=me.space, pid=self._pid, start=1
        )

    def _routes(self, _: MeetingRecord) -> list[Route[Any]]:
        return []


@pytest.mark.parametrize("pid", [0, 2**22 + 1], ids=["none", "dead"])
async def test_a_dialler_may_give_up_at_once_where_no_head_leads(
    pid: int, autojump_clock: MockClock
) -> None:
    """A mission starts a head then, and need not look for one first."""
    begun = trio.current_time()
    with pytest.raises(DialError, match="no head serves there"):
        await Unled(pid).patiently(60.0, coming=False)
    assert begun == trio.current_time()

    with pytest.raises(DialError, match="within 60 s"):
        await Unled(pid).patiently(60.0)
    assert begun + 60.0 == trio.current_time()


async def test_a_head_that_may_live_is_waited_for_all_the_same(autojump_clock: MockClock) -> None:
    """Its host is another one, or it is just too slow."""
    with pytest.raises(DialError, match="within 60 s"):
        await Stage({2: never}, 0.0).patiently(60.0, coming=False)


@pytest.mark.parametrize(("at", "most"), [(10, 1.25), (60, 2.5), (240, 10), (3600, 18.75)])
async def test_looks_for_a_head_are_close_compared_with_the_wait(
    at: float, most: float, autojump_clock: MockClock
) -> None:
    dialler, began = Empty(), trio.current_time()
    with pytest.raises(DialError):
        await dialler.patiently(at + 20)

    until = [look - began for look in dialler.looks]
    pauses = [later - one for one, later in itertools.pairwise(until) if one <= at]
    assert max(pauses) <= most
    assert len(until) <= 130 + at / 10


async def test_a_round_that_was_cut_off_is_not_what_is_told(autojump_clock: MockClock) -> None:
    """A dial that fails reports the errors of the last whole round."""

    rounds = 0

    async def refused() -> Any:
        nonlocal rounds
        rounds += 1
        if rounds > 1:
            await trio.sleep_forever()
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(DialError) as caught:
        await Stage({1: refused}, change=1000.0).patiently(10)

    assert 2 == rounds
    assert ["nobody listens"] == [attempt.outcome for attempt in caught.value.tried]


class Unanswered(Dialler):
    """A dialler of a head that is reached by no way."""

    def __init__(self, record: MeetingRecord) -> None:
        super().__init__("edge:///nowhere", "worker", "w", CORE, frozenset())
        self._led_by = record
        self.meeting = cast("Meeting", self)
        self.path = "/nowhere"

    async def read(self) -> MeetingRecord:
        """As `Meeting` does."""
        await trio.lowlevel.checkpoint()
        return self._led_by

    async def changed(self) -> None:
        """As `Meeting` does where the kernel reports nothing."""
        await trio.sleep_forever()


async def test_a_look_that_was_cut_off_is_not_told_where_no_route_could_be_tried(
    autojump_clock: MockClock,
) -> None:
    """As where the head is reached by files alone, and the dialler may not use these."""

    class LooksTwice(Unanswered):
        looks = 0

        async def read(self) -> MeetingRecord:
            self.looks += 1
            if self.looks > 1:
                await trio.sleep_forever()
            return await super().read()

    dialler = LooksTwice(MeetingRecord("a", 1, True, "n7", "another kernel", 1, 1234, 1))
    with pytest.raises(DialError) as caught:
        await dialler.patiently(10)

    assert 2 == dialler.looks
    assert () == caught.value.tried


@contextmanager
def stopped(code: str) -> Iterator[int]:
    """Yield the pid of a process that stops itself."""
    code += "; import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        os.waitpid(process.pid, os.WUNTRACED)
        yield process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


async def logged_by(dialler: Dialler, caplog: pytest.LogCaptureFixture) -> str:
    """Return what a dialler logs that reaches no head."""
    caplog.set_level("INFO", "grain.edge")
    with pytest.raises(DialError):
        await dialler.patiently(20.0)
    [line] = [line for line in caplog.messages if "no scheduler yet" in line]
    return line


async def test_a_head_that_is_stopped_is_named_in_the_log(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """By the meeting file, on this host: as workers log it."""
    me = this_process()
    with stopped("pass") as pid:
        record = MeetingRecord(
            "a", 1, True, "n1", me.boot, me.space, pid, cast("int", start_time(pid))
        )
        line = await logged_by(Unanswered(record), caplog)

    assert f"the scheduler (process {pid} on n1) is stopped" in line
    assert f"`kill -CONT {pid}` there" in line


async def test_a_head_of_another_host_is_named_in_the_log(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody sees from here whether it is stopped."""
    record = MeetingRecord("a", 1, True, "n7", "another kernel", 1, 1234, 1)
    line = await logged_by(Unanswered(record), caplog)

    assert "it should be process 1234 on n7; if that is stopped, `kill -CONT 1234`" in line


async def test_a_head_that_is_stopped_at_a_unix_socket_is_named_in_the_log(
    autojump_clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "s").mkdir(mode=0o700)
    path = f"{tmp_path}/s/sock"
    listen = f"import socket; s = socket.socket(socket.AF_UNIX); s.bind({path!r}); s.listen()"
    with stopped(listen) as pid:
        dialler = Dialler(f"unix://{path}", "worker", "w", CORE, frozenset({"unix"}))
        line = await logged_by(dialler, caplog)

    assert f"the scheduler (process {pid} on {gethostname()}) is stopped" in line
