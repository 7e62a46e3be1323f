"""aiida-hyperqueue: AiiDA's plugin for HyperQueue, on the ``hq`` of ``grain hq``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("aiida-hyperqueue==0.4.0", "aiida-core==2.9.4")

START = """\
import pathlib
import time
from aiida import engine, load_profile, orm
load_profile()
computer = orm.load_computer("grain")
"""

SETUP = """\
from aiida import load_profile, orm
load_profile()
computer = orm.Computer(
    label="grain", hostname="localhost", transport_type="core.local", scheduler_type="hyperqueue",
    workdir=WORK,
).store()
computer.set_minimum_job_poll_interval(1.0)
computer.configure(safe_interval=0.0)
"""

CALCULATE = (
    START
    + """\
plugin = "core.arithmetic.add"
code = orm.InstalledCode(
    computer=computer, filepath_executable=PROGRAM, default_calc_job_plugin=plugin
)
builder = code.store().get_builder()
builder.x, builder.y = orm.Int(1), orm.Int(2)
builder.metadata.options.resources = {"num_cpus": 2, "memory_mb": 100}
builder.metadata.options.max_wallclock_seconds = 600
result, node = engine.run_get_node(builder)
print(node.get_job_id(), result["sum"].value if "sum" in result else node.exit_message)
"""
)


@pytest.fixture(scope="module")
def home(site: ToolSite, python: Path) -> ToolSite:
    """The site, with a profile of AiiDA."""
    folder = site.call("grain", "hq").strip()
    # AiiDA gives its commands to login shells.
    with (site.home / ".bash_profile").open("a") as file:
        file.write(f"export PATH={folder}:$PATH\n")
    site.environ["AIIDA_PATH"] = str(site.home)
    site.environ["PATH"] = f"{folder}:{site.environ['PATH']}"
    site.call(python.parent / "verdi", "presto", "--no-broker")
    site.python(python, SETUP.replace("WORK", repr(str(site.home / "run"))))
    return site


def test_a_calculation_with_its_result(home: ToolSite, python: Path) -> None:
    said = home.python(python, CALCULATE.replace("PROGRAM", repr("/bin/bash")))
    number, result = said.splitlines()[-1].split()
    assert result == "3"
    assert home.states()[number] == "COMPLETED"


def test_a_calculation_that_fails(home: ToolSite, python: Path) -> None:
    said = home.python(python, CALCULATE.replace("PROGRAM", repr("/bin/false")))
    number, message = said.splitlines()[-1].split(maxsplit=1)
    assert "output file" in message
    assert home.states()[number] == "FAILED"


def test_a_job_that_is_listed_and_killed(home: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
folder = pathlib.Path("killed")
folder.mkdir()
(folder / "job.sh").write_text("#!/bin/bash\\n#HQ --cpus=1\\nexec sleep 600\\n")
with computer.get_transport() as transport:
    scheduler = computer.get_scheduler()
    scheduler.set_transport(transport)
    number = scheduler.submit_job(str(folder.absolute()), "job.sh")
    while scheduler.get_jobs(as_dict=True)[number].job_state.value != "running":
        time.sleep(0.2)
    print(number, scheduler.kill_job(number))
"""
    )
    number, killed = home.python(python, program).split()
    assert killed == "True"
    home.until(number, "CA")
