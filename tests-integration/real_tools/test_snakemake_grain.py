"""Snakemake with --executor grain: jobs of a workflow are jobs of the queue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from real_tools.snakemake_workflow import GRAIN, SNAKEMAKE, WAITS, Workflow
from real_tools.tool_site import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_tools.tool_site import ToolSite

pytestmark = pytest.mark.real_tools

TOOL = (SNAKEMAKE, *GRAIN)
EXECUTOR = ("--executor", "grain", "-j", "100")

TWO_LAYERS = """\
rule all:
    input: "sum"
rule one:
    output: "part/{i}"
    threads: 2
    resources: mem_mb=500, runtime=10
    shell: "echo {wildcards.i} {threads} > {output}; echo said"
rule sum:
    input: expand("part/{i}", i=range(3))
    output: "sum"
    log: "sum.log"
    shell: "cat {input} > {output}; echo summed > {log}"
"""


@pytest.fixture
def workflow(site: ToolSite, python: Path, request: pytest.FixtureRequest) -> Iterator[Workflow]:
    workflow = Workflow(site, python, request.node.name, TWO_LAYERS)
    yield workflow
    workflow.end()


def test_a_workflow_runs_with_its_threads_memory_and_time_limit(workflow: Workflow) -> None:
    plan = workflow.run(*EXECUTOR, "--dry-run")
    assert re.search(r"\bone +3\b", plan)
    assert workflow.jobs() == []

    workflow.run(*EXECUTOR, "--default-resources", "mem_mb=100")

    assert workflow.text("sum") == "0 2\n1 2\n2 2\n"
    assert workflow.text("sum.log") == "summed\n"
    assert [entry.job.name for entry in workflow.jobs()] == ["one", "one", "one", "sum"]
    assert workflow.states() == ["COMPLETED"] * 4
    # What jobs print is kept only of those that fail.
    assert list((workflow.folder / ".snakemake/grain_logs").rglob("*")) == []
    assert "Nothing to be done" in workflow.run(*EXECUTOR)
    workflow.run("--report", "report.html")
    assert "<html" in workflow.text("report.html")


FAILS = """\
rule all:
    input: expand("out/{i}", i=range(6))
rule one:
    output: "out/{i}"
    shell:
        "echo begun > {output}.log; "
        "until [ -e go ] || [ -e fail.{wildcards.i} ]; do sleep 0.05; done; "
        "[ ! -e fail.{wildcards.i} ] || (echo it is broken >&2; exit 3); touch {output}"
"""


def test_a_failed_job_is_told_with_its_log_and_what_waits_is_cancelled(workflow: Workflow) -> None:
    workflow.write(FAILS)
    with workflow.started(*EXECUTOR) as running:
        begun = workflow.until_files("out/*.log", 2)
        workflow.touch(f"fail.{begun[0].stem}")
        workflow.until(lambda: "PENDING" not in workflow.states(), "some wait")
        assert running.process.poll() is None
        workflow.touch("go")
        running.process.wait(PATIENCE)
        printed = running.printed()
    assert running.process.returncode == 1
    # One may have begun when the other one failed.
    cancelled = workflow.states().count("CANCELLED")
    assert cancelled >= 3
    assert f"and are cancelled: {cancelled}. Jobs that run, and go on" in printed
    assert printed.count("Error in rule") == 1
    assert "of Grain's queue has failed: exit status 1: At least one job did not" in printed
    [log] = (workflow.folder / ".snakemake/grain_logs").rglob("*.log")
    assert str(log) in printed
    assert "it is broken\n" in log.read_text()
    # Those that were cancelled are not taken for done.
    workflow.remove(f"fail.{begun[0].stem}")
    workflow.run(*EXECUTOR)
    assert len(list(workflow.folder.glob("out/?"))) == 6


def test_with_keep_going_the_others_run_and_with_retries_a_job_runs_again(
    workflow: Workflow,
) -> None:
    workflow.write("""\
rule all:
    input: expand("out/{i}", i=range(4)), "again"
rule one:
    output: "out/{i}"
    shell: "[ {wildcards.i} != 1 ] && touch {output}"
rule again:
    output: "again"
    resources: mem_mb=lambda wildcards, attempt: 100 * attempt
    shell: "[ {resources.mem_mb} = 200 ] && touch {output}"
""")
    printed = workflow.run(*EXECUTOR, "--keep-going", "--retries", "1", status=1)

    assert printed.count("Error in rule one") == 2
    assert printed.count("Error in rule again") == 1
    assert sorted(workflow.states()) == [*["COMPLETED"] * 4, *["FAILED"] * 3]


def test_ctrl_c_cancels_what_runs_and_what_waits(workflow: Workflow) -> None:
    workflow.write(f"""\
rule all:
    input: expand("out/{{i}}", i=range(4))
rule one:
    output: "out/{{i}}"
    shell: "{WAITS}"
""")
    with workflow.started(*EXECUTOR) as running:
        workflow.until_states("RUNNING", "RUNNING", "PENDING", "PENDING")
        workflow.until_files("out/*.log", 2)
        running.interrupt()
    workflow.until_states(*["CANCELLED"] * 4)
    workflow.touch("go")
    workflow.run(*EXECUTOR, "--rerun-incomplete")
    assert workflow.states().count("COMPLETED") == 4


RESTARTED = f"""\
rule all:
    input: "out"
rule one:
    output: "out"
    params: 1
    shell: "echo {{params}} begins >> lines; {WAITS}; echo {{params}} ends >> lines"
"""


def test_after_a_kill_a_job_that_runs_is_taken_over(workflow: Workflow) -> None:
    workflow.write(RESTARTED)
    with workflow.started(*EXECUTOR) as running:
        workflow.until_file("lines")
        running.kill()
    workflow.run("--unlock")
    with workflow.started(*EXECUTOR, "--rerun-incomplete") as running:
        workflow.until(lambda: "is waited for" in running.printed(), running.printed())
        workflow.touch("go")
        assert running.process.wait(PATIENCE) == 0
    assert workflow.text("lines") == "1 begins\n1 ends\n"
    assert workflow.states() == ["COMPLETED"]


def test_after_a_kill_and_a_change_a_job_begins_when_the_old_one_has_ended(
    workflow: Workflow,
) -> None:
    workflow.write(RESTARTED)
    with workflow.started(*EXECUTOR) as running:
        workflow.until_file("lines")
        running.kill()
    workflow.run("--unlock")
    workflow.write(RESTARTED.replace("params: 1", "params: 2"))
    with workflow.started(*EXECUTOR, "--rerun-incomplete") as running:
        workflow.until_states("RUNNING", "CANCELLED")
        workflow.touch("go")
        assert running.process.wait(PATIENCE) == 0
    assert workflow.text("lines") == "1 begins\n2 begins\n2 ends\n"


def test_a_rule_that_no_worker_can_run_is_named(workflow: Workflow) -> None:
    workflow.write("""\
rule large:
    output: "out"
    threads: 64
    shell: "touch {output}"
""")
    with workflow.started(*EXECUTOR) as running:
        workflow.until(lambda: "No worker" in running.printed(), "nothing is said")
        printed = running.interrupt()
    assert "No worker that is here can run large: " in printed
    assert workflow.states() == ["CANCELLED"]


def test_five_hundred_jobs_in_groups(workflow: Workflow) -> None:
    workflow.write("""\
rule all:
    input: expand("out/{i}", i=range(500))
rule one:
    output: "out/{i}"
    group: "one"
    shell: "echo {wildcards.i} > {output}"
""")
    # Without --cores, a group asks for the cores of all of its jobs.
    words = (*EXECUTOR, "--group-components", "one=25", "--cores", "1")
    with workflow.started(*words) as running:
        assert running.process.wait(800) == 0

    assert workflow.states() == ["COMPLETED"] * 20
    assert [workflow.text(f"out/{i}") for i in range(500)] == [f"{i}\n" for i in range(500)]
