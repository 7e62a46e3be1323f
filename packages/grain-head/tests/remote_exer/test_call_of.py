"""The calls of tasks that a mission knows, for `grain why`."""

from __future__ import annotations

from grain.head.messages import Resolved
from grain.remote_exer import MissionSession
from grain.worker.payload import Function, Payloads
from grain_testkit.submitted_tasks import remote_task


async def energy(name: str) -> float:
    return 0.0


def session_with(*arguments: bytes) -> tuple[MissionSession, Function]:
    session = MissionSession("m", "mission")
    function = session.define(Payloads().dump_function(energy))
    request = session.request({"Cores": 1})
    for one in arguments:
        session.submit(remote_task(request, function.digest, one))
    return session, function


def test_the_call_of_a_task_is_known_before_and_after_its_end() -> None:
    session, function = session_with(b"arguments")
    assert (function, b"arguments") == session.call_of(1)

    session.on_message(Resolved(1, "value", ()), b"result")

    assert (function, b"arguments") == session.call_of(1)
    assert session.call_of(2) is None


def test_large_arguments_go_with_their_task() -> None:
    session, _ = session_with(b"x" * 5000)
    session.on_message(Resolved(1, "value", ()), b"result")

    assert session.call_of(1) is None


def test_the_calls_of_the_last_thousand_tasks_are_kept() -> None:
    session, function = session_with(*[b"arguments"] * 1001)
    for task in range(1, 1002):
        session.on_message(Resolved(task, "value", ()), b"result")

    assert session.call_of(1) is None
    assert (function, b"arguments") == session.call_of(2)
