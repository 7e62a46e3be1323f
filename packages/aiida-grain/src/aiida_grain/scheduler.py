"""The plug-in of AiiDA's entry point group ``aiida.schedulers``."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from typing import TYPE_CHECKING

from aiida.common.exceptions import FeatureNotAvailable
from aiida.schedulers import BashCliScheduler, Scheduler, SchedulerError

from aiida_grain.answers import exit_code, job_id, job_infos
from aiida_grain.resources import GrainJobResource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aiida.engine.processes.exit_code import ExitCode
    from aiida.schedulers.datastructures import JobInfo, JobTemplate

# AiiDA types commands in a login shell, which sets PATH from the beginning, so it lacks the
# environment that a user has activated. pip and pipx put programs of a user into ~/.local/bin, and
# there is room for a link.
_FIND = 'grain=~/.local/bin/grain; [ -x "$grain" ] || grain=grain; '
_NOT_FOUND = 127  # the exit status of a shell
_REMEDY = (
    "neither ~/.local/bin/grain nor, for a login shell, `grain` is there: type on the computer, "
    'where `grain` works, mkdir -p ~/.local/bin && ln -s "$(command -v grain)" ~/.local/bin/'
)


class GrainScheduler(BashCliScheduler):
    """Grain: jobs in a queue of files, on workers that wait in the batch system once."""

    _logger = Scheduler._logger.getChild("grain")
    _features = {"can_query_by_user": False}  # noqa: RUF012 - as the base class declares it
    _job_resource_class = GrainJobResource

    def _get_submit_script_header(self, job_tmpl: JobTemplate) -> str:
        """Return the lines ``#GRAIN`` of a job script, and those of the user.

        Raises:
            ValueError: an option makes no sense.
        """
        lines = [f"#GRAIN {line}" for line in _options(job_tmpl)]
        # Grain has no accounts. It keeps these, so that they are found again.
        if job_tmpl.account:
            lines.append(f"#SBATCH --account={shlex.quote(job_tmpl.account)}")
        if job_tmpl.qos:
            lines.append(f"#SBATCH --qos={shlex.quote(job_tmpl.qos)}")
        if job_tmpl.custom_scheduler_commands:
            lines.append(job_tmpl.custom_scheduler_commands)
        return "\n".join(lines)

    def _get_submit_command(self, submit_script: str) -> str:
        """Return the command that submits a script.

        If the connection breaks, AiiDA types it again, so the first answer is kept in a file.

        Args:
            submit_script: its name, quoted.
        """
        answer = f"{submit_script}.job"
        submit = f'"$grain" submit --json -- {submit_script} > {answer}'
        return f"{_FIND}{{ [ -s {answer} ] || {submit}; }} && cat {answer}"

    def _parse_submit_output(self, retval: int, stdout: str, stderr: str) -> str:
        """Return the id of the job, as ``queue:12``.

        Raises:
            SchedulerError: it was not submitted.
        """
        self._check("grain submit", retval, stderr)
        return job_id(stdout)

    def _get_joblist_command(self, jobs: list[str] | None = None, user: str | None = None) -> str:
        """Return the command that lists jobs.

        Args:
            jobs: their ids; by default those that wait or run, or have ended within a day.
            user: not possible: a queue has the jobs of one user.
        """
        if user:
            raise FeatureNotAvailable("a queue of Grain has the jobs of one user")
        commands = [f'"$grain" jobs --json {word}'.rstrip() for word in _selectors(jobs or ())]
        return _FIND + " && ".join(commands)

    def _parse_joblist_output(self, retval: int, stdout: str, stderr: str) -> list[JobInfo]:
        """Return the jobs of a list; one that is left out has ended long ago.

        Raises:
            SchedulerError: there is no list, or not all of it.
        """
        self._check("grain jobs", retval, stderr)
        return job_infos(stdout)

    def _get_kill_command(self, jobid: str) -> str:
        """Return the command that cancels a job."""
        return f'{_FIND}"$grain" cancel --reason AiiDA {shlex.quote(jobid)}'

    def _parse_kill_output(self, retval: int, stdout: str, stderr: str) -> bool:
        """Return True if the job is cancelled, or had ended."""
        try:
            self._check("grain cancel", retval, stderr)
        except SchedulerError:
            self.logger.exception("a job could not be cancelled")
            return False
        self.logger.debug("%s", stdout.strip())
        return True

    def _get_detailed_job_info_command(self, job_id: str) -> str:
        """Return the command that says how a job ended."""
        return self._get_joblist_command([job_id])

    def parse_output(
        self,
        detailed_job_info: dict[str, str | int] | None = None,
        stdout: str | None = None,  # noqa: ARG002 - what the script has printed says nothing of it
        stderr: str | None = None,  # noqa: ARG002
    ) -> ExitCode | None:
        """Return how a job ended, if its script did not come to its end.

        Raises:
            SchedulerError: the information is not that of a job.
        """
        if detailed_job_info is None:
            return None
        return exit_code(str(detailed_job_info["stdout"]))

    def _check(self, command: str, retval: int, stderr: str) -> None:
        """Raise an error if a command failed; log what it says if it did not."""
        said = stderr.strip()
        if retval:
            why = _REMEDY if retval == _NOT_FOUND else said or "it says nothing"
            raise SchedulerError(f"{command} failed with exit status {retval}: {why}")
        if said:
            self.logger.warning("%s: %s", command, said)


def _options(job: JobTemplate) -> Iterator[str]:
    """Yield the options of ``grain submit`` for a job.

    Raises:
        ValueError: one makes no sense.
    """
    resource = job.job_resource
    assert isinstance(resource, GrainJobResource)  # as the scheduler has made it
    if job.job_name:
        yield f"--name {shlex.quote(' '.join(job.job_name.split()))}"
    if job.queue_name:
        yield f"--queue {shlex.quote(job.queue_name)}"
    yield f"--res {_request(resource, job.max_memory_kb)}"
    if resource.num_machines > 1:
        yield f"--nodes {resource.num_machines}"
    ranks = resource.tot_num_mpiprocs
    # What comes before a program is mpirun; ranks that are only a default mean nothing without it.
    if ranks > 1 and (
        resource.explicit_mpiprocs or any(code.prepend_cmdline_params for code in job.codes_info)
    ):
        yield f"--ranks {ranks}"
    if job.max_wallclock_seconds is not None:
        yield f"--time {_positive('max_wallclock_seconds', job.max_wallclock_seconds)}s"
    if job.priority:
        yield f"--priority {_whole('priority', job.priority)}"
    if not job.rerunnable:
        yield "--no-requeue"
    if job.submit_as_hold:
        yield "--hold"
    if job.import_sys_environment is False:
        yield "--clean-env"
    if job.sched_output_path:
        yield f"--stdout {_file(job.sched_output_path)}"
    if job.sched_error_path and not job.sched_join_files:
        yield f"--stderr {_file(job.sched_error_path)}"


def _request(resource: GrainJobResource, max_memory_kb: int | None) -> str:
    """Return the argument of ``grain submit -r``."""
    request = f"Cores={resource.cores}"
    memory = resource.memory
    if memory is None and max_memory_kb:
        # AiiDA's kB are of 1,024 bytes, as those of batch systems; Grain's GB of 10**9.
        memory = _positive("max_memory_kb", max_memory_kb) * 1024 / 1e9
    amount = "" if memory is None else f"{math.ceil(round(memory * 1e6, 3)) / 1e6:.15g}"
    if resource.memory_group is not None:
        amount = f"{resource.memory_group}:{amount}"
    if amount:
        request += f",Memory={amount}"
    if resource.gpus:
        request += f",GPUs={resource.gpus}"
    return request


def _file(name: str) -> str:
    return shlex.quote(name.replace("%", "%%"))


def _whole(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{name}: {value!r} is not a whole number") from None


def _positive(name: str, value: object) -> int:
    number = _whole(name, value)
    if number <= 0:
        raise ValueError(f"{name}: {value!r} is not more than 0")
    return number


def _selectors(jobs: Iterable[str]) -> list[str]:
    """Return a word for each queue that names jobs of it, as ``queue:12-19,20``; "" for none.

    Ranges keep the command line short, of which a shell takes 128 kB. The last job is named by
    itself, as ``grain jobs`` refuses a job that it cannot see yet, but lets a range end before it.
    """
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for word in jobs:
        queue, _, number = word.rpartition(":")
        numbers[queue].add(_positive("job id", number))
    words = []
    for queue, found in sorted(numbers.items()):
        *others, last = sorted(found)
        text = ",".join([*_ranges(others), str(last)])
        words.append(shlex.quote(f"{queue}:{text}" if queue else text))
    return words or [""]


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    """Yield ascending numbers, as ``12-19`` where they follow each other."""
    first = last = 0
    for number in numbers:
        if first and number != last + 1:
            yield f"{first}-{last}" if last > first else f"{first}"
        if not first or number != last + 1:
            first = number
        last = number
    if first:
        yield f"{first}-{last}" if last > first else f"{first}"
