"""Tasks and steps as the formats of ``squeue``, ``sacct`` and ``scontrol`` show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from grain.cli.queue.tasks import TaskRow
from grain.cli.slurm_words import values
from grain.cli.slurm_words.states import COMPACT, OPEN, reason_of, state_of
from grain.queue import patterns
from grain.queue.notes.steps import StepRecord
from grain.queue.selectors import plain_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.cli.slurm_words.numbers import Meant
    from grain.queue.book import Block, Entry
    from grain.queue.records import Dependency
    from grain.queue.states import Run, Standing

_MB_IN_GB = 1e9 / 2**20
_UNTIL = {"ok": "afterok", "fail": "afternotok", "any": "afterany", "begun": "after",
          "each": "aftercorr"}  # fmt: skip


class SlurmTask(TaskRow):
    """A task of an array, or a job without an array, as Slurm sees it.

    Args:
        entry, task, standing, now: as of `TaskRow`.
        queue: the name of the queue, which is the partition of jobs that name none.
        uid: of the user.
        dispatched: True if the queue has a dispatcher.
        form: the value of ``SLURM_TIME_FORMAT``.
        block: why it never begins; None if it may, or has.

    Attributes:
        steps: what srun has started in it, where a command asks for that.
    """

    def __init__(
        self,
        entry: Entry,
        task: int | None,
        standing: Standing,
        now: float,
        *,
        queue: str,
        uid: int = 0,
        dispatched: bool = True,
        form: str = "",
        block: Block | None = None,
    ) -> None:
        super().__init__(entry, task, standing, now)
        self.queue = queue
        self.uid = uid
        self.form = form
        cancelled = standing.state == "RUNNING" and entry.asked(task).cancelled is not None
        self.state = state_of(standing, cancelled=cancelled)
        self.reason = reason_of(standing, dispatched=dispatched, block=block)
        if self.job.deadline and not self.job.timeout and self.run is not None:
            # It has had the time until then as its limit.
            left = self.job.deadline - self.run.began
            self.job = msgspec.structs.replace(self.job, timeout=left)
            if self.state == "TIMEOUT":
                self.state, self.reason = "DEADLINE", "DeadLine"
        self.steps: Sequence[SlurmStep] = ()

    @property
    def run(self) -> Run | None:
        """The attempt that runs or was the last one; None if the task waits, or never began."""
        return None if self.state == "PENDING" else super().run

    @property
    def plain(self) -> int:
        """The number that no other job or task has."""
        return plain_number(self.number, self.task)

    @property
    def compact(self) -> str:
        """The state in one to three letters."""
        return COMPACT[self.state]

    @property
    def accounted_state(self) -> str:
        """Its state as ``sacct`` has it, which does not know ``COMPLETING``."""
        return "RUNNING" if self.state == "COMPLETING" else self.state

    @property
    def node(self) -> str:
        """The node on which its script runs or ran; "" if it did not."""
        return _short(self.run.host) if self.run else ""

    @property
    def partition(self) -> str:
        """The partition that it was submitted to."""
        return self.job.options.get("partition") or self.queue

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.run.hosts) if self.run else self.job.nodes

    @property
    def nodelist(self) -> str:
        """The nodes on which it runs or ran, as ``n[1-4]``; "" if it did not."""
        return hosts_text([_short(host) for host in self.run.hosts] if self.run else [])

    @property
    def hosts(self) -> set[str]:
        """The same, by their names."""
        return {_short(host) for host in self.run.hosts} if self.run else set()

    @property
    def cores_each(self) -> int:
        """The number of CPUs of a node."""
        if self.run and self.run.cpus:
            return self.run.cpus // self.nodes
        cores = self.job.first_choice.get("Cores", 1)
        return int(
            cores if isinstance(cores, int | float) else self.job.options.get(values.EXCLUSIVE, 1)
        )

    @property
    def cores(self) -> int:
        """The number of CPUs."""
        if self.run and self.run.cpus:
            return self.run.cpus
        return self.cores_each * self.nodes

    @property
    def tasks(self) -> int:
        """The number of its processes in Slurm's sense."""
        return int(self.job.options.get("ntasks", "1"))

    @property
    def per_task(self) -> int:
        """The number of CPUs of each of these."""
        return int(self.job.options.get("cpus-per-task", "1"))

    @property
    def gpus(self) -> int:
        """The number of GPUs of a node."""
        gpus = self.job.first_choice.get("GPUs", 0)
        return int(gpus) if isinstance(gpus, int | float) else 0

    @property
    def gres(self) -> str:
        """The GPUs of a node, or the shards of one, as squeue names them; "" for none."""
        if shards := self.job.options.get("shards"):
            return f"shard:{shards}"
        return f"gpu:{self.gpus}" if self.gpus else ""

    @property
    def sharing(self) -> str:
        """``OK`` if others may share its nodes, else ``NO``."""
        return "NO" if values.EXCLUSIVE in self.job.options else "OK"

    @property
    def memory(self) -> str:
        """The memory of a node that it asks for, as ``100M``; ``0`` for none."""
        return self._memory(1)

    @property
    def memory_of_all(self) -> str:
        """The same for all nodes."""
        return self._memory(self.nodes)

    def _memory(self, nodes: int) -> str:
        memory = self.job.first_choice.get("Memory", 0)
        if isinstance(memory, dict):  # of a group, the most
            memory = memory.get("M", 0)
        size = round(memory * _MB_IN_GB) * nodes if isinstance(memory, int | float) else 0
        if not size:
            return "0"
        return _size_text(size)

    @property
    def least_memory(self) -> str:
        """The memory that was asked for, with the name that ``scontrol`` gives it."""
        each = self.job.options.get("mem-per-cpu")
        return f"MinMemoryCPU={_size_text(int(each))}" if each else f"MinMemoryNode={self.memory}"

    @property
    def eligible(self) -> float:
        """The time from which it might begin, in Unix seconds."""
        return max(self.job.at, self.job.not_before)

    @property
    def began(self) -> float:
        """The time at which it began, in Unix seconds; 0 if it did not."""
        return self.run.began if self.run else 0.0

    @property
    def ended(self) -> float:
        """The time at which it ended, in Unix seconds; 0 if it has not."""
        run = self.standing.run
        return run.ended if run is not None and self.state not in OPEN else 0.0

    @property
    def elapsed(self) -> float:
        """The seconds for which it runs, or ran."""
        return self.seconds or 0.0

    @property
    def limit(self) -> str:
        """Its time limit."""
        return values.span(self.job.timeout) if self.job.timeout else "UNLIMITED"

    @property
    def left(self) -> str:
        """The time until its limit."""
        if not self.job.timeout:
            return "UNLIMITED"
        return values.span(max(self.job.timeout - self.elapsed, 0.0))

    @property
    def dependency(self) -> str:
        """The jobs that it waits for; "" for none, or once they have ended."""
        if self.standing.reason not in ("dependency", "never"):
            return ""
        mark = "failed" if self.standing.reason == "never" else "unfulfilled"
        return ("?" if self.job.after_any else ",").join(
            f"{_UNTIL[one.until]}:{number}{_part(one)}({mark})"
            for one in self.job.after
            for number in one.jobs
        )

    @property
    def exit_code(self) -> str:
        """The exit status and the signal, as ``1:0``."""
        run = self.run
        if run is None or not run.how or run.how in ("cancelled", "timeout"):
            return "0:0"
        if run.how == "memory":
            return "0:125"
        return f"{run.status}:{run.signal}"

    @property
    def command(self) -> str:
        """The path of its script; "" if it has none."""
        return self.job.script_name

    def time(self, at: float, none: str = "Unknown") -> str:
        """Return a time as text."""
        return values.moment(at, self.form) if at else none

    def file(self, pattern: str) -> str:
        """Return the path of a file that it reads or writes."""
        facts = patterns.Facts(self.number, self.task, self.job.name, self.job.user, self.node)
        return str(patterns.path(pattern, facts, self.job.directory))

    @property
    def stdout(self) -> str:
        """The path of the file for standard output."""
        return self.file(self.job.stdout)

    @property
    def stderr(self) -> str:
        """The path of the file for standard error."""
        return self.file(self.job.stderr) if self.job.stderr else self.stdout

    @property
    def stdin(self) -> str:
        """The path of the file for standard input."""
        return self.file(self.job.stdin or "/dev/null")

    @property
    def restarts(self) -> int:
        """The number of times that it has begun again."""
        return max(self.standing.attempt - 1, 0)

    @property
    def tres(self) -> str:
        """Its resources in one word, as ``cpu=2,mem=100M,node=1``."""
        parts = [f"cpu={self.cores}"]
        parts += [f"mem={self.memory_of_all}"] if self.memory != "0" else []
        parts += [f"node={self.nodes}", f"billing={self.cores}"]
        kind, _, number = self.gres.partition(":")
        parts += [f"gres/{kind}={int(number) * self.nodes}"] if kind else []
        return ",".join(parts)

    def option(self, name: str, none: str = "(null)") -> str:
        """Return an option with which it was submitted, as it was given."""
        return self.job.options.get(name) or none


_WITH_ITS_JOB = 60.0  # seconds from the end of the last steps to that of a job that was ended


class SlurmStep(NamedTuple):
    """A step of a task: its script, or what srun has started, as Slurm sees it.

    Attributes:
        task: its task.
        name: as ``batch`` or ``0``.
        noted: what is known of it.
        exit_code: the exit status and the signal, as ``1:0``.
        state: its state.
    """

    task: SlurmTask
    name: str
    noted: StepRecord
    exit_code: str
    state: str

    @classmethod
    def of_script(cls, task: SlurmTask, run: Run, measured: StepRecord | None = None) -> SlurmStep:
        """Return the step that is the script of a task, in an attempt that has begun.

        Args:
            measured: what it has used so far, if that was noted.
        """
        used = run if measured is None or run.how else measured
        noted = StepRecord(
            0, "batch", 1, task.cores_each, (task.node,), run.began, task.ended, cpu=used.cpu,
            memory=used.memory,
        )  # fmt: skip
        ended = run.how in ("cancelled", "timeout")
        state = "CANCELLED" if ended or run.how == "signal" else task.accounted_state
        return cls(task, "batch", noted, "0:15" if ended else task.exit_code, state)

    @classmethod
    def of_srun(cls, task: SlurmTask, noted: StepRecord) -> SlurmStep:
        """Return a step of srun; one whose end was not noted has ended with its task.

        As in Slurm, a step that a signal has ended is cancelled, also at its time limit.
        """
        # The highest status of its processes.
        worst = max(noted.statuses, key=lambda one: 128 - one if one < 0 else one, default=0)
        exit_code = f"0:{-worst}" if worst < 0 else f"{worst}:0"
        # A step may be ended long before its job, which then runs out of memory by another one.
        late = not noted.ended or noted.ended > task.ended - _WITH_ITS_JOB
        state = "FAILED" if worst else "COMPLETED"
        if not (noted.ended or task.ended):
            state = "RUNNING"
        elif noted.state or worst < 0 or not noted.ended:
            state = "CANCELLED"
            if task.state == "OUT_OF_MEMORY" and (late or (worst == -9 and not noted.state)):
                state, exit_code = "OUT_OF_MEMORY", "0:125"
        return cls(task, str(noted.step), noted, exit_code, state)

    def is_meant(self, one: Meant) -> bool:
        """Return True if a word means it, or its task."""
        return one.has(self.task.number, self.task.task) and one.step in ("", self.name)

    @property
    def full_name(self) -> str:
        """The name by which commands name it, as ``12_3.batch``."""
        return f"{self.task.name}.{self.name}"

    @property
    def ended(self) -> float:
        """The time at which it ended, in Unix seconds; 0 if it has not."""
        return self.noted.ended or self.task.ended

    @property
    def elapsed(self) -> float:
        """The seconds for which it runs, or ran."""
        return max((self.ended or self.task.now) - self.noted.began, 0.0)


_CHOICES: dict[str, Callable[[SlurmTask], set[str]]] = {
    "user": lambda task: {task.job.user, str(task.uid)},
    "partition": lambda task: set(task.partition.split(",")),
    "name": lambda task: {task.job.name},
    "account": lambda task: {task.option("account")},
    "qos": lambda task: {task.option("qos")},
    "wckey": lambda task: {task.option("wckey")},
    "node": lambda task: task.hosts,
}


def is_chosen(task: SlurmTask, **wanted: set[str]) -> bool:
    """Return True if a task has one of the wanted values of each property.

    Args:
        wanted: the values, by names of `_CHOICES`; empty for any.
    """
    return all(not values or values & _CHOICES[name](task) for name, values in wanted.items())


def derived_code(steps: Sequence[SlurmStep]) -> str:
    """Return the highest exit code of what srun has started, as ``2:0``."""
    codes = (tuple(map(int, one.exit_code.split(":"))) for one in steps if one.noted.ended)
    return "{}:{}".format(*max(codes, default=(0, 0)))


def hosts_text(names: Sequence[str]) -> str:
    """Return hosts as ``n[1-4]``."""
    if len(set(names)) < 2:
        return names[0] if names else ""
    from grain.resource.figures import hostlist  # with all kinds of resources

    return hostlist(names)


def _part(one: Dependency) -> str:
    task = "" if one.task is None else f"_{one.task}"
    return task + (f"+{one.delay / 60:g}" if one.delay else "")


def _size_text(size: int) -> str:
    """Return MB as ``100M`` or ``2G``."""
    return f"{size}M" if size % 1024 else f"{size // 1024}G"


def _short(host: str) -> str:
    return host.partition(".")[0]
