"""``grain map`` as a mission: from the first input to the end of the last job."""

from __future__ import annotations

import os
import random
import sys
from contextlib import ExitStack, aclosing
from typing import TYPE_CHECKING

import trio

from grain.delayed.display.total import Total
from grain.delayed.missions.executor import mission_name
from grain.delayed.missions.opening import opened
from grain.delayed.missions.options import MissionOptions
from grain.delayed.missions.report import Reporter
from grain.head import collapsing
from grain.inputs.errors import InputsError, TemplateError
from grain.inputs.template import Template
from grain.map.errors import MapError
from grain.map.inputs.sources import Inputs
from grain.map.job_log.entries import History, Past
from grain.map.job_log.file import JobLog
from grain.map.job_log.table import ResultTable, is_table
from grain.map.jobs import Jobs, MapJob
from grain.map.output import OutputPrinter
from grain.map.overflow import overflow_folder
from grain.map.results import JobPlaces, Results, Tag, WorkingDirectory
from grain.worker.errors import printable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from grain.inputs.splitting import Record
    from grain.map.halting import Tally
    from grain.map.plan import MapOptions


async def check(plan: MapOptions) -> None:
    """Check template and inputs, as far as that is possible before a job runs; run nothing.

    Raises:
        InputsError: they do not go together.
        OSError: a file of inputs cannot be read.
    """
    async with _inputs(plan) as inputs:
        _template(plan, inputs)
    await _check_places(plan)


async def _check_places(plan: MapOptions) -> bool:
    """Look for files and directories that two jobs would share, before any runs.

    Returns:
        False if the inputs can be read only once, so that this has to be done on the way.

    Raises:
        InputsError: two jobs would write to one file; or see `check`.
        OSError: a file of inputs cannot be read.
    """
    if not all(one.can_be_read_twice() for one in plan.sources):
        return False
    async with _inputs(plan) as inputs:
        places = _JobMaker(plan, inputs).places
        if places.can_be_shared:
            async with aclosing(_numbered(inputs, shuffle=False)) as numbered:
                async for seq, record in numbered:
                    places.add(seq, record)
    _remark(places)
    return True


def _remark(places: JobPlaces) -> None:
    if places.remark:
        print(f"grain map: {places.remark}", file=sys.stderr)


async def dry_run(plan: MapOptions) -> None:
    """Print the command of every job, one per line, and run nothing.

    On a terminal no name of a file can hide a part of its command.

    Raises:
        InputsError: template and inputs do not go together.
        OSError: a file cannot be read, or the reader of the output has gone.
    """
    async with _inputs(plan) as inputs:
        template = _template(plan, inputs)
        on_terminal = sys.stdout.isatty()
        async with aclosing(_numbered(inputs, shuffle=plan.shuffle)) as numbered:
            async for seq, record in numbered:
                command = template.command(seq, record)
                line = printable(command) if on_terminal else command
                sys.stdout.buffer.write(os.fsencode(f"{line}\n"))
    sys.stdout.buffer.flush()


async def run_map(plan: MapOptions, tally: Tally) -> None:
    """Run the command for every input.

    It returns when all jobs have ended, or when the halting policy says so. If an input turns out
    to be unusable, the jobs that run by then end and are written down before that is raised.

    Raises:
        InputsError, MapError: template, inputs and result log do not go together.
        OSError: a file cannot be read or written; BrokenPipeError if the reader of the output has
            ended.
        grain.resource.Infeasible: no worker can ever run such a job.
        KeyboardInterrupt: on Ctrl-C, when no process is left; jobs that ended are written down.
    """
    checked = await _check_places(plan)
    async with _inputs(plan) as inputs:
        maker = _JobMaker(plan, inputs)
        with ExitStack() as stack:
            history = None if plan.resume == "no" else History(by_command=plan.by_command)
            log = stack.enter_context(JobLog(plan.joblog, history)) if plan.joblog else None
            table = None
            if plan.results is not None and is_table(plan.results):
                go_on = plan.resume != "no"
                table = stack.enter_context(ResultTable(plan.results, inputs.names, go_on=go_on))
            overflow = stack.enter_context(overflow_folder(shared=plan.local is None))
            output = stack.enter_context(OutputPrinter(in_order=plan.keep_order))
            feed = _Feed(plan, maker, history, tally, output, None if checked else maker.places)
            error: Exception | None = None
            # The routine lines of a mission are noise around a command's own output.
            reporter = Reporter(
                plan.progress,
                routine=False,
                elsewhere="or -j N runs the jobs on this machine",
            )
            try:
                options = MissionOptions(
                    plan.local, plan.config_file, mission_name("map"), cache=False
                )
                async with opened(options, reporter) as entered:
                    with collapsing():
                        async with trio.open_nursery() as nursery:
                            jobs = Jobs(
                                plan, entered, nursery, tally, log, output, table,
                                slots=maker.uses_slot, overflow=overflow,
                            )  # fmt: skip
                            error = await feed.all(inputs, jobs)
                            _remark(maker.places)
                            if error is None:
                                reporter.expect(Total(feed.started))
                    error = jobs.error or error
                    if jobs.error or (tally.halted and plan.halt.when == "now"):
                        raise _Leaving  # noqa: TRY301 - it ends the mission on its way
            except _Leaving:
                pass
            finally:
                tally.log = reporter.log
        if error is not None:
            raise error


class _Leaving(Exception):
    """The exception that cancels the mission's jobs: without one the mission waits for them."""


class _JobMaker:
    """A maker of jobs: the templates of a plan, filled with inputs.

    Raises:
        TemplateError: a template and the inputs, or the options, do not go together.
    """

    def __init__(self, plan: MapOptions, inputs: Inputs) -> None:
        columns = inputs.names, inputs.width
        self._template = _template(plan, inputs)
        self._where = WorkingDirectory(plan.workdir, *columns)
        self._results: Results | None = None
        if plan.results is not None and not is_table(plan.results):
            self._results = Results(plan.results, *columns)
        # One at a time has none beside it.
        warned = plan.warn[0] if isinstance(plan.warn, tuple) and plan.at_once != 1 else ""
        self.places = JobPlaces(self._results, self._where, warned)
        self._tag = None if plan.tag is None else Tag(plan.tag, *columns)
        makers = (self._template, self._where, self._results, self._tag)
        self.uses_slot = any(one.uses_slot for one in makers if one is not None)
        if self.uses_slot and plan.at_once is None:
            raise TemplateError(
                "{%} is the number of one of the N jobs that -j N runs at a time. Add -j, or use "
                "{#}, the number of the job"
            )

    def command(self, seq: int, record: Record) -> str:
        """Return the command of a job as the result log has it: without the number of a slot."""
        return self._template.command(seq, record)

    def job(self, seq: int, record: Record, command: str, slot: int | None) -> MapJob:
        """Return a job."""
        results = self._results
        return MapJob(
            seq,
            self._template.argv(seq, record, slot),
            command,
            self._where.of(seq, record, slot),
            None if results is None else results.files(seq, record, slot),
            record,
            b"" if self._tag is None else self._tag.of(seq, record, slot),
            slot,
        )


class _Feed:
    """The loop that makes jobs of inputs, and starts them as there is room."""

    def __init__(
        self,
        plan: MapOptions,
        maker: _JobMaker,
        history: History | None,
        tally: Tally,
        output: OutputPrinter,
        places: JobPlaces | None,
    ) -> None:
        self.started = 0
        self._places = places
        self._again = plan.resume == "succeeded"
        self._shuffle = plan.shuffle
        self._maker = maker
        self._history = history
        self._tally = tally
        self._output = output

    async def all(self, inputs: Inputs, jobs: Jobs) -> Exception | None:
        """Start a job for every input, until they are to stop.

        Returns:
            The error of the input at which it stopped; the jobs before it go on.
        """
        with jobs.feeding:
            try:
                async with aclosing(_numbered(inputs, shuffle=self._shuffle)) as numbered:
                    async for seq, record in numbered:
                        if self._places is not None:
                            self._places.add(seq, record)
                        command = self._maker.command(seq, record)
                        if self._is_over(seq, command):
                            await self._output.put(seq, (), ())
                            continue
                        await jobs.wait_for_room()
                        if self._tally.halted:  # by the job that has just made room
                            break
                        jobs.start(self._maker.job(seq, record, command, jobs.take_slot()))
                        self.started += 1
            except (MapError, InputsError, OSError) as error:
                return error
        return None

    def _is_over(self, seq: int, command: str) -> bool:
        """Return True if an earlier run has finished a job."""
        if self._history is None:
            return False
        past = self._history.past(seq, command)
        failed = past is Past.FAILED
        if past is Past.NEVER_ENDED or (failed and self._again):
            return False
        self._tally.skip(failed=failed)
        return True


async def _numbered(inputs: Inputs, *, shuffle: bool) -> AsyncGenerator[tuple[int, Record]]:
    """Yield the inputs with their numbers, from 1; in random order, if they are to be shuffled."""
    if not shuffle:
        seq = 0
        while (record := await inputs.next()) is not None:
            seq += 1
            yield seq, record
        return
    records = []
    while (record := await inputs.next()) is not None:
        records.append(record)
    numbered = list(enumerate(records, 1))
    random.shuffle(numbered)
    for one in numbered:
        yield one


def _inputs(plan: MapOptions) -> Inputs:
    return Inputs(plan.sources, plan.columns, null=plan.null, header=plan.header)


def _template(plan: MapOptions, inputs: Inputs) -> Template:
    return Template(plan.command, shell=plan.shell, names=inputs.names, width=inputs.width)
