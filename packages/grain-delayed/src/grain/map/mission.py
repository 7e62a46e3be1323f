"""``grain map`` as a mission: from the first input to the end of the last job."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import trio

from grain.delayed.missions.opening import opened
from grain.delayed.missions.report import Reporter
from grain.head import collapsing
from grain.map.errors import MapError
from grain.map.halting import Tally
from grain.map.inputs.sources import Inputs
from grain.map.inputs.template import Template
from grain.map.job_log.entries import History, Past
from grain.map.job_log.file import JobLog
from grain.map.jobs import Jobs, MapJob
from grain.map.output import OutputPrinter
from grain.map.results import Results, WorkingDirectory

if TYPE_CHECKING:
    from grain.map.inputs.splitting import Record
    from grain.map.plan import Plan


async def dry_run(plan: Plan) -> None:
    """Print the command of every job, one per line, and run nothing.

    Raises:
        MapError: template and inputs do not go together.
        OSError: a file cannot be read, or the reader of the output has gone.
    """
    async with _inputs(plan) as inputs:
        template = _template(plan, inputs)
        seq = 0
        while (record := await inputs.next()) is not None:
            seq += 1
            sys.stdout.buffer.write(os.fsencode(f"{template.command(seq, record)}\n"))
    sys.stdout.buffer.flush()


async def run_map(plan: Plan) -> Tally:
    """Run the command for every input.

    It returns when all jobs have ended, or when the halting policy says so. If an input turns out
    to be unusable, the jobs that run by then end and are written down before that is raised.

    Returns:
        The counts, from which comes the exit status.

    Raises:
        MapError: template, inputs and result log do not go together.
        OSError: a file cannot be read or written; BrokenPipeError if nobody reads the output.
        grain.resource.Infeasible: no worker can ever run such a job.
        KeyboardInterrupt: on Ctrl-C, when no process is left; jobs that ended are written down.
    """
    async with _inputs(plan) as inputs:
        template = _template(plan, inputs)
        results = plan.results and Results(plan.results, inputs.names, inputs.width)
        with ExitStack() as stack:
            history = None if plan.resume == "no" else History(by_command=plan.by_command)
            log = stack.enter_context(JobLog(plan.joblog, history)) if plan.joblog else None
            output = stack.enter_context(OutputPrinter(in_order=plan.keep_order))
            tally = Tally(plan.halt)
            where = WorkingDirectory(plan.workdir, inputs.names, inputs.width)
            feed = _Feed(plan, template, where, results or None, history, tally, output)
            error: Exception | None = None
            try:
                # The routine lines of a mission are noise around a command's own output.
                reporter = Reporter(plan.progress, routine=False)
                async with opened(
                    plan.local, reporter, config_file=plan.config_file, cache=False
                ) as entered:
                    with collapsing():
                        async with trio.open_nursery() as nursery:
                            jobs = Jobs(plan, entered, nursery, tally, log, output)
                            error = await feed.all(inputs, jobs)
                    error = jobs.error or error
                    if jobs.error or (tally.halted and plan.halt.when == "now"):
                        raise _Leaving  # noqa: TRY301 - it ends the mission on its way
            except _Leaving:
                pass
        if error is not None:
            raise error
        return tally


class _Leaving(Exception):
    """The exception that cancels the mission's jobs: without one the mission waits for them."""


class _Feed:
    """The loop that makes jobs of inputs, and starts them as there is room."""

    def __init__(
        self,
        plan: Plan,
        template: Template,
        where: WorkingDirectory,
        results: Results | None,
        history: History | None,
        tally: Tally,
        output: OutputPrinter,
    ) -> None:
        self._again = plan.resume == "succeeded"
        self._template = template
        self._where = where
        self._results = results
        self._history = history
        self._tally = tally
        self._output = output

    async def all(self, inputs: Inputs, jobs: Jobs) -> Exception | None:
        """Start a job for every input, until they are to stop.

        Returns:
            The error of the input at which it stopped; the jobs before it go on.
        """
        seq = 0
        with jobs.feeding:
            try:
                while (record := await inputs.next()) is not None:
                    seq += 1
                    job = self._job(seq, record)
                    if self._is_over(job):
                        await self._output.put(seq, b"", b"")
                        continue
                    await jobs.wait_for_room()
                    if self._tally.halted:  # by the job that has just made room
                        break
                    jobs.start(job)
            except (MapError, OSError) as error:
                return error
        return None

    def _job(self, seq: int, record: Record) -> MapJob:
        return MapJob(
            seq,
            self._template.argv(seq, record),
            self._template.command(seq, record),
            self._where.of(seq, record),
            None if self._results is None else self._results.files(seq, record),
        )

    def _is_over(self, job: MapJob) -> bool:
        """Return True if an earlier run has finished a job."""
        if self._history is None:
            return False
        past = self._history.past(job.seq, job.command)
        failed = past is Past.FAILED
        if past is Past.NEVER_ENDED or (failed and self._again):
            return False
        self._tally.skip(failed=failed)
        return True


def _inputs(plan: Plan) -> Inputs:
    return Inputs(plan.sources, plan.columns, null=plan.null, header=plan.header)


def _template(plan: Plan, inputs: Inputs) -> Template:
    return Template(plan.command, shell=plan.shell, names=inputs.names, width=inputs.width)
