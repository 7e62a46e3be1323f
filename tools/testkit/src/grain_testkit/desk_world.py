"""The desk of a dispatcher in the world of `queue_world`, where it has to keep the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.dispatcher.desk import Desk
from grain_testkit.queue_world import Kit

if TYPE_CHECKING:
    from grain.queue.folder import Queue
    from grain_testkit.queue_world import World


class DeskDispatcher:
    """A dispatcher that does what `grain.dispatcher.mission` does with its desk.

    The offers of the world are its calls: one of a run whose worker has died waits for another one.
    """

    def __init__(self, world: World, queue: Queue) -> None:
        self._world = world
        self._queue = queue
        self._desk = Desk(queue, lambda: world.server.clock)
        world.offers += [one.start for one in self._desk.adopted() if one.start not in world.offers]

    def look(self) -> None:
        world, desk = self._world, self._desk
        news = desk.look()
        if not news.in_charge:
            return
        ended = {*news.stops, *news.recalls}
        world.offers[:] = [one for one in world.offers if one not in ended]
        active = list(desk.plan.active())
        desk.read_all(active)
        dead = []
        for start in active:
            begun = self._queue.begun(*start)
            if begun is None:
                if start not in world.offers:  # its call has ended
                    desk.give_back(start)
            elif begun.worker in world.dead_workers:
                desk.note_death(start, "its worker is dead")
                if start not in world.offers:
                    dead.append(start)
        desk.end_lost(dead)
        for number in desk.book.entries:
            world.note_final(desk.book, number)
        world.offers += desk.plan.starts(world.server.clock, lambda _: 100)


class DeskKit(Kit):
    """The product, whose dispatchers have desks."""

    def dispatcher(self, world: World, queue: Queue) -> DeskDispatcher:
        return DeskDispatcher(world, queue)
