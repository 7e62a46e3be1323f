"""A process of a lasting mission, around a real session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.edge.questions import pack, unpack
from grain.resource import to_data
from grain.worker.messages import Disconnect
from grain_testkit.submitted_tasks import remote_task
from simulation.peers import SimulatedMission

if TYPE_CHECKING:
    from grain.remote_exer import MissionSession
    from simulation.lasting.files import Files
    from simulation.peers import Surroundings
    from simulation.wire import Mail

STALE = 60.0
"""Seconds for which a process may not see that a run has ended."""


class Dispatcher(SimulatedMission):
    """A process of a lasting mission: the session, and what its program sees in the files.

    Args:
        files: those of the mission.
        outside: the tasks that commands have cancelled.
    """

    def __init__(
        self, world: Surroundings, session: MissionSession, files: Files, outside: set[int]
    ) -> None:
        super().__init__(world, session, list(files.plan))  # giving up shortens it
        self.files = files
        self.story.cancelled_outside = outside
        now, chance = world.clock.now, world.clock.chance
        # A listing of a directory may be a minute old, but not for tasks that were cancelled.
        since = now - chance.choice((0.0, STALE))
        self._todo = [
            task
            for task in range(1, len(files.plan) + 1)
            if not (files.is_over(task) and (task in files.cancelled or task in files.lost))
            and files.ended.get(task, now) >= since
        ]
        self._refused: set[int] = set()

    def submit(self, count: int) -> None:
        """Submit the next tasks; those that were cancelled are retracted at once."""
        if not self.alive or self.story.over:
            return
        if self.frozen:
            self.world.clock.at(self.frozen_until, lambda: self.submit(count))
            return
        chance = self.world.clock.chance
        for task in self._todo[:count]:
            request = self.world.requests[task % len(self.world.requests)]
            number = self.requests.get(request)
            if number is None:
                number = self.session.request(to_data(request), 0)
                self.requests[request] = number
            arguments = pack((self.session.id, task))
            function = b"f" + self.session.id.encode()
            record = remote_task(number, function, arguments, request=request)
            holder = self.files.begun.get(task)
            if holder is not None and self.files.holds(task) and chance.random() < 0.7:
                record.worker = holder.worker.session.id
                self.story.workers[task] = record.worker
                if self.wire is not None:
                    self.stated[self.wire][0][task] = record.worker
            self.session.submit(record, task)
            self.log.on_submitted(task, record)
            self.story.submitted.append(task)
            if task in self.files.cancelled:
                self.story.cancelled.add(task)
                self.session.cancel(task)
        del self._todo[:count]
        self.flush()

    def read(self, mail: Mail) -> None:
        for message, _ in mail:
            if isinstance(message, Disconnect) and message.because == "replaced":
                self.kill()
                return
        super().read(mail)

    def cancel(self, task: int = 0) -> None:
        before = set(self.story.cancelled)
        super().cancel(task)
        self.files.cancelled |= self.story.cancelled - before

    def give_up(self) -> None:
        super().give_up()
        self.files.cancelled |= self.story.cancelled
        self.files.over = True
        self._todo.clear()

    def flush(self) -> None:
        super().flush()
        for task, resolution in self.story.resolved.items():
            if resolution.ending == "cancelled":
                self.files.cancelled.add(task)
                if not self.files.holds(task):
                    self.files.ended.setdefault(task, self.world.clock.now)
            elif resolution.payload and unpack(resolution.payload, list)[3] == "refused":
                self._refused.add(task)
            else:  # a process that lives writes what no worker has written, as after five crashes
                self.files.ended.setdefault(task, self.world.clock.now)
        for task in self._refused:
            if not self.files.is_over(task) and not self.files.holds(task):
                self.files.lost.add(task)

    @property
    def done(self) -> bool:
        """True if all of its tasks were submitted and are over, also those that were refused."""
        resolved = len(self.story.submitted) == len(self.story.resolved)
        return not self._todo and resolved and all(map(self.files.is_over, self._refused))

    def leave(self) -> None:
        """Leave: with everything done for good, otherwise as by SIGTERM, with runs left alone."""
        if self.done:
            self.files.over = True
        super().leave()
