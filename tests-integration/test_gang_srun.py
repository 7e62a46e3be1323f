"""Ranks that srun starts on all members of a gang: a command in its place, and a real Slurm.

All members are on this host, each with another name in Slurm.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import trio
from fake_batch.start import Missing, real
from gang_hosts import Calls

from grain.worker.gang.door import RankDoor
from grain.worker.processes.mpi import EDGE, SlurmPlace, over_members
from grain_testkit.kept import Kept
from grain_testkit.local_processes import process_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = str(Path(__file__).with_name("gang_program.py"))
PATIENCE = 120.0
"""Seconds for what must happen at all."""

# It has another process start tasks, as Slurm's daemons do: so they are not below it.
SRUN = """\
#!{python} -SEs
import json, os, signal, sys, time
words = sys.argv[1:]
options = dict(w[2:].partition("=")[::2] for w in words if w.startswith("--"))
start = words[len([w for w in words if w.startswith("--")]):]
each, nodes = int(options["ntasks-per-node"]), options["nodelist"].split(",")
assert int(options["ntasks"]) == each * len(nodes) and options["jobid"] == "7", options
step = "{folder}/step"
signal.signal(signal.SIGTERM, lambda *_: open(step + ".cancelled", "w").close())
with open(step + ".new", "w") as file:
    json.dump([start, nodes, each, dict(os.environ), os.getcwd()], file)
os.rename(step + ".new", step)
while not os.path.exists(step + ".ended"):
    time.sleep(0.02)
sys.stdout.write(open(step + ".out").read())
sys.exit(int(open(step + ".ended").read()))
"""


class Slurmd(threading.Thread):
    """The daemons of Slurm, for one step: they start tasks, with a file and variables."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._step = folder / "step"
        self.tasks: list[subprocess.Popen[bytes]] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self._step.exists():
            if self.over.wait(0.02):
                return
        start, nodes, each, environment, cwd = json.loads(self._step.read_text())
        with self._named("out").open("ab") as out:
            for rank in range(each * len(nodes)):
                read, write = os.pipe()
                os.write(write, b"from Slurm\n")
                os.close(write)
                own = {
                    "SLURMD_NODENAME": nodes[rank // each], "SLURM_PROCID": str(rank),
                    "SLURM_LOCALID": str(rank % each), "PMI_FD": str(read),
                }  # fmt: skip
                self.tasks.append(
                    subprocess.Popen(
                        start, env={**environment, **own}, cwd=cwd, pass_fds=[read],
                        stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                    )
                )  # fmt: skip
                os.close(read)
        while any(task.poll() is None for task in self.tasks):
            if self._named("cancelled").exists():
                self.end()
            self.over.wait(0.02)
        codes = [task.wait() for task in self.tasks]
        aside = self._named("aside")
        aside.write_text(str(max(code if code >= 0 else 128 - code for code in codes)))
        aside.rename(self._named("ended"))

    def _named(self, what: str) -> Path:
        return self._step.with_name(f"step.{what}")

    def end(self) -> None:
        for task in self.tasks:
            task.kill()


class Gang:
    """A gang of two members, with the same two CPUs, in one job of a Slurm that is a command."""

    def __init__(self, folder: Path) -> None:
        self._mark = f"GANG_TEST={folder}"
        self.processes = [
            subprocess.Popen(
                [sys.executable, PROGRAM, command, str(folder / "seat1")],
                env={
                    **os.environ,
                    "GANG_CPUS": json.dumps([0, 1]),
                    "GANG_SILENCE": "20",
                    "GANG_LAUNCHER": "calls",
                    "GANG_TEST": str(folder),
                    "GANG_LEFT": "yes",
                    "SLURM_JOB_ID": "7",
                    "SLURMD_NODENAME": f"n{index}",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for index, command in enumerate(["root", "seat"])
        ]
        self.calls = Calls(self.processes[0])

    def pids(self, word: str, at: int = 0) -> list[int]:
        """Return the processes of this gang whose command line has a word at a place."""
        found = []
        for entry in process_folders():
            with suppress(OSError):
                variables = os.fsdecode((entry / "environ").read_bytes()).split("\0")
                words = os.fsdecode((entry / "cmdline").read_bytes()).split("\0")
                if self._mark in variables and words[at : at + 1] == [word]:
                    found.append(int(entry.name))
        return found

    def wait_for(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    @property
    def is_whole(self) -> bool:
        return self.calls.are_over and all(process.poll() is None for process in self.processes)


@contextmanager
def new_gang() -> Iterator[Gang]:
    """Start a gang; it ends with the block."""
    with TemporaryDirectory() as folder:
        gang = Gang(Path(folder))
        try:
            yield gang
        finally:
            for process in gang.processes:
                process.kill()
                process.communicate()


@pytest.fixture(scope="module")
def gangs() -> Iterator[Kept[Gang]]:
    with closing(Kept(new_gang, lambda gang: gang.is_whole)) as kept:
        yield kept


class Srun:
    """A call of a program by srun, and the daemons that start its tasks."""

    def __init__(self, folder: Path, gang: Gang, *words: str, limit: str = "") -> None:
        srun = folder / "srun"
        srun.write_text(SRUN.format(python=sys.executable, folder=folder))
        srun.chmod(0o755)
        self.name = str(srun)
        self.slurmd = Slurmd(folder)
        self.slurmd.start()
        self.gang = gang
        gang.calls.begin(*words, launcher=f"srun:{srun}", limit=limit)

    def close(self) -> None:
        self.slurmd.over.set()
        self.slurmd.end()
        self.slurmd.join()


@pytest.fixture
def start(tmp_path: Path, gangs: Kept[Gang]) -> Iterator[Callable[..., Srun]]:
    with ExitStack() as ends:

        def start(*words: str, limit: str = "") -> Srun:
            return ends.enter_context(closing(Srun(tmp_path, gangs.get(), *words, limit=limit)))

        yield start


TWO_CPUS = pytest.mark.skipif(not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1")
pytestmark = TWO_CPUS


def test_each_rank_has_the_cpus_of_its_member_and_the_files_and_variables_of_slurm(
    start: Callable[..., Srun],
) -> None:
    cpus = "$(taskset -cp $$ | sed 's/.*: //')"
    from_slurm = "$(cat /dev/fd/$PMI_FD)"
    hello = f"echo rank $SLURM_PROCID $SLURMD_NODENAME {cpus} {from_slurm} $OMP_NUM_THREADS $PWD"
    step = start("sh", "-c", hello)

    printed = step.gang.calls.ended()

    ranks = sorted(line for line in printed.splitlines() if line.startswith("rank"))
    rest = f"from Slurm 1 {Path.cwd()}"
    assert [f"rank {n} n{n // 2} {n % 2} {rest}" for n in range(4)] == ranks, printed
    assert printed.startswith("0\n")


def test_nothing_is_left_when_a_call_reaches_its_time_limit(start: Callable[..., Srun]) -> None:
    step = start("sleep", "777", limit="4")

    printed = step.gang.calls.ended()

    assert printed.startswith("ExternalTimeoutError: ")
    assert printed.endswith(", left: []")


def test_a_killed_srun_leaves_no_rank_whatever_becomes_of_what_it_has_started(
    start: Callable[..., Srun],
) -> None:
    """Slurm would end these, too, some time later; the ranks are the members'."""
    step = start("sh", "-c", "trap '' TERM; while :; do sleep 1; done", "777")
    step.gang.wait_for(lambda: len(step.gang.pids("sh")) == 4)

    [srun] = step.gang.pids(step.name, at=2)  # behind the interpreter and its option
    os.kill(srun, signal.SIGKILL)

    assert step.gang.calls.ended() == "-9\n, left: []"


def test_a_rank_ends_with_what_stands_in_for_it(start: Callable[..., Srun]) -> None:
    """By which srun, and Slurm, end ranks; others go on."""
    step = start("sleep", "777")
    step.gang.wait_for(lambda: len(step.gang.pids("sleep")) == 4)

    step.slurmd.tasks[0].terminate()
    step.gang.wait_for(lambda: len(step.gang.pids("sleep")) == 3)
    step.slurmd.end()

    assert step.gang.calls.ended().startswith("143")
    assert [] == step.gang.pids("sleep")


@pytest.mark.parametrize(
    ("program", "status"), [("exit 7", 7), ("kill -SEGV $$", 139), ("exec /no/such", 127)]
)
def test_the_status_of_a_rank_is_that_of_its_task_in_slurm(
    start: Callable[..., Srun], program: str, status: int
) -> None:
    step = start("sh", "-c", f"[ $SLURM_PROCID = 1 ] || exit 0; {program}")

    assert step.gang.calls.ended().startswith(f"{status}\n")


async def test_a_rank_whose_call_has_ended_is_not_started(tmp_path: Path) -> None:
    """srun may still start some when it has been ended itself."""
    async with trio.open_nursery() as nursery:
        door = RankDoor(nursery)
        nursery.start_soon(door.serve)
        await door.end_call(5)
        [early, late] = [
            await trio.run_process(
                [sys.executable, "-SEs", _STAND_IN, EDGE, "1", "1", "touch", str(tmp_path / call)],
                env={
                    "GRAIN_GANG_DOORS": json.dumps({"n1": door.name}),
                    "GRAIN_GANG_CALL": call,
                    "SLURMD_NODENAME": "n1",
                    "PATH": "/usr/bin:/bin",
                },
                check=False,
                capture_stderr=True,
            )
            for call in ("6", "5")
        ]
        nursery.cancel_scope.cancel()

    assert (0, 255) == (early.returncode, late.returncode)
    assert b"the program that asked for it has ended" in late.stderr
    assert ["6"] == [path.name for path in tmp_path.iterdir()]


_STAND_IN = str(Path(sys.modules[RankDoor.__module__].__file__ or "").with_name("srun.py"))


@pytest.mark.parametrize("jobs", [("7", "8"), ("", ""), ("7", "")])
def test_members_of_several_jobs_are_refused_with_what_to_ask_for(jobs: tuple[str, ...]) -> None:
    places = {at: SlurmPlace(job, f"n{at}", "door") for at, job in enumerate(jobs)}
    gang = SimpleNamespace(cpus=[2, 2], places=places, uses_doors=False)

    with pytest.raises(ValueError, match=r"nodes of one job of Slurm.*same=.job."):
        over_members("srun", gang, 1, None)


def test_srun_is_told_all_that_the_step_of_the_worker_might_say_otherwise() -> None:
    places = {at: SlurmPlace("7", f"n{at}", f"door{at}") for at in (0, 1)}
    gang = SimpleNamespace(cpus=[4, 4], places=places, uses_doors=False)

    words = over_members("srun", gang, 2, None, "pmi2")

    assert words[:3] == ["env", 'GRAIN_GANG_DOORS={"n0": "door0", "n1": "door1"}', "srun"]
    assert {
        "--jobid=7", "--overlap", "--nodes=2", "--nodelist=n0,n1", "--ntasks=4",
        "--ntasks-per-node=2", "--cpus-per-task=2", "--cpu-bind=none", "--mpi=pmi2",
    } <= set(words)  # fmt: skip
    assert gang.uses_doors


SITE = """\
system = "slurm"
address = "edge://{folder}/edge"
[head.gnaw]
enabled = false
[worker.env]
PYTHONPATH = "{path}"
[script]
nodes = 2
cores = 2
memory = 1
walltime = "00:05:00"
"""
HELLO = """\
#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) {
    int rank, size, sum;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d, sum %d\\n", rank, size, sum);
    MPI_Finalize();
    return 0;
}
"""
MISSION = """\
from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Cores, gang
from grain.worker.external import mpi_prefix, run_external

@delayed
async def hello():
    prefix = mpi_prefix("srun", pmi="pmi2")
    done = await run_external([*prefix, "{folder}/hello"], threads=1, timeout=100)
    print(done.stdout_text)
    return sorted(done.stdout_text.splitlines()), sorted(node.name for node in GVAR.res.nodes)

async def main():
    print(await (hello @ gang(2, Cores(2), same="job"))())

run(main)
"""


@pytest.mark.nightly
@pytest.mark.skipif(not which("mpicc.mpich"), reason="MPICH is not installed")
def test_one_job_of_a_real_slurm_has_a_worker_on_each_node_and_ranks_of_mpich_by_srun(
    tmp_path: Path,
) -> None:
    """`grain up` makes it, a gang of one job finds it, and its script ends all workers."""
    (tmp_path / "hello.c").write_text(HELLO)
    subprocess.run(["mpicc.mpich", "-o", tmp_path / "hello", tmp_path / "hello.c"], check=True)
    path = os.pathsep.join(one for one in sys.path if one)
    (tmp_path / "grain.toml").write_text(SITE.format(folder=tmp_path, path=path))
    (tmp_path / "mission.py").write_text(MISSION.format(folder=tmp_path))
    try:
        with real("--kill-wait=20") as slurm:
            own = {
                **slurm.env, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"),
                "PYTHONPATH": path,
                "PATH": f"{Path(sys.executable).parent}:{slurm.env['PATH']}",
            }  # fmt: skip

            def run(*words: str) -> str:
                done = subprocess.run(
                    words, cwd=tmp_path, env=own, text=True, capture_output=True, check=False,
                    timeout=PATIENCE,
                )  # fmt: skip
                assert 0 == done.returncode, done
                return done.stdout

            said = run(sys.executable, "-m", "grain.cli", "up")
            printed = run(sys.executable, "mission.py")
            name, job = said.split()[0], said.split()[3]
            run("scancel", job)
            logs = [tmp_path / f"{name}.{index}.log" for index in (0, 1)]
            deadline = time.monotonic() + PATIENCE
            while not all("this worker has ended" in log.read_text() for log in logs):
                assert time.monotonic() < deadline, [log.read_text() for log in logs]
                time.sleep(0.1)
    except Missing as missing:
        pytest.skip(str(missing))

    assert f"job {job} with 2 workers" in said
    ranks = [f"rank {rank} of 4, sum 6" for rank in range(4)]
    assert f"({ranks}, ['{name}.0', '{name}.1'])" in printed
    assert all("SIGTERM received" in log.read_text() for log in logs)


STEPS = """
import os, sys
import trio
from grain import GVAR
from grain.resource import Cores
from grain.worker.external import run_external

# Each step waits for the other one.
SHOW = "touch $0; until [ -e $1 ]; do sleep 0.1; done; grep Cpus_allowed_list /proc/self/status"

async def task(cpu, own, other):
    words = ["srun", "-n", "1", "sh", "-c", SHOW, own, other]
    with GVAR.scope(Cores([cpu])):
        print(own, (await run_external(words, timeout=60)).stdout_text.split()[1])

async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task, 0, "first", "second")
        nursery.start_soon(task, 1, "second", "first")

trio.run(main)
"""


@pytest.mark.nightly
@TWO_CPUS
def test_srun_in_two_tasks_of_a_worker_starts_steps_side_by_side_on_their_cpus(
    tmp_path: Path,
) -> None:
    """The worker is in a step itself, which has all CPUs of the job."""
    (tmp_path / "steps.py").write_text(STEPS)
    try:
        with real("-n", "1", "-c", "2", "--task", "affinity") as slurm:
            path = os.pathsep.join(one for one in sys.path if one)
            words = ["srun", "-n", "1", "-c", "2", sys.executable, "steps.py"]
            done = subprocess.run(
                words, cwd=tmp_path, env={**slurm.env, "PYTHONPATH": path}, text=True,
                capture_output=True, check=False, timeout=PATIENCE,
            )  # fmt: skip
    except Missing as missing:
        pytest.skip(str(missing))

    assert ["first 0", "second 1"] == sorted(done.stdout.splitlines()), done.stderr
