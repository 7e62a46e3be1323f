"""``srun`` in a job: real processes that ask a real desk."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from grain.cli.slurm.setup.folder import make_commands
from grain.files.processes import start_time
from grain.worker.gang.control import listen, serve
from grain.worker.steps.desk import StepDesk
from grain.worker.steps.orders import StepJob
from grain.worker.steps.shares import MemberRoom, StepShares

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from grain.queue.notes.steps import StepRecord
    from grain.worker.gang.control import JsonLines

IN_JOB = {
    "GRAIN_JOB_ID": "12", "SLURM_JOB_ID": "12", "SLURM_JOB_NAME": "name",
    "SLURM_JOB_NODELIST": "n7",
}  # fmt: skip
ADVICE = 'Try "srun --help" for more information'
NO_STEP = "srun: error: Unable to create step for job 12"
NO_OUTPUT = "srun: error: Could not open stdout file"
NO_HOSTS = "srun: error: slurm_allocate_resources error opening file"
NOT_FOUND = "slurmstepd-n7: error: execve(): no-such-program: No such file or directory"


class JobSite:
    """A job with a desk for its steps.

    Attributes:
        lines: steps that have begun and ended.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.lines: list[StepRecord] = []
        make_commands(folder / "commands")
        path = f"{folder / 'commands'}:{os.environ['PATH']}"
        self._environment = {"PATH": path, **IN_JOB, "GRAIN_STEPS": name}

    async def srun(
        self, *words: str, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        return await self.run("srun", *words, stdin=stdin, **env)

    async def run(
        self, *words: str, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the job's script does, in a session of its own."""
        done = await trio.run_process(
            words, stdin=stdin.encode(), capture_stdout=True, capture_stderr=True, check=False,
            cwd=self.folder, env={**self._environment, **env}, start_new_session=True,
        )  # fmt: skip
        return subprocess.CompletedProcess(
            words, done.returncode, done.stdout.decode(), done.stderr.decode()
        )


@asynccontextmanager
async def job_of(folder: Path, *rooms: MemberRoom, hosts: str = "n7") -> AsyncIterator[JobSite]:
    names = tuple(hosts.split(","))
    variables = {
        "JOB_ID": "12", "JOB_NAME": "name", "JOB_NODELIST": "n7", "JOB_USER": "ann", "NTASKS": "1",
    }  # fmt: skip
    job = StepJob(variables, names, tuple(False for _ in names))
    name, listener = listen()
    site = JobSite(folder, name)
    shares = StepShares(rooms or [MemberRoom((0, 1))])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, listener, StepDesk(shares, job, site.lines.append).admit)
        yield site
        nursery.cancel_scope.cancel()


def shown(done: subprocess.CompletedProcess[str]) -> tuple[list[str], list[str], int]:
    """Return sorted lines of stdout and stderr, and the status."""
    return sorted(done.stdout.splitlines()), sorted(done.stderr.splitlines()), done.returncode


async def test_steps_count_from_0_in_variables_and_names(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        for number in range(2):
            done = await job.srun(
                "-o", "out-%J-%s", "sh", "-c", "echo $SLURM_STEP_ID $SLURM_PROCID"
            )
            assert ("", "", 0) == (done.stdout, done.stderr, done.returncode)
            assert f"{number} 0\n" == (tmp_path / f"out-12.{number}-{number}").read_text()
        assert [0, 0, 1, 1] == [line.step for line in job.lines]
        assert "sh" == job.lines[0].name


async def test_a_step_has_the_highest_status_and_says_who_failed(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        done = await job.srun("-n2", "-l", "sh", "-c", "echo $SLURM_NTASKS; exit $SLURM_PROCID")
        failed = "srun: error: n7: task 1: Exited with exit code 1"
        assert (["0: 2", "1: 2"], [failed], 1) == shown(done)
        done = await job.srun("sh", "-c", "kill -9 $$")
        killed = ["srun: Force Terminated StepId=12.1", "srun: error: n7: task 0: Killed"]
        assert ([], killed, 137) == shown(done)
        assert (-9,) == job.lines[-1].statuses


async def test_what_a_step_leaves_behind_ends_with_it_if_a_signal_has_ended_it(
    tmp_path: Path,
) -> None:
    # It is there as a program: one that is just starting has no environment to be known by.
    stays = "echo > stays; while :; do sleep 0.1; done"
    leaves = f"sh -c '{stays}' <&- >&- 2>&- & until [ -s stays ]; do sleep 0.01; done; echo $!; "
    async with job_of(tmp_path) as job:
        process = int((await job.srun("sh", "-c", leaves + "exit 0")).stdout)
        assert start_time(process) is not None
        os.kill(process, signal.SIGKILL)
        (tmp_path / "stays").unlink()
        process = int((await job.srun("sh", "-c", leaves + "kill -9 $$")).stdout)
        with trio.fail_after(120):  # SIGKILL is under way when srun ends
            while start_time(process) is not None:
                await trio.sleep(0.02)


async def test_a_job_has_no_terminal(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        done = await job.srun("--pty", "sh", "-c", "echo here")
        assert ("here\n", 0) == (done.stdout, done.returncode)
        assert done.stderr.splitlines() == [
            "srun: error: ioctl(TIOCGWINSZ): Inappropriate ioctl for device",
            "srun: error: Not using a pseudo-terminal, disregarding --pty option",
        ]


async def test_all_processes_that_share_a_file_append_to_it(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        # Whoever writes first, nothing is overwritten.
        waits = '[ "$SLURM_PROCID" = 1 ] || while ! [ -s both-name-12.0 ]; do sleep 0.01; done'
        script = f"{waits}; echo $SLURM_PROCID; echo err >&2"
        await job.srun("-n2", "-o", "both-%x-%J", "sh", "-c", script)
        lines = (tmp_path / "both-name-12.0").read_text().split()
        assert ("1", ["0", "1", "err", "err"]) == (lines[0], sorted(lines))
        await job.srun(
            "--error", "%j_%t.err", "--output", "o", "-l", "sh", "-c", "echo x; echo e >&2"
        )
        assert ("0: x\n", "0: e\n") == tuple(
            (tmp_path / name).read_text() for name in ("o", "12_0.err")
        )


@pytest.mark.parametrize(("variable", "mask"), [("0077", "0077"), ("bad", "0022"), ("", "0022")])
async def test_a_variable_gives_the_umask_of_processes(
    tmp_path: Path, variable: str, mask: str
) -> None:
    async with job_of(tmp_path) as job:
        script = "umask 022; srun -o out sh -c umask"
        done = await job.run("sh", "-c", script, SLURM_UMASK=variable)
        assert ("", 0) == (done.stderr, done.returncode)
        assert f"{mask}\n" == (tmp_path / "out").read_text()
        assert 0o644 == (tmp_path / "out").stat().st_mode & 0o777, "srun itself makes it"


@pytest.mark.parametrize(
    ("words", "lines"),
    [((), ["0 hello", "1 hello"]), (("--input=1",), ["0", "1 hello"]),
     (("--input=none",), ["0", "1"]), (("-i", "in"), ["0 file", "1 file"]),
     (("-i", "%t.in"), ["0 one", "1 two"])],
)  # fmt: skip
async def test_standard_input_reaches_every_process(
    tmp_path: Path, words: tuple[str, ...], lines: list[str]
) -> None:
    for name, text in {"in": "file", "0.in": "one", "1.in": "two"}.items():
        (tmp_path / name).write_text(f"{text}\n")
    async with job_of(tmp_path) as job:
        script = "read x; echo $SLURM_PROCID $x"
        done = await job.srun("-n2", *words, "sh", "-c", script, stdin="hello\n")
        assert lines == sorted(line for line in done.stdout.splitlines())
        assert 0 == done.returncode


async def test_one_that_fails_ends_the_others_if_that_is_wanted(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        script = "[ $SLURM_PROCID = 0 ] && exit 3; exec sleep 600"
        done = await job.srun("-n2", "-K", "sh", "-c", script)
        expected = [
            "srun: Force Terminated StepId=12.0",
            "srun: error: n7: task 0: Exited with exit code 3",
            "srun: error: n7: task 1: Terminated",
            "srun: launch/slurm: _step_signal: Terminating StepId=12.0",
        ]
        cancelled, *others = shown(done)[1]
        assert (expected, 143) == (others, done.returncode)
        assert cancelled.startswith("slurmstepd-n7: error: *** STEP 12.0 ON n7 CANCELLED AT ")
        done = await job.srun("-n2", "-W1", "sh", "-c", "[ $SLURM_PROCID = 0 ] || exec sleep 600")
        assert 137 == done.returncode
        assert "srun: First task exited 1s ago" in done.stderr


async def test_several_programs_in_a_step(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("# comment\n0 echo a %t %o\n1-2 echo 'b b' %t %o\n")
    async with job_of(tmp_path, MemberRoom((0, 1, 2, 3))) as job:
        done = await job.srun("-n3", "-l", "--multi-prog", "conf")
        assert (["0: a 0 0", "1: b b 1 0", "2: b b 2 1"], [], 0) == shown(done)
        done = await job.srun("-n4", "--multi-prog", "conf")
        why = "srun: error: Configuration file conf invalid, no record for task id 3"
        assert ([], [why], 1) == shown(done)
        # The room of one that could not begin is free.
        assert 0 == (await job.srun("-n4", "true")).returncode


async def test_processes_run_where_srun_is_told(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        assert ("/\n", "") == ((done := await job.srun("-D", "/", "pwd")).stdout, done.stderr)
        done = await job.srun("-D", "/no/such", "pwd")
        assert ("/tmp\n", 0) == (done.stdout, done.returncode)
        assert "couldn't chdir to `/no/such': No such file or directory: going to" in done.stderr


async def test_a_step_ends_at_its_limit(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        done = await job.srun("-t", "0:1", "sleep", "600")
        assert (128 + 15, "TIMEOUT") == (done.returncode, job.lines[-1].state)
        assert "*** STEP 12.0 ON n7 CANCELLED AT " in done.stderr
        assert "DUE TO TIME LIMIT ***" in done.stderr


@pytest.mark.parametrize(
    ("words", "text", "status"),
    [
        ([], "srun: fatal: No command given to execute.", 1),
        (["-n", "3", "x"], f"{NO_STEP}: More processors requested than permitted", 1),
        (["-N", "2", "x"], "srun: error: Only allocated 1 nodes asked for 2", 1),
        (["-w", "n9", "x"], f"{NO_STEP}: Requested node configuration is not available", 1),
        (["-x", "n7", "x"], "srun: error: Hostlist is empty!  Can't run job.", 1),
        (["-w", "./no", "x"], f"{NO_HOSTS} ./no, No such file or directory", 1),
        (["-x", "./hosts", "x"], "srun: error: Hostlist is empty!  Can't run job.", 1),
        (["-w", "n[7", "x"], f"{NO_STEP}: Requested node configuration is not available", 1),
        (["--gres=a", "x"], f"{NO_STEP}: Invalid generic resource (gres) specification", 1),
        (["-c", "0", "x"], 'srun: error: Invalid numeric value "0" for --cpus-per-task.', 1),
        (["no-such-program"], f"{NOT_FOUND}\nsrun: error: n7: task 0: Exited with exit code 2", 2),
        (["--no-such"], f"srun: unrecognized option '--no-such'\n{ADVICE}", 255),
        (["-o", "/no/such", "x"], f"{NO_OUTPUT}: No such file or directory", 1),
        (["--test-only", "-t", "abc", "x"], "srun: error: Invalid --time specification", 255),
    ],
)  # fmt: skip
async def test_steps_that_cannot_be(
    tmp_path: Path, words: list[str], text: str, status: int
) -> None:
    (tmp_path / "hosts").write_text("n7\n")
    async with job_of(tmp_path) as job:
        done = await job.srun(*words)
        assert ("", text + "\n", status) == (done.stdout, done.stderr, done.returncode)


async def test_a_test_runs_nothing(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        done = await job.srun("--test-only", "sh", "-c", "echo run")
        assert ("", "", 0, []) == (done.stdout, done.stderr, done.returncode, job.lines)


async def test_no_step_begins_in_a_job_that_ends(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        done = await job.srun("true", GRAIN_STEPS="grain-that-is-gone")
        said = [
            "srun: error: Slurm job 12 has expired",
            "srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 12",
            "srun: (Grain) no step begins in a job that ends",
        ]
        assert ("", said, 1) == (done.stdout, done.stderr.splitlines(), done.returncode)


async def test_a_worker_of_another_grain_starts_no_step(tmp_path: Path) -> None:
    async def answer(lines: JsonLines) -> None:
        await lines.receive()
        await lines.send(step=0, ranks=[])

    name, listener = listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, listener, answer)
        done = await JobSite(tmp_path, name).srun("true")
        assert "srun: error: (Grain) Grain was changed since this job's" in done.stderr
        assert (1, 1) == (done.returncode, len(done.stderr.splitlines()))
        nursery.cancel_scope.cancel()


async def test_processes_on_other_members_have_the_variables_of_theirs(tmp_path: Path) -> None:
    rsh = tmp_path / "rsh"
    rsh.write_text(
        '#!/bin/sh\nshift\n[ "$1" = --input ] && shift || exec </dev/null\n'
        'WHERE=$1\nexport WHERE\numask 0\nexec sh -c "$2"\n'
    )
    rsh.chmod(0o700)
    rooms = [MemberRoom((0, 1))] * 3
    async with job_of(tmp_path, *rooms, hosts="n7.site,n8.site,gpu1.site") as job:
        show = "echo ${WHERE:-here} $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID"
        done = await job.srun("-n4", "sh", "-c", show, GRAIN_RSH=str(rsh))
        assert (["here 0 0 0", "here 1 0 1", "m1 2 1 0", "m2 3 2 0"], [], 0) == shown(done)
        show = "umask 027; exec srun -n3 sh -c 'echo ${WHERE:-here} $SLURM_UMASK; umask'"
        done = await job.run("sh", "-c", show, GRAIN_RSH=str(rsh))
        assert (["0027"] * 3 + ["here 0027", "m1 0027", "m2 0027"], [], 0) == shown(done)
        done = await job.srun("-n1", "-w", "gpu1", "sh", "-c", "exit 4", GRAIN_RSH=str(rsh))
        assert ([], ["srun: error: gpu1: task 0: Exited with exit code 4"], 4) == shown(done)
        reads = ["-l", "cat"]
        done = await job.srun("-n3", *reads, GRAIN_RSH=str(rsh), stdin="a\n")
        assert (["0: a", "1: a", "2: a"], [], 0) == shown(done)
        done = await job.srun("-n3", "-i1", *reads, GRAIN_RSH=str(rsh), stdin="a\n")
        assert (["1: a"], [], 0) == shown(done)
        done = await job.srun("-n3", "-i/dev/null", *reads, GRAIN_RSH=str(rsh), stdin="a\n")
        assert ([], [], 0) == shown(done)


@pytest.mark.parametrize("how", ["kill", "from a session of its own"])
async def test_signals_of_the_script_reach_the_processes(tmp_path: Path, how: str) -> None:
    """As of a script that asks its program for a checkpoint before its time is over."""
    async with job_of(tmp_path) as job:
        inner = (
            'trap "echo > warned.$SLURM_PROCID" USR1; trap "echo term; exit 7" TERM; '
            "echo ready > ready.$SLURM_PROCID; while :; do sleep 0.01; done"
        )
        setsid = "" if how == "kill" else "exec setsid "
        script = (
            f"{setsid and '( '}{setsid}srun -n2 sh -c '{inner}'{setsid and ' )'} &\n"
            "while ! [ -s ready.0 -a -s ready.1 ]; do sleep 0.01; done\n"
            "kill -USR1 $!; while ! [ -s warned.0 -a -s warned.1 ]; do sleep 0.01; done\n"
            "kill -TERM $!; wait $!; echo status $?"
        )
        done = await job.run("sh", "-c", script)
        assert "status 7\n" in done.stdout


# It says and does what that of MPICH would.
HYDRA = """\
#!/bin/sh
[ "$1" != --version ] || { echo HYDRA build details; exit; }
printf '%s ' "$@" > words
while [ "$1" != -n ]; do shift; done
count=$2
shift 2
for rank in $(seq 0 $((count - 1))); do PMI_RANK=$rank "$@" || status=$?; done
exit $status
"""


async def test_ranks_are_started_by_the_launcher_of_their_library(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        launcher = tmp_path / "commands/mpiexec.hydra"
        launcher.write_text(HYDRA)
        launcher.chmod(0o700)
        script = "echo $SLURM_PROCID of $SLURM_NTASKS $SLURM_LOCALID; exit 3"
        done = await job.srun("-n2", "--mpi=pmi2", "sh", "-c", script)
        failed = "srun: error: n7: tasks 0-1: Exited with exit code 3"
        assert (["0 of 2 0", "1 of 2 1"], [failed], 3) == shown(done)
        words = (tmp_path / "words").read_text()
        assert words.startswith("-launcher fork -hosts localhost:2 -n 2 ")
        await job.srun("-n2", "--mpi=pmi2", "-o", "of.%t", "sh", "-c", "echo $SLURM_PROCID")
        assert ("0\n", "1\n") == tuple((tmp_path / f"of.{n}").read_text() for n in (0, 1))
        await job.srun("-n2", "--mpi=pmi2", "true", GRAIN_RSH="/no/rsh")
        assert "-hosts m0:2 -n 2" in (tmp_path / "words").read_text()


async def test_a_launcher_that_a_signal_ends_has_not_succeeded(tmp_path: Path) -> None:
    """That of MPICH exits with 0 then."""
    async with job_of(tmp_path) as job:
        launcher = tmp_path / "commands/mpiexec.hydra"
        launcher.write_text(
            '#!/bin/sh\n[ "$1" != --version ] || { echo HYDRA build details; exit; }\n'
            'trap "exit 0" TERM; echo > begun; while :; do sleep 0.01; done\n'
        )
        launcher.chmod(0o700)
        script = (
            "srun -n2 --mpi=pmi2 true & while ! [ -s begun ]; do sleep 0.01; done; kill $!; "
            "wait $!; echo status $?"
        )
        assert "status 143\n" in (await job.run("sh", "-c", script)).stdout
        assert (-15,) == job.lines[-1].statuses


async def test_a_step_that_cannot_begin_or_write_has_failed(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        for source in "/nonexistent", "2":  # there is no such process, so it is a file
            done = await job.srun("-n2", "-i", source, "cat")
            assert "Could not open stdin file" in done.stderr
            assert (1, (1, 1)) == (done.returncode, job.lines[-1].statuses)
        (tmp_path / "data").write_text("kept\n")
        (tmp_path / "0.data").touch()
        (tmp_path / "1.data").hardlink_to(tmp_path / "data")
        for reads in ("-i data", "-i %t.data", "< data", "-l < data"):
            done = await job.run("sh", "-c", f"srun -n2 -o data {reads} cat")
            why = "the program reads it, and that would empty it"
            assert f"srun: error: (Grain) cannot write to {tmp_path}/data: {why}\n" == done.stderr
            assert (1, "kept\n") == (done.returncode, (tmp_path / "data").read_text())
        done = await job.srun("-i", "data", "-o", "data", "--open-mode=append", "head", "-n1")
        assert (0, "kept\nkept\n") == (done.returncode, (tmp_path / "data").read_text())
        full = await job.run("sh", "-c", "srun -l echo x > /dev/full")
        assert "srun: error: output could not be written: No space left on device\n" == full.stderr
        assert 1 == full.returncode
        for option in ("--version", "--help", "--mpi=list"):
            full = await job.run("sh", "-c", f"srun {option} > /dev/full")
            why = "the answer could not be written: No space left on device"
            assert (1, f"srun: error: (Grain) {why}\n") == (full.returncode, full.stderr)
        away = await job.run("sh", "-c", "srun -l seq 100000 | head -1")
        assert ("0: 1\n", True) == (away.stdout, "Traceback" not in away.stderr)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("true", 0),
        ("sh -c 'exit 5'", 5),
        ("nonexistent", 2),
        ("-D /nonexistent true", 0),
        ("--pty true", 0),
        ("--nonsense", 255),
    ],
)
async def test_a_full_standard_error_changes_no_status(
    tmp_path: Path, words: str, status: int
) -> None:
    """The output of a job is one file for both, so what a step says is lost on a full disk."""
    async with job_of(tmp_path) as job:
        done = await job.run("sh", "-c", f"srun -n2 {words} 2> /dev/full")
        assert status == done.returncode
        if status != 255:
            assert (status, status) == job.lines[-1].statuses


async def test_ranks_never_run_as_programs_of_their_own(tmp_path: Path) -> None:
    async with job_of(tmp_path) as job:
        done = await job.srun("-n2", "--mpi=pmix", "true", PATH=f"{tmp_path}/commands")
        assert ("", 1) == (done.stdout, done.returncode)
        assert "this program is linked to MPI: use mpirun" in done.stderr
        # What is not seen to be one finds no server, and ends.
        show = ("sh", "-c", "echo $PMI_PORT $OMPI_MCA_pml")
        assert 4 == (await job.srun("-n2", *show)).stdout.count("Use_mpirun")
        for words in (("-n1",), ("-n2", "--mpi=none")):
            assert not (await job.srun(*words, *show)).stdout.strip()


async def test_an_mpi_program_among_several_is_refused(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("0 true\n1 sh -c true\n")
    ldd = tmp_path / "bin/ldd"
    ldd.parent.mkdir()
    ldd.write_text('#!/bin/sh\ncase $1 in *true) echo "libmpich.so.12 => /x (0x0)";; esac\n')
    ldd.chmod(0o700)
    async with job_of(tmp_path) as job:
        path = f"{ldd.parent}:{os.environ['PATH']}"
        done = await job.run(
            "sh", "-c", f"PATH={path} {tmp_path}/commands/srun -n2 --multi-prog conf"
        )
        assert ("", 1) == (done.stdout, done.returncode)
        assert "true: this program is linked to MPI: use mpirun" in done.stderr


READY = "echo > ready-$SLURM_PROCID"
FIRST = ["srun: interrupt (one more within 1 sec to abort)", "srun: StepId=12.0 tasks 0-1: running"]
SECOND = "srun: sending Ctrl-C to StepId=12.0"
ABORTED = [
    "srun: forcing job termination",
    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
]
ENDS = "srun: error: n7: tasks 0-1: "
CANCELLED = "slurmstepd-n7: error: *** STEP 12.0 ON n7 CANCELLED"
# An interpreter that counts no seconds: neither between two Ctrl-C nor between ends of processes.
IN_NO_TIME = (
    "import os, sys; from grain.cli.slurm.in_job import ends, step; ends._AGAIN = 600.0; "
    "sys.exit(step.run_step(sys.argv[1:], os.environ, gather=600.0))"
)
# A script that starts srun, waits for its processes, and sends signals, each when the one before
# was answered.
SENDS = """
"$@" 2> said & srun=$!
until [ -s ready-0 ] && [ -s ready-1 ]; do sleep 0.01; done
for one in $SIGNALS; do
    kill -$one $srun
    if [ $one = INT ]; then until grep -q "interrupt\\|Ctrl-C" said; do sleep 0.01; done; fi
done
wait $srun
"""


@pytest.mark.parametrize(
    ("signals", "words", "lines", "status"),
    [
        ("INT INT", [], [*FIRST, SECOND, *ABORTED], 130),
        ("INT", ["--quit-on-interrupt"], [SECOND, *ABORTED], 130),
        ("INT", ["-X"], [SECOND, f"{ENDS}Interrupt"], 130),
        ("TERM", [], [*ABORTED, CANCELLED, f"{ENDS}Terminated"], 143),
        ("TERM", ["-Q"], [CANCELLED, f"{ENDS}Terminated"], 143),
        ("HUP", [], [*ABORTED, CANCELLED, f"{ENDS}Hangup"], 129),
        ("QUIT", [], ["srun: Quit", *ABORTED, CANCELLED, f"{ENDS}Quit"], 131),
        ("USR2", [], [f"{ENDS}User defined signal 2"], 140),
    ],
)
async def test_signals_to_srun_do_what_they_do_under_slurm(
    tmp_path: Path, signals: str, words: list[str], lines: list[str], status: int
) -> None:
    async with job_of(tmp_path) as job:
        command = [sys.executable, "-c", IN_NO_TIME, "-n2", *words, "sh", "-c"]
        done = await job.run(
            "sh", "-c", SENDS, "sh", *command, f"{READY}; exec sleep 600", SIGNALS=signals
        )
        said = (tmp_path / "said").read_text().splitlines()
        assert lines == [re.split(r" AT | \(core", line)[0] for line in said]
        assert status == done.returncode
        forced = "-Q" in words or "srun: forcing job termination" in lines
        assert "CANCELLED" * forced == job.lines[-1].state


async def test_one_interrupt_shows_the_states_of_processes(tmp_path: Path) -> None:
    script = """
        srun -n3 sh -c 'test $SLURM_PROCID != 1 || exit 3; test $SLURM_PROCID = 0 || exit 0
            until grep -q abnormally said; do sleep 0.01; done' 2> said & srun=$!
        until grep -q Exited said; do sleep 0.01; done
        kill -INT $srun; wait $srun
    """
    async with job_of(tmp_path, MemberRoom((0, 1, 2))) as job:
        done = await job.run("sh", "-c", script)
        failed, interrupt, running, *ended = (tmp_path / "said").read_text().splitlines()
        assert "srun: error: n7: task 1: Exited with exit code 3" == failed
        assert FIRST[0] == interrupt
        assert re.fullmatch("srun: StepId=12.0 tasks? 0(,2)?: running", running)
        assert "srun: StepId=12.0 task 1: exited abnormally" == ended[0]
        assert 3 == done.returncode


async def test_ends_of_processes_of_a_node_are_told_in_one_line(tmp_path: Path) -> None:
    # The second one ends when srun has seen the end of the first.
    script = """
        test $SLURM_PROCID = 1 || { echo $$ > first; exit 4; }
        until [ -s first ]; do sleep 0.01; done
        while [ -d /proc/$(cat first) ]; do sleep 0.01; done
        exit 4
    """
    async with job_of(tmp_path) as job:
        done = await job.run(sys.executable, "-c", IN_NO_TIME, "-n2", "sh", "-c", script)
        assert ([], [f"{ENDS}Exited with exit code 4"], 4) == shown(done)


async def test_a_step_that_waits_is_cancelled_by_a_signal(tmp_path: Path) -> None:
    script = """
        srun sh -c 'echo > ready-0; until [ -e end ]; do sleep 0.01; done' &
        until [ -s ready-0 ]; do sleep 0.01; done
        srun true 2> said & srun=$!
        until grep -q disabled said; do sleep 0.01; done
        kill -TERM $srun; wait $srun; status=$?; echo > end; wait; exit $status
    """
    async with job_of(tmp_path) as job:
        done = await job.run("sh", "-c", script)
        assert (tmp_path / "said").read_text().splitlines()[1:] == [
            "srun: Cancelled pending job step with signal 15",
            f"{NO_STEP}: Job/step already completing or completed",
        ]
        assert 1 == done.returncode
