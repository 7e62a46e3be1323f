"""Nodes and jobs, and what time does to them. Knows no batch system's texts.

Time is an argument everywhere, in seconds of the cluster: the controller lets it run faster than
the clock. A job that is ended by others goes through `end`: SIGTERM to all its processes, SIGKILL
after a grace, and only when all of them are gone it is `settled`.
"""

from __future__ import annotations

import contextlib
import os
import signal

from fake_batch.model import OVER, Job, Manners, Node, Timing
from fake_batch.processes import Processes, resident, send


class Cluster:
    """Nodes, jobs, and the events between them."""

    def __init__(self, nodes: list[Node], timing: Timing, processes: Processes) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.timing = timing
        self.jobs: list[Job] = []
        self.manners: Manners
        self.next_number = 1
        self.now = 0.0
        self._processes = processes
        self._checked = 0.0
        self._measured = 0.0

    def number(self) -> int:
        """A new id."""
        self.next_number += 1
        return self.next_number - 1

    def used(self, node: Node) -> tuple[int, int]:
        """Cores and MiB that jobs have on a node."""
        there = [job for job in self.jobs if job.node == node.name and job.pid]
        return sum(job.cores for job in there), sum(job.memory for job in there)

    def tick(self, now: float) -> None:
        """Let time do its work."""
        self.now = now
        self._processes.reap()
        check = now - self._checked >= self.timing.check
        measure = now - self._measured >= self.timing.memory
        self._checked = now if check else self._checked
        self._measured = now if measure else self._measured
        for node in self.nodes.values():
            if node.state == "lost" and now >= node.since + self.timing.node_timeout:
                self._lose(node, now)
        for job in self.jobs:
            if job.pid and self.nodes[job.node].state == "up":
                self._watch(job, now, check=check, measure=measure)
        self._start(now)
        self.jobs = [
            job for job in self.jobs if job.state not in OVER or now < job.ended + self.timing.keep
        ]

    def _watch(self, job: Job, now: float, *, check: bool, measure: bool) -> None:
        status = self._processes.ended(job.pid)
        if status is not None:
            # What its script left behind ends with it.
            if rest := self._processes.of(job.key):
                if job.finals is None or now >= job.kill_at:
                    send(rest, signal.SIGKILL)
                return
            self._settle(job, status, now)
        elif job.finals is not None:
            if now >= job.kill_at:
                send(self._processes.of(job.key), signal.SIGKILL)
        elif check and job.limit is not None and now >= job.started + job.limit:
            self.end(job, now, "TIMEOUT", "TimeLimit")
        elif check and job.warning is not None and self.manners.warn_now(job, now):
            self.write_notice(job, self.manners.notice(job, "WARNED"))
            send([job.pid], job.warning[0])
            job.warning = None
        elif measure and job.memory and resident(self._processes.of(job.key)) > job.memory:
            self.end(job, now, "OUT_OF_MEMORY", "JobLaunchFailure", grace=0)

    def end(
        self, job: Job, now: float, state: str, reason: str = "", grace: float | None = None
    ) -> None:
        """Begin to end a job; for the state PENDING it is queued again when it is gone."""
        if not job.pid:
            if state in OVER:
                job.state, job.reason, job.ended = state, reason, now
            return
        self.write_notice(job, self.manners.notice(job, state))
        final = "FAILED" if state == "OUT_OF_MEMORY" else state
        job.finals = (final, reason)
        job.kill_at = now + (self.timing.kill_wait if grace is None else grace)
        if grace != 0:
            self._processes.end(job.key)

    def signal(self, job: Job, one: signal.Signals, *, shell_only: bool) -> None:
        """Send a signal to a running job's shell, or to all its processes."""
        if job.pid:
            send([job.pid] if shell_only else self._processes.of(job.key), one)

    def write_notice(self, job: Job, text: str) -> None:
        """Write a line into a running job's output, if there is room for it."""
        if text and job.pid:
            with contextlib.suppress(OSError), self.manners.place(job)[2].open("a") as out:
                out.write(text + "\n")

    def _settle(self, job: Job, status: int, now: float) -> None:
        code = os.waitstatus_to_exitcode(status)
        job.code = (code, 0) if code >= 0 else (0, -code)
        job.ended, job.pid = now, 0
        natural = "COMPLETED" if code == 0 else "FAILED"
        state, reason = job.finals or (natural, "" if code == 0 else "NonZeroExitCode")
        job.finals = None
        if state == "PENDING":
            self.queue_again(job, now)
        else:
            job.state, job.reason = state, reason
            self.manners.over(job)

    def queue_again(self, job: Job, now: float) -> None:
        """A job waits again, under its old id."""
        job.state, job.reason, job.node, job.pid = "PENDING", "BeginTime", "", 0
        job.restarts += 1
        job.not_before = now + self.timing.requeue

    def _start(self, now: float) -> None:
        waits = False
        for job in self.jobs:
            if job.state != "PENDING":
                continue
            if job.never:
                job.reason = job.never
            elif now < job.not_before:
                job.reason = "BeginTime"
            elif job.throttle and self._siblings(job) >= job.throttle:
                job.reason = "JobArrayTaskLimit"
            elif node := self._room(job):
                self._launch(job, node, now)
            else:
                job.reason = "Priority" if waits else "Resources"
                waits = True

    def _siblings(self, job: Job) -> int:
        """Return the number of running tasks of the job's array."""
        arrays = [one.array for one in self.jobs if one.pid]
        return sum(bool(job.array and array and array[0] == job.array[0]) for array in arrays)

    def _room(self, job: Job) -> Node | None:
        for node in self.nodes.values():
            cores, memory = self.used(node)
            fits = cores + job.cores <= node.cores and memory + job.memory <= node.memory
            if node.state == "up" and fits:
                return node
        return None

    def _launch(self, job: Job, node: Node, now: float) -> None:
        if job.array and not job.restarts:
            job.number = self.manners.task_number(job)
        job.node, job.started, job.reason = node.name, now, ""
        env, cwd, output = self.manners.place(job)
        try:
            job.pid = self._processes.start(
                job.key, job.script, env, cwd, output, append=job.append
            )
        except OSError:
            job.state, job.reason, job.ended = "FAILED", "JobLaunchFailure", now
            job.code = (0, 53)
        else:
            job.state = "RUNNING"

    def down(self, node: Node, now: float) -> None:
        """An operator takes a node down: its jobs are killed at once and queued again."""
        node.state = "down"
        for job in [job for job in self.jobs if job.node == node.name and job.pid]:
            self.write_notice(job, self.manners.notice(job, "NODE_FAIL"))
            self._processes.end(job.key, signal.SIGKILL)
            self._gone_with_node(job, now)

    def crash(self, node: Node, now: float, *, processes_too: bool) -> None:
        """A node's daemon dies, with or without the processes of its jobs; that is not noticed."""
        node.state, node.since = "lost", now
        for job in self.jobs:
            if job.node == node.name and job.pid:
                if processes_too:
                    self._processes.end(job.key, signal.SIGKILL)
                else:
                    node.strays.append(job.key)

    def _lose(self, node: Node, now: float) -> None:
        node.state = "down"
        for job in self.jobs:
            if job.node == node.name and job.pid:
                self._gone_with_node(job, now)

    def _gone_with_node(self, job: Job, now: float) -> None:
        job.finals = None
        if job.requeues:
            self.queue_again(job, now)
        else:
            job.state, job.reason, job.ended, job.pid = "NODE_FAIL", "NodeDown", now, 0

    def resume(self, node: Node) -> None:
        """A node comes back, and ends what ran on without its daemon."""
        node.state = "up"
        for key in node.strays:
            self._processes.end(key, signal.SIGKILL)
        node.strays.clear()
