"""executorlib: functions as jobs by pysqa or srun, futures as arguments, cancellation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = ("executorlib[cluster]==1.11.0",)

START = """\
import os, time, warnings
warnings.simplefilter("ignore")  # it does not know "partition", and passes it on
import executorlib

def add(a, b): return a + b
def sleep(): time.sleep(600)
def divide(a, b): return a / b
def executor(**options):
    return executorlib.SlurmClusterExecutor(
        cache_directory="cache", resource_dict={"cores": 1, "partition": "main"},
        **options)
"""


def test_a_function_whose_argument_is_the_result_of_another_job(
    site: ToolSite, python: Path
) -> None:
    program = (
        START
        + """\
with executor() as some:
    first = some.submit(add, 1, 2)
    print(some.submit(add, first, 4).result())
"""
    )
    assert site.python(python, program) == "7\n"


def test_functions_in_a_job_that_stays_and_by_srun(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
with executor(block_allocation=True, max_workers=1) as some:
    print([some.submit(add, n, 1).result() for n in range(3)])
with executorlib.SlurmJobExecutor(max_workers=2) as some:
    print([some.submit(add, n, 1).result() for n in range(3)])
"""
    )
    assert site.python(python, program) == "[1, 2, 3]\n" * 2


def test_an_exception_of_a_function(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
with executor() as some:
    print(type(some.submit(divide, 1, 0).exception()).__name__)
"""
    )
    assert site.python(python, program) == "ZeroDivisionError\n"


def test_a_job_that_is_cancelled_with_its_executor(site: ToolSite, python: Path) -> None:
    program = (
        START
        + """\
some = executor(wait=False)
future = some.submit(sleep)
while not (number := os.popen("squeue -h -t R -o %i").read()): time.sleep(0.2)
print(number)
some.shutdown(wait=False, cancel_futures=True)
"""
    )
    number = site.python(python, program).strip()
    site.until(number, "CA")
