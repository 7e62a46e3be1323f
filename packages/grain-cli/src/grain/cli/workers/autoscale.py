"""The loop of `grain scale --auto`: asks, and does what a `Scaler` decides."""

from __future__ import annotations

import time
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from grain.cli.batch import BatchError, is_mark, open_system, state_folder
from grain.cli.batch.records import job_name, submitted_name
from grain.cli.query import NoScheduler, ask
from grain.cli.scaling.configured import ONE_SHAPE, with_shape, worker_shape
from grain.cli.scaling.model import (
    CurrentWorker,
    Situation,
    TaskAlternative,
    TaskClass,
    without,
)
from grain.cli.scaling.scaler import Scaler
from grain.cli.show import clean
from grain.cli.workers.jobs import joined, report_ended
from grain.cli.workers.loop import ScaleLoop
from grain.cli.workers.scaling_state import ScalingState
from grain.cli.workers.submission import submit_workers
from grain.edge.questions import Ask, DemandAnswer
from grain.facts.rows import Worker
from grain.files.batch_systems import facts_of
from grain.resource import Cores, GPUs, from_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grain.cli.batch import JobRecord, JobState
    from grain.cli.scaling.model import CancelJob, Decision, DrainWorker, SubmitJobs
    from grain.config import Config
    from grain.facts.rows import Queue

MOST = 10
"""Workers at most, where neither ``--max`` nor the shapes say."""

ENOUGH = 3
"""The number of ended runs whose mean duration is believed."""


def default_most(config: Config) -> int:
    """Return the largest number of workers where ``--max`` does not say."""
    limits = [shape.max for shape in config.shape]
    if limits and None not in limits:
        return sum(limit for limit in limits if limit is not None)
    if config.system == "local":
        return 1
    if config.system == "ssh":
        return sum(int(host.partition(":")[2] or 1) for host in config.hosts)
    return MOST


class AutoLoop(ScaleLoop):
    """The loop of `grain scale --auto`.

    Args:
        idle: the seconds for which a worker may be idle; None to learn them.
        worth: the seconds of work for which one is worth it; None to learn them.
    """

    def __init__(
        self,
        config: Config,
        options: tuple[str, ...],
        report: Callable[[str, int, int], None],
        parent: int | None,
        *,
        least: int,
        most: int,
        idle: float | None,
        worth: float | None,
    ) -> None:
        super().__init__(config, options, report, parent)
        self._configs = {shape.name: with_shape(config, shape) for shape in config.shape} or {
            ONE_SHAPE: config
        }
        by_name = {shape.name: shape for shape in config.shape}
        self._scaler = Scaler(
            [worker_shape(one, by_name.get(name), most) for name, one in self._configs.items()],
            least=least,
            most=most,
            idle=idle,
            worth=worth,
        )
        self._most = most
        self._state = ScalingState(state_folder(), config.worker.dial)

    def run(self) -> None:
        """Keep workers until a signal or the parent's end; workers and jobs stay."""
        try:
            super().run()
        finally:
            self._state.remove()

    def counts(self) -> tuple[int, int]:
        """Return the number of jobs that are not lost, and that of workers at most."""
        return self._scaler.alive, self._most

    def report(self, text: str) -> None:
        """Report what has happened, and have it ready for `grain ls`."""
        self._state.note(text)
        super().report(text)

    def adopt(self, records: list[JobRecord]) -> None:
        """Count the jobs that an earlier `grain scale` left behind."""
        for one in records:
            doubtful = is_mark(one.id)
            self._scaler.adopted(one.shape, one.id, time.monotonic(), doubtful=doubtful)
            self.names[one.id] = one.name
        left = f"; {len(records)} jobs are left from before" if records else ""
        self.report(f"workers by demand, {self._most} at most{left}")

    def step(self) -> None:
        """Look at everything once, and do what is to be done."""
        try:
            states = open_system(self.config).states(self._scaler.jobs)
        except BatchError as error:
            # How many workers there are is not known, so nothing is submitted or ended.
            self.complain("batch system", str(error))
            return
        self.forget_trouble("batch system")
        view = self._view(states)
        here = [] if view.workers is None else [one.name for one in view.workers]
        report_ended(self.config, states, self.names, lambda: here)
        decision = self._scaler.decide(view, time.monotonic())
        for line in decision.news:
            self.report(line)
        self._cancel(decision)
        for job, releases in groupby(decision.release, key=lambda one: one.job):
            self._drain(job, list(releases))
        for submit in decision.submit:
            self._submit(submit)
        for one in self._scaler.impossible:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in one.reasons.items())
            self.complain(one.ask, f"{one.ask} can run on no worker of this file: {reasons}")
        self._state.write(self._scaler.describe(time.monotonic()))

    def _view(self, states: Mapping[str, JobState]) -> Situation:
        """Return how things stand."""
        try:
            answer = ask(self.config, Ask("demand", scales=True), DemandAnswer)
            workers = self._workers(answer.workers)
            view = Situation(
                [task_class(one) for one in answer.classes],
                workers,
                joined(states, lambda: [worker.name for worker in workers]),
            )
        except NoScheduler as error:
            self.complain("scheduler", f"{error}")
            return Situation((), None, states)
        except (TypeError, ValueError, LookupError) as error:  # resources that make no sense
            what = f"the scheduler's answer is not understood: {error!r}"
            self.complain("scheduler", what)
            return Situation((), None, states)
        self.forget_trouble("scheduler")
        return view

    def _workers(self, answers: Iterable[Worker]) -> list[CurrentWorker]:
        """Return the workers of an answer, each with its job: names may repeat."""
        jobs: dict[str, list[str | None]] = {}
        for job in self._scaler.jobs:
            jobs.setdefault(self.names.get(job, ""), []).append(job)
        workers = []
        for answer in answers:
            mine = jobs.get(answer.name) or jobs.get(submitted_name(answer.name)) or [None]
            # The workers of a job of several nodes have its name, with a number behind it.
            several = job_name(answer.name) != answer.name and answer.name not in jobs
            workers.append(worker_of(answer, mine[0] if several else mine.pop(0)))
        return workers

    def _cancel(self, decision: Decision) -> None:
        if not decision.cancel:
            return
        try:
            open_system(self.config).cancel([one.job for one in decision.cancel])
        except BatchError as error:
            self.complain("cancel", str(error))
            return
        self.forget_trouble("cancel")
        for one in decision.cancel:
            self.report(f"-1 {self._named(one)}: {one.why}")
            self._scaler.cancelled(one.job, time.monotonic())

    def _drain(self, job: str, releases: Sequence[DrainWorker]) -> None:
        """Let the workers of a job go."""
        try:
            for one in releases:
                ask(self.config, Ask("drain", pattern=one.worker), list[Worker])
        except NoScheduler as error:
            self.complain("scheduler", str(error))
            return
        self.report(f"-1 {self._named(releases[0])}: {releases[0].why}")
        self._scaler.released(job, time.monotonic())

    def _named(self, one: CancelJob | DrainWorker) -> str:
        shape = self._scaler.shape_of(one.job)
        return f"{shape} ({clean(self.names.get(one.job, one.job))})"

    def _submit(self, submit: SubmitJobs) -> None:
        config = self._configs[submit.shape]
        options = (*self.options, *facts_of(config.system).avoiding(submit.avoid))
        names = []
        trouble = ""
        try:
            for record in submit_workers(
                *(config, submit.number, options),
                by=self.by,
                sharing=self._most,
                note=partial(self.complain, "hosts"),
            ):
                self.names[record.id] = record.name
                doubtful = is_mark(record.id)
                self._scaler.submitted(submit.shape, record.id, time.monotonic(), doubtful=doubtful)
                names.append(f"{clean(record.name)}{' perhaps' if doubtful else ''}")
        except (BatchError, OSError) as error:
            self._scaler.refused(submit.shape, time.monotonic())
            trouble = str(error)
        if names:
            self.report(f"+{len(names)} {submit.shape}: {submit.why} ({', '.join(names)})")
        if trouble:
            self.complain(f"submit {submit.shape}", trouble)
        else:
            self.forget_trouble(f"submit {submit.shape}")


def task_class(answer: Queue) -> TaskClass:
    """Return a class of tasks of the scheduler's answer.

    Raises:
        ValueError, LookupError, TypeError: its resources make no sense.
    """
    return TaskClass(
        from_data(answer.request, unknown="keep"),
        clean(answer.asked),
        answer.waiting,
        answer.running,
        answer.elapsed,
        answer.mean if answer.ended >= ENOUGH else None,
        answer.need,
        answer.interpreter,
        tuple(
            TaskAlternative(
                from_data(one.request, unknown="keep"), one.need, one.members, one.same == "job"
            )
            for one in answer.others
        ),
        answer.members,
        answer.same == "job",
    )


def worker_of(answer: Worker, job: str | None) -> CurrentWorker:
    """Return a worker of the scheduler's answer.

    Raises:
        ValueError, LookupError, TypeError: its resources make no sense.
    """
    total, free = (
        from_data({k: v for k, v in one.items() if k != "WTime"}, unknown="keep")
        for one in (answer.total, answer.free)
    )
    for kind in (Cores, GPUs):
        own, left = total.get(kind), free.get(kind)
        if isinstance(own, Cores | GPUs) and isinstance(left, Cores | GPUs):
            free = without(free, frozenset({kind.__name__})) & left.left_of(own)
    return CurrentWorker(
        answer.id,
        clean(answer.name),
        total,
        free,
        float("inf") if answer.left is None else answer.left,
        answer.running,
        answer.idle,
        answer.draining,
        answer.interpreter,
        job,
        answer.job,
    )
