"""The schedule: which missions begin when, and which faults strike when, made from a seed.

A pure function: the same seed and arguments give the same schedule, on every machine. A fault names
the kind of its victim and a number, not a process, since no schedule can foresee which processes
there are: the victim is the process at that place among those of the kind at the time.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LAST_LAUNCH = 0.8
"""The part of the time in which missions begin, and the part after which none is interrupted."""


SUPERSEDED = 75.0
"""Seconds for which a long stop of Gnaw lasts: after a minute another one takes its place."""


# One kind of worker stays, so that the longest tasks have one that lasts. One over files that is
# killed as its time is over, since it was cut off, is missed after five minutes only.
_ENDLESS = frozenset({"unix", "files"})


@dataclass(frozen=True)
class Strike:
    """A kind of fault, and how often it is chosen.

    Attributes:
        kind: what is done, as the functions of `faults` are called.
        target: the role of the victim, or the transport whose connection is cut, or "" for the
            directory in which all processes meet.
        weight: how often, relative to others.
        lasting: True if it is undone after a while.
    """

    kind: str
    target: str
    weight: float
    lasting: bool = False


STRIKES = (
    Strike("kill", "gnaw", 2.0),
    Strike("kill", "agent", 1.5),
    Strike("kill", "runner", 2.5),
    Strike("kill", "subreaper", 1.0),
    Strike("kill", "fork server", 1.0),
    Strike("kill", "supervisor", 3.0),
    Strike("kill", "mission", 1.5),
    Strike("terminate", "agent", 1.0),
    Strike("terminate", "mission", 1.0),
    Strike("stop", "gnaw", 1.5, lasting=True),
    Strike("stop", "agent", 1.5, lasting=True),
    Strike("stop", "runner", 1.0, lasting=True),
    Strike("stop", "supervisor", 1.0, lasting=True),
    Strike("stop", "fork server", 0.5, lasting=True),
    Strike("stop", "mission", 1.0, lasting=True),
    Strike("cut", "tcp", 1.5, lasting=True),
    Strike("cut", "reverse", 1.0, lasting=True),
    Strike("cut", "files", 1.0, lasting=True),
    Strike("reset", "tcp", 1.5),
    Strike("reset", "reverse", 1.0),
    Strike("fill", "", 1.0, lasting=True),
    Strike("purge", "", 1.0),
)
"""The kinds of fault that processes and the way between them have, however they meet."""

AT_BRIDGE = (
    Strike("cut", "relay", 1.0, lasting=True),
    Strike("reset", "relay", 1.0),
    Strike("away", "bridge", 1.0, lasting=True),
    Strike("stop", "bridge", 1.0, lasting=True),
    Strike("cut", "bridge", 1.0, lasting=True),
)
"""The faults of the server of a bridge, and of peers that need it for all that passes."""

BUSY = Strike("busy", "gnaw", 0.0, lasting=True)
"""Gnaw runs for a third of the time only, as on a busy machine: that excuses nothing."""

AT_QUEUE = (
    Strike("kill", "dispatcher", 2.0),
    Strike("stop", "dispatcher", 1.0, lasting=True),
)
"""The faults of the dispatcher of the queue; they come beside all others."""

LOCAL = ("local", "isolated")
"""The interfaces of missions that keep to themselves: their tasks take one worker each."""

LOGINS = 2
"""Login hosts, which share a home directory: a detached mission is resumed on any of them."""

_DETACHED = 0.3  # the part of the missions that are started by `grain run -d`
_BUSY_EVERY = 10.0  # mean seconds from the end of one such time to the next
_JOBS_EVERY = 4.0  # mean seconds from one job of the queue to the next
_DISPATCHER_EVERY = 25.0  # mean seconds from one fault of its dispatcher to the next
_CANCELLED = 0.4  # the part of the jobs that are cancelled


@dataclass(frozen=True)
class Fault:
    """One fault of a schedule.

    Attributes:
        at: seconds after the beginning.
        kind: as in `Strike`.
        target: as in `Strike`.
        choice: from 0 to 1: the place of the victim among all that there are.
        seconds: how long it lasts; 0 for one that cannot be undone.
    """

    at: float
    kind: str
    target: str
    choice: float
    seconds: float


@dataclass(frozen=True)
class TaskPlan:
    """One task of a mission.

    Attributes:
        kind: "program" runs an external program; "failing" one that exits with code 3; "brief" runs
            in the runner for some milliseconds; "raising" raises an exception there; "gang" runs
            programs on two workers at once.
        seconds: how long it takes.
        daemons: how many processes the program leaves behind: each in a session of its own, with
            an empty environment, and without a parent.
        stubborn: True if the program and its daemons ignore SIGTERM.
        size: bytes of its argument, and of its result.
    """

    kind: str
    seconds: float
    daemons: int = 0
    stubborn: bool = False
    size: int = 0


@dataclass(frozen=True)
class MissionPlan:
    """One mission.

    Attributes:
        name: of the mission.
        at: seconds after the beginning.
        interface: "delayed" for `grain.delayed.run`, as users have it; "executor" for a
            `RemoteExecutor`, which calls back for each resolution, so that a second one is seen;
            "serial" for one that has brief calls one after the other, which go into lanes;
            "local" for a local worker that no other process joins; "isolated" for one with a
            process of its own.
        tasks: its tasks; each asks for a core, of each worker that it takes.
        login: the number of the login host on which `grain run -d` starts it, and from which it is
            resumed if it is killed; 0 for a program that is started as it is.
    """

    name: str
    at: float
    interface: str
    tasks: tuple[TaskPlan, ...]
    login: int = 0


@dataclass(frozen=True)
class JobPlan:
    """One job of the queue.

    Attributes:
        at: seconds after the beginning.
        seconds: how long its program takes.
        cancel_after: seconds from its submission to its cancellation; None for a job that is
            wanted.
        workers: how many it takes at once.
    """

    at: float
    seconds: float
    cancel_after: float | None = None
    workers: int = 1


LAST = MissionPlan("last", 0.0, "delayed", (TaskPlan("program", 0.5, daemons=1),) * 16)
"""The mission that begins after the last fault: it needs all that is left to work.

If Gnaw is dead it starts another one, which removes what its predecessor has left.
"""


@dataclass(frozen=True)
class Schedule:
    """All that is decided before a run begins.

    Attributes:
        missions: those that begin while faults strike, by time.
        faults: by time.
        seed: the seed that it was made from.
        jobs: the jobs of the queue, likewise.
    """

    missions: tuple[MissionPlan, ...]
    faults: tuple[Fault, ...]
    seed: int
    jobs: tuple[JobPlan, ...] = ()

    def worker_time(self, transport: str, number: int) -> float:
        """Return the seconds that a worker has, as in a job with a walltime; inf for no limit.

        Args:
            transport: by which it joins.
            number: its place among those of its transport.
        """
        source = random.Random(f"time {self.seed} {transport} {number}")
        limited = transport not in _ENDLESS and source.random() < 0.6
        return source.uniform(20.0, 60.0) if limited else math.inf


def make_schedule(
    seed: int,
    seconds: float,
    *,
    grace: float,
    strikes: tuple[Strike, ...] = STRIKES,
    interval: float = 2.0,
    missions_every: float = 8.0,
) -> Schedule:
    """Return the schedule of a seed.

    Args:
        seed: any number.
        seconds: for how long faults strike.
        grace: seconds for which Gnaw waits for absent peers; some faults last longer.
        strikes: the kinds of fault that are possible.
        interval: mean seconds from one fault to the next.
        missions_every: mean seconds from one mission to the next.
    """
    # Several sources: a change of what there is to strike leaves the missions as they are.
    drawn = tuple(one for one in strikes if one not in (BUSY, *AT_QUEUE))
    faults: tuple[Fault, ...] = ()
    if drawn:
        faults = _faults(random.Random(f"faults {seed}"), seconds, grace, drawn, interval)
    if BUSY in strikes:
        faults += _busy(random.Random(f"busy {seed}"), seconds)
    if queue := tuple(one for one in strikes if one in AT_QUEUE):
        source = random.Random(f"dispatcher {seed}")
        faults += _faults(source, seconds, grace, queue, _DISPATCHER_EVERY)
    missions = _missions(random.Random(f"missions {seed}"), seconds, missions_every)
    return Schedule(
        _detach(random.Random(f"detached {seed}"), missions),
        tuple(sorted(faults, key=lambda one: one.at)),
        seed,
        tuple(_jobs(random.Random(f"jobs {seed}"), seconds)),
    )


def _jobs(source: random.Random, seconds: float) -> Iterator[JobPlan]:
    at = source.expovariate(1 / _JOBS_EVERY)
    while at < LAST_LAUNCH * seconds:
        # Most are cancelled while they wait or run, some about when they end.
        length = source.choice((0.2, 1.0, 5.0, 15.0)) * source.uniform(0.5, 1.5)
        after = source.uniform(0.0, 2.0 + 1.5 * length)
        cancelled, workers = source.random() < _CANCELLED, source.choice((1, 1, 2))
        yield JobPlan(at, length, after if cancelled else None, workers)
        at += source.expovariate(1 / _JOBS_EVERY)


def _detach(source: random.Random, missions: tuple[MissionPlan, ...]) -> tuple[MissionPlan, ...]:
    logins = [(source.random() < _DETACHED) * source.randint(1, LOGINS) for _ in missions]
    return tuple(replace(one, login=login) for one, login in zip(missions, logins, strict=True))


def _busy(source: random.Random, seconds: float) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    at = source.expovariate(1 / _BUSY_EVERY)
    while at < seconds:
        faults.append(Fault(at, BUSY.kind, BUSY.target, 0.0, source.uniform(3.0, 10.0)))
        at += faults[-1].seconds + source.expovariate(1 / _BUSY_EVERY)
    return tuple(faults)


def _missions(source: random.Random, seconds: float, every: float) -> tuple[MissionPlan, ...]:
    missions: list[MissionPlan] = []
    at = 0.0
    while at < LAST_LAUNCH * seconds or not missions:
        tasks = tuple(_task(source) for _ in range(source.randint(10, 40)))
        interface = source.choice(("delayed", "executor", "serial", source.choice(LOCAL)))
        if interface in LOCAL:
            tasks = tuple(one for one in tasks if one.kind != "gang")
        if interface == "serial":
            tasks = tuple(_brief_task(source) for _ in range(source.randint(100, 400)))
        missions.append(MissionPlan(f"m{len(missions)}", at, interface, tasks))
        at += source.expovariate(1 / every)
    return tuple(missions)


def _brief_task(source: random.Random) -> TaskPlan:
    kind = "raising" if source.random() < 0.05 else "brief"
    return TaskPlan(kind, source.uniform(0.001, 0.02), size=10)


def _task(source: random.Random) -> TaskPlan:
    kinds = ("program", "failing", "brief", "raising", "gang")
    kind = source.choices(kinds, (6, 1, 6, 1, 2))[0]
    size = 200_000 if source.random() < 0.1 else 10
    if kind in {"brief", "raising"}:
        return TaskPlan(kind, source.uniform(0.001, 0.05), size=size)
    # A few take so long that they are seen to go on if nothing ends them with their mission.
    least, most = source.choices(((0.1, 1.5), (2.0, 8.0), (15.0, 25.0)), (70, 26, 4))[0]
    seconds = source.uniform(least, most)
    daemons = source.choice((0, 0, 1, 2))
    return TaskPlan(kind, seconds, daemons, source.random() < 0.3, size)


def _faults(
    source: random.Random,
    seconds: float,
    grace: float,
    strikes: tuple[Strike, ...],
    interval: float,
) -> tuple[Fault, ...]:
    faults: list[Fault] = []
    at = source.expovariate(1 / interval)
    while at < seconds:
        # Drawn for each fault alike, so that the next one does not depend on the kind.
        strike = source.choices(strikes, [one.weight for one in strikes])[0]
        choice, length, brief = source.random(), source.random(), source.uniform(0.3, 5.0)
        lasts = grace * 1.3 if length < 0.15 else brief
        if lasts > brief and strike.target == "gnaw":
            lasts = max(lasts, SUPERSEDED)
        # A full disk is a fault of the site, which is mended; nothing is given up meanwhile.
        if strike.kind == "fill":
            lasts = brief
        faults.append(
            Fault(at, strike.kind, strike.target, choice, lasts if strike.lasting else 0.0)
        )
        at += source.expovariate(1 / interval)
    return tuple(faults)
