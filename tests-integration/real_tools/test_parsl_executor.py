"""Parsl with Grain's workers as an executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_tools.tool_site import ToolSite, tool_site

from grain_testkit.tool_environments import GRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.real_tools

TOOL = ("parsl==2026.10.26", *GRAIN)

START = """\
import os, time, parsl
from parsl.config import Config
from grain.parsl import GrainWorkers
from grain.resource import Cores

@parsl.python_app
def cores(parsl_resource_specification={}):
    from grain import GVAR
    return sorted(GVAR.res.c), sorted(os.sched_getaffinity(0))
@parsl.python_app
def divide(a, b):
    return a / b
@parsl.bash_app
def shell(line, stdout=None, stderr=None):
    return line
@parsl.join_app
def halves(n):
    return [divide(i, 2) for i in range(n)]
@parsl.python_app
def sleep(name):
    import pathlib
    pathlib.Path(name).touch()
    time.sleep(600)

def config(**options):
    return Config([GrainWorkers(**options)])
"""


@pytest.fixture(scope="module")
def site(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolSite]:
    """A site whose worker has Parsl, too."""
    with tool_site(tmp_path_factory.mktemp("tool") / "home", python) as site:
        yield site


def test_apps_have_the_cores_that_they_ask_for(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
with parsl.load(config()):
    one, two = cores().result(), cores(parsl_resource_specification={"cores": 2}).result()
    print([len(found) for found in (*one, *two)], one[0] == one[1])
    print(divide(divide(6, 3), 4).result(), halves(3).result())
    print(shell("echo said", stdout="said.txt").result(), open("said.txt").read())
    exported = dict(parsl_resource_specification={"disk": 1})
    print(type(cores(**exported).exception()).__name__)
"""
    )
    assert site.python(python, program).splitlines()[-5:] == [
        "[1, 1, 2, 2] True", "0.5 [0.0, 0.5, 1.0]", "0 said", "", "InvalidResourceSpecification",
    ]  # fmt: skip


def test_apps_that_fail(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
with parsl.load(config(request=Cores(2))):
    print(repr(divide(1, 0).exception()))
    print(shell("echo wrong >&2; exit 3", stderr="wrong.txt").exception().exitcode)
"""
    )
    assert site.python(python, program).splitlines()[-2:] == [
        "ZeroDivisionError('division by zero')", "3",
    ]  # fmt: skip
    assert (site.home / "wrong.txt").read_text().endswith("\nwrong\n")


def test_what_runs_is_ended_with_parsl(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
with parsl.load(config()):
    running = [sleep(f"begun.{i}") for i in range(5)]
    while len([name for name in os.listdir() if name.startswith("begun.")]) < 2: time.sleep(0.1)
"""
    )
    site.python(python, program)
    assert len(list(site.home.glob("begun.*"))) == 2
    assert "sleep" not in site.call("grain", "ls")
