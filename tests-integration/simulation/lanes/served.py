"""The run of a lane on a worker, and its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.edge.questions import pack, unpack
from grain.worker.lanes.beginnings import no_place
from grain.worker.lanes.run import CONFIRM
from grain.worker.messages import Ended, LaneOpen, Recall, StartRun
from simulation.lanes.ends import LaneEnd, LaneWire
from simulation.lanes.mission_end import MissionEnd
from simulation.peers import SimulatedCall

if TYPE_CHECKING:
    from grain.edge.messages import Payload
    from simulation.peers import SimulatedRun, SimulatedWorker
    from simulation.wire import Mail


class ServedLane(LaneEnd):
    """The run of a lane: the real `LaneCalls`, with what surrounds them in `LaneRun`.

    Attributes:
        process: it, among the runs of its worker.
        call: the call under way.
        recalled: True from when its worker was told so.
        closing: True from when it is to end with its call, or without one at once.
        over: True from when it has ended, or died.
        died: True from when it has died with its runner.
        blamed: True if it had not been told to end, and all outcomes before were confirmed.
        noted: what it has noted for its agent, as `Beginnings`.
    """

    def __init__(self, worker: SimulatedWorker, process: SimulatedRun, invitation: Payload) -> None:
        super().__init__(worker)
        self._worker = worker
        self.process = process
        self._mission: str = unpack(invitation, str)
        self.noted = no_place()
        self.calls = worker.world.lane_calls(
            process.run, self._begin, self._stop, self._define, self.noted
        )
        self.call: SimulatedCall | None = None
        self.recalled = self.closing = self.over = self.died = self.blamed = False
        self._unreachable = False
        # The order in which calls have come, and that of the last one that has begun.
        self._came: dict[int, int] = {}
        self._arrived = self._last = 0
        clock = worker.world.clock
        delay = worker.world.lane_slow * clock.chance.random()
        clock.after(delay, lambda: self.when_it_runs(self._connect))

    @property
    def key(self) -> tuple[str, int]:
        """Its mission, and its number there."""
        return self.process.lease.mission, self.process.lease.task

    @property
    def draining(self) -> bool:
        """True if its worker takes no more runs."""
        return self._worker.session.draining

    # ---- the connection

    def _connect(self) -> None:
        if self.closing or self.over:
            return
        world, clock = self._worker.world, self._worker.world.clock
        mission = world.lane_host(self._mission)
        if mission is None:
            delay = clock.chance.choice((0.0, 5.0))
            clock.after(delay, lambda: self.when_it_runs(self._on_unreachable))
            return
        end = MissionEnd(mission)
        self.wire = end.wire = LaneWire(clock, end, self, world.lane_slow)
        self.send([(LaneOpen(self.process.lease.task), None)])

    def _on_unreachable(self) -> None:
        if not self.closing:
            self._unreachable = True
            self._close()

    def read(self, mail: Mail) -> None:
        for message, payload in mail:
            if isinstance(message, StartRun):
                self._arrived += 1
                self._came[message.task] = self._arrived
            self.calls.on_message(message, payload)
        self._send_ends()

    def _send_ends(self) -> None:
        ends = self.calls.take_unsent()
        if ends:
            self.send(list(ends))

    def lost(self) -> None:
        self.wire = None
        self._close()

    # ---- orders

    def recall(self) -> None:
        """End it when the call that it has is over."""
        self.recalled = True
        self.calls.close()
        self._send_ends()
        if self.wire is None:
            self._close()
        elif self.call is None:
            self._give_notice()

    def revoke(self) -> None:
        """End it, and the call that it has."""
        self.hang_up()
        self._close()
        self.calls.revoke()

    def _give_notice(self) -> None:
        self.send([(Recall(self.process.run.attempt), None)])
        self._worker.world.clock.after(CONFIRM, lambda: self.when_it_runs(self._on_notice_over))

    def _on_notice_over(self) -> None:
        self.hang_up()
        self._close()

    def _close(self) -> None:
        """End it with its call, or now."""
        self.closing = True
        self.calls.close()
        if self.call is None:
            self._worker.world.clock.after(0.0, lambda: self.when_it_runs(self._end))

    def _end(self) -> None:
        if self.over:
            return
        self.over = True
        self._worker.end_lane(self, self.calls.outcome(unreachable=self._unreachable))

    def die(self, *, blamed: bool = False) -> None:
        """Die with its runner.

        Args:
            blamed: True if the worker goes on, and has not told it to end.
        """
        # If the worker is lost before it has reported the crash, the first call is blamed whose end
        # may not have arrived.
        self.over, self.died, self.blamed = True, True, blamed and not self.calls.kept
        if self.call is not None:
            self.call.how = "died"
            self.call = None
        self.hang_up()

    # ---- calls

    def _define(self, digest: bytes, function: Any) -> None:
        assert function == b"code", "another function"
        self._worker.learnt.add(digest)

    def _begin(self, run: StartRun, arguments: Any) -> None:
        world, lease = self._worker.world, self.process.lease
        assert run.attempt == lease.attempt, "a call of another run"
        assert run.function in self._worker.learnt, f"the function of {run} is missing"
        assert unpack(arguments, list) == [lease.mission, run.task], "the arguments of another call"
        place = self._came[run.task]
        assert place > self._last, "a call begins before one that came earlier"
        self._last = place
        assert [run.task] == list(self.noted), "a call begins that is not noted"
        call = SimulatedCall(self, run.task, world.behaviour(lease.mission, run.task))
        world.laws.on_call_begun(call)
        self.call = call
        seconds = call.behaviour.seconds * (0.5 + world.clock.chance.random())
        world.clock.after(seconds, lambda: self.when_it_runs(lambda: self._end_call(call)))

    def _end_call(self, call: SimulatedCall) -> None:
        if self.call is not call:
            return
        if call.behaviour.kind == "poison":
            self._worker.crash()
        else:
            self._complete(call, failed=call.behaviour.kind == "error")

    def _complete(self, call: SimulatedCall, *, failed: bool, crash: str = "") -> None:
        lease = self.process.lease
        outcome = pack((lease.mission, call.task, lease.attempt, call.behaviour.kind))
        if not crash:
            self._worker.world.laws.on_call_completed(outcome)
        self._report(Ended(lease.attempt, "done", failed, crash), outcome, call)

    def drain(self) -> None:
        """Let its worker take no more runs."""
        self._worker.session.drain(self._worker.now)
        self._worker.flush()

    def crash(self) -> None:
        """Let its runner die."""
        self._worker.crash()

    def kill_program(self) -> None:
        """Let the supervisor of what the call runs be killed, which does not end the lane."""
        if self.call is not None and not self.call.ending:
            self._complete(self.call, failed=True, crash="its supervisor was killed")

    def _stop(self) -> None:
        call = self.call
        if call is not None and not call.ending:
            call.ending = True
            clock = self._worker.world.clock
            ended = Ended(self.process.lease.attempt, "cancelled")
            clock.after(
                clock.chance.choice((0.0, 0.1, 5.0)),
                lambda: self.when_it_runs(lambda: self._report(ended, None, call)),
            )

    def _report(self, ended: Ended, outcome: Payload, call: SimulatedCall) -> None:
        if self.call is not call:
            return
        self.call = None
        call.how = "crashed" if ended.crash else ended.status
        self.calls.end_call(ended, outcome)
        self._send_ends()
        if self.closing:
            self._close()
        elif self.recalled:
            self._give_notice()
        else:
            self.calls.begin_next()
