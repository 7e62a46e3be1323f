"""The executor: each job of Snakemake, or group of jobs, is a job of Grain's queue."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from snakemake_executor_plugin_grain.leftovers import identity_from, identity_of, same_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

    from grain.cli.jobs.client import UnfitJobs
    from grain.queue.states import Standing
    from snakemake_executor_plugin_grain.leftovers import Identity
    from snakemake_executor_plugin_grain.requests import Need

LOGS = ".snakemake/grain_logs"
"""The directory of what jobs print, in the workflow's directory."""

_LONGEST = 100_000  # characters of a command; the kernel takes 131,071 bytes in a word
_ODD = re.compile(r"[^\w.,=+@:-]+", re.ASCII)
_MOST_NAME = 100  # characters of a part of a path
_AWAKE = 30.0  # seconds between two looks for the dispatcher
_FIRST_ASK = 10.0  # seconds for which jobs wait until the scheduler is asked why
_AGAIN = "Snakemake was started again"
_CALL = "snakemake-call"  # an option of a job: which call of Snakemake has submitted it
_LAST_ASK = 600.0  # seconds between two such questions, in the end


@dataclass(frozen=True)
class _Submitted:
    """A job in the queue.

    Attributes:
        info: as Snakemake has it.
        need: what it asks for; None of one that was taken over.
        log: the file of what it prints.
        at: when it was submitted, by the monotonic clock.
    """

    info: SubmittedJobInfo
    need: Need | None
    log: Path
    at: float


def pause(quiet: float, cost: float) -> float:
    """Return the seconds until the next look at the queue.

    Args:
        quiet: seconds since something has happened.
        cost: seconds that the last look took.
    """
    return min(2.0, max(0.1, quiet / 20, 20 * cost))


class Executor(RemoteExecutor):
    """Snakemake's side of Grain's queue.

    Snakemake calls `run_jobs` and `cancel` in its main thread, and `check_active_jobs` again and
    again in another one.
    """

    def __post_init__(self) -> None:
        """Open the queue.

        Raises:
            WorkflowError: it cannot be used, or an option of ``snakemake`` is not for it.
        """
        # Here, as the Snakemake of each job loads this module, too, and needs nothing of Grain.
        from grain.cli.jobs.client import QueueClient
        from grain.queue.errors import QueueError

        if self.workflow.remote_execution_settings.immediate_submit:
            raise self._unusable(
                "--immediate-submit is not for --executor grain: leave it out. If Snakemake is "
                "killed, its jobs go on, and the next call takes them over."
            )
        self._errors = (QueueError, OSError)
        settings = self.workflow.executor_settings
        self._keep_logs = bool(settings.keep_logs)
        try:
            self._client = QueueClient.open(settings.queue or os.environ.get("GRAIN_QUEUE"))
        except self._errors as error:
            raise self._unusable(f"Grain's queue cannot be used: {error}") from error
        self._directory = str(self.workflow.workdir_init)
        self._call = os.urandom(8).hex()
        # Those that have not ended, by their numbers. `active_jobs` of the base class lacks the
        # jobs that are being looked at.
        self._mine: dict[int, _Submitted] = {}
        self._changed = time.monotonic()
        self._awake = self._ask_at = 0.0
        self._ask_again = _FIRST_ASK
        self._asking: asyncio.Task[list[UnfitJobs]] | None = None
        self._said: set[str] = set()
        self._stopped = False

    def _unusable(self, why: str) -> WorkflowError:
        self.wait = False  # the thread of the base class runs already, and ends so
        return WorkflowError(why)

    # ---- submission, in the main thread

    def run_jobs(self, jobs: Sequence[JobExecutorInterface]) -> None:
        """Submit jobs.

        Raises:
            WorkflowError: the queue cannot be read.
        """
        left = self._leftovers()
        for job in jobs:
            self.run_job_pre(job)
            self._run(job, left)
        self._wake()

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit one job; see `run_jobs`."""
        self._run(job, self._leftovers())
        self._wake()

    def _leftovers(self) -> dict[int, Identity]:
        """Return the jobs of earlier runs of the workflow in the queue that have not ended."""
        try:
            return {
                number: identity
                for number, job in self._client.unfinished(self._directory)
                if (identity := identity_from(job.options)) is not None
            }
        except self._errors as error:
            raise WorkflowError(f"Grain's queue cannot be read: {error}") from error

    def _run(self, job: JobExecutorInterface, left: dict[int, Identity]) -> None:
        from snakemake_executor_plugin_grain.requests import BadResource, need_of

        try:
            need = need_of(job.threads, dict(job.resources.items()))
            identity = identity_of(job, self.workflow.main_snakefile)
            before = []
            for number in same_parts(identity, left):
                if self._client.cancel([number], _AGAIN, running=False):
                    continue  # it waited
                if left[number] == identity and self._goes_on(number):
                    self._take_over(job, number)
                    return
                self._client.cancel([number], _AGAIN)
                before.append(number)
            self._submit(job, need, identity, before)
        except BadResource as error:
            self.report_job_error(SubmittedJobInfo(job), msg=f"{error}. ")
        except self._errors as error:
            self.report_job_error(SubmittedJobInfo(job), msg=f"It was not submitted: {error}. ")

    def _goes_on(self, number: int) -> bool:
        """Return True if a job runs, and is not about to be ended."""
        running = self._client.standing(number).state == "RUNNING"
        return running and not self._client.is_to_end(number)

    def _take_over(self, job: JobExecutorInterface, number: int) -> None:
        log = self._client.outputs(number)[0]
        self._register(job, number, None, log)
        self.logger.info(
            f"Job {number} of Grain's queue, which an earlier run of Snakemake has submitted, "
            f"does this already: it goes on, and is waited for."
        )

    def _submit(
        self, job: JobExecutorInterface, need: Need, identity: Identity, before: list[int]
    ) -> None:
        from grain.queue.records import Dependency

        text = self.format_job_exec(job)
        what: dict[str, object] = {"command": ("/bin/sh", "-c", text)}
        if not self.is_default_jobscript or len(text) > _LONGEST:
            what = {"script": self._script(job, text), "script_name": "jobscript.sh"}
        folder = log_folder(job.logfile_suggestion(""))
        number = self._client.submit(
            job.name,
            directory=self._directory,
            request=need.request,
            timeout=need.timeout,
            # Not in the interface, but each job and each group has it. Once submitted, jobs are
            # no longer ordered by Snakemake.
            priority=min(job.priority, 2**31),
            stdout=f"{folder}/%j.log",
            # Those of an earlier run have to end first.
            after=(Dependency(jobs=tuple(before), until="any"),) if before else (),
            signal_to="all",
            options={**identity.options(), _CALL: self._call},
            **what,
        )
        self._register(job, number, need, Path(self._directory, folder, f"{number}.log"))

    def _script(self, job: JobExecutorInterface, text: str) -> str:
        try:
            return str(self.jobscript).format(properties=job.properties(), exec_job=text)
        except KeyError as error:
            raise WorkflowError(f"--jobscript: there is no value for {error}") from None

    def _register(
        self, job: JobExecutorInterface, number: int, need: Need | None, log: Path
    ) -> None:
        info = SubmittedJobInfo(job, external_jobid=str(number), aux={"number": number})
        self._mine[number] = _Submitted(info, need, log, time.monotonic())
        self._changed = time.monotonic()
        self.report_job_submission(info)

    def _wake(self) -> None:
        """Start a dispatcher if none runs."""
        self._awake = time.monotonic()
        if why := self._client.wake():
            self._say(f"Jobs wait in Grain's queue: {why}")

    # ---- looks at the queue, in the thread of the base class

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Report the jobs that have ended; yield the others."""
        # It is called before `__post_init__`, too, and has no jobs then.
        self.next_seconds_between_status_checks = 0.1
        if not active_jobs:
            return
        began = time.monotonic()
        for info in self._look(active_jobs):
            yield info
        now = time.monotonic()
        self.next_seconds_between_status_checks = pause(now - self._changed, now - began)
        if now > self._awake + _AWAKE:
            self._wake()
        self._explain_waiting(now)

    def _look(self, infos: Iterable[SubmittedJobInfo]) -> list[SubmittedJobInfo]:
        by_number = {info.aux["number"]: info for info in infos if info.aux}
        try:
            for number, standing in self._client.ended(by_number).items():
                # The main thread may have cancelled all jobs meanwhile.
                if submitted := self._mine.pop(number, None):
                    self._report(number, submitted, standing)
            self._stop_waiting([number for number in by_number if number in self._mine])
        except self._errors as error:
            self._say(f"Grain's queue cannot be read for now, it is tried again: {error}")
        return [info for number, info in by_number.items() if number in self._mine]

    def _report(self, number: int, submitted: _Submitted, standing: Standing) -> None:
        from grain.cli.jobs.client import ending

        self._changed = time.monotonic()
        if standing.state == "COMPLETED":
            if not self._keep_logs:
                _remove(submitted.log)
            self.report_job_success(submitted.info)
            return
        message = f"Job {number} of Grain's queue {ending(standing).rstrip('.')}"
        more = {"TIMEOUT": "a larger runtime", "OUT_OF_MEMORY": "more mem_mb"}.get(standing.state)
        message += f"; give the rule {more}. " if more else ". "
        logs = [str(submitted.log)] if submitted.log.exists() else []
        self.report_job_error(submitted.info, msg=message, aux_logs=logs)

    def _stop_waiting(self, numbers: list[int]) -> None:
        """Cancel what waits, once a job has failed for good.

        Snakemake begins no other job then, and waits for those that it takes for running.
        """
        # Neither is in the interface. Both are plain attributes of Snakemake's, and
        # tests-integration/real_tools/test_snakemake_grain.py fails if they change.
        scheduler, settings = self.workflow.scheduler, self.workflow.execution_settings
        if self._stopped or settings.keep_going or not scheduler.failed:
            return
        waiting = self._client.cancel(numbers, "another job has failed", running=False)
        self._stopped = True
        if waiting:
            running = len(numbers) - len(waiting)
            self.logger.info(
                f"A job has failed. Jobs that waited in Grain's queue, and are cancelled: "
                f"{len(waiting)}. Jobs that run, and go on to their ends: {running}."
            )
        for number in waiting:
            if submitted := self._mine.pop(number, None):
                # As `report_job_error` does, without a message for each.
                scheduler.error_callback(submitted.info.job)

    def _explain_waiting(self, now: float) -> None:
        """Say which rules ask for more than any worker has; the scheduler is asked now and then."""
        if self._asking is not None:
            if self._asking.done():
                for unfit in self._asking.result():
                    self._explain(unfit)
                self._asking = None
            return
        oldest = min((one.at for one in self._mine.values()), default=now)
        if now >= max(oldest + _FIRST_ASK, self._ask_at):
            self._ask_at = now + self._ask_again
            self._ask_again = min(2 * self._ask_again, _LAST_ASK)
            self._asking = asyncio.create_task(asyncio.to_thread(self._client.unfit))

    def _explain(self, unfit: UnfitJobs) -> None:
        rules = {
            one.info.job.name
            for one in list(self._mine.values())
            if one.need is not None and one.need == (unfit.request, unfit.timeout)
        }
        if rules:
            self._say(
                f"No worker that is here can run {', '.join(sorted(rules))}: {unfit.why}. It waits "
                f"until there is one; `grain why {unfit.job}` shows more."
            )

    def _say(self, sentence: str) -> None:
        """Print a warning once."""
        if sentence not in self._said:
            self._said.add(sentence)
            self.logger.warning(sentence)

    # ---- the end

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:  # noqa: ARG002
        """Cancel all jobs that have not ended; their workers end those that run.

        Args:
            active_jobs: not all of them, see `_mine`.
        """
        numbers = set(self._mine)
        self._mine.clear()  # they have not failed
        try:
            # Also one whose submission was interrupted before its number was known here.
            numbers.update(
                number
                for number, job in self._client.unfinished(self._directory)
                if job.options.get(_CALL) == self._call
            )
            self._client.cancel(numbers, "Snakemake was interrupted")
        except self._errors as error:
            listed = ",".join(map(str, sorted(numbers)))
            self.logger.error(  # noqa: TRY400 - the user has no use for a traceback
                f"Some jobs may go on: {error}. Cancel them by `grain cancel {listed}`"
            )


def log_folder(suggestion: str) -> str:
    """Return the directory for the output of a job, relative to the workflow's.

    Args:
        suggestion: the name of a log by Snakemake: rule and wildcards, with slashes between.
    """
    parts = [
        _ODD.sub("_", part)[:_MOST_NAME] for part in suggestion.removesuffix(".log").split("/")
    ]
    return "/".join([LOGS, *(part for part in parts if part.strip("."))])


def _remove(log: Path) -> None:
    with suppress(OSError):
        log.unlink()
        for folder in log.parents:
            if folder.name == Path(LOGS).name:
                break
            folder.rmdir()  # until one is not empty
