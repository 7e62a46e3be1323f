"""Snakemake's executors that know Slurm: the plug-in slurm, and cluster-generic by commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_tools.snakemake_workflow import SNAKEMAKE, WAITS, Workflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from real_tools.tool_site import ToolSite

TOOL = (
    SNAKEMAKE,
    "snakemake-executor-plugin-slurm==2.8.0",
    "snakemake-executor-plugin-slurm-jobstep==0.6.1",
    "snakemake-executor-plugin-cluster-generic==1.0.9",
)
SLURM = (
    "--executor", "slurm", "-j", "10", "--default-resources", "mem_mb=100", "runtime=10",
    "--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1",
)  # fmt: skip
STATUS = """\
#!/bin/sh
case $(sacct -n -X -P -o State -j "$1") in
COMPLETED) echo success ;;
PENDING|RUNNING) echo running ;;
*) echo failed ;;
esac
"""
GENERIC = (
    "--executor", "cluster-generic", "-j", "10",
    "--cluster-generic-submit-cmd", "sbatch --parsable -c {threads} -o log.%j",
    "--cluster-generic-status-cmd", "./status", "--cluster-generic-cancel-cmd", "scancel",
    "--seconds-between-status-checks", "1",
)  # fmt: skip
# An environment and half a minute for each; the suite has the executor that is Grain's own.
pytestmark = pytest.mark.real_tools
SQUEUE = pytest.param((*SLURM, "--slurm-status-command", "squeue"), id="squeue")
OTHERS = [SQUEUE, pytest.param(GENERIC, id="cluster-generic")]

TWO_LAYERS = """\
rule all:
    input: "sum"
rule one:
    output: "part/{i}"
    threads: 2
    shell: "echo {wildcards.i} {threads} > {output}"
rule sum:
    input: expand("part/{i}", i=range(2))
    output: "sum"
    shell: "cat {input} > {output}"
"""


@pytest.fixture
def workflow(site: ToolSite, python: Path, request: pytest.FixtureRequest) -> Iterator[Workflow]:
    name = request.node.name.translate({ord("["): "-", ord("]"): None})
    workflow = Workflow(site, python, name, TWO_LAYERS)
    (workflow.folder / "status").write_text(STATUS)
    (workflow.folder / "status").chmod(0o755)
    yield workflow
    workflow.end()


@pytest.mark.parametrize("options", [pytest.param(SLURM, id="slurm"), *OTHERS])
def test_a_workflow_of_two_layers(workflow: Workflow, options: tuple[str, ...]) -> None:
    workflow.run(*options)
    assert workflow.text("sum") == "0 2\n1 2\n"
    assert workflow.states() == ["COMPLETED"] * 3


def test_jobs_of_a_rule_as_an_array(workflow: Workflow) -> None:
    workflow.run(*SLURM, "--slurm-array-jobs", "one")
    assert workflow.text("sum") == "0 2\n1 2\n"
    assert [entry.tasks for entry in workflow.jobs()] == [2, 1]


@pytest.mark.parametrize("options", [pytest.param(SLURM, id="slurm"), *OTHERS])
def test_a_job_that_fails(workflow: Workflow, options: tuple[str, ...]) -> None:
    workflow.write("rule bad:\n    output: 'bad'\n    shell: 'echo broken >&2; exit 3'\n")
    printed = workflow.run(*options, status=1)
    assert "Error in rule bad" in printed
    assert workflow.states() == ["FAILED"]


@pytest.mark.parametrize("options", [pytest.param(SLURM, id="slurm"), *OTHERS])
def test_ctrl_c_cancels_jobs(workflow: Workflow, options: tuple[str, ...]) -> None:
    workflow.write(f"""\
rule all:
    input: expand("out/{{i}}", i=range(3))
rule one:
    output: "out/{{i}}"
    shell: "{WAITS}"
""")
    # While Snakemake asks how its jobs are, it forgets to cancel them.
    with workflow.started(*options, "--seconds-between-status-checks", "30") as running:
        workflow.until_files("out/*.log", 2)
        running.interrupt()
    workflow.until_states(*["CANCELLED"] * 3)
