"""The contents of the files of a queue: a job, a wish, the receipts of an attempt, a dispatcher."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import msgspec

from grain.eventlog.soft_stops import Interruption
from grain.eventlog.usage import Usage

VERSION = 2
"""The version of the format; a folder of another one is refused."""

_LEAST = 60.0  # seconds that a job without a time limit has before its deadline, as in Slurm

UNREADABLE = (msgspec.MsgspecError, ValueError)
"""The errors of a file that this Grain cannot decode; ValueError: of text that is not UTF-8."""

DEADLINE = "--deadline"
"""The name in which a task is cancelled that could not end in time any more."""

KILL = "kill-on-invalid-dep"
"""The option of a job that is cancelled if what it waits for can never be."""

How = Literal["exit", "signal", "timeout", "memory", "start", "cancelled", "returned", "lost"]
"""The way in which an attempt ended, see `Ended`."""


Receivers = Literal["script", "steps", "all"]
"""The processes of a job that get a signal: the script, all that it has started, or both."""

Until = Literal["ok", "fail", "any", "begun", "each"]
"""The end of the wait of a job for others, see `Dependency`."""


class _Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A file's content, as JSON; readers skip fields that they do not know.

    Records have no cycles, and there may be very many, so the garbage collector does not visit
    them.
    """


def encode_record(record: msgspec.Struct) -> bytes:
    """Return the content of a record's file; what is not UTF-8 in it becomes a question mark."""
    try:
        return msgspec.json.encode(record)
    except UnicodeEncodeError:
        from grain.eventlog.schema import encodable

        return msgspec.json.encode(encodable(record))


class QueueFormat(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The file ``format``.

    Attributes:
        version: `VERSION` of whoever made the queue.
        mission: the id of the queue's mission, which all of its dispatchers use.
        bucket: numbers of jobs, and of wishes, in a bucket.
    """

    version: int
    mission: str
    bucket: int = 1000


class ArraySpec(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The tasks of an array job.

    Attributes:
        ranges: first, last and step of each range, as they were given; ascending numbers from 0,
            none twice.
        at_once: how many tasks may run at a time; 0 for any number.
    """

    ranges: tuple[tuple[int, int, int], ...]
    at_once: int = 0


class Dependency(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The jobs for which a job waits.

    Attributes:
        jobs: numbers of jobs, smaller than its own.
        until: ``"ok"``: all have succeeded; ``"fail"``: each has failed, in at least one task;
            ``"any"``: all have ended; ``"begun"``: all have begun, or have ended without;
            ``"each"``: the task of the same number of an array of the same size has succeeded.
        task: the one task of the one job that counts; None for all.
        delay: seconds that must have passed since the begin, of ``"begun"``.
    """

    jobs: tuple[int, ...]
    until: Until = "ok"
    task: int | None = None
    delay: float = 0.0


class Job(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A job as it was submitted; its number is the name of its file.

    Attributes:
        name: for display and for ``%x``.
        at: Unix seconds of the submission, by the submitter's clock.
        host: where it was submitted.
        user: who submitted it, by name.
        command: the program and its arguments; the arguments of the script if there is one. Of a
            job with inputs, as it was written: each input has the words for its task.
        script: the text of a script, which a copy of is run; "" for a command.
        script_blob: the digest of a long script, in ``blobs``; "" if it is in `script`.
        script_name: the name under which the user gave the script, for display.
        stdin: the pattern of a file for standard input, see `grain.queue.patterns`; "" for none.
        stdin_blob: the digest of what was piped to the submitter; "" for none.
        inputs_blob: the digest of a file with a `TaskInput` in each line, in ``blobs``: task N of
            the array gets line N, counted from 1; "" for none.
        columns: the names of the columns of its inputs; empty if they have none.
        directory: where it runs; absolute.
        environment: all variables that it gets, before those of the job itself.
        raw_environment: in the file, those of them that are not UTF-8; empty in memory.
        umask: of the files that it makes, its outputs among them.
        limits: its soft limits, as ``ulimit -S`` of the submitting shell, by their names such as
            ``NOFILE`` (getrlimit(2)); -1 for no limit. Others are those of the worker.
        request: its resources, as `grain.resource.to_data` makes them; empty for `Cores(1)`.
        priority: larger ones first.
        stdout, stderr: patterns of output files, see `grain.queue.patterns`; stderr "" for the
            same file as stdout.
        append: True to append to output files that exist.
        array: its tasks; None for a job that is not an array.
        after: all must hold before a task of it begins.
        after_any: True if one of `after` is enough.
        not_before: Unix seconds before which it does not begin; 0 for none.
        deadline: Unix seconds by which it ends; it is cancelled if its time limit is longer than
            what is left, and a job without one gets what is left as its limit. 0 for none.
        held: True if it is submitted on hold.
        retries: how often a task that failed runs again.
        halt: the number of failed tasks after which the others are cancelled; 0 for any number.
        requeue: False for a job that must not run a second time, even if its worker died.
        timeout: seconds after which a run is ended; 0 for no limit.
        signal: of the warning before `timeout`; 0 for none.
        signal_before: so many seconds before `timeout`.
        signal_to: which processes get the warning.
        warn: the file or the signal by which it is asked to stop before it is ended, at `timeout`
            or with its worker, see `grain.inputs.warning`; "" for none. The name of the file is a
            pattern, as of an output.
        warn_before: so many seconds before.
        scratch: True for a private directory of the task, which is removed at its end.
        options: what its variables say, or a look-alike shows again: account, partition, comment
            ...; ``ntasks`` is the number of processes that it starts, such as the ranks of MPI.
    """

    name: str
    at: float
    host: str
    user: str
    directory: str
    command: tuple[str, ...] = ()
    script: str = ""
    script_blob: str = ""
    script_name: str = ""
    stdin: str = ""
    stdin_blob: str = ""
    inputs_blob: str = ""
    columns: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    raw_environment: tuple[tuple[bytes, bytes], ...] = ()
    umask: int = 0o077
    limits: dict[str, int] = {}
    request: dict[str, object] = {}
    priority: int = 0
    stdout: str = "job-%j.out"
    stderr: str = ""
    append: bool = False
    array: ArraySpec | None = None
    after: tuple[Dependency, ...] = ()
    after_any: bool = False
    not_before: float = 0.0
    deadline: float = 0.0
    held: bool = False
    retries: int = 0
    halt: int = 0
    requeue: bool = True
    timeout: float = 0.0
    signal: int = 0
    signal_before: float = 0.0
    signal_to: Receivers = "steps"
    warn: str = ""
    warn_before: float = 0.0
    scratch: bool = False
    options: dict[str, str] = {}

    @property
    def first_choice(self) -> dict[str, object]:
        """The resources that it asks for on each node; of alternatives those of the first one."""
        return first_choice(self.request)[1]

    @property
    def latest_begin(self) -> float:
        """Unix seconds from which on it may not begin, as it could not end in time."""
        return self.deadline - (self.timeout or _LEAST) if self.deadline else math.inf

    @property
    def nodes(self) -> int:
        """The number of workers that it asks for at once; of alternatives that of the first one."""
        return first_choice(self.request)[0]


def first_choice(request: dict[str, object]) -> tuple[int, dict[str, object]]:
    """Return the first alternative of a request: the number of nodes, and what each has to give."""
    rest = dict(request)
    either = rest.pop("Either", None)
    given = either.get("of") if isinstance(either, dict) else either
    first = given[0] if isinstance(given, list) and given else None
    rest |= first if isinstance(first, dict) else {}
    gang = rest.pop("Gang", None)
    if not isinstance(gang, dict):
        return 1, rest
    count, of = gang.get("count"), gang.get("of")
    rest |= of if isinstance(of, dict) else {}
    return count if isinstance(count, int) else 1, rest


class TaskInput(NamedTuple):
    """The input of one task of an array.

    Attributes:
        entry: the input as it was given.
        values: its columns.
        command: the words of `Job.command`, with the input filled in.
    """

    entry: str
    values: tuple[str, ...]
    command: tuple[str, ...]

    def line(self) -> bytes:
        """Return it as a line of a file: JSON, in which bytes that are not UTF-8 survive."""
        import json  # which commands that tools call every second do not need

        return json.dumps(self, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> TaskInput:
        """Return the input of a line.

        Raises:
            ValueError: it has none.
        """
        import json  # as above

        entry, values, command = json.loads(line)
        return cls(entry, tuple(values), tuple(command))


class JobUpdate(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The properties of a job that a wish replaces; None leaves one as it is.

    Attributes:
        timeout, priority, after: as of `Job`. A task that runs only takes a shorter limit.
        after_any: as of `Job`, with `after`.
    """

    timeout: float | None = None
    priority: int | None = None
    after: tuple[Dependency, ...] | None = None
    after_any: bool = False

    def applied(self, job: Job) -> Job:
        """Return a job with these properties."""
        return msgspec.structs.replace(
            job,
            timeout=job.timeout if self.timeout is None else self.timeout,
            priority=job.priority if self.priority is None else self.priority,
            after=job.after if self.after is None else self.after,
            after_any=job.after_any if self.after is None else self.after_any,
        )


class Wish(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A request by a user for jobs that are in the queue.

    Attributes:
        what: ``"hold"``, ``"release"``, ``"cancel"``; ``"again"``: run again what has ended, or
            only what has failed (`only_failed`), and end what runs; ``"signal"``; ``"update"``.
        jobs: first and last number of each range of jobs.
        tasks: ranges of tasks of the one job; empty for all.
        attempt: of ``"again"``: the attempt that may be made, so one more than the last; a task
            that has made it already does not run once more.
        by: who, and on which host.
        at: Unix seconds.
        why: the user's reason, for display.
        signal: the number of a signal.
        signal_to: which processes get it.
        step: the number of the step that gets it, and no other process; None for the job. SIGKILL
            ends a step as a cancellation does.
        update: of ``"update"``: the new properties; for some tasks of an array only a time limit.
    """

    what: Literal["hold", "release", "cancel", "again", "signal", "update"]
    jobs: tuple[tuple[int, int], ...]
    tasks: tuple[tuple[int, int], ...] = ()
    attempt: int = 0
    by: str = ""
    at: float = 0.0
    why: str = ""
    only_failed: bool = False
    signal: int = 0
    signal_to: Receivers = "steps"
    step: int | None = None
    update: JobUpdate | None = None

    def concerns(self, number: int, task: int | None) -> bool:
        """Return True if it is for a task of a job.

        Args:
            number: the job's.
            task: that of the task; None if the job is not an array.
        """
        return any(first <= number <= last for first, last in self.jobs) and (
            not self.tasks
            or (task is not None and any(first <= task <= last for first, last in self.tasks))
        )

    def ends(self, number: int, task: int | None, attempt: int) -> bool:
        """Return True if it ends an attempt that runs: it cancels, or asks for a later attempt.

        Args:
            number: the job's.
            task: that of the task; None if the job is not an array.
            attempt: that of the attempt.
        """
        return self.concerns(number, task) and (
            self.what == "cancel" or (self.what == "again" and attempt < self.attempt)
        )

    def recalls(self, number: int, task: int | None) -> bool:
        """Return True if a task that was handed out, and has not begun, may not begin as it is.

        Args:
            number: the job's.
            task: that of the task; None if the job is not an array.
        """
        return self.what in ("hold", "update") and self.concerns(number, task)


class ProcessRecord(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A process on some host, see `grain.queue.dispatchers.fate_of`.

    Attributes:
        host: the name of its host, which another host may have, too.
        machine: a digest of that host's machine id; "" if it has none.
        boot: the boot id of its kernel; "" if the process is not known.
        space: the inode of its process namespace.
        pid, pid_began: its number there, and its start in clock ticks since the boot, so that
            another process of the same number is not taken for it.
    """

    host: str
    machine: str = ""
    boot: str = ""
    space: int = 0
    pid: int = 0
    pid_began: int = 0


class Begun(ProcessRecord, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The receipt of an attempt that begins, or never will.

    Its process is the worker's; for a cancellation, only the host of the user is known.

    Attributes:
        at: Unix seconds, by the writer's clock.
        worker: the worker's name.
        batch_system: that of the batch job in which the worker runs, as ``slurm``; "" for none.
        batch_job: that batch job, as the commands of its batch system name it; "" if that is not
            known.
        ticket: the number of the task in the queue's mission.
        run: by which a scheduler tells this run from others of that task; zeros for none.
        cancelled: who has cancelled it before it began; "" for a run.
        why: the reason that was given for that.
        others: the hosts of the other workers of a job on several, in their order.
        cpus: the number of CPUs that it has on all of them; 0 if it asked for none.
        mark: in the environment of all that it starts on its host; "" if there is none.
    """

    at: float
    worker: str = ""
    batch_system: str = ""
    batch_job: str = ""
    ticket: int = 0
    run: tuple[int, int] = (0, 0)
    cancelled: str = ""
    why: str = ""
    others: tuple[str, ...] = ()
    cpus: int = 0
    mark: str = ""


class Ended(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The receipt of an attempt that has ended.

    Attributes:
        how: ``"exit"``: by itself; ``"signal"``: by a signal that was not Grain's; ``"timeout"``;
            ``"memory"``: killed for want of memory; ``"start"``: it could not be started;
            ``"cancelled"``: on request; ``"returned"``: handed back by its worker, which had to end
            it; ``"lost"``: its worker is known to be dead.
        at: Unix seconds.
        status: the exit status, of ``"exit"``.
        signal: the number of the signal that ended it; 0 for none.
        elapsed: seconds between start and end.
        message: one sentence for what no exit status says; the evidence, for ``"lost"``.
        line: of ``"exit"`` and ``"signal"``, the line of its output that says why it failed; "" if
            there is none.
        by: who has cancelled it.
        usage: what it has used; None if that is not known.
        amount: of ``"memory"``, the GB that the attempt had, where its group learns them; else 0.
        last: True if that was the most that any worker had.
        interruption: of ``"returned"`` and ``"lost"``, for what the worker has ended it.
    """

    how: How
    at: float
    status: int = 0
    signal: int = 0
    elapsed: float = 0.0
    message: str = ""
    line: str = ""
    by: str = ""
    usage: Usage | None = None
    amount: float = 0.0
    last: bool = False
    interruption: Interruption = ""


class Dispatcher(ProcessRecord, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A dispatcher that has taken charge of the queue.

    Attributes:
        at: Unix seconds.
        address: that of its scheduler; "" if it is not known.
    """

    at: float
    address: str = ""


class UnmetRequest(_Record, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A request of jobs that wait, and that no worker which is here can ever meet.

    Attributes:
        request, timeout: as of `Job`.
        why: the reason, if the whole cluster has too little, whatever workers come; else "".
    """

    request: dict[str, object] = {}
    timeout: float = 0.0
    why: str = ""
