"""Parsl: blocks of workers as jobs; a block that fails; a block that is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("parsl==2026.10.26",)

START = """\
import sys, parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider

def config(**options):
    provider = SlurmProvider(
        partition="main", account="acct", exclusive=False, cores_per_node=2, mem_per_node=1,
        walltime="00:10:00", init_blocks=1, max_blocks=1, launcher=SrunLauncher(), **options,
    )
    return Config([HighThroughputExecutor(
        label="h", address="127.0.0.1", max_workers_per_node=2, provider=provider,
    )])
"""


def test_apps_of_which_one_fails_and_the_block_is_given_back(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
@parsl.python_app
def divide(a, b):
    import os
    return a / b, os.environ["SLURM_JOB_ID"]

with parsl.load(config()):
    value, job = divide(6, 3).result()
    try:
        divide(1, 0).result()
    except ZeroDivisionError as error:
        print(value, error)
print(job)
"""
    )
    said, job = site.python(python, program).splitlines()
    assert said == "2.0 division by zero"
    site.until(job, "CA")


def test_a_block_that_fails(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
@parsl.python_app
def never(): pass

with parsl.load(config(worker_init="exit 3")):
    print(type(never().exception()).__name__)
"""
    )
    before = set(site.states())
    assert site.python(python, program) == "BadStateException\n"
    after = site.states()
    assert {after[number] for number in after.keys() - before} == {"FAILED"}
