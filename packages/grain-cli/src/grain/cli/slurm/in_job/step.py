"""``srun`` in a job: ask for a step, be the parent of its processes, and say how they ended.

A job may have thousands of steps, and this is a process for each of them. So it imports little, and
the worker that runs the job does what takes longer (`grain.worker.steps`).
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import socket
import stat
import sys

from grain.cli.slurm_words.grammar import BadUse, parse
from grain.cli.slurm_words.options import SRUN, merged
from grain.cli.slurm_words.steps import (
    SrunWords,
    StepRefused,
    programs,
    srun_words,
    step_order,
    with_variables,
)
from grain.edge.machine.peer_user import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from threading import Thread
    from typing import Any, BinaryIO, NoReturn

DESK = "GRAIN_STEPS"
"""The variable with the name at which a job's srun asks: see `grain.worker.steps.desk`."""

ANSWER = 1
"""The form of the desk's answer that this srun reads: `grain.worker.steps.orders.ANSWER`."""

USAGE = """\
Usage: srun [OPTIONS] COMMAND [ARGS]

In a job, runs a command as srun of Slurm does: -n times, with SLURM_PROCID. Elsewhere, puts it
into the queue of Grain and waits for its end.
"""

MPI_TYPES = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"
"""The answer to ``--mpi=list``."""

_USE_MPIRUN = "this program is linked to MPI: use mpirun"
_GRACE = 30.0  # seconds from SIGTERM to SIGKILL, as ``KillWait`` of Slurm
_AFTER_INTERRUPT = 0.5  # seconds from SIGINT to SIGKILL, for which slurmstepd takes a moment
_AGAIN = 1.0  # seconds within which a second Ctrl-C ends a step
_GATHER = 0.1  # seconds within which ends of processes are told in one line, as by slurmstepd
_PIECE = 1 << 16
# A warning to the whole job reaches the processes by themselves.
_WARNINGS = (signal.SIGUSR1, signal.SIGUSR2)
_HEARD = {
    signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, *_WARNINGS,
}  # fmt: skip
_ENDS = (signal.SIGTERM, signal.SIGKILL)
_CANCEL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_FAILED = 1 << 8  # the status of a process that exits with 1, as of waitpid(2)
# Python has actions of its own for some; a shell ignores others for what it starts with `&`.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT)


def main(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run a step of the job in which this process runs; return the exit status."""
    try:
        return run_step(words, environment)
    except BadUse as error:
        sys.stderr.write(f"{error}\n")
        return error.status or 255
    except StepRefused as refused:
        sys.stderr.write(f"{refused}\n")
        return 1


def run_step(
    words: Sequence[str], environment: Mapping[str, str], *, gather: float = _GATHER
) -> int:
    """Run a step; return the exit status, which is the highest one of its processes.

    Args:
        words: of the command line.
        environment: of this process.
        gather: seconds within which ends of processes are told in one line.

    Raises:
        BadUse: the words make no sense.
        StepRefused: there is no such step; the text is what srun prints.
    """
    parsed = parse("srun", words, SRUN, permute=False)
    if parsed.has("version"):
        from grain.cli.slurm.here import VERSION

        sys.stdout.write(f"slurm {VERSION}\n")
        return 0
    if parsed.has("help") or parsed.has("usage"):
        sys.stdout.write(USAGE)
        return 0
    if parsed.last("mpi") == "list":
        sys.stdout.write(MPI_TYPES)
        return 0
    if not parsed.rest:
        raise StepRefused("srun: fatal: No command given to execute.")
    given = with_variables(merged([parsed.given]), environment)
    how = srun_words(given)
    order, warnings = step_order(
        given,
        environment,
        parsed.rest,
        os.getcwd(),  # noqa: PTH109 - see above
    )
    sys.stderr.write("".join(f"{line}\n" for line in warnings))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WARNINGS)
    for number in _CANCEL:
        if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _cancel_pending)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as desk:
        try:
            desk.connect("\0" + environment[DESK])
            if not is_own(desk):
                raise PermissionError("another user has taken its name")
            desk.sendall(json.dumps(order).encode() + b"\n")
            with desk.makefile("rb") as lines:
                answer = _answer(lines)
                step = _Step(answer, how, parsed.rest, environment, mask, gather)
                return step.run(desk, lines)
        except ConnectionError:  # as of what a script does when its job is cancelled
            job = environment.get("SLURM_JOB_ID", "")
            raise StepRefused(
                f"srun: error: Slurm job {job} has expired\nsrun: Check SLURM_JOB_ID environment "
                f"variable. Expired or invalid job {job}\nsrun: (Grain) no step begins in a job "
                "that ends"
            ) from None
        except OSError as error:
            raise StepRefused(
                f"srun: error: (Grain) the process that runs this job does not answer: {error}"
            ) from None


def _cancel_pending(number: int, _: object) -> NoReturn:
    """End a step that waits, upon a signal."""
    job = os.environ.get("SLURM_JOB_ID", "")
    raise StepRefused(
        f"srun: Cancelled pending job step with signal {number}\nsrun: error: Unable to create "
        f"step for job {job}: Job/step already completing or completed"
    )


def _answer(lines: BinaryIO) -> dict[str, Any]:
    """Wait until a step may begin; return what it has.

    Raises:
        StepRefused: it may not.
        OSError: the job is ending.
    """
    for line in lines:
        answer: dict[str, Any] = json.loads(line)
        if "refused" in answer:
            raise StepRefused(f"srun: error: {answer['refused']}")
        if "wait" in answer:
            sys.stderr.write(f"{answer['wait']}\n")
            sys.stderr.flush()
        elif answer.get("form") == ANSWER:
            return answer
        else:
            raise StepRefused(
                "srun: error: (Grain) Grain was changed since this job's worker began, and srun "
                "does not understand it: run the job again on a worker that begins now"
            )
    raise ConnectionError("it is gone")


class _Step:
    """A step that may begin.

    Args:
        answer: of the desk.
        how: what to do with the processes.
        command: the words of the command.
        environment: of this process.
        mask: the signals that the processes block.
        gather: seconds within which ends of processes are told in one line.
    """

    def __init__(
        self,
        answer: dict[str, Any],
        how: SrunWords,
        command: list[str],
        environment: Mapping[str, str],
        mask: set[int | signal.Signals],
        gather: float,
    ) -> None:
        self._answer = answer
        self._how = how
        self._ranks = answer["ranks"]
        self._id = f"{answer['job']}.{answer['step']}"
        self._environment = environment
        self._mask = mask
        self._gather = gather
        self._pids: dict[int, int] = {}  # of processes that run: their numbers
        self._statuses: list[int] = []
        self._sent = 0  # the last signal that was passed on
        self._interrupted = -math.inf  # when Ctrl-C was pressed last
        self._aborted = self._said_over = False
        self._unwritten = ""
        self._cpu = self._memory = 0.0  # seconds; the peak of a process, in GB
        self._pumps: list[Thread] = []
        self._files: list[int] = []
        self._input = 0  # what is read
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._commands = [command] * len(self._ranks)
        if how.multi:
            try:
                with open(command[0]) as file:  # noqa: PTH123 - see above
                    text = file.read()
            except OSError as error:
                raise StepRefused(
                    f"srun: error: Could not open multi_prog config file {command[0]}\n"
                    f"srun: (Grain) {error.strerror}"
                ) from None
            self._commands = programs(text, len(self._ranks), command[0])
        # The launcher of an MPI program is the one process of the step.
        self._launcher: list[str] = []
        self._of_launcher: Mapping[str, str] = {}
        self._library = ""
        if how.mpi != "none":
            self._find_launcher(command)
        if how.pty and not os.isatty(1):  # a job has no terminal
            self._say("srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device")
            self._say("srun: error: Not using a pseudo-terminal, disregarding --pty option")
        self._started = range(1 if self._launcher else len(self._ranks))

    def _find_launcher(self, command: list[str]) -> None:
        """Have the launcher of an MPI program start it.

        Raises:
            StepRefused: there is none.
        """
        from grain.cli.slurm.in_job import mpi

        several = len(self._ranks) > 1
        if self._how.multi:
            for program in {words[0] for words in self._commands}:
                if several and mpi.library_of(program, thorough=True)[0]:
                    raise StepRefused(f"srun: error: (Grain) {program}: {_USE_MPIRUN}")
            return
        library, path = mpi.library_of_option(self._how.mpi), ""
        seen, found = mpi.library_of(command[0], thorough=several)
        if seen:
            library, path = seen, found  # under the launcher of another one, each is rank 0 of 1
        if not library:
            return
        launcher = mpi.launcher_of(library, path)
        if not launcher:
            raise StepRefused(
                f"srun: error: (Grain) {_USE_MPIRUN}; PATH has no launcher of {library}"
            )
        members = [rank["member"] for rank in self._ranks]
        nodes = [(member, members.count(member)) for member in dict.fromkeys(members)]
        reach = "GRAIN_RSH" in self._environment
        words = mpi.launch_words(library, launcher, nodes, reach=reach, label=self._how.label)
        self._launcher = [*words, *self._answer["rank"], "--ranks", self._plan_of_ranks(), *command]
        self._of_launcher = mpi.launch_variables(library)
        self._library = library

    def _plan_of_ranks(self) -> str:
        """Return what each rank needs to know, as one word for `grain.worker.gang.rank`."""
        import zlib
        from base64 import b64encode

        alone = len({rank["stdout"] for rank in self._ranks}) > 1
        errors = len({rank["stderr"] for rank in self._ranks}) > 1
        ranks = [
            {
                "variables": rank["variables"],
                "threads": rank["threads"],
                "cpus": rank["cpus"] if self._how.bound else (),
                "stdout": rank["stdout"] if alone else "",
                "stderr": rank["stderr"] if errors else "",
            }
            for rank in self._ranks
        ]
        plan = {"ranks": ranks, "threads": self._answer["threads"], "append": self._how.append}
        return b64encode(zlib.compress(json.dumps(plan).encode())).decode()

    def run(self, desk: socket.socket, lines: BinaryIO) -> int:
        """Start the processes, wait for all, and return the highest status.

        Raises:
            StepRefused: a file cannot be opened.
        """
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        for number in _CANCEL:
            if signal.getsignal(number) == _cancel_pending:
                signal.signal(number, signal.SIG_DFL)
        try:
            self._statuses = [_FAILED] * len(self._started)  # if it cannot begin
            sources = self._stdin()
            plans = [self._plan(rank) for rank in self._started]
            self._statuses = [0] * len(self._started)
            for rank, (out, err) in enumerate(plans):
                self._pids[self._start(rank, (sources[rank], out, err))] = rank
            _tell(desk, started=list(self._pids))
            for fd in self._files:
                os.close(fd)
            for pump in self._pumps:
                pump.start()
            self._wait()
            self._end_rest()
            for pump in self._pumps:
                if not pump.daemon:
                    pump.join()
            if self._unwritten:
                self._say(f"srun: error: output could not be written: {self._unwritten}")
                self._statuses[0] = self._statuses[0] or _FAILED
        finally:
            # Also for a step that could not begin: the next srun finds the room free.
            codes = [-os.WTERMSIG(s) if os.WIFSIGNALED(s) else s >> 8 for s in self._statuses]
            _tell(desk, ended=codes, cpu=self._cpu, memory=self._memory)
            for line in lines:
                told = json.loads(line)
                if "over" in told:
                    self._say_over(told["over"])
                if "noted" in told:
                    break
        return max((128 - code if code < 0 else code for code in codes), default=0)

    # ---- files

    def _plan(self, rank: int) -> tuple[int, int]:
        """Return the descriptors for the output of a process."""
        found = self._ranks[rank]
        # The launcher's are those of all ranks, which open files of their own by themselves.
        names = {
            name: found[name]
            for name in ("stdout", "stderr")
            if not self._launcher or len({one[name] for one in self._ranks}) == 1
        }
        out = self._output(names["stdout"], rank, "stdout") if names.get("stdout") else 1
        if names.get("stderr"):
            err = self._output(names["stderr"], rank, "stderr")
        else:
            err = out if names.get("stdout") else 2
        if not self._how.label or (self._launcher and self._library != "Open MPI"):
            return out, err
        labelled = [self._labelled(fd, rank) for fd in dict.fromkeys((out, err))]
        return labelled[0], labelled[-1]

    def _output(self, path: str, rank: int, what: str) -> int:
        from grain.files.trust import open_output

        # Processes that share a file append to it, the first one as well, which has emptied it: it
        # may be the last that writes.
        shared = any(path in (one["stdout"], one["stderr"]) for one in self._ranks[:rank])
        more = 0 if shared or self._how.append else os.O_TRUNC
        if more and self._is_input(path):
            raise StepRefused(
                f"srun: error: (Grain) cannot write to {path}: the program reads it, and that "
                "would empty it"
            )
        try:
            fd = open_output(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | more)
        except OSError as error:
            raise StepRefused(
                f"srun: error: Could not open {what} file: {error.strerror}"
            ) from None
        self._files.append(fd)
        return fd

    def _is_input(self, path: str) -> bool:
        """Return True if an output is the file that is read, as of a job's script."""
        try:
            there = os.stat(path)  # noqa: PTH116 - see above
            return stat.S_ISREG(there.st_mode) and os.path.samestat(there, os.fstat(self._input))
        except OSError:
            return False

    def _labelled(self, target: int, rank: int) -> int:
        from threading import Thread

        reading, writing = os.pipe()
        width = len(str(len(self._ranks) - 1))
        label = b"" if self._launcher else f"{rank:{width}}: ".encode()
        target = os.dup(target)
        self._pumps.append(Thread(target=self._label, args=(reading, target, label)))
        self._files.append(writing)
        return writing

    def _label(self, reading: int, target: int, label: bytes) -> None:
        try:
            _label(reading, target, label)
        except BrokenPipeError:
            pass  # who reads has gone, as of `srun -l ... | head`; the program learns of it
        except OSError as error:
            self._unwritten = error.strerror or str(error)

    def _stdin(self) -> list[int]:
        """Return a descriptor for the input of each process."""
        how, count = self._how.stdin, len(self._started)
        if how.isdecimal() and int(how) < len(self._ranks):
            null = self._opened(os.devnull)
            return [0 if rank == int(how) else null for rank in range(count)]
        if how != "all":
            opened = [self._opened(how) for _ in range(count)]
            self._input = opened[0]
            return opened
        if count == 1 or _is_empty(0):
            return [0] * count
        from threading import Thread

        pipes = [os.pipe() for _ in range(count)]
        self._files += [reading for reading, _ in pipes]
        ends = [writing for _, writing in pipes]
        self._pumps.append(Thread(target=_broadcast, args=(ends,), daemon=True))
        return [reading for reading, _ in pipes]

    def _opened(self, path: str) -> int:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StepRefused(f"srun: error: Could not open stdin file: {error.strerror}") from None
        self._files.append(fd)
        return fd

    # ---- processes

    def _start(self, rank: int, files: Sequence[int]) -> int:
        """Start a process; return its pid."""
        found = self._ranks[rank]
        command = self._commands[rank]
        variables = self._variables(rank)
        if self._launcher:
            command = self._launcher
            variables |= self._of_launcher
        elif found["member"]:
            command = self._elsewhere(found, command, reads=not _is_empty(files[0]))
        pid = os.fork()
        if pid:
            return pid
        try:
            os.dup2(files[0], 0)
            # Either may be the other's place.
            out, err = os.dup(files[1]), os.dup(files[2])
            os.dup2(out, 1)
            os.dup2(err, 2)
            if found["cpus"] and not found["member"] and self._how.bound and not self._launcher:
                os.sched_setaffinity(0, found["cpus"])
            variables["SLURM_TASK_PID"] = str(os.getpid())
            for number in _RESET:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            if self._how.directory:
                try:
                    os.chdir(self._how.directory)
                except OSError as error:  # so does slurmstepd
                    where = f"`{self._how.directory}': {error.strerror}"
                    _complain(found, f"couldn't chdir to {where}: going to /tmp instead")
                    os.chdir("/tmp")  # noqa: S108 - as above
            _execute(command, variables)
        except OSError as error:
            _complain(found, f"execve(): {_named(command[0], error)}: {error.strerror}")
            os._exit(error.errno or 1)  # as slurmstepd has it
        except BaseException:
            os._exit(1)

    def _variables(self, rank: int) -> dict[str, str]:
        """Return the environment of a process."""
        parts = [part.strip() for part in self._how.export.split(",")]
        kept = {part.upper() for part in parts} & {"ALL", "NONE", "NIL"}
        found = {
            name: value
            for name, value in self._environment.items()
            if "ALL" in kept
            or name.startswith(("SLURM_", "SLURMD_", "GRAIN_"))
            or name in parts
            or name == "PATH"
        }
        found |= dict(part.split("=", 1) for part in parts if "=" in part)
        found.pop("", None)  # with which execve(2) of Python fails
        own = self._ranks[rank]
        found |= {
            name: own["threads"]
            for name, value in self._answer["threads"].items()
            if found.get(name) == value
        }
        found |= self._answer["variables"]
        found |= own["variables"]
        found["SLURM_UMASK"] = f"{self._umask:04o}"
        if self._how.name:
            found["SLURM_JOB_NAME"] = self._how.name
        if len(self._ranks) > 1 and not self._launcher and self._how.mpi != "none":
            from grain.cli.slurm.in_job.mpi import NO_SERVER

            found |= NO_SERVER
        return found

    def _elsewhere(self, found: dict[str, Any], command: list[str], *, reads: bool) -> list[str]:
        """Return the words that run a command on another worker of the job.

        Args:
            reads: True if there is something to read for it.
        """
        import shlex

        cpus = ",".join(map(str, found["cpus"] if self._how.bound else ()))
        own = [f"{name}={value}" for name, value in found["variables"].items()]
        start = [*self._answer["rank"], "--step", cpus, str(len(own)), *own, *command]
        line = shlex.join(["exec", *start])
        if self._how.directory:
            line = f"cd {shlex.quote(self._how.directory)} && {line}"
        options = ["--program", *["--input"] * reads]
        return [self._environment["GRAIN_RSH"], *options, f"m{found['member']}", line]

    # ---- their ends

    def _wait(self) -> None:
        """Wait for all processes."""
        first = kill_at = 0.0
        terminated = False
        while self._pids:
            until = kill_at or (first + self._how.wait if first and self._how.wait else 0.0)
            heard = self._hear(until)
            if heard is None:
                if not terminated and not kill_at:
                    self._inform(f"First task exited {self._how.wait:.0f}s ago")
                    self._tell_states()
                    self._inform(f"launch/slurm: _step_signal: Terminating StepId={self._id}")
                    self._abort()
                self._say_cancelled()
                self._signal(signal.SIGKILL)
                first = kill_at = 0.0
                terminated = True
                continue
            if heard.si_signo != signal.SIGCHLD:
                if _is_of_user(heard):
                    kill_at = self._obey(heard.si_signo) or kill_at
                continue
            failed = self._reap()
            if not first:
                import time

                first = time.monotonic()
            if failed and self._how.kills and self._pids and not terminated:
                import time

                self._inform(f"launch/slurm: _step_signal: Terminating StepId={self._id}")
                self._say_cancelled()
                self._signal(signal.SIGTERM)
                terminated, kill_at = True, time.monotonic() + _GRACE

    def _obey(self, number: int) -> float:
        """Do what srun does upon a signal; return when to kill what is left, 0 for never.

        Slurm kills at once. Here processes get the signal before, to write what they have, and a
        launcher to end the ranks of other nodes.
        """
        import time

        now = time.monotonic()
        again = self._how.quits or now - self._interrupted <= _AGAIN
        if number == signal.SIGINT and self._how.states and not again:
            self._interrupted = now
            self._inform("interrupt (one more within 1 sec to abort)")
            self._tell_states()
            return 0.0
        if number == signal.SIGINT:
            self._inform(f"sending Ctrl-C to StepId={self._id}")
        if number == signal.SIGQUIT:
            self._inform("Quit")
        forced = number not in _WARNINGS and (number != signal.SIGINT or self._how.states)
        if forced:
            self._inform("forcing job termination")
            self._abort()
        self._sent = number
        self._signal(number)
        if not forced:
            return 0.0
        if number == signal.SIGINT:
            return now + _AFTER_INTERRUPT
        self._say_cancelled()
        return now + _GRACE

    def _abort(self) -> None:
        if not self._aborted:
            wait = f"Waiting up to {_GRACE + 2:.0f} seconds for job step to finish."
            self._inform(f"Job step aborted: {wait}")
        self._aborted = True

    def _tell_states(self) -> None:
        """Say which processes run, and which have ended."""
        running = set(self._ranks_of(self._pids.values()))
        others = [rank for rank in range(len(self._ranks)) if rank not in running]
        for ranks, state in (
            (sorted(running), "running"),
            ([rank for rank in others if self._statuses[rank]], "exited abnormally"),
            ([rank for rank in others if not self._statuses[rank]], "exited"),
        ):
            if ranks:
                self._inform(f"StepId={self._id} {_tasks(ranks)}: {state}")

    def _ranks_of(self, started: Collection[int]) -> Collection[int]:
        """Return the ranks of processes that were started here."""
        return range(len(self._ranks)) if self._launcher and started else started

    def _hear(self, until: float) -> signal.struct_siginfo | None:
        """Wait for a signal; return None if there is none until a moment, 0 for any time."""
        if not until:
            return signal.sigwaitinfo(_HEARD)
        import time

        return signal.sigtimedwait(_HEARD, max(until - time.monotonic(), 0.0))

    def _reap(self) -> bool:
        """Note and tell how processes have ended; return True if one has failed."""
        ended: dict[tuple[str, int], list[int]] = {}
        self._collect(ended)
        if any(status for _, status in ended):
            import time

            until = time.monotonic() + self._gather
            while self._pids and (left := until - time.monotonic()) > 0:
                if signal.sigtimedwait({signal.SIGCHLD}, left):
                    self._collect(ended)
        for (name, status), ranks in ended.items():
            # Slurm says nothing of processes after a second Ctrl-C.
            if status and not (self._aborted and self._sent == signal.SIGINT):
                if self._launcher:
                    name = self._answer["ranks"][0]["name"]
                tasks = _tasks(sorted(self._ranks_of(ranks)))
                self._say(f"srun: error: {name}: {tasks}: {_end_text(status)}")
        return any(status for _, status in ended)

    def _collect(self, ended: dict[tuple[str, int], list[int]]) -> None:
        """Add what has ended to ranks by host and status."""
        while self._pids:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if not pid:
                break
            rank = self._pids.pop(pid, None)
            if rank is not None:
                if self._launcher or not self._ranks[rank]["member"]:
                    self._cpu += usage.ru_utime + usage.ru_stime
                    self._memory = max(self._memory, usage.ru_maxrss * 1024e-9)
                if self._launcher and not status and self._sent in _ENDS:
                    status = self._sent  # mpiexec of MPICH says nothing of a signal that ends it
                self._statuses[rank] = _status(status, bool(self._ranks[rank]["member"]))
                key = self._ranks[rank]["name"], self._statuses[rank]
                ended.setdefault(key, []).append(rank)

    def _signal(self, number: int) -> None:
        for pid in self._pids:
            os.kill(pid, number)  # it is a zombie at least

    def _end_rest(self) -> None:
        """End what processes have left behind on this host if a signal has ended the step."""
        by = [os.WTERMSIG(status) for status in self._statuses if os.WIFSIGNALED(status)]
        if not self._sent and not by:
            return
        if not self._aborted and not set(_ENDS).isdisjoint(by):
            self._say(f"srun: Force Terminated StepId={self._id}")
        own = {
            f"{DESK}={self._environment[DESK]}".encode(),
            f"SLURM_STEP_ID={self._answer['step']}".encode(),
        }
        left = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        for pid in left:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - see above
                    if own <= set(file.read().split(b"\0")):
                        os.kill(pid, signal.SIGKILL)
            except OSError:  # another user's, or gone
                pass

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def _inform(self, text: str) -> None:
        if not self._how.quiet:
            self._say(f"srun: {text}")

    def _say_cancelled(self) -> None:
        """Say once that this srun ends the step."""
        if not self._said_over:
            self._say_over("")
        self._said_over = True

    def _say_over(self, why: str) -> None:
        import time

        at = time.strftime("%Y-%m-%dT%H:%M:%S")
        name = self._ranks[0]["name"]
        self._say(
            f"slurmstepd-{name}: error: *** STEP {self._id} ON {name} CANCELLED AT {at}"
            f"{why and ' DUE TO '}{why} ***"
        )


def _execute(command: list[str], variables: dict[str, str]) -> NoReturn:
    """Become a command.

    Raises:
        OSError: it cannot be executed.
    """
    if not command[0]:  # Python has another error for that
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    os.execvpe(command[0], command, variables)  # noqa: S606 - the user's command


def _named(program: str, error: OSError) -> str:
    """Return a program that cannot be executed, as slurmstepd names it."""
    if not program.startswith("."):
        return program
    path = f"{os.getcwd()}/{program}"  # noqa: PTH109 - see above
    if error.errno == errno.ENOENT and os.path.exists(path):  # noqa: PTH110 - see above
        with open(path, "rb") as file:  # noqa: PTH123 - see above
            words = file.readline(4096).removeprefix(b"#!").split() or [b""]
        return f"bad interpreter({os.fsdecode(words[0])})"
    return path


def _complain(rank: Mapping[str, Any], text: str) -> None:
    os.write(2, f"slurmstepd-{rank['name']}: error: {text}\n".encode(errors="replace"))


def _tell(desk: socket.socket, **content: object) -> None:
    desk.sendall(json.dumps(content).encode() + b"\n")


def _status(status: int, elsewhere: bool) -> int:
    """Return the status of a process as waitpid(2) has it; rsh exits as shells do for a signal."""
    if elsewhere and os.WIFEXITED(status) and 128 < status >> 8 < 128 + 65:
        return (status >> 8) - 128
    return status


def _end_text(status: int) -> str:
    if os.WIFSIGNALED(status):
        text = signal.strsignal(os.WTERMSIG(status)) or f"Signal {os.WTERMSIG(status)}"
        return text + " (core dumped)" * os.WCOREDUMP(status)
    return f"Exited with exit code {status >> 8}"


def _tasks(ranks: Sequence[int]) -> str:
    return f"task{'s' * (len(ranks) > 1)} {_ranges(ranks)}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as ``0-2,5``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, one)) for one in found)


def _is_of_user(heard: signal.struct_siginfo) -> bool:
    """Return True if a signal is for this process only, from the job itself.

    What a terminal, or the worker, sends to the job reaches all processes by itself. A process of
    the job may have another session, as what Python starts with ``start_new_session``.
    """
    if not heard.si_pid:
        return False
    own = f"GRAIN_JOB_ID={os.environ.get('GRAIN_JOB_ID', '')}".encode()
    try:
        if os.getsid(heard.si_pid) == os.getsid(0):
            return True
        with open(f"/proc/{heard.si_pid}/environ", "rb") as file:  # noqa: PTH123 - see above
            return own in file.read().split(b"\0")
    except OSError:  # it has gone since
        return True


def _is_empty(fd: int) -> bool:
    """Return True if nothing can be read from a descriptor, as it is closed or /dev/null."""
    try:
        return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116 - see above
    except OSError:
        return True


def _broadcast(ends: list[int]) -> None:
    """Copy standard input to pipes, until all of their readers have gone."""
    while ends:
        piece = os.read(0, _PIECE)
        if not piece:
            break
        for end in list(ends):
            try:
                left = piece
                while left:
                    left = left[os.write(end, left) :]
            except OSError:
                os.close(end)
                ends.remove(end)
    for end in ends:
        os.close(end)


def _label(reading: int, target: int, label: bytes) -> None:
    """Copy lines, each with a label."""
    with open(reading, "rb") as lines:
        for line in lines:
            if not label and line.startswith(b"["):  # of Open MPI: [1,0]<stdout>:text
                tag, _, line = line.partition(b">:")
                line = tag.partition(b",")[2].partition(b"]")[0] + b": " + line.removeprefix(b" ")
            left = label + (line if line.endswith(b"\n") else line + b"\n")
            while left:
                left = left[os.write(target, left) :]
