"""``srun`` in a job: ask for a step, be the parent of its processes, and say how they ended.

A job may have thousands of steps, and this is a process for each of them. So it imports little, and
the worker that runs the job does what takes longer (`grain.worker.steps`).
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
from contextlib import suppress

from grain.cli.slurm.in_job.ends import CANCEL, HEARD, WARNINGS, StepProcesses, say
from grain.cli.slurm.in_job.files import StepFiles, is_empty
from grain.cli.slurm_words.grammar import BadUse, error_status, parse, umask_of
from grain.cli.slurm_words.options import SRUN, merged
from grain.cli.slurm_words.steps import (
    SrunWords,
    StepRefused,
    of_memory,
    programs,
    srun_words,
    step_order,
    with_variables,
)
from grain.edge.machine.peer_user import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, BinaryIO, NoReturn

    from grain.cli.slurm_words.grammar import Parsed

DESK = "GRAIN_STEPS"
"""The variable with the name at which a job's srun asks: see `grain.worker.steps.desk`."""

ANSWER = 2
"""The form of the desk's answer that this srun reads: `grain.worker.steps.orders.ANSWER`."""

_USAGE = """\
Usage: srun [OPTIONS] COMMAND [ARGS]

In a job, runs a command as srun of Slurm does: -n times, with SLURM_PROCID. Elsewhere, puts it
into the queue of Grain and waits for its end.
"""

_MPI_TYPES = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n"
_USE_MPIRUN = "this program is linked to MPI: use mpirun"
_GATHER = 0.1  # seconds within which ends of processes are told in one line, as by slurmstepd
_FAILED = 1 << 8  # the status of a process that exits with 1, as of waitpid(2)
# Python has actions of its own for some; a shell ignores others for what it starts with `&`.
_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT)


def main(words: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run a step of the job in which this process runs; return the exit status."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from grain.cli.streams import open_missing  # which takes its time

        open_missing()
    try:
        return run_step(words, environment)
    except BadUse as error:
        say(str(error))
        return error.status or 255
    except StepRefused as refused:
        say(str(refused))
        return error_status(environment)


def fixed_answer(parsed: Parsed) -> str:
    """Return the answer of ``srun`` to options that run nothing; "" if there is none of them."""
    if parsed.has("version"):
        from grain.cli.slurm.here import VERSION

        return f"slurm {VERSION}\n"
    if parsed.has("help") or parsed.has("usage"):
        return _USAGE
    return _MPI_TYPES if parsed.last("mpi") == "list" else ""


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
    if fixed := fixed_answer(parsed):
        from grain.cli.streams import write_answer  # which takes its time

        return write_answer("srun: error: (Grain)", fixed) or 0
    if not parsed.rest:
        raise BadUse("srun: fatal: No command given to execute.", 1)
    given = merged("srun", parsed.given, variables=of_memory(environment))
    given = with_variables(given, environment)
    if "/" in given.get("nodelist", "") + given.get("exclude", ""):
        from grain.cli.slurm.nodes import with_hosts_of_files  # which takes its time

        given = with_hosts_of_files("srun", given)
    how = srun_words(given)
    order, warnings = step_order(
        given,
        environment,
        parsed.rest,
        os.getcwd(),  # noqa: PTH109 - see above
    )
    for line in warnings:
        say(line)
    if "test-only" in given:  # srun(1): no job is submitted. A step has no start to predict.
        return 0
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WARNINGS)
    for number in CANCEL:
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
            say(answer["wait"])
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
        self._environment = environment
        self._mask = mask
        umask = os.umask(0o077)
        os.umask(umask)
        self._umask = umask_of(environment, umask)  # of the processes only, as in Slurm
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
            say("srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device")
            say("srun: error: Not using a pseudo-terminal, disregarding --pty option")
        self._files = StepFiles(self._ranks, how, self._library)
        self._processes = StepProcesses(
            f"{answer['job']}.{answer['step']}",
            self._ranks,
            how,
            launched=bool(self._launcher),
            own={
                f"{DESK}={environment[DESK]}".encode(),
                f"SLURM_STEP_ID={answer['step']}".encode(),
            },
            gather=gather,
        )

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
        signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
        for number in CANCEL:
            if signal.getsignal(number) == _cancel_pending:
                signal.signal(number, signal.SIG_DFL)
        processes, statuses = self._processes, self._processes.statuses
        count = len(statuses)
        try:
            statuses[:] = [_FAILED] * count  # if it cannot begin
            sources = self._files.inputs()
            targets = [self._files.outputs(rank) for rank in range(count)]
            statuses[:] = [0] * count
            for rank, (out, err) in enumerate(targets):
                processes.add(rank, self._start(rank, (sources[rank], out, err)))
            _tell(desk, started=processes.pids)
            self._files.start()
            processes.wait()
            processes.end_rest()
            self._files.finish()
            if self._files.unwritten:
                say(f"srun: error: output could not be written: {self._files.unwritten}")
                statuses[0] = statuses[0] or _FAILED
        finally:
            # Also for a step that could not begin: the next srun finds the room free.
            codes = [-os.WTERMSIG(s) if os.WIFSIGNALED(s) else s >> 8 for s in statuses]
            _tell(
                desk,
                ended=codes,
                cpu=processes.cpu,
                memory=processes.memory,
                cancelled=processes.cancelled,
            )
            for line in lines:
                told = json.loads(line)
                if "over" in told:
                    processes.say_over(told["over"])
                if "noted" in told:
                    break
        return max((128 - code if code < 0 else code for code in codes), default=0)

    def _start(self, rank: int, files: Sequence[int]) -> int:
        """Start a process; return its pid."""
        found = self._ranks[rank]
        command = self._commands[rank]
        variables = self._variables(rank)
        if self._launcher:
            command = self._launcher
            variables |= self._of_launcher
        elif found["member"]:
            command = self._elsewhere(found, command, reads=not is_empty(files[0]))
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
            os.umask(self._umask)
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
    with suppress(OSError):  # as in `say`
        os.write(2, f"slurmstepd-{rank['name']}: error: {text}\n".encode(errors="replace"))


def _tell(desk: socket.socket, **content: object) -> None:
    desk.sendall(json.dumps(content).encode() + b"\n")
