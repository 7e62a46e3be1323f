"""One run: its processes, its faults by schedule, and its end, which leaves the evidence."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import trio

from tools.chaos.books import read_lines
from tools.chaos.detached import Detached
from tools.chaos.faults import Faults
from tools.chaos.judge import Ending, Event, Evidence
from tools.chaos.places import PORT
from tools.chaos.processes import Marked, environment, make_home, marked
from tools.chaos.queued import QueuedJobs
from tools.chaos.schedule import LAST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.chaos.places import Place
    from tools.chaos.schedule import JobPlan, MissionPlan, Schedule

OVERDUE = 30.0
"""Seconds after a worker's time until a batch system would kill it: its start counts, too."""

CORES = 2
"""Cores that each worker offers; they are numbers only, on whatever machine this is."""

MOST_ALIVE = 24
"""The most missions at a time; the next one waits until another has ended."""

FAREWELL = 60.0
"""Seconds that workers and Gnaw have for leaving."""


class Session:
    """A run in a directory.

    Args:
        folder: empty.
        place: where its processes live.
        schedule: what is to happen.
        grace: seconds for which Gnaw waits for absent peers.
        settle: seconds after the last fault, or the last end of a job, in which missions and the
            next job have to end.
    """

    def __init__(
        self, folder: Path, place: Place, schedule: Schedule, *, grace: float, settle: float
    ) -> None:
        self._folder = folder
        self._place = place
        self._schedule = schedule
        self._grace = grace
        self._settle = settle
        self._faults = Faults(folder, place)
        self._missions: list[tuple[MissionPlan, subprocess.Popen[bytes]]] = []
        self._commands: list[subprocess.Popen[bytes]] = []
        self._detached = Detached(folder / "home/.local/state/grain/started")
        self._jobs = QueuedJobs(folder, self._start_typed)
        self._nursery: trio.Nursery | None = None
        self._last_host = ""  # where Gnaw was asked to leave
        self._workers: list[subprocess.Popen[bytes]] = []
        self._bridge: subprocess.Popen[bytes] | None = None
        self._transports: dict[str, str] = {}
        self._megabytes: dict[str, float] = {}
        self._codes: dict[str, int | None] = {}
        make_home(folder)
        for name in ("books", "books/locks", "logs"):
            (folder / name).mkdir()
        arguments = ", ".join(f'"{word}"' for word in self._gnaw_arguments[2:])
        (folder / "work/grain.toml").write_text(
            f'address = "{place.address("unix")}"\n[head.gnaw]\nlog_file = "{folder}/logs/gnaw"\n'
            f'grace = "{grace:g}s"\nmax_conn = 1000\nextra_args = [{arguments}]\n'
        )

    @property
    def _gnaw_arguments(self) -> list[str]:
        return ["--grace", f"{self._grace:g}", "--idle-timeout", "3600"]

    @property
    def missed(self) -> int:
        """The number of faults that had no victim at their time."""
        return self._faults.missed

    async def run(self, seconds: float) -> Evidence:
        """Live through the schedule; return the evidence. Nothing of the run is alive then.

        Args:
            seconds: for how long faults strike.
        """
        try:
            await self._live(seconds)
            orphans = await self._part()
        finally:
            # Also if this program is to end: nothing is left on the machine.
            for one in marked(str(self._folder)):
                with suppress(psutil.Error):
                    one.process.kill()
            others = [] if self._bridge is None else [self._bridge]
            missions = [process for _, process in self._missions]
            for process in [*self._workers, *others, *self._commands, *missions]:
                process.kill()
                process.wait()
        return Evidence(
            self._grace,
            read_lines(str(self._folder / "books")),
            self._faults.events,
            [
                *(Ending(plan, self._codes.get(plan.name)) for plan, _ in self._missions),
                *self._detached.endings(read_lines(str(self._folder / "books"))),
            ],
            self._transports,
            orphans,
            self._files(),
            sorted(str(one) for one in (self._folder / "tmp").iterdir()),
            self._megabytes,
            resumed=self._detached.resumed,
            elsewhere=self._sockets_elsewhere(),
            jobs=self._jobs.evidence(),
        )

    # ---- what a run has

    def _start(self, transport: str, owner: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self._folder / f"logs/{owner}").open("ab") as log:
            return subprocess.Popen(
                self._place.command(transport, words),
                cwd=self._folder / "work",
                env=environment(self._folder, owner),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _start_typed(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command on the queue, as it is typed on a login host."""
        with (self._folder / "logs/queue").open("ab") as log:
            command = subprocess.Popen(
                self._place.command("unix", words),
                cwd=self._folder / "work",
                env=environment(self._folder, "queue"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._commands.append(command)
        return command

    def _start_worker(self, name: str, transport: str, seconds: float) -> subprocess.Popen[bytes]:
        self._transports[name] = transport
        resources = {"Cores": CORES} | ({"WTime": seconds} if seconds < math.inf else {})
        words = [
            *(sys.executable, "-m", "grain.worker", "--url", self._place.address(transport)),
            *("--res", json.dumps(resources), "--name", name),
        ]
        worker = self._start(transport, name, words)
        self._workers.append(worker)
        return worker

    async def _keep_worker(self, transport: str) -> None:
        """Keep a worker alive, as a batch system with many jobs does: each has a new name."""
        number = 0
        while True:
            number += 1
            name, seconds = f"{transport}-{number}", self._schedule.worker_time(transport, number)
            worker = self._start_worker(name, transport, seconds)
            began = time.monotonic()
            while worker.poll() is None:
                if time.monotonic() > began + seconds + OVERDUE:
                    self._kill_overdue(name)
                await trio.sleep(0.2)
            if time.monotonic() > began + seconds:
                event = Event("time over", "agent", name, None, began + seconds, time.monotonic())
                self._faults.enter(event, 0.0)
            await trio.sleep(1.0)

    def _kill_overdue(self, worker: str) -> None:
        """Kill a worker whose time is over, as a batch system does."""
        for one in self._of({"agent"}):
            if one.owner == worker:
                with suppress(psutil.Error):
                    one.process.kill()
                    now = time.monotonic()
                    self._faults.enter(Event("kill", "agent", worker, None, now, now), 0.0)

    async def _keep_bridge(self) -> None:
        """Keep the server of the bridge alive, but for the times for which it is to be away."""
        words = [sys.executable, "-m", "grain.cli", "bridge", "serve", "--listen", f":{PORT}"]
        while True:
            await self._faults.bridge_is_back.wait()
            self._bridge = self._start("bridge", "bridge", words)
            while self._bridge.poll() is None:  # noqa: ASYNC110 - a process that ends is not an event
                await trio.sleep(0.2)

    async def _type(self, login: str, mission: str, words: Sequence[str]) -> int:
        """Type a command about a mission on a login host; return its exit code."""
        command = self._start(login, mission, [sys.executable, "-m", "grain.cli", *words])
        self._commands.append(command)
        while (code := command.poll()) is None:  # noqa: ASYNC110 - a process that ends is not an event
            await trio.sleep(0.1)
        return code

    async def _keep_detached(self, plan: MissionPlan, words: Sequence[str]) -> None:
        """Start a mission so that it outlives its terminal; resume it when it is killed."""
        await self._until_over(plan, words)
        self._detached.part(plan.name)

    async def _until_over(self, plan: MissionPlan, words: Sequence[str]) -> None:
        logins = self._place.logins
        first = logins[plan.login % len(logins)]
        if await self._type(first, plan.name, ["run", "-d", "--name", plan.name, *words]):
            self._detached.refuse(plan)
            return
        while await self._detached.ended(plan.name) == -signal.SIGKILL:
            # As two who share an account do, who have both seen it die.
            codes: list[int] = []

            async def resume(login: str, codes: list[int] = codes) -> None:
                codes.append(await self._type(login, plan.name, ["resume", plan.name]))

            async with trio.open_nursery() as both:
                for login in logins:
                    both.start_soon(resume, login)
            self._detached.resumed.append((plan.name, codes.count(0)))
            if not codes.count(0):
                return

    def _start_mission(self, plan: MissionPlan) -> None:
        file = self._folder / f"work/{plan.name}.json"
        more = {
            "address": self._place.address("unix"),
            "log": f"{self._folder}/logs/gnaw",
            "arguments": self._gnaw_arguments,
        }
        file.write_text(json.dumps({**asdict(plan), **more}))
        words = [
            str(Path(__file__).with_name("mission.py")),
            str(self._folder / "books"),
            str(file),
        ]
        if plan.login:
            assert self._nursery is not None
            self._detached.begin(plan)
            self._nursery.start_soon(self._keep_detached, plan, words)
        else:
            process = self._start("unix", plan.name, [sys.executable, *words])
            self._missions.append((plan, process))

    # ---- its life

    async def _live(self, seconds: float) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._watch_memory)
            if "relay" in self._place.transports:
                nursery.start_soon(self._keep_bridge)
            for transport in self._place.transports:
                nursery.start_soon(self._keep_worker, transport)
            async with trio.open_nursery() as schedule:
                schedule.start_soon(self._launch)
                for job in self._schedule.jobs:
                    nursery.start_soon(self._launch_job, job)
                with trio.move_on_after(seconds):
                    await self._strike()
                    await trio.sleep_forever()
                schedule.cancel_scope.cancel()  # what had no room yet
            # No fault lasts any longer; what is under way has its time.
            self._start_mission(LAST)
            with trio.move_on_after(self._settle) as scope:

                def go_on() -> None:
                    scope.deadline = trio.current_time() + self._settle

                await self._jobs.until_over(go_on)
                while self._detached.live or any(  # noqa: ASYNC110
                    process.poll() is None for _, process in self._missions
                ):
                    await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        self._codes = {plan.name: process.poll() for plan, process in self._missions}

    async def _launch(self) -> None:
        began = trio.current_time()
        for plan in self._schedule.missions:
            await trio.sleep_until(began + plan.at)
            # A slow machine would have more and more of them, and no time for the faults' victims.
            while self._alive() >= MOST_ALIVE:  # noqa: ASYNC110
                await trio.sleep(0.2)
            self._start_mission(plan)

    def _alive(self) -> int:
        """Return how many missions have not ended."""
        return len(self._detached.live) + sum(one.poll() is None for _, one in self._missions)

    async def _launch_job(self, plan: JobPlan) -> None:
        await trio.sleep(plan.at)
        await self._jobs.live(plan)

    async def _strike(self) -> None:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for fault in self._schedule.faults:
                await trio.sleep_until(began + fault.at)
                nursery.start_soon(self._faults.strike, fault)

    async def _watch_memory(self) -> None:
        while True:
            for one in await trio.to_thread.run_sync(marked, str(self._folder)):
                if one.role in {"gnaw", "agent"}:
                    with suppress(psutil.Error):
                        size = one.process.memory_info().rss / 1e6
                        self._megabytes[one.role] = max(self._megabytes.get(one.role, 0.0), size)
            await trio.sleep(2.0)

    # ---- its end

    async def _part(self) -> list[str]:
        """End what is left in the ordinary ways; return what does not end."""
        await self._jobs.stop()
        mission = {"mission", "program", "daemon", "dispatcher"}
        left = await self._until_none(mission, self._grace + FAREWELL)
        for role in ("agent", "gnaw", "bridge"):
            for one in self._of({role}):
                if role == "gnaw":
                    self._last_host = self._place.host_of(one.process.pid)
                with suppress(psutil.Error):
                    one.process.send_signal(signal.SIGTERM)
            left += await self._until_none({role}, FAREWELL)
        # What belongs to the processes that have just ended has some seconds for its own end.
        end = time.monotonic() + 10
        while (others := self._of()) and time.monotonic() < end:  # noqa: ASYNC110
            await trio.sleep(0.2)
        return sorted({*left, *(str(one) for one in others)})

    def _of(self, roles: set[str] | None = None) -> list[Marked]:
        there = marked(str(self._folder))
        return [one for one in there if roles is None or one.role in roles]

    async def _until_none(self, roles: set[str], seconds: float) -> list[str]:
        """Wait until no process has one of these roles; return the rest."""
        end = time.monotonic() + seconds
        while (left := self._of(roles)) and time.monotonic() < end:  # noqa: ASYNC110
            await trio.sleep(0.2)
        return [str(one) for one in left]

    def _files(self) -> list[str]:
        """Return what a user would find afterwards, but for the meeting file and the last claim.

        What a Gnaw has left that was killed, its successor removes, on the same host.
        """
        shared = self._folder / "shared"
        claims = re.compile(r"shared/meeting(\.d(/claim\.\d+)?)?$")
        files = [str(one) for one in shared.rglob("*") if not claims.search(str(one))]
        here = self._place.sockets().get(self._last_host, [])
        return sorted(files + here)

    def _sockets_elsewhere(self) -> list[str]:
        """Return the sockets on hosts where the last Gnaw was not."""
        sockets = self._place.sockets()
        return [one for host in sockets if host != self._last_host for one in sockets[host]]
