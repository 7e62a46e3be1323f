"""Workers on the nodes of a job: commands in place of the launchers, and real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from grain.edge.invitation import accept, invite
from grain.files.trust import python_command
from grain.worker.launch.launcher import _Launch, _Start, _starts, _written
from grain.worker.launch.part import CODEC, NodePart, SignalReceived
from grain.worker.launch.starter import StartOrder
from grain_testkit.local_processes import process_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grain.edge.invitation import Visit

# Each runs its words here, with the environment that a batch system gives to them. srun starts all,
# passes its own environment on, and kills all of them when it gets SIGTERM.
REMOTE = """\
#!/bin/sh
echo "$0 $*" >>"$CALLS"
shell={shell}
while [ "${{1#-}}" != "$1" ]; do
    [ "$1" != -noshell ] || shell=
    shift
done
host=$1; shift
[ ! "$shell" ] || set -- "$shell" -c "$*"
exec env -i HOME="$HOME" XDG_STATE_HOME="$XDG_STATE_HOME" NODE="$host" {variables} "$@"
"""
SRUN = """\
#!/bin/bash
echo "$0 $*" >>"$CALLS"
while [ "${1#--}" != "$1" ]; do shift; done
trap 'kill -KILL $all' TERM
for SLURM_PROCID in 0 1; do
    export SLURM_PROCID
    "$@" & all="$all $!"
done
status=0
for pid in $all; do
    wait $pid || status=$?
done
exit $status
"""
SYSTEMS = {
    "slurm": {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"},
    "pbs": {"PBS_JOBID": "7.server", "PBS_NODEFILE": "{folder}/nodes"},
    "torque": {"PBS_JOBID": "7.server", "PBS_NODEFILE": "{folder}/nodes"},
    "sge": {"JOB_ID": "7", "SGE_JOB_SPOOL_DIR": "/x", "PE_HOSTFILE": "{folder}/hosts"},
}
COMMANDS = {
    "slurm": ("srun", SRUN),
    "pbs": ("pbs_tmrsh", REMOTE.format(shell="", variables="PBS_JOBID=$PBS_JOBID")),
    "torque": ("pbsdsh", REMOTE.format(shell="", variables="PBS_JOBID=$PBS_JOBID")),
    # As Grid Engine has it, the user's shell takes the words apart, unless there is to be none.
    "sge": ("qrsh", REMOTE.format(shell="sh", variables="JOB_ID=$JOB_ID")),
}


class Job:
    """A job of two nodes, both of which are here."""

    def __init__(self, system: str, folder: Path) -> None:
        name, text = COMMANDS[system]
        (folder / "bin").mkdir()
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
        (folder / "nodes").write_text("n1\nn1\nn2\n")
        (folder / "hosts").write_text("n1 1 main.q@n1 UNDEFINED\nn2 1 main.q@n2 UNDEFINED\n")
        self.folder = folder
        self.log = folder / "w1.log"
        self.state = folder / "it's a $state"
        environment = {
            "HOME": str(folder),
            "XDG_STATE_HOME": str(self.state),
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "CALLS": str(folder / "calls"),
            "FROM_SETUP": "it's set",
            **{k: v.format(folder=folder) for k, v in SYSTEMS[system].items()},
        }
        if "PYTHONPATH" in os.environ:
            environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
        words = [
            *python_command("grain.worker"), "--nodes", "2", "--log", str(self.log),
            "--url", f"edge://{folder}/edge", "--name", "w1", "--res", '{"Cores": 1}',
        ]  # fmt: skip
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                words, cwd=folder, env=environment, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def text(self, index: int | None = None) -> str:
        file = self.log if index is None else self.folder / f"w1.{index}.log"
        return file.read_text() if file.exists() else ""

    def until(self, done: Callable[[], object]) -> None:
        """Wait for something that the processes do."""
        deadline = time.monotonic() + 120
        while not done():
            assert time.monotonic() < deadline, [self.text(one) for one in (None, 0, 1)]
            time.sleep(0.05)

    def work(self) -> None:
        """Wait until both workers are there, and connected to the launching process."""

        def offered() -> bool:
            assert "has ended with status" not in self.text(), self.text()
            return all(f"this worker, w1.{n}, offers" in self.text(n) for n in (0, 1))

        self.until(offered)
        self.until(lambda: all(len(self.connections(self.pid(index))) for index in (0, 1)))

    def pid(self, index: int) -> int:
        """Return the process of a worker: what it starts has other command lines.

        Raises:
            ValueError: it has ended.
        """
        log = str(self.folder / f"w1.{index}.log")
        found = []
        for process in process_folders():
            with suppress(OSError):  # it has ended since
                if (
                    b"--nodes" in (process / "cmdline").read_bytes()
                    and str((process / "fd/1").readlink()) == log
                ):
                    found.append(int(process.name))
        # A process that it is just starting looks like it until it has a program of its own.
        parents = {}
        for one in found:
            with suppress(OSError):
                status = Path(f"/proc/{one}/stat").read_text().rpartition(") ")[2]
                parents[one] = int(status.split()[1])
        [pid] = [one for one, parent in parents.items() if parent not in found]
        return pid

    @staticmethod
    def connections(pid: int) -> list[str]:
        """Return the TCP connections of a process."""
        table = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
        inodes = {line.split()[9] for line in table if line.split()[3] == "01"}
        found = []
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # it has closed that since
                link = str(fd.readlink())
                if link.removeprefix("socket:[")[:-1] in inodes:
                    found.append(link)
        return found

    def environment(self, index: int) -> dict[str, str]:
        raw = Path(f"/proc/{self.pid(index)}/environ").read_bytes()
        return dict(one.split("=", 1) for one in os.fsdecode(raw).split("\0") if "=" in one)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Job]]:
    jobs: list[Job] = []

    def start(system: str) -> Job:
        jobs.append(Job(system, tmp_path))
        return jobs[-1]

    yield start
    for job in jobs:
        if job.process.returncode is None:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_node_has_a_worker_with_a_name_and_a_log_and_gets_the_signals_of_the_job(
    system: str, start: Callable[[str], Job]
) -> None:
    """Also where the launcher of the batch system passes no signal on, or kills all upon one."""
    job = start(system)
    job.work()
    variables = job.environment(1)
    job.process.send_signal(signal.SIGUSR1)
    job.until(lambda: all("SIGUSR1 received" in job.text(index) for index in (0, 1)))

    assert 0 == job.process.wait(60), job.text()
    assert "it's set" == variables["FROM_SETUP"]
    assert all(text.endswith("this worker has ended\n") for text in (job.text(0), job.text(1)))
    assert 0o600 == (job.folder / "w1.1.log").stat().st_mode & 0o777
    assert [] == list((job.state / "grain").glob("nodes/*"))


@pytest.mark.parametrize("system", ["slurm", "pbs"])
def test_sigterm_reaches_all_workers_before_anything_kills_them(
    system: str, start: Callable[[str], Job]
) -> None:
    job = start(system)
    job.work()

    job.process.send_signal(signal.SIGTERM)

    assert 0 == job.process.wait(60), job.text()
    assert all("SIGTERM received" in job.text(index) for index in (0, 1))
    assert all(job.text(index).endswith("this worker has ended\n") for index in (0, 1))


def test_the_end_of_one_worker_is_not_the_end_of_others(start: Callable[[str], Job]) -> None:
    job = start("sge")
    job.work()

    os.kill(job.pid(1), signal.SIGKILL)
    job.until(lambda: "has ended with status 137" in job.text())
    alive = job.process.poll() is None and "has ended" not in job.text(0)
    job.process.send_signal(signal.SIGTERM)

    assert alive
    assert 137 == job.process.wait(60)
    assert job.text(0).endswith("this worker has ended\n")


def test_slots_and_directory_of_a_node_are_those_of_the_batch_system(
    start: Callable[[str], Job],
) -> None:
    """The first node is this one. It needs no launcher, which may have no task left for it."""
    job = start("sge")
    job.work()

    assert ["1", "1"] == [job.environment(index)["NSLOTS"] for index in (0, 1)]
    assert job.folder == Path(f"/proc/{job.pid(1)}/cwd").readlink()
    assert "-inherit -nostdin -noshell n2 " in (job.folder / "calls").read_text()
    assert " n1 " not in (job.folder / "calls").read_text()


def test_a_process_outside_of_a_job_says_where_it_belongs(tmp_path: Path) -> None:
    words = [*python_command("grain.worker"), "--nodes", "2"]
    environment = {"HOME": str(tmp_path), "LSB_JOBID": "7"}

    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    assert 2 == done.returncode
    assert "in a job of Slurm, PBS or Grid Engine, and this is a job of lsf" in done.stderr


def test_a_job_that_does_not_tell_its_nodes_is_refused_in_one_line(tmp_path: Path) -> None:
    environ = {**os.environ, "PBS_JOBID": "7.server", "XDG_STATE_HOME": str(tmp_path)}
    environ.pop("PBS_NODEFILE", None)
    words = [*python_command("grain.worker"), "--nodes", "2", "--url", "edge:///nowhere"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)

    assert (2, 1) == (done.returncode, len(done.stderr.splitlines())), done.stderr
    assert "grain-worker: --nodes needs the nodes of the job, and PBS_NODEFILE" in done.stderr


async def test_a_worker_that_connects_later_gets_the_signals_that_came_before() -> None:
    ours = _Launch()
    async with invite(CODEC) as door, trio.open_nursery() as nursery:
        nursery.start_soon(ours.serve, door)
        nursery.start_soon(ours.serve, door)
        async with accept(door.invitation, CODEC) as early:
            while not ours._channels:
                await trio.sleep(0.01)
            ours.on_signal(signal.SIGUSR1)
            assert [SignalReceived(signal.SIGUSR1)] == await heard(early)
            ours.on_signal(signal.SIGTERM)
            assert [SignalReceived(signal.SIGTERM)] == await heard(early)
            async with accept(door.invitation, CODEC) as late:
                while len(ours._channels) < 2:
                    await trio.sleep(0.01)
                ours.on_signal(signal.SIGINT)
                found: list[object] = []
                while SignalReceived(signal.SIGINT) not in found:
                    found += await heard(late)
                signals = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)
                assert [SignalReceived(number) for number in signals] == found
        nursery.cancel_scope.cancel()


async def test_a_worker_that_lost_its_script_connects_again_and_gets_each_signal_once() -> None:
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
    with trio.open_signal_receiver(*numbers) as signals:
        async with invite(CODEC) as door, trio.open_nursery() as nursery:
            nursery.start_soon(NodePart(door.invitation, "", 0).obey)
            for count, number in enumerate(numbers, 1):
                async with door.guest() as channel:
                    channel.post([(SignalReceived(one), None) for one in numbers[:count]])
                    assert number == await anext(signals)
            nursery.cancel_scope.cancel()


async def heard(visit: Visit) -> list[object]:
    return [message for message, _ in await visit.channel.receive()]


def test_the_order_for_the_nodes_is_for_its_owner_only_and_those_of_killed_jobs_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    order = StartOrder(["--res", "{}"], "/", {"TOKEN": "secret"}, [1], b"invitation", "")
    before = os.umask(0)
    try:
        with _written(order) as path:
            assert 0o600 == path.stat().st_mode & 0o777
            names = [f"{letter * 24}.json" for letter in "ab"]
            for name, hours in zip(names, (23.9, 24.1), strict=True):
                at = time.time() - hours * 3600.0
                (path.parent / name).touch(mode=0o600)
                os.utime(path.parent / name, (at, at))
            with _written(order) as other:
                assert {names[0], path.name, other.name} == set(os.listdir(path.parent))
    finally:
        os.umask(before)
    assert not path.exists()


async def test_the_status_of_a_launch_is_the_largest_and_a_killed_launcher_has_failed() -> None:
    ours, statuses = _Launch(), []
    for script in ("exit 3", "exit 2", "kill -9 $$"):
        await ours.run(_Start("a worker", ["sh", "-c", script], os.environ))
        statuses.append(ours.status)
    await ours.run(_Start("a worker", ["/no/such/launcher"], os.environ))
    assert [3, 3, 137] == statuses
    assert 137 == ours.status


@pytest.mark.parametrize(
    ("variables", "log"),
    [
        ({"PBS_JOBID": "1.a", "PBS_NODEFILE": "n1\n"}, "asked for"),  # moved there at the end
        ({"SGE_JOB_SPOOL_DIR": "/spool", "PE_HOSTFILE": "n1 1 all.q\n"}, "/out"),
    ],
)
def test_workers_are_told_where_the_output_of_their_job_will_be(
    variables: dict[str, str], log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("grain.worker.launch.launcher._own_output", lambda: "/out")
    (tmp_path / "nodes").write_text(list(variables.values())[-1])
    environ = {**variables, list(variables)[-1]: str(tmp_path / "nodes"), "PATH": "/bin"}
    with _starts([], 1, "asked for", b"", environ) as [start]:
        order = Path(start.argv[-2]).read_bytes()
    assert log == msgspec.json.decode(order, type=StartOrder).log
