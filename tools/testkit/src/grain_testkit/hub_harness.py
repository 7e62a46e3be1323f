"""Scenarios of a hub: tests send what peers would, and look at the messages to each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from grain.head.hub.hub import Hub
from grain.head.messages import RegisterMission, Request, Submit, Synced
from grain.head.scheduler.numbered import Numbered
from grain.worker.messages import (
    LANE,
    DefineFunction,
    Inventory,
    InventoryEnd,
    InventoryRun,
    Lease,
    RegisterWorker,
    RunEnded,
)
from grain_testkit.scheduler_harness import check_hub

if TYPE_CHECKING:
    from grain.edge.messages import Message
    from grain.head.hub.state import TaskRecord, WorkerRecord

M = TypeVar("M")
F = b"function"


class HubHarness:
    """A hub, named peers, and the messages sent to each."""

    def __init__(self, epoch: int = 1, grace: float = 60.0, **more: Any) -> None:
        self.hub = Hub(epoch, 0.0, grace=grace, **more)
        self.now = 0.0
        self.mail: dict[str, list[tuple[Message, Any]]] = {}
        self.connections = 0
        self.most_workers = 0

    def send(self, link: str, *messages: Message, payload: Any = None) -> None:
        """Let messages of a peer arrive together."""
        for message in messages:
            self.hub.on_message(link, message, payload, self.now)
        self.dispatch()

    def dispatch(self) -> None:
        self.hub.dispatch(self.now)
        self.check()
        for link, mail in self.hub.take().items():
            self.mail.setdefault(str(link), []).extend(mail)

    def check(self) -> None:
        """Check every invariant, and that suspects do not hold up everything else."""
        check_hub(self.hub, self.now)
        self.most_workers = max(self.most_workers, len(self.hub.registry.workers))
        waiting = [one for one in self.hub.quarantine.waiting.values() if one is not None]
        reserved = sum(len(one.workers) for one in waiting)
        few = len(waiting) <= 1 or reserved <= max(1, self.most_workers // 4)
        assert few, "too many workers are held for suspects"

    def lose(self, link: str, silent: float = 0.0, *, ended: bool = False) -> None:
        self.hub.on_link_lost(link, self.now, silent, ended=ended)
        self.dispatch()

    def wait(self, seconds: float) -> None:
        while seconds > 0:
            self.now += min(seconds, 5.0)
            seconds -= 5.0
            self.hub.on_tick(self.now)
            self.dispatch()

    def sent(self, link: str, kind: type[M]) -> list[M]:
        """Return the messages of one kind to a peer since the last look, and forget them."""
        mail = self.mail.get(link, [])
        sent: list[M] = [m for m, _ in mail if isinstance(m, kind)]
        self.mail[link] = [pair for pair in mail if not isinstance(pair[0], kind)]
        return sent

    def worker(
        self,
        name: str,
        cores: Any = 2,
        held: tuple[InventoryRun, ...] = (),
        link: str = "",
        seconds: float | None = None,
        memory: float | None = None,
        **more: Any,
    ) -> str:
        """Register a worker, with its seconds if they are limited; return its link."""
        link = link or name
        self.connections += 1
        offered: dict[str, Any] = {"Cores": cores}
        if seconds is not None:
            offered["WTime"] = {"T": seconds}
        if memory is not None:
            offered["Memory"] = {"M": memory}
        register = RegisterWorker(name, name, "host", offered, connection=self.connections, **more)
        self.send(link, register, *([Inventory(held)] if held else []), InventoryEnd())
        return link

    def doubts(self) -> list[WorkerRecord]:
        """Return the workers for whose jobs their batch systems are to be asked now."""
        return self.hub.workers_in_doubt(self.now)

    def mission(
        self, name: str = "m", cores: Any = 1, link: str = "", interpreter: str = "", **more: Any
    ) -> str:
        """Register a mission with one request; return its link."""
        link = link or name
        request = Request(0, {"Cores": cores}, interpreter=interpreter)
        self.send(link, RegisterMission(name, name, **more), request, DefineFunction(F))
        return link

    def synced(self, name: str = "m", *tasks: int, **more: Any) -> str:
        """Register a mission that is in step, and has some tasks; return its link."""
        link = self.mission(name, **more)
        self.send(link, Synced())
        self.submit(link, *tasks)
        return link

    def submit(self, link: str, *tasks: int, **more: Any) -> None:
        self.send(link, *[Submit(task, 0, F, **more) for task in tasks], payload=b"args")

    def ended(self, lease: Lease, status: Any = "value", **more: Any) -> RunEnded:
        return RunEnded(lease.mission, lease.task, lease.attempt, status, **more)


def held(lease: Lease, elapsed: float = 1.0, **more: Any) -> InventoryRun:
    more = {"lane": lease.function == LANE, **more}
    return InventoryRun(lease.mission, lease.task, lease.attempt, lease.res, elapsed, **more)


class Unwalked(Numbered["TaskRecord"]):
    """Tasks that may be looked up, and not gone through."""

    def __init__(self, tasks: Numbered[TaskRecord]) -> None:
        super().__init__()
        self.update(tasks)

    def __iter__(self) -> Any:
        raise AssertionError("walked")

    keys = values = items = __iter__
