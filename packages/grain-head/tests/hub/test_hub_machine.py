"""Random events of workers, missions and runs against every invariant of a hub."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from grain.head.messages import AckTasks, Crash, Resolved, Retract, Submit, Synced
from grain.worker.messages import (
    Draining,
    Inventory,
    InventoryEnd,
    Lease,
    Leaving,
    RegisterWorker,
    Revoke,
)
from grain_testkit.hub_harness import F, HubHarness, held


class Machine(RuleBasedStateMachine):
    """Any events in any order; `HubHarness` checks every invariant after each.

    Tasks come that crashed before.
    """

    @initialize(workers=st.integers(1, 9))
    def begin(self, workers: int) -> None:
        self.harness = HubHarness()
        self.numbers = itertools.count(1)
        self.workers: dict[str, list[Lease]] = {}
        self.away: dict[str, list[Lease]] = {}
        self.cores: dict[str, int] = {}
        self.mission = self.harness.mission()
        self.harness.send(self.mission, Synced())
        for _ in range(workers):
            self.join(1)
        self.submit(8 * workers, 0)

    def look(self) -> None:
        """Take the messages to workers and to the mission."""
        for worker, leases in self.workers.items():
            leases += self.harness.sent(worker, Lease)
            revoked = {one.attempt for one in self.harness.sent(worker, Revoke)}
            for lease in [one for one in leases if one.attempt in revoked]:
                self.end(worker, lease, "cancelled")

    def end(self, worker: str, lease: Lease, status: Any) -> None:
        self.workers[worker].remove(lease)
        self.harness.send(worker, self.harness.ended(lease, status), payload=b"")

    @precondition(lambda self: len(self.workers) < 12)
    @rule(cores=st.integers(1, 3))
    def join(self, cores: int) -> None:
        name = f"w{next(self.numbers)}"
        self.workers[name] = []
        self.cores[name] = cores
        self.harness.worker(name, cores)
        self.look()

    @rule(count=st.sampled_from([40, 6, 1]), crashes=st.sampled_from([0, 0, 1, 2, 4]))
    def submit(self, count: int, crashes: int) -> None:
        tasks = [next(self.numbers) for _ in range(count)]
        for task in tasks:
            before = tuple(Crash((9, 10 * task + n), "w", "SIGSEGV", 0.0) for n in range(crashes))
            self.harness.hub.on_message(self.mission, Submit(task, 0, F, crashes=before), b"", 0.0)
        self.harness.dispatch()
        self.look()

    @precondition(lambda self: any(self.workers.values()))
    @rule(
        data=st.data(),
        n=st.integers(1, 4),
        status=st.sampled_from(["value", "value", "error", "crashed", "returned"]),
    )
    def finish(self, data: st.DataObject, n: int, status: str) -> None:
        worker = data.draw(st.sampled_from([name for name, runs in self.workers.items() if runs]))
        for _ in range(min(n, len(self.workers[worker]))):
            lease = data.draw(st.sampled_from(self.workers[worker]))
            self.end(worker, lease, status)
        self.look()

    @rule()
    def confirm(self) -> None:
        resolved = tuple(one.task for one in self.harness.sent(self.mission, Resolved))
        self.harness.send(self.mission, AckTasks(resolved))
        self.look()

    @precondition(lambda self: any(self.workers.values()))
    @rule(data=st.data())
    def retract(self, data: st.DataObject) -> None:
        runs = [lease for leases in self.workers.values() for lease in leases]
        self.harness.send(self.mission, Retract((data.draw(st.sampled_from(runs)).task,)))
        self.look()

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), how=st.sampled_from([Leaving(), Draining(), None]))
    def disturb(self, data: st.DataObject, how: Leaving | Draining | None) -> None:
        """Let a worker leave, drain, or lose its connection."""
        worker = data.draw(st.sampled_from(sorted(self.workers)))
        if how is None:
            self.away[worker] = self.workers.pop(worker)
            self.harness.lose(worker)
        else:
            self.harness.send(worker, how)
            if isinstance(how, Leaving):
                del self.workers[worker]
        self.look()

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        """Let a worker come back with all that it had, or with less."""
        name = data.draw(st.sampled_from(sorted(self.away)))
        leases = self.away.pop(name)
        kept = leases if data.draw(st.booleans()) else []
        self.harness.connections += 1
        self.harness.sent(name, Lease)
        self.workers[name] = list(kept)
        offered = {"Cores": self.cores[name]}
        register = RegisterWorker(name, name, "host", offered, connection=self.harness.connections)
        runs = tuple(held(lease) for lease in kept)
        self.harness.send(name, register, Inventory(runs), InventoryEnd())
        self.look()

    @rule(seconds=st.sampled_from([0.5, 5.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)
        self.look()


def test_any_events_in_any_order_leave_the_records_consistent() -> None:
    quick = settings(
        max_examples=30,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=quick)  # type: ignore[no-untyped-call,unused-ignore]
