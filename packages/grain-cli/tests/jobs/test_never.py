"""Jobs that never begin: all commands say so, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.queue.fitting import blocks_of
from grain.cli.slurm.__main__ import answer
from grain.cli.slurm.here import Here
from grain.queue.book import Book
from grain.queue.dispatchers import Dispatchers
from grain.queue.records import Dependency, UnmetRequest

if TYPE_CHECKING:
    from pathlib import Path

    from grain_testkit.job_commands import JobCommands

SHAPES = """
system = "slurm"
[head.res]
Licences = {vasp = 2}
[[shape]]
name = "small"
cores = 4
memory = 8
walltime = "1:00:00"
max = 2
[[shape]]
name = "gpu"
cores = 2
memory = 100
walltime = "1:00:00"
res = {GPUs = 1}
"""


def unmet(jobs: JobCommands, request: dict[str, Any], why: str = "", timeout: float = 0.0) -> None:
    one = UnmetRequest(request=request, timeout=timeout, why=why)
    Dispatchers(jobs.queue.files).note_unmet(1, [one])


def test_lists_waits_and_explanations_agree(jobs: JobCommands) -> None:
    (jobs.home / "grain.toml").write_text(SHAPES)
    jobs.submit("large", request={"Cores": 1000}, array="1-2")
    jobs.submit("then", after=(Dependency(jobs=(1,), until="any"),))
    jobs.end(jobs.submit("bad"), status=1)
    jobs.submit("next", after=(Dependency(jobs=(3,)),))
    jobs.submit("fits")
    unmet(jobs, {"Cores": 1000})

    rows = {line.split()[0]: " ".join(line.split()[2:])
            for line in jobs.done("jobs").splitlines()[2:7]}  # fmt: skip
    assert "impossible 0/2 - it fits no worker" == rows["1"]
    assert "impossible - job 1 fits no worker" == rows["2"]
    assert "impossible - job 3 did not succeed" == rows["4"]
    assert "waiting -" == rows["5"]
    assert "3 jobs impossible" in jobs.done("jobs")
    assert jobs.done("jobs", "1").count("it fits no worker") == 2
    found = json.loads(jobs.done("jobs", "--json"))
    assert ["impossible"] * 2 + ["failed", "impossible", "waiting"] == [o["state"] for o in found]
    assert "1,1,impossible," in jobs.done("jobs", "--csv", "1")

    done = jobs.grain("wait", "1")
    why = "it fits no worker that is here, and none that grain.toml describes (small: "
    assert 102 == done.exit_code
    assert done.stderr.startswith(f"job 1 (large) never begins: {why}")
    assert jobs.grain("wait", "2").exit_code == jobs.grain("wait", "4").exit_code == 102
    assert [True, True] == [why in jobs.done("why", name) for name in ("1_1", "2")]
    assert "  it waits for " not in jobs.done("why", "4").replace("  it waits for job 3", "")

    reasons = answer(Here("squeue"), ["-h", "-o", "%F %r"]).out.split("\n")
    assert [
        "1 PartitionNodeLimit", "1 PartitionNodeLimit", "2 DependencyNeverSatisfied",
        "4 DependencyNeverSatisfied", "5 Resources", "",
    ] == reasons  # fmt: skip
    record = answer(Here("scontrol"), ["show", "job", "1_1"]).out
    assert "JobState=PENDING Reason=PartitionNodeLimit " in record


@pytest.mark.parametrize(
    ("request_", "timeout", "why"),
    [
        ({"Cores": 4, "Memory": 7}, 0.0, ""),
        ({"Cores": 5}, 0.0, "small: "),
        ({"Cores": 4, "Memory": 9}, 0.0, "small: "),
        ({"Cores": 2, "Memory": 9, "GPUs": 1}, 0.0, ""),
        ({"Cores": 1}, 3000.0, ""),
        ({"Cores": 1}, 4000.0, "s for tasks, and such tasks need 4000 s"),
        ({"Cores": 1, "Licences": {"vasp": 1}}, 0.0, ""),
        ({"Gang": {"count": 2, "of": {"Cores": 4}}}, 0.0, ""),
        ({"Gang": {"count": 3, "of": {"Cores": 4}}}, 0.0, "small: "),
        ({"Gang": {"count": 3, "of": {"Cores": 2}}}, 0.0, ""),
        ({"Either": [{"Cores": 5}, {"Cores": 2, "GPUs": 1}]}, 0.0, ""),
        ({"Cores": 1, "Ports": 2}, 0.0, "it has no Ports at all"),
    ],
)
def test_a_job_may_fit_a_shape_of_the_configuration(
    jobs: JobCommands, request_: dict[str, Any], timeout: float, why: str
) -> None:
    (jobs.home / "grain.toml").write_text(SHAPES)
    jobs.submit(request=request_, timeout=timeout)
    unmet(jobs, request_, timeout=timeout)
    book = Book.read(jobs.queue)
    block = blocks_of(book).of(book.entries[1])
    assert (why in block.why) if why and block else block is None and not why


@pytest.mark.parametrize(
    ("text", "fits"),
    [("", False), ('system = "slurm"', True), ("nonsense", True)],
)
def test_a_worker_of_unknown_size_may_fit(jobs: JobCommands, text: str, fits: bool) -> None:
    (jobs.home / "grain.toml").write_text(text)
    jobs.submit(request={"Cores": 10_000})
    unmet(jobs, {"Cores": 10_000})
    book = Book.read(jobs.queue)
    assert fits == (blocks_of(book).of(book.entries[1]) is None)


def test_what_the_whole_cluster_lacks_no_shape_brings(jobs: JobCommands) -> None:
    jobs.submit(request={"Cores": 1})
    unmet(jobs, {"Cores": 1}, "the cluster has 2 vasp")
    done = jobs.grain("wait", "1")
    assert 102 == done.exit_code
    assert done.stderr.startswith("job 1 (opt) never begins: the cluster has 2 vasp; `grain cancel")
    assert "it fits no worker" in jobs.done("jobs")


def test_a_job_that_begins_after_all_is_done(jobs: JobCommands, alone: Path) -> None:
    jobs.submit(request={"Cores": 1000})
    unmet(jobs, {"Cores": 1000})
    jobs.end(1)
    assert 0 == jobs.grain("wait", "1").exit_code
