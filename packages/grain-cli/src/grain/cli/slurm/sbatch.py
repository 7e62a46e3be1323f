"""``sbatch``: submit a script."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.queue.sharing import shared_text
from grain.cli.queue.submission import SubmittedFrom
from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.nodes import check_offered, gpu_shards, with_hosts_of_files
from grain.cli.slurm.reading import open_queue, unreachable, wake_dispatcher
from grain.cli.slurm_words.grammar import parse, umask_of
from grain.cli.slurm_words.options import SBATCH, directives, merged, of_environment, of_script
from grain.cli.slurm_words.submission import JobRefused, nodes_warning, slurm_job
from grain.cli.slurm_words.values import EXCLUSIVE, SINGLETON, moment
from grain.cli.streams import announced
from grain.queue.errors import BadInput, CannotWrite, NotSynced, QueueError, Uncertain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.cli.slurm.here import Here
    from grain.queue.folder import Queue
    from grain.queue.records import Job

LONGEST_SCRIPT = 4_194_304
"""Bytes of a script, as ``max_script_size`` of Slurm."""

_WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"
_FAILED = "Batch job submission failed"
_USAGE = """\
Usage: sbatch [OPTIONS...] script [args]

Puts a script into the queue of Grain, as sbatch of Slurm does for a cluster. Its options are those
of sbatch(1); see https://slurm.schedmd.com/sbatch.html. `grain submit --help` shows more.
"""


def sbatch(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``sbatch``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: nothing was submitted.
    """
    parsed = parse("sbatch", words, SBATCH, permute=False)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    given = dict(parsed.given)
    arguments: list[str] = []
    of_file: list[tuple[str, str]] = []
    if "wrap" in given:
        if parsed.rest:
            raise CommandFailed("sbatch: error: Script arguments not permitted with --wrap option")
        script, name = _WRAPPED.format(given["wrap"]), "wrap"
    else:
        script, name, arguments = _read(parsed.rest, here)
        of_file = of_script(directives(script, parsed.rest[0] if parsed.rest else ""))
    options = merged("sbatch", parsed.given, of_file, of_environment(here.environment))
    options = with_hosts_of_files("sbatch", options)
    try:
        job = slurm_job(
            options,
            around(here),
            words=arguments,
            script=script,
            name=name,
            gpu_shards=gpu_shards(options, here),
        )
        check_offered(job, here)
    except JobRefused as error:
        from grain.cli.batch.system_commands import system_command

        system = system_command("sbatch", here.environment)
        more = f"; the system's sbatch may have it: {system}" if system else ""
        raise refused(options, error, "sbatch", _FAILED, more) from None
    try:
        shared = "".join(
            f"sbatch: warning: (Grain) {line}\n" for line in shared_text(job).splitlines()
        )
    except BadInput as error:
        raise _failed("Unspecified error", str(error)) from None
    if warned := nodes_warning(options):
        shared = f"sbatch: {warned}\n{shared}"
    if "test-only" in options:
        return tested(here, job, shared)
    queue, number = submit(here, job)
    out = f"{number}\n" if "parsable" in options else f"Submitted batch job {number}\n"
    if "quiet" in options:
        out = ""
    if "wait" in options:
        from grain.cli.slurm.reading import exit_status, wait_for

        announced(f"sbatch: error: (Grain) job {number}", partial(sys.stdout.write, out))
        sys.stderr.write(shared)
        try:
            return SlurmAnswer(status=exit_status(wait_for(here, queue, number), otherwise=1))
        except KeyboardInterrupt:
            sys.stderr.write(f"sbatch: (Grain) job {number} goes on: `scancel {number}` ends it\n")
            raise
    return SlurmAnswer(out, shared)


def tested(here: Here, job: Job, shared: str) -> SlurmAnswer:
    """Answer ``--test-only``: where a job would begin now, or that it would wait.

    Args:
        shared: lines of warnings.

    Raises:
        CommandFailed: no worker is large enough.
    """
    from grain.cli.slurm.nodes import find_nodes
    from grain.resource.figures import hostlist

    cores, whole = job.first_choice.get("Cores", 1), EXCLUSIVE in job.options
    least = int(cores if isinstance(cores, int | float) else job.options[EXCLUSIVE])
    nodes, coming = find_nodes(here)
    fit = [node for node in nodes if node.cpus >= least]
    named: tuple[str, ...] = ()
    if host := job.first_choice.get("Host"):
        from grain.resource import Host, from_data

        wanted = from_data({"Host": host}).parts()["Host"]
        assert isinstance(wanted, Host)
        fit = [one for one in fit if Host(one.name.partition(".")[0]).request(wanted)]
        named = wanted.names
        fit.sort(key=lambda one: one.name.partition(".")[0] not in named)
    if len(fit) < job.nodes and 0 < coming.cpus < least:
        raise CommandFailed("allocation failure: Requested node configuration is not available")
    free = [node for node in fit if node.cpus - node.busy >= (node.cpus if whole else least)]
    chosen = free[: job.nodes]
    has = {one.name.partition(".")[0] for one in chosen}.intersection(named)
    if len(chosen) < job.nodes or len(has) < min(len(named), job.nodes):
        return SlurmAnswer(err=f"{shared}{here.command}: (Grain) it would wait for a worker\n")
    used = sum(node.cpus if whole else least for node in chosen)
    queue = open_queue(here)
    number = 1 if queue is None else queue.jobs.end()
    where = f"on nodes {hostlist(sorted(node.name for node in chosen))} in partition "
    where += job.options.get("partition") or here.environment.get("GRAIN_QUEUE") or "queue"
    text = f"{here.command}: Job {number} to start at {moment(time.time())} "
    text += f"using {used} processors {where}"
    return SlurmAnswer(err=f"{shared}{text}\n")


def submit(here: Here, job: Job, stdin: bytes = b"") -> tuple[Queue, int]:
    """Put a job into the queue, and start a dispatcher if there is none.

    Raises:
        CommandFailed: nothing was submitted.
    """
    try:
        queue = open_queue(here, make=True)
    except (QueueError, OSError, RuntimeError) as error:
        raise unreachable(here, f"{here.command}: error: {_FAILED}", error) from None
    assert queue is not None
    try:
        if SINGLETON in job.options:
            job = _after_namesakes(queue, job)
        number = queue.submit(job, stdin)
    except BadInput as error:
        wrong = "Job dependency problem" if job.after else "Unspecified error"
        raise _failed(wrong, str(error), here.command) from None
    except (NotSynced, Uncertain) as error:
        raise _failed(
            "I/O error writing script/environment to file",
            f"it may be in the queue: {error}", here.command,
        ) from None  # fmt: skip
    except (CannotWrite, QueueError, OSError) as error:
        raise _failed(
            "I/O error writing script/environment to file", str(error), here.command
        ) from None
    if why := wake_dispatcher(queue):
        sys.stderr.write(f"{here.command}: (Grain) job {number} waits: {why}\n")
    return queue, number


def _after_namesakes(queue: Queue, job: Job) -> Job:
    """Return a job that waits for all earlier ones of its name that have not ended."""
    from msgspec.structs import replace

    from grain.cli.slurm.reading import after_namesakes
    from grain.queue.book import Book

    book = Book.read(queue)
    return replace(job, after=(*job.after, *after_namesakes(book, job.name, book.next_job)))


def around(here: Here) -> SubmittedFrom:
    """Return the process as a submission knows it.

    Raises:
        CommandFailed: its directory was removed.
    """
    try:
        found = SubmittedFrom.here(here.environment, here.user, here.commands)
    except BadInput as error:
        raise CommandFailed(
            f"{here.command}: error: getcwd failed: No such file or directory\n"
            f"{here.command}: (Grain) {error}"
        ) from None
    return found._replace(umask=umask_of(here.environment, found.umask))


def refused(
    given: Mapping[str, str], error: JobRefused, command: str, what: str, more: str = ""
) -> CommandFailed:
    """Return the failure of a command whose job cannot be submitted.

    Args:
        given: its options by their long names.
        error: why it cannot.
        command: its name.
        what: what it could not do, in the words of Slurm.
        more: is added to the reason.
    """
    head = "allocation failure" if "test-only" in given else f"{command}: error: {what}"
    return CommandFailed(f"{head}: {error}\n{command}: (Grain) {error.reason}{more}")


def _failed(text: str, reason: str, command: str = "sbatch") -> CommandFailed:
    return refused({}, JobRefused(text, reason), command, _FAILED)


def _read(words: list[str], here: Here) -> tuple[str, str, list[str]]:
    """Return the text of the script, the name of its file, and its arguments.

    Raises:
        CommandFailed: there is none, or it is none.
    """
    name, arguments = (words[0], words[1:]) if words else ("", [])
    if not words:
        content = sys.stdin.buffer.read(LONGEST_SCRIPT + 1)
    else:
        path = Path(name)
        try:
            if "/" not in name and not path.exists():
                import shutil  # which takes a while, and few need it

                path = Path(shutil.which(name, path=here.environment.get("PATH")) or name)
            with path.open("rb") as file:
                content = file.read(LONGEST_SCRIPT + 1)
        except OSError:
            raise CommandFailed(f"sbatch: error: Unable to open file {name}") from None
        name = str(path.absolute())
    if problem := _problem(content):
        raise CommandFailed("\n".join(f"sbatch: error: {line}" for line in problem.splitlines()))
    return content.decode(errors="surrogateescape"), name, arguments


def _problem(content: bytes) -> str:
    if not content:
        return "Batch script is empty!"
    if not content.strip():
        return "Batch script contains only whitespace!"
    if not content.startswith(b"#!"):
        return (
            "This does not look like a batch script.  The first\n"
            "line must start with #! followed by the path to an interpreter.\n"
            "For instance: #!/bin/sh"
        )
    if b"\0" in content:
        return "The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'."
    if b"\r\n" in content:
        return (
            "Batch script contains DOS line breaks (\\r\\n)\n"
            "instead of expected UNIX line breaks (\\n)."
        )
    if len(content) > LONGEST_SCRIPT:
        return (
            "Batch job submission failed: Pathname of a file, directory or other parameter too long"
        )
    return ""
