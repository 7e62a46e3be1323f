"""The versions of a mission, what it states of its tasks, and what heads report once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from grain.edge.channel import memory_channels
from grain.edge.version import INTERPRETER, Versions, own_versions
from grain.head.events import OtherSoftware, Remark
from grain.head.messages import OtherVersions, RegisterMission, Request, SeveralMaxima, Submit
from grain.remote_exer import RemoteExecutor
from grain.remote_exer.executor import differences
from grain.resource import Cores

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from trio.testing import MockClock

    from grain.edge.channel import WireChannel
    from grain.edge.messages import Message
    from grain.head.events import Event


async def call(*args: Any) -> Any:
    """Travel by name."""


class Head:
    """The other end of a mission's only connection."""

    def __init__(self) -> None:
        ours: WireChannel
        theirs: WireChannel
        ours, theirs = memory_channels()
        self.channel = theirs
        self._connections = [ours]

    @asynccontextmanager
    async def connect(self, _: str) -> AsyncGenerator[WireChannel]:
        if not self._connections:
            await trio.sleep_forever()
        yield self._connections.pop()


async def test_requests_name_the_interpreter_that_functions_or_arguments_need(
    autojump_clock: MockClock,
) -> None:
    """Equal requests that need the same are one; those that need none stay apart."""
    head = Head()

    async def closure() -> None:
        pass

    received: list[Message] = []
    with trio.move_on_after(5):
        async with RemoteExecutor(connect=head.connect) as executor:
            for _ in range(2):
                executor.submit(Cores(1), call, 1)
                executor.submit(Cores(1), closure)
                executor.submit(Cores(1), call, closure)
                executor.submit(Cores(1), call, bytes(10_000_000))
            while sum(isinstance(message, Submit) for message in received) < 8:
                received += [message for message, _ in await head.channel.receive()]
            await head.channel.aclose()
            await trio.sleep_forever()
    [registration] = [m for m in received if isinstance(m, RegisterMission)]
    needed = {m.number: m.interpreter for m in received if isinstance(m, Request)}
    tasks = [needed[message.request] for message in received if isinstance(message, Submit)]

    assert own_versions() == registration.versions
    assert ["", INTERPRETER] == sorted(needed.values())
    assert ["", INTERPRETER, INTERPRETER, ""] * 2 == tasks


async def test_workers_of_other_versions_are_one_event_whichever_head_reports_them(
    autojump_clock: MockClock,
) -> None:
    """A head that succeeds another reports them again."""
    head = Head()
    events: list[Event] = []
    other = Versions("Python 2.7", "2.7.18", "0.1")
    with trio.move_on_after(5):
        async with RemoteExecutor(connect=head.connect, on_event=events.append) as executor:
            executor.submit(Cores(1), call, lambda: 1)
            await head.channel.receive()
            await head.channel.send([(OtherVersions("w1", "n1", other), None)])
            await head.channel.send([(OtherVersions("w2", "n2", other), None)])
            await head.channel.aclose()
            await trio.sleep_forever()

    others = [event for event in events if isinstance(event, OtherSoftware)]
    assert [OtherSoftware("w1", "n1", "Python 2.7", INTERPRETER)] == others


async def test_other_maxima_of_a_group_are_one_remark(
    autojump_clock: MockClock,
) -> None:
    head = Head()
    events: list[Event] = []
    with trio.move_on_after(5):
        async with RemoteExecutor(connect=head.connect, on_event=events.append) as executor:
            executor.submit(Cores(1), call)
            await head.channel.receive()
            await head.channel.send([(SeveralMaxima("md", ()), None)])
            for maxima in ((8.0, 16.0), (8.0, 9.0)):
                await head.channel.send([(SeveralMaxima("opt", maxima), None)])
            await head.channel.aclose()
            await trio.sleep_forever()

    (remark,) = [event for event in events if isinstance(event, Remark)]
    assert remark.text.startswith("the group 'opt' has two maxima, 8 GB and 16 GB: each task")


async def test_another_python_is_no_event_until_something_travels_by_value(
    autojump_clock: MockClock,
) -> None:
    """`grain map`, whose own functions are importable, runs everywhere."""
    head = Head()
    events: list[Event] = []
    seen = []
    with trio.move_on_after(5):
        async with RemoteExecutor(connect=head.connect, on_event=events.append) as executor:
            executor.submit(Cores(1), call)
            await head.channel.receive()
            other = OtherVersions("w1", "n1", Versions("Python 2.7", "2.7.18", "0.1"))
            await head.channel.send([(other, None)])
            await trio.testing.wait_all_tasks_blocked()
            seen.append(len(events))
            executor.submit(Cores(1), call, lambda: 1)
            seen.append(len(events))
            executor.submit(Cores(2), call, lambda: 1)
            seen.append(len(events))
            await head.channel.aclose()
            await trio.sleep_forever()

    assert [0, 1, 1] == seen


def test_a_worker_may_differ_in_python_and_in_numpy() -> None:
    other = Versions("Python 2.7", "2.7.18", "0.1", "0.9")
    expected = [OtherSoftware("w", "n", "Python 2.7", INTERPRETER)]
    if own_versions().numpy:
        ours = f"NumPy {own_versions().numpy}"
        expected.append(OtherSoftware("w", "n", "NumPy 0.9", ours, numpy=True))

    assert expected == differences("w", "n", other)
    assert [] == differences("w", "n", own_versions())
