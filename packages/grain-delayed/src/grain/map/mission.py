"""``grain map`` as a mission: inputs come in, jobs go out, ends are written down.

No more than `grain.map.jobs.WAITING` jobs wait for room at a time, so memory stays flat however
long the input is.
"""

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
from grain.map.jobs import Job, Jobs
from grain.map.output import Output
from grain.map.results import Results, WorkingDirectory

if TYPE_CHECKING:
    from grain.map.inputs.splitting import Record
    from grain.map.plan import Plan


async def dry_run(plan: Plan) -> None:
    """Print the command of every job, one per line, and run nothing.

    Raises:
        MapError: template and inputs do not go together.
        OSError: a file cannot be read, or nobody reads the output.
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

    Returns when all jobs have ended, or when the halting policy says so. If an input turns out
    to be unusable, what runs by then runs to its end, and is written down, before that is raised.

    Returns:
        How many succeeded and failed, from which comes the exit status.

    Raises:
        MapError: template, inputs and result log do not go together.
        OSError: a file cannot be read or written; BrokenPipeError if nobody reads the output.
        grain.resource.Infeasible: no worker can ever run such a job.
        KeyboardInterrupt: on Ctrl-C, when all processes are gone; what ended is written down.
    """
    async with _inputs(plan) as inputs:
        template = _template(plan, inputs)
        results = plan.results and Results(plan.results, inputs.names, inputs.width)
        with ExitStack() as stack:
            history = None if plan.resume == "no" else History(by_command=plan.by_command)
            log = stack.enter_context(JobLog(plan.joblog, history)) if plan.joblog else None
            output = stack.enter_context(Output(in_order=plan.keep_order))
            tally = Tally(plan.halt)
            where = WorkingDirectory(plan.workdir, inputs.names, inputs.width)
            feed = _Feed(plan, template, where, results or None, history, tally, output)
            trouble: Exception | None = None
            try:
                # What every mission tells of itself is noise around a command's own output.
                reporter = Reporter(plan.progress, routine=False)
                async with opened(
                    plan.local, reporter, config_file=plan.config_file, cache=False
                ) as made:
                    with collapsing():
                        async with trio.open_nursery() as nursery:
                            jobs = Jobs(plan, made, nursery, tally, log, output)
                            trouble = await feed.all(inputs, jobs)
                    trouble = jobs.error or trouble
                    if jobs.error or (tally.halted and plan.halt.when == "now"):
                        raise _Leaving  # noqa: TRY301 - it ends the mission on its way
            except _Leaving:
                pass
        if trouble is not None:
            raise trouble
        return tally


class _Leaving(Exception):
    """Leaves the mission and ends what runs in it; one that is left in peace waits for that."""


class _Feed:
    """Makes jobs of inputs, and starts them as there is room."""

    def __init__(
        self,
        plan: Plan,
        template: Template,
        where: WorkingDirectory,
        results: Results | None,
        history: History | None,
        tally: Tally,
        output: Output,
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
            What is wrong with the input at which it stopped; the jobs before it go on.
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
                    await jobs.room()
                    if self._tally.halted:  # by the job whose end made the room
                        break
                    jobs.start(job)
            except (MapError, OSError) as error:
                return error
        return None

    def _job(self, seq: int, record: Record) -> Job:
        return Job(
            seq,
            self._template.argv(seq, record),
            self._template.command(seq, record),
            self._where.of(seq, record),
            None if self._results is None else self._results.files(seq, record),
        )

    def _is_over(self, job: Job) -> bool:
        """Whether an earlier run has done with a job."""
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
