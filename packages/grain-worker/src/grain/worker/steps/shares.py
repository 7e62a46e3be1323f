"""`StepShares`: what the steps of a job hold of it, what waits, and what begins next. No I/O."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class StepImpossible(Exception):
    """A step for which its job is too small; the text is what srun prints."""


@dataclass(frozen=True)
class MemberRoom:
    """The room of a member of a job for its steps.

    Attributes:
        cpus: ids.
        gpus: names by which its programs see them.
        memory: MB of 2**20 bytes; None if the job does not say how much it needs.
    """

    cpus: tuple[int, ...]
    gpus: tuple[str, ...] = ()
    memory: float | None = None


class StepWish(NamedTuple):
    """The needs of a step.

    Attributes:
        tasks: the number of its processes.
        nodes: the number of members.
        each: CPUs of each process.
        most: processes on a member; 0 for any number.
        members: the members to choose from, by number.
        whole: True for all CPUs of its members, and not only for those of its processes.
        overlap: True to share with all other steps: it waits for nothing, and holds nothing.
        overcommit: True for more processes than CPUs.
        memory: MB on each member; None for what the job has, 0 to hold none.
        memory_per_cpu: MB for each CPU in place of that; None for no such wish.
        gpus: on each member; None for all that the job has.
        gpus_per_task: of each process in place of that; 0 for no such wish.
        plane: processes that follow each other on a member before the next one is taken; 0 for all
            that it has.
    """

    tasks: int
    nodes: int
    each: int = 1
    most: int = 0
    members: tuple[int, ...] = (0,)
    whole: bool = True
    overlap: bool = False
    overcommit: bool = False
    memory: float | None = None
    memory_per_cpu: float | None = None
    gpus: int | None = None
    gpus_per_task: int = 0
    plane: int = 0


class MemberShare(NamedTuple):
    """The share of a step in a member.

    Attributes:
        member: its number.
        tasks: processes there.
        cpus, gpus: of all of these.
        memory: MB that it holds.
    """

    member: int
    tasks: int
    cpus: tuple[int, ...]
    gpus: tuple[str, ...] = ()
    memory: float = 0.0


@dataclass
class StepShares:
    """The steps of a job.

    They begin in the order in which they came; one for which there is no room yet lets smaller ones
    pass, as Slurm does.

    Attributes:
        room: of each member.
        memory_per_cpu: MB that a step holds for each CPU if it does not say; None for all memory
            of the job.
        default_memory: False for a job whose steps hold memory only if they say how much.
    """

    room: Sequence[MemberRoom]
    memory_per_cpu: float | None = None
    default_memory: bool = True
    _held: dict[int, tuple[MemberShare, ...]] = field(default_factory=dict)
    # Of steps that overlap: they are put where least runs, and keep no other step waiting.
    _beside: dict[int, tuple[MemberShare, ...]] = field(default_factory=dict)
    # By what they need: a farm has thousands of steps that wait for the same.
    _waiting: dict[StepWish, OrderedDict[int, None]] = field(default_factory=dict)
    _wishes: dict[int, StepWish] = field(default_factory=dict)  # of the steps that wait
    _last: int = 0

    def ask(self, wish: StepWish) -> int:
        """Add a step to those that wait; return its ticket.

        Raises:
            StepImpossible: it will never fit.
        """
        self._check(wish)
        self._last += 1
        self._waiting.setdefault(wish, OrderedDict())[self._last] = None
        self._wishes[self._last] = wish
        return self._last

    def begin(self) -> list[tuple[int, tuple[MemberShare, ...]]]:
        """Have all steps begin for which there is room; return their tickets and what they have."""
        begun = []
        # What has no room now has none for any other step with the same needs.
        firsts = [(next(iter(tickets)), wish) for wish, tickets in self._waiting.items()]
        heapify(firsts)
        while firsts:
            ticket, wish = heappop(firsts)
            found = self._find(wish, self._held)
            if found is None:
                continue
            (self._beside if wish.overlap else self._held)[ticket] = found
            begun.append((ticket, found))
            self._forget(ticket)
            if wish in self._waiting:
                heappush(firsts, (next(iter(self._waiting[wish])), wish))
        return begun

    def end(self, ticket: int) -> None:
        """Take back what a step has, or its wish; without effect if it has ended."""
        self._held.pop(ticket, None)
        self._beside.pop(ticket, None)
        self._forget(ticket)

    def _forget(self, ticket: int) -> None:
        """Forget that a step waits, if it does."""
        wish = self._wishes.pop(ticket, None)
        if wish is not None:
            del self._waiting[wish][ticket]
            if not self._waiting[wish]:
                del self._waiting[wish]

    def _check(self, wish: StepWish) -> None:
        if self._find(wish, {}) is not None:
            return
        most = [self.room[member] for member in wish.members]
        cpus = sorted((len(one.cpus) for one in most), reverse=True)[: wish.nodes]
        if wish.nodes > len(most):
            raise StepImpossible(f"Only allocated {len(most)} nodes asked for {wish.nodes}")
        fit = sum(count // wish.each for count in cpus)
        if wish.most and wish.most * wish.nodes < wish.tasks:
            raise StepImpossible("Requested node configuration is not available")
        if not wish.overcommit and fit < wish.tasks:
            raise StepImpossible("More processors requested than permitted")
        if max(wish.gpus or 0, wish.gpus_per_task) and self._find(_without_gpus(wish), {}):
            raise StepImpossible("Invalid generic resource (gres) specification")
        raise StepImpossible("Memory required by task is not available")

    def _find(
        self, wish: StepWish, held: dict[int, tuple[MemberShare, ...]]
    ) -> tuple[MemberShare, ...] | None:
        """Return what a step gets beside what others hold; None if there is no room."""
        others: list[MemberShare] = []
        if not wish.overlap:
            others = [share for shares in held.values() for share in shares]
        free = {member: self._free(member, others) for member in wish.members}
        fitting = [
            member for member in wish.members if self._most_tasks(member, wish, free[member])
        ]
        in_order = fitting[: wish.nodes]
        largest = sorted(fitting, key=lambda one: -self._most_tasks(one, wish, free[one]))
        for chosen in (in_order, sorted(largest[: wish.nodes])):
            if len(chosen) == wish.nodes:
                counts = _spread(
                    wish.tasks, [self._most_tasks(one, wish, free[one]) for one in chosen]
                )
                if counts is not None:
                    return tuple(
                        self._share(one, count, wish, free[one])
                        for one, count in zip(chosen, counts, strict=True)
                    )
        return None

    def _free(self, member: int, others: Iterable[MemberShare]) -> MemberRoom:
        room = self.room[member]
        taken = [share for share in others if share.member == member]
        cpus = {cpu for share in taken for cpu in share.cpus}
        gpus = {gpu for share in taken for gpu in share.gpus}
        memory = room.memory
        if memory is not None:
            memory -= sum(share.memory for share in taken)
        return MemberRoom(
            tuple(cpu for cpu in room.cpus if cpu not in cpus),
            tuple(gpu for gpu in room.gpus if gpu not in gpus),
            memory,
        )

    def _most_tasks(self, member: int, wish: StepWish, free: MemberRoom) -> int:
        """Return how many processes of a step have room on a member."""
        room = self.room[member]
        if wish.whole and len(free.cpus) < len(room.cpus):
            return 0
        most = wish.most or wish.tasks
        if not wish.overcommit:
            most = min(most, len(free.cpus) // wish.each)
        elif not free.cpus and room.cpus:
            return 0
        if wish.gpus_per_task:
            most = min(most, len(free.gpus) // wish.gpus_per_task)
        elif len(free.gpus) < (len(room.gpus) if wish.gpus is None else wish.gpus):
            return 0
        while most and self._memory(member, most, wish) > (free.memory or 0.0) + 1e-6:
            if free.memory is None:
                break
            most -= 1
        return most

    def _memory(self, member: int, tasks: int, wish: StepWish) -> float:
        """Return the MB that a step holds on a member for so many processes."""
        total = self.room[member].memory
        if total is None:
            return 0.0
        cpus = len(self.room[member].cpus) if wish.whole else tasks * wish.each
        if wish.memory_per_cpu is not None:
            return wish.memory_per_cpu * tasks * wish.each
        if wish.memory is not None:
            return wish.memory
        if self.memory_per_cpu is not None:
            return min(self.memory_per_cpu * cpus, total)
        return total if self.default_memory else 0.0

    def _share(self, member: int, tasks: int, wish: StepWish, free: MemberRoom) -> MemberShare:
        room = self.room[member]
        cpus: Sequence[int] = free.cpus
        gpus: Sequence[str] = free.gpus
        if wish.overlap:
            users = [
                used
                for shares in (*self._held.values(), *self._beside.values())
                for share in shares
                if share.member == member
                for used in (*share.cpus, *share.gpus)
            ]
            cpus, gpus = sorted(cpus, key=users.count), sorted(gpus, key=users.count)
        if not wish.whole:
            cpus = cpus[: tasks * wish.each]
        if wish.gpus_per_task:
            gpus = gpus[: tasks * wish.gpus_per_task]
        elif wish.gpus is not None:
            gpus = gpus[: wish.gpus]
        chosen = tuple(sorted(cpus)), tuple(sorted(gpus, key=room.gpus.index))
        return MemberShare(member, tasks, *chosen, self._memory(member, tasks, wish))


def _without_gpus(wish: StepWish) -> StepWish:
    return wish._replace(gpus=0, gpus_per_task=0)


def _spread(tasks: int, most: Sequence[int]) -> list[int] | None:
    """Return how many processes each member gets: one on each in turn, as far as it has room.

    None if they have too little together, or a member would have none.
    """
    counts = [0] * len(most)
    left = tasks
    while left:
        before = left
        for at, limit in enumerate(most):
            if left and counts[at] < limit:
                counts[at] += 1
                left -= 1
        if left == before:
            return None
    return counts if all(counts) else None


def places(shares: Sequence[MemberShare], plane: int) -> list[tuple[int, int]]:
    """Return for each process its member among those of the step, and its number there.

    Args:
        plane: as of `StepWish`.
    """
    most = max(share.tasks for share in shares)
    size = plane or most
    return [
        (node, local)
        for first in range(0, most, size)
        for node, share in enumerate(shares)
        for local in range(first, min(first + size, share.tasks))
    ]


def of_process(
    share: MemberShare, local: int, wish: StepWish
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the CPUs and the GPUs of a process of a step.

    Processes that have as many CPUs as they ask for, or share all of them evenly, have some of
    their own; else all have all.
    """
    cpus = share.cpus
    if len(cpus) == share.tasks * wish.each:
        cpus = cpus[local * wish.each : (local + 1) * wish.each]
    gpus = share.gpus
    if wish.gpus_per_task:
        gpus = gpus[local * wish.gpus_per_task : (local + 1) * wish.gpus_per_task]
    return cpus, gpus
