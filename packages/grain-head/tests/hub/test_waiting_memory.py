"""The memory of tasks that wait, in a mission and in a hub."""

from __future__ import annotations

import tracemalloc

from msgspec import structs

from grain.head.hub.hub import Hub
from grain.remote_exer.session import MissionSession
from grain.worker.payload import Function
from grain_testkit.submitted_tasks import remote_task

COUNT = 20_000


def deliver(session: MissionSession, hub: Hub) -> None:
    """Let all arrive that a mission has to say."""
    while mail := session.take_mail():
        for message, payload in mail:
            hub.on_message("m", message, payload, 0.0)


def test_a_waiting_task_takes_less_than_500_bytes_in_mission_and_hub() -> None:
    """Without its arguments, 48 bytes and more on each side, and what awaits it, 96 and 64.

    =====================================================  =======  ============
    bytes                                                  mission  scheduler
    =====================================================  =======  ============
    the record of the task                                 112      128
    the record by which the scheduler decides                       112
    entries in two tables by number                        26       26
    the number; its own, and the place in the order        32       32 + 32 + 32
    an entry in the queue                                           8
    =====================================================  =======  ============

    Some 20 bytes more are memory that processes keep when they have freed it.
    """
    session, hub = MissionSession("m", "m"), Hub(1, 0.0)
    function = session.define(Function(b"digest", b"code", "f"))
    record = remote_task(session.request({"Cores": 1}), function.digest, b"args")
    session.on_connected()
    deliver(session, hub)
    tracemalloc.start()
    try:
        for _ in range(COUNT):
            session.submit(structs.replace(record))
        deliver(session, hub)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert hub.scheduler.waiting == COUNT
    # 492 with Python 3.11, before malloc rounds up to 16; one more field of a record takes 8.
    assert used / COUNT < 498
