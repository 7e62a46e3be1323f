"""Jobs on several workers, with a real dispatcher and real workers on one host."""

from __future__ import annotations

import csv
import re
import sys
from contextlib import ExitStack, closing, contextmanager
from copy import copy
from pathlib import Path
from shutil import which
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site
from test_queue import Jobs
from test_speaking_slurm import Tool

from grain.cli.jobs.client import QueueClient
from grain.queue.folder import Queue
from grain_testkit.kept import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Cluster:
    """A scheduler and three workers with two cores each, of which the machine may have fewer."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self.jobs = Jobs(Site(folder))
        self.jobs.site.environ |= AS_ROOT
        self.tool = Tool(self.jobs)
        site = self.jobs.site
        resources = {"Cores": 2, "Memory": 1}
        self._processes = [
            ends.enter_context(site.gnaw()),
            *(ends.enter_context(site.worker(name, **resources)) for name in "abc"),
        ]
        trio.run(self.tool.start)

    @property
    def is_whole(self) -> bool:
        """True if it may serve another test."""
        return all(process.poll() is None for process in self._processes) and trio.run(self._idle)

    async def _idle(self) -> bool:
        # A job has ended a moment before the scheduler knows; one that a test has left does not.
        with trio.move_on_after(20):
            await self.jobs.site.until(lambda s: not s["tasks"]["running"] + s["tasks"]["waiting"])
            return True
        return False


@contextmanager
def new_cluster(folder: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        cluster = Cluster(folder, ends)
        yield cluster
        if cluster.jobs.folder.exists():
            trio.run(cluster.jobs.grain, "queue", "stop")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept[Cluster]]:
    def new() -> AbstractContextManager[Cluster]:
        return new_cluster(tmp_path_factory.mktemp("cluster"))

    with closing(Kept(new, lambda cluster: cluster.is_whole)) as kept:
        yield kept


@pytest.fixture
def tool(clusters: Kept[Cluster]) -> Tool:
    """The commands, in a folder of the test."""
    tool = copy(clusters.get().tool)
    tool.folder = Path(mkdtemp(dir=tool.folder))
    return tool


@pytest.mark.parametrize("mpirun", ["mpirun.openmpi", "mpiexec.mpich"])
async def test_mpirun_in_a_script_starts_ranks_on_all_nodes(tool: Tool, mpirun: str) -> None:
    if which(mpirun) is None:
        pytest.skip("it is not installed")
    with trio.fail_after(300):
        number = await tool.submit(
            "-N", "3", "-n", "6", "-o", "out",
            script=f"{mpirun} sh -c 'echo rank ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}"
            " $OMP_NUM_THREADS'",
        )  # fmt: skip
        await until(tool, number, "CD")

    # On a busy machine, Open MPI warns of a race of its own.
    ranks = [line for line in tool.text("out").splitlines() if line.startswith("rank")]
    assert [f"rank {rank} 1" for rank in range(6)] == sorted(ranks)


async def test_srun_in_a_script_starts_processes_on_all_nodes(tool: Tool) -> None:
    script = """
echo $SLURM_NNODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_JOB_CPUS_PER_NODE
scontrol show hostnames $SLURM_JOB_NODELIST | wc -l
srun -l sh -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_STEP_TASKS_PER_NODE'
srun -N1 -n1 sh -c 'echo at $SLURM_LAUNCH_NODE_IPADDR'
printf 'a\\nb\\n' | srun -l wc -l
srun -n 3 sh -c 'echo err >&2; test $SLURM_NODEID != 2 || exit 5'
echo status $?
"""
    with trio.fail_after(300):
        number = await tool.submit("-N", "3", "-n", "6", "-o", "out", "-e", "err", script=script)
        await until(tool, number, "CD")
        facts = "NNodes,AllocNodes,NCPUS,NTasks,AllocTRES"
        account = await tool.call("sacct", "-nPX", "-j", number, "-o", facts)
    first, count, *labelled, status = tool.text("out").splitlines()

    assert ("3 6 2(x3) 2(x3)", "3", "status 5") == (first, count, status)
    expected = [f"{rank}: {rank} {rank // 2} {rank % 2} 2(x3)" for rank in range(6)]
    expected += [f"{rank}: 2" for rank in range(6)]  # each has read the two lines
    [address] = (line for line in labelled if line.startswith("at "))
    assert re.fullmatch(r"at [\d.]+|at [\da-f:]+", address)
    assert sorted([*expected, address]) == sorted(labelled)
    failed = r"srun: error: [\w-]+: task 2: Exited with exit code 5"
    assert ["err"] * 3 == [
        one for one in tool.text("err").splitlines() if not re.match(failed, one)
    ]
    assert "3|3|6||cpu=6,node=3,billing=6\n" == account


async def test_an_mpi_of_another_version_on_a_node_fails_the_step_that_needs_it(tool: Tool) -> None:
    launcher = which("mpiexec.hydra")
    if launcher is None:
        pytest.skip("MPICH is not installed")
    # The launcher starts the proxy of its own folder on each node, which here says another version.
    (own := tool.folder / "mpich").mkdir()
    proxy = Path(launcher).with_name("hydra_pmi_proxy").read_bytes()
    [version] = set(re.findall(rb"\0(\d+\.\d+\.\d+)\0", proxy))
    for name, content in (
        ("mpiexec.hydra", Path(launcher).read_bytes()),
        ("hydra_pmi_proxy", proxy.replace(version, b"0" + version[1:])),
    ):
        (own / name).write_bytes(content)
        (own / name).chmod(0o755)
    script = f"PATH={own}:$PATH srun --mpi=pmi2 -n2 echo begun; echo status $?; srun echo next"
    with trio.fail_after(300):
        number = await tool.submit("-N", "2", "-o", "out", "-e", "err", script=script)
        await until(tool, number, "CD")

    assert ["status 255", "next", "next"] == tool.text("out").splitlines()
    said = tool.text("err")
    assert "process manager error" in said  # the proxy says more, but its launcher may not wait
    assert re.search(
        r"^srun: error: [\w-]+: tasks 0-1: Exited with exit code 255$", said, re.MULTILINE
    )


async def test_a_job_that_is_cancelled_or_reaches_its_limit_leaves_nothing_on_any_node(
    tool: Tool,
) -> None:
    script = "srun sh -c 'echo $$; exec sleep 4711'"
    with trio.fail_after(300):
        number = await tool.submit("-N", "3", "-o", "out", script=script)
        pids = await _pids(tool, 3)
        assert "3 " in await tool.call("squeue", "-h", "-o", "%D %N", "-j", number)
        await tool.call("scancel", number)
        await until(tool, number, "CA")
        assert not any(map(_runs, pids))

        number = await tool.submit("-N", "3", "-o", "late", "-t", "0:05", script=script)
        await until(tool, number, "TO")
        # On a slow machine fewer than three have begun. Grain's line says why they end.
        pids = [int(line) for line in tool.text("late").splitlines() if line.isdecimal()]
        assert not any(map(_runs, pids))


async def test_a_job_of_grain_submit_has_nodes_and_the_exit_status_of_its_script(
    tool: Tool,
) -> None:
    script = "#!/bin/sh\n#GRAIN --nodes 2\necho $GRAIN_NODES $SLURM_TASKS_PER_NODE; exit 7\n"
    (tool.folder / "j.sh").write_text(script)
    words = ["submit", "-r", "Cores=2", "-n", "4", "-o", "out", "-W", "j.sh"]
    with trio.fail_after(300):
        done = await tool.call(sys.executable, "-m", "grain.cli", *words, status=1)

    hosts, ranks = tool.text("out").split()
    assert (2, "2(x2)") == (len(hosts.split(",")), ranks)
    assert "exit status 7" in done


async def test_a_command_of_grain_map_has_several_workers(tool: Tool) -> None:
    command = '"$GRAIN_RSH" m1 echo {} on the second'
    words = [
        "map",
        "--name",
        "map",
        "-r",
        "2 * Node(2, 0.5)",
        "--shell",
        "--",
        command,
        ":::",
        "x",
        "y",
    ]
    with trio.fail_after(300):
        done = await tool.call(sys.executable, "-m", "grain.cli", *words)
        history = await tool.call(sys.executable, "-m", "grain.cli", "history", "--csv", "map")

    said = [line for line in done.splitlines() if "second" in line]
    assert ["x on the second", "y on the second"] == sorted(said)
    assert {4.0} == {float(row["cores"]) for row in csv.DictReader(history.splitlines())}


async def until(tool: Tool, number: str, state: str) -> None:
    """Wait until a job has ended, by its queue; then it has a state in the lists."""
    client = QueueClient(Queue.open(tool.folder.parent / "state/grain/queues/queue"))
    while not client.ended([int(number)]):
        await trio.sleep(0.05)
    await tool.until(number, state)


async def _pids(tool: Tool, count: int) -> list[int]:
    """Return the processes that have said their numbers, once there are so many."""
    while len(found := tool.text("out").split() if (tool.folder / "out").exists() else []) < count:
        await trio.sleep(0.05)
    return [int(word) for word in found[:count]]


def _runs(pid: int) -> bool:
    """Return True if a process still sleeps, and not another one of its number."""
    try:
        return b"4711" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
