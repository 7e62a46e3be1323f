"""What commands that speak Slurm decide, as tables: resources, orders, what is meant, steps."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from grain.cli.queue.submission import SubmittedFrom
from grain.cli.slurm.in_job.step import run_step
from grain.cli.slurm.reading import exit_status
from grain.cli.slurm_words import steps
from grain.cli.slurm_words.facts import SlurmTask
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.states import COMPACT, OPEN, reason_of, state_of, states_named
from grain.cli.slurm_words.submission import JobRefused, slurm_job
from grain.cli.slurm_words.values import hosts, moment
from grain.queue.book import Book, Entry
from grain.queue.records import Dependency
from grain.queue.states import Run, Standing, outcome
from grain.resource import GPUs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slurm_site import SlurmSite

    from grain.queue.records import How, Job

HERE = {
    "PATH": "/my/bin", "HOME": "/home/ann", "USER": "ann", "A": "1", "B": "2", "PWD": "/x",
    "SHLVL": "3",
}  # fmt: skip


def made(given: Mapping[str, str], commands: str = "", gpu_shards: int = 0) -> Job:
    around = SubmittedFrom("/work", HERE, 0o022, "login1", "ann", 1000.0, commands=commands)
    options = {name.replace("_", "-"): value for name, value in given.items()}
    script, name = "#!/bin/sh\n", "/work/job.sh"
    return slurm_job(options, around, words=[], script=script, name=name, gpu_shards=gpu_shards)


def gang(count: int, **of: object) -> dict[str, Any]:
    return {"Gang": {"count": count, "of": of}}


# ---- resources of a submission


@pytest.mark.parametrize(
    ("given", "request_"),
    [
        # GPUs of all nodes are shared out, and no node gets less than its part.
        ({"nodes": "2", "gpus": "3"}, gang(2, Cores=1, GPUs=2)),
        ({"nodes": "3", "gpus": "4"}, gang(3, Cores=1, GPUs=2)),
        ({"nodes": "4", "gpus": "2"}, gang(4, Cores=1, GPUs=1)),
        ({"nodes": "4", "gpus": "a100:8"}, gang(4, Cores=1, GPUs=2)),
        ({"gpus": "3"}, {"Cores": 1, "GPUs": 3}),
        ({"nodes": "2", "gpus_per_node": "3"}, gang(2, Cores=1, GPUs=3)),
        ({"nodes": "2", "ntasks": "3", "gpus_per_task": "2"}, gang(2, Cores=2, GPUs=4)),
        ({"gres": "gpu:1", "gpus_per_node": "2"}, {"Cores": 1, "GPUs": 2}),
        ({"gres": "none"}, {"Cores": 1}),
        # So are tasks; cores and memory are those of a node.
        ({"ntasks": "7", "nodes": "2", "cpus_per_task": "3"}, gang(2, Cores=12)),
        ({"ntasks": "5", "ntasks_per_node": "2"}, gang(3, Cores=2)),
        ({"ntasks_per_node": "4", "cpus_per_task": "2"}, {"Cores": 8}),
        # As a real sbatch has it: each node has room for so many tasks, if fewer are on it, too.
        ({"ntasks": "2", "nodes": "2", "ntasks_per_node": "2"}, gang(2, Cores=2)),
        ({"mincpus": "6"}, {"Cores": 6}),
        ({"mincpus": "6", "ntasks": "8"}, {"Cores": 8}),
        ({"ntasks": "8", "cpus_per_task": "2", "overcommit": ""}, {"Cores": 2}),
        ({"mem": "0"}, {"Cores": 1}),
        ({"mem": "1G"}, {"Cores": 1, "Memory": 1.073742}),
        ({"mem": "1"}, {"Cores": 1, "Memory": 0.001049}),
        ({"mem_per_cpu": "512M", "cpus_per_task": "2"}, {"Cores": 2, "Memory": 1.073742}),
        ({"mem_per_gpu": "1G", "gpus": "2"}, {"Cores": 1, "Memory": 2.147484, "GPUs": 2}),
        ({"nodes": "10000"}, gang(10000, Cores=1)),
        # What is asked for each GPU, as a real sbatch has it.
        ({"gpus": "2", "cpus_per_gpu": "4"}, {"Cores": 8, "GPUs": 2}),
        ({"gpus": "2", "cpus_per_gpu": "1", "ntasks": "4"}, {"Cores": 4, "GPUs": 2}),
        ({"gres": "gpu:2", "cpus_per_gpu": "2", "nodes": "2"}, gang(2, Cores=4, GPUs=2)),
        ({"gpus_per_task": "1", "ntasks": "2", "cpus_per_gpu": "2"}, {"Cores": 4, "GPUs": 2}),
        ({"cpus_per_gpu": "2"}, {"Cores": 1}),
        ({"gpus": "2", "ntasks_per_gpu": "2"}, {"Cores": 4, "GPUs": 2}),
        ({"ntasks": "4", "ntasks_per_gpu": "2"}, {"Cores": 4, "GPUs": 2}),
        ({"nodes": "2", "ntasks": "4", "ntasks_per_gpu": "2"}, gang(2, Cores=2, GPUs=1)),
        # So are nodes and tasks that follow from two numbers of GPUs.
        ({"gpus": "4", "gpus_per_node": "2"}, gang(2, Cores=1, GPUs=2)),
        ({"gpus": "4", "gres": "gpu:2", "nodes": "1-3"}, gang(2, Cores=1, GPUs=2)),
        ({"gpus": "4", "gpus_per_task": "2", "cpus_per_task": "3"}, {"Cores": 6, "GPUs": 4}),
        ({"gpus_per_task": "1", "nodes": "2"}, gang(2, Cores=1, GPUs=1)),
        ({"gpus_per_task": "1", "ntasks_per_node": "2"}, {"Cores": 2, "GPUs": 2}),
        ({"gpus_per_task": "1", "gpus_per_node": "2", "nodes": "2"}, gang(2, Cores=2, GPUs=2)),
        ({"gpus_per_task": "1", "gpus_per_node": "2", "ntasks": "4"}, gang(2, Cores=2, GPUs=2)),
        (
            {"gpus_per_task": "1", "gpus_per_node": "2", "nodes": "2", "ntasks": "2"},
            gang(2, Cores=2, GPUs=2),
        ),
        ({"gpus_per_socket": "2", "sockets_per_node": "2"}, {"Cores": 1, "GPUs": 4}),
        ({"exclusive": ""}, {"Cores": "all"}),
        ({"exclusive": "", "nodes": "2"}, gang(2, Cores="all")),
        ({"exclusive": "user", "ntasks": "2"}, {"Cores": 2}),
        ({"licenses": "vasp:2,orca@db"}, {"Cores": 1, "Licences": {"vasp": 2, "orca": 1}}),
        ({"constraint": "a100"}, {"Cores": 1, "Token": "a100"}),
        ({"nodelist": "n7.site"}, {"Cores": 1, "Host": "n7"}),
        ({"nodelist": "n7", "exclude": "n[1-2]"}, {"Cores": 1, "Host": "n7"}),
        # As a real sbatch has it: all of these hosts, and others if that is not enough.
        ({"nodelist": "n[1-2]"}, gang(2, Cores=1, Host=["n1", "n2"])),
        ({"nodelist": "n1,n2,n1.site", "nodes": "2"}, gang(2, Cores=1, Host=["n1", "n2"])),
        ({"nodelist": "n[1-2]", "nodes": "1-2"}, gang(2, Cores=1, Host=["n1", "n2"])),
        ({"nodelist": "n[1-2]", "ntasks": "3"}, gang(2, Cores=2, Host=["n1", "n2"])),
        ({"nodelist": "n[1-3]", "ntasks": "2"}, gang(2, Cores=1, Host=["n1", "n2", "n3"])),
        ({"nodelist": "n[1-2]", "ntasks": "1"}, {"Cores": 1, "Host": ["n1", "n2"]}),
        (
            {"nodelist": "n[2-3]", "ntasks": "4", "ntasks_per_node": "4"},
            gang(2, Cores=4, Host=["n2", "n3"]),
        ),
        (
            {"nodelist": "n1", "nodes": "2"},
            gang(2, Cores=1, Host={"names": ["n1"], "others": True}),
        ),
        (
            {"nodelist": "n1", "exclude": "n2", "ntasks": "4", "ntasks_per_node": "2"},
            gang(2, Cores=2, Host={"names": ["n1"], "others": True, "exclude": ["n2"]}),
        ),
        ({"exclude": "n[1-2],gpu"}, {"Cores": 1, "Host": {"exclude": ["n1", "n2", "gpu"]}}),
        ({"nodes": "1k"}, gang(1024, Cores=1)),
        ({"nodes": "1-1K"}, {"Cores": 1}),
        ({"exclude": "n1", "nodes": "2"}, gang(2, Cores=1, Host={"exclude": ["n1"]})),
    ],
)
def test_a_node_gives_its_part_rounded_up(given: dict[str, str], request_: dict[str, Any]) -> None:
    assert request_ == made(given).request


def test_what_was_asked_for_is_kept_for_the_variables_of_the_job() -> None:
    given = {
        "gpus": "a100:2", "cpus_per_gpu": "2", "mem_per_gpu": "1G", "distribution": "cyclic",
        "overcommit": "", "hint": "nomultithread", "export": "NONE",
    }  # fmt: skip
    kept = {name.replace("_", "-"): value for name, value in given.items()}
    told = {**kept, "mem-per-gpu": "1024", "threads-per-core": "1", "submit-dir": "/work"}

    assert told == made(given).options
    assert {"ntasks": "2", "ntasks-implied": "yes", "submit-dir": "/work"} == made(
        {"nodes": "2"}
    ).options
    assert "ntasks-implied" not in made({"nodes": "2", "ntasks": "2"}).options


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nodes": "0"}, "Node count specification invalid"),
        ({"nodes": "1M"}, "Requested node configuration is not available"),
        ({"nodes": "10001"}, "Requested node configuration is not available"),
        ({"licenses": "g16:0"}, "Invalid license specification"),
        ({"licenses": "g16", "nodes": "2"}, "Invalid license specification"),
        ({"constraint": "a&b"}, "Invalid feature specification"),
        ({"reservation": "x"}, "Requested reservation is invalid"),
        ({"exclude": "n[1"}, "Invalid node name specified"),
        ({"exclude": ""}, "Invalid node name specified"),
        ({"nodelist": "n1", "exclude": "n[1-2]"}, "Invalid node name specified"),
        ({"nodelist": "./hosts"}, "Invalid node name specified"),
        ({"array": "1-"}, "Invalid job array specification"),
        ({"array": "1000000"}, "Invalid job array specification"),
        ({"dependency": "afterok:1?singleton"}, "Job dependency problem"),
        (
            {"batch": "a", "constraint": "b"},
            "Job --batch option is invalid or not a subset of --constraints",
        ),
        ({"gres": "shard:2"}, "Invalid generic resource (gres) specification"),
    ],
)
def test_what_there_is_not_here_is_refused_with_a_reason(given: dict[str, str], text: str) -> None:
    with pytest.raises(JobRefused) as caught:
        made(given)
    assert text == str(caught.value)
    assert caught.value.reason


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": "x"}, {"nodes": "1-x"}, {"ntasks": "0"}, {"ntasks": "-1"}, {"ntasks": "٣"},
        {"cpus_per_task": "1.5"}, {"gpus": "gpu:x"}, {"gres": "fpga:1"}, {"mem": "much"},
        {"mem_per_gpu": "1G"}, {"ntasks_per_gpu": "2"}, {"gpus": "1", "cpus_per_gpu": "x"},
        {"gpus": "1", "cpus_per_gpu": "2", "cpus_per_task": "3"},
        {"nodelist": "n[1-2]", "nodes": "1", "ntasks": "1"},
        {"exclusive": "x"}, {"kill_on_invalid_dep": "x"},
        {"time": "soon"}, {"signal": "NOPE"}, {"begin": "whenever"}, {"open_mode": "x"},
    ],
)  # fmt: skip
def test_what_is_not_written_as_it_should_be_is_bad_use(given: dict[str, str]) -> None:
    with pytest.raises(BadUse):
        made(given)


_OTHER_TASKS = (
    ". Based on --gpus and --gpus-per-task number of requested tasks differ from -n/--ntasks."
)
_OTHER_NODES = (
    ". Based on --gpu and --gres=gpu/--gpus-per-node required nodes (1) doesn't fall between "
    "min_nodes (2) and max_nodes (2) boundaries."
)
_NO_TASKS = ". --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
_OTHER_PER_NODE = (
    ". Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of tasks per node "
    "differ from --ntasks-per-node."
)
_OTHER_SOCKETS = (
    ". Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of sockets "
    "differ from --sockets-per-node."
)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"ntasks": "2", "gpus": "1", "gpus_per_task": "1"}, _OTHER_TASKS),
        ({"gpus": "3", "gpus_per_task": "2"}, ", --gpus not multiple of --gpus-per-task"),
        ({"gpus": "3", "gres": "gpu:2"}, ", --gpus is not multiple of --gres=gpu/--gpus-per-node"),
        ({"gpus": "1", "gpus_per_node": "1", "nodes": "2"}, _OTHER_NODES),
        (
            {"gpus_per_node": "3", "gpus_per_task": "2", "ntasks": "2"},
            ", --gres=gpu/--gpus-per-node not multiple of --gpus-per-task.",
        ),
        ({"gpus_per_node": "1", "gpus_per_socket": "1", "sockets_per_node": "2"}, _OTHER_SOCKETS),
        ({"gpus_per_task": "1"}, _NO_TASKS),
        ({"gpus_per_task": "1", "nodes": "2-3"}, _NO_TASKS),
        ({"gpus_per_task": "1", "gpus_per_node": "2", "cpus_per_gpu": "2"}, _NO_TASKS),
        (
            {"gpus_per_task": "1", "gpus_per_node": "2", "ntasks_per_node": "1"},
            _OTHER_PER_NODE,
        ),
    ],
)
def test_numbers_of_gpus_that_contradict_each_other_are_refused_as_by_sbatch(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(BadUse) as refused:
        made(given)
    assert (
        f"sbatch: error: Failed to validate job spec{text}\n"
        "sbatch: error: Invalid generic resource (gres) specification"
    ) == str(refused.value)


def test_tasks_that_follow_from_numbers_of_gpus_are_told_to_the_job() -> None:
    assert "2" == made({"gpus": "4", "gpus_per_task": "2"}).options["ntasks"]
    a_node = {"gpus_per_task": "1", "nodes": "2"}
    for more, tasks in ({}, "2"), ({"gpus_per_node": "2"}, "4"):
        told = made({**a_node, **more}).options
        assert (tasks, None) == (told["ntasks"], told.get("ntasks-implied"))


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({}, {"priority": 0, "held": False, "requeue": True, "append": False, "not_before": 0.0}),
        ({"nice": ""}, {"priority": -100}),
        ({"nice": "7"}, {"priority": -7}),
        ({"nice": "-7"}, {"priority": 7}),
        ({"hold": ""}, {"held": True}),
        ({"priority": "0"}, {"held": True}),
        ({"priority": "9"}, {"held": False}),
        ({"no_requeue": ""}, {"requeue": False}),
        ({"open_mode": "append"}, {"append": True}),
        ({"open_mode": "t"}, {"append": False}),
        ({"begin": "now+60"}, {"not_before": 1060.0}),
        ({"begin": "now-60"}, {"not_before": 0.0}),
        ({"time": "2:30"}, {"timeout": 150.0, "signal": 0}),
        ({"signal": "B:USR1"}, {"signal": 10, "signal_before": 60.0, "signal_to": "script"}),
        ({"signal": "USR1@5"}, {"signal": 10, "signal_before": 5.0, "signal_to": "steps"}),
        ({"chdir": "../data"}, {"directory": "/data"}),
        ({"input": "NONE"}, {"stdin": ""}),
        ({"input": "in"}, {"stdin": "in"}),
        ({"job_name": "a"}, {"name": "a", "script_name": "/work/job.sh"}),
        ({}, {"stdout": "slurm-%j.out", "stderr": "", "name": "job.sh"}),
        ({"output": "o", "error": "o"}, {"stdout": "o", "stderr": ""}),
        ({"output": "o", "error": "e"}, {"stdout": "o", "stderr": "e"}),
        ({"array": "1-2"}, {"stdout": "slurm-%A_%a.out"}),
        ({"array": "1-2", "output": "%j.o"}, {"stdout": "%A%6a.o"}),
        ({"array": "1-2", "input": "%j.i"}, {"stdin": "%A%6a.i"}),
        ({"dependency": "afternotok:3"}, {"after": (Dependency(jobs=(3,), until="fail"),)}),
    ],
)
def test_an_option_is_a_field_of_the_job(given: dict[str, str], fields: dict[str, Any]) -> None:
    job = made(given)
    assert fields == {name: getattr(job, name) for name in fields}


@pytest.mark.parametrize(
    ("gres", "part", "shown"),
    [
        ("shard", 0.25, "1"),
        ("shard:3", 0.75, "3"),
        ("shard:a100:4", 1, "4"),
        ("gres:shard:2", 0.5, "2"),
    ],
)
def test_shards_are_a_part_of_a_gpu(gres: str, part: float, shown: str) -> None:
    job = made({"gres": gres}, gpu_shards=4)
    assert job.request == {"Cores": 1, "GPUs": part}
    assert job.options["shards"] == shown


@over(st.integers(1, 1000))
def test_all_shards_of_a_gpu_fit_on_it(shards: int) -> None:
    part: Any = made({"gres": "shard"}, gpu_shards=shards).request["GPUs"]
    gpu = GPUs([0])
    for _ in range(shards):
        gpu.alloc(GPUs(part))


@pytest.mark.parametrize("gres", ["shard:0", "shard:x:y:1", "shard:1,gpu:1", "shard:1,shard:1"])
def test_shards_that_are_written_wrongly_are_refused(gres: str) -> None:
    with pytest.raises(BadUse, match=r"Invalid generic resource \(gres\) specification"):
        made({"gres": gres}, gpu_shards=4)


def test_no_job_has_both_gpus_and_shards() -> None:
    with pytest.raises(BadUse, match="Invalid generic resource"):
        made({"gres": "shard:1", "gpus": "1"}, gpu_shards=4)


def test_more_shards_than_a_gpu_has_are_refused() -> None:
    with pytest.raises(JobRefused, match="Requested node configuration") as caught:
        made({"gres": "shard:5"}, gpu_shards=4)
    assert caught.value.reason == "--gres=shard:5: a GPU has 4, by gpu_shards of grain.toml"


@pytest.mark.parametrize(
    ("export", "names"),
    [
        ("ALL", {"PATH", "HOME", "USER", "SHLVL", "A", "B"}),
        ("NONE", {"PATH", "HOME", "USER"}),
        ("A,C=3", {"PATH", "HOME", "USER", "A", "C"}),
        ("ALL,C=3", {"PATH", "HOME", "USER", "SHLVL", "A", "B", "C"}),
        ("ALL,A='x,y'", {"PATH", "HOME", "USER", "SHLVL", "A", "B"}),
        ("NOSUCH", {"PATH", "HOME", "USER"}),
    ],
)
def test_export_chooses_variables(export: str, names: set[str]) -> None:
    job = made({"export": export}, "/opt/grain/slurm")
    assert names == set(job.environment)
    assert job.environment["PATH"].startswith("/opt/grain/slurm:")
    if "'" in export:
        assert "x,y" == job.environment["A"]


# ---- what is meant, and in what order


def state(site: SlurmSite, number: int, task: int | None = None) -> str:
    return Book.read(site.queue).standing(number, task, 0.0).state


def test_scancel_of_states_spares_the_other_tasks_of_an_array(site: SlurmSite) -> None:
    site.submit("-a", "0-3", "--wrap=x")
    site.submit("-a", "0-1", "--wrap=x")
    site.begin(1, 0)
    site.run(1, 1)
    site.out("scancel", "-t", "PENDING", "1")

    assert ["RUNNING", "COMPLETED", "CANCELLED", "CANCELLED"] == [
        state(site, 1, task) for task in range(4)
    ]
    assert "R\n" == site.out("squeue", "-h", "-r", "-j", "1", "-o", "%t"), "not completing"
    assert "PENDING" == state(site, 2, 0)
    site.out("scancel", "-t", "RUNNING", "1")
    assert "CG\n" == site.out("squeue", "-h", "-r", "-j", "1", "-o", "%t")


@pytest.mark.parametrize(
    ("words", "cancelled"),
    [
        (("-t", "PD", "1_2"), {(1, 2)}),
        (("-t", "R", "1"), set()),
        (("-n", "b"), {(2, None)}),
        (("-n", "b", "1"), set()),
        (("-n", "a", "1_[2-3]"), {(1, 2), (1, 3)}),
        (("-p", "long"), {(2, None)}),
        (("-A", "x", "--me"), {(2, None)}),
        (("-w", "n7"), set()),
        (("--me",), {(1, 2), (1, 3), (2, None)}),
    ],
)
def test_scancel_cancels_what_all_filters_mean(
    site: SlurmSite, words: tuple[str, ...], cancelled: set[tuple[int, int | None]]
) -> None:
    site.submit("-J", "a", "-a", "2-3", "--wrap=x")
    site.submit("-J", "b", "-p", "long", "-A", "x", "--wrap=x")
    site.out("scancel", *words)
    tasks: list[tuple[int, int | None]] = [(1, 2), (1, 3), (2, None)]
    assert cancelled == {one for one in tasks if state(site, *one) == "CANCELLED"}


def test_an_array_that_runs_does_not_show_what_ended_long_ago(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    site.submit("-a", "0-3", "--wrap=x")
    site.begin(1, 0)
    site.run(1, 1, at=now - 299)
    site.run(1, 2, at=now - 301)
    found = site.out("squeue", "-h", "-r", "-t", "all", "-o", "%i", "-S", "i").split()
    assert ["1_0", "1_1", "1_3"] == found


def test_squeue_lists_the_most_urgent_first_of_each_state(site: SlurmSite) -> None:
    for nice in ("0", "-5", "5", "-9"):
        site.submit("--nice=" + nice, "--wrap=x")
    site.submit("-p", "a", "--wrap=x")
    site.begin(3)

    def listed(*words: str, **environment: str) -> str:
        return " ".join(site.out("squeue", "-h", "-o", "%i", *words, **environment).split())

    assert "5 4 2 1 3" == listed()
    assert "1 2 3 4 5" == listed("-S", "i")
    assert "5 4 3 2 1" == listed("-S", "-i")
    assert "3 1 5 2 4" == listed("-S", "Q,i")
    assert "4 2 1 5 3" == listed("-S", "-Q,+i")
    assert "5 4 3 2 1" == listed(SQUEUE_SORT="-i")
    assert "4 2 1 5 3" == listed("-S-Q+i")


def test_squeue_sorts_limits_by_their_lengths(site: SlurmSite) -> None:
    for limit in ("10", "1-0", "9", "UNLIMITED", "1:00:00"):
        site.submit("-t", limit, "--wrap=x")
    for letter in "lL":
        found = site.out("squeue", "-h", "-o", "%i", "-S", letter).split()
        assert ["3", "1", "5", "2", "4"] == found


def test_squeue_knows_since_when_a_job_waits(site: SlurmSite) -> None:
    site.submit("-d", f"afterok:{site.submit('--ntasks-per-node=2', '--wrap=x')}", "--wrap=x")
    at = site.queue.job(1).at
    names = "AccrueTime:|,EligibleTime:|,PendingTime:|,Deadline:|,ntperNode:"
    first, second = site.out("squeue", "-h", "-S", "i", "-O", names).splitlines()
    when = moment(at)
    assert re.fullmatch(rf"{when}\|{when}\|\d+\|N/A\|2", first)
    assert re.fullmatch(r"N/A\|N/A\|\d+\|N/A\|0", second)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("PD", {"PENDING"}), ("r,pd", {"RUNNING", "PENDING"}), ("CG", {"COMPLETING"}),
        ("OOM,NF", {"OUT_OF_MEMORY", "NODE_FAIL"}), ("timeout", {"TIMEOUT"}), ("S", {"SUSPENDED"}),
    ],
)  # fmt: skip
def test_states_by_their_names(text: str, states: set[str]) -> None:
    assert states == states_named(text)
    assert OPEN | set(COMPACT) <= states_named("all")


RUNS = Run(1, 1.0, "n1", "w")


@pytest.mark.parametrize(
    ("standing", "cancelled", "shown", "reason"),
    [
        (Standing("PENDING", "", 1), False, "PENDING", "Resources"),
        (Standing("PENDING", "held", 1), False, "PENDING", "JobHeldUser"),
        (Standing("PENDING", "never", 1), False, "PENDING", "DependencyNeverSatisfied"),
        (Standing("PENDING", "cancel", 1), True, "PENDING", "None"),
        (Standing("PENDING", "begin time", 1), False, "PENDING", "BeginTime"),
        (Standing("PENDING", "array limit", 1), False, "PENDING", "JobArrayTaskLimit"),
        (Standing("RUNNING", "", 1, RUNS), False, "RUNNING", "None"),
        (Standing("RUNNING", "", 1, RUNS), True, "COMPLETING", "None"),
        (Standing("LOST", "", 1, RUNS), False, "NODE_FAIL", "NodeDown"),
        (Standing("TIMEOUT", "", 1, RUNS), True, "TIMEOUT", "TimeLimit"),
    ],
)
def test_states_and_reasons(standing: Standing, cancelled: bool, shown: str, reason: str) -> None:
    assert shown == state_of(standing, cancelled=cancelled)
    assert reason == reason_of(standing, dispatched=True)
    waits = standing.state == "PENDING" and not standing.reason
    assert ("QueueNotRunning" if waits else reason) == reason_of(standing, dispatched=False)


def facts(standing: Standing, **given: str) -> SlurmTask:
    """Return what lists show of a task, 100 seconds after the begin of time."""
    return SlurmTask(Entry(7, made(given)), None, standing, 100.0, queue="queue")


def test_times_of_what_waits_runs_and_has_ended() -> None:
    runs, ended = Run(2, 40.0, "n1", "w"), Run(1, 40.0, "n1", "w", "exit", 60.0, elapsed=20.0)
    of = [facts(one, time="3") for one in (
        Standing("PENDING", "", 1), Standing("RUNNING", "", 2, runs),
        Standing("COMPLETED", "", 1, ended),
    )]  # fmt: skip
    assert [0.0, 60.0, 20.0] == [one.elapsed for one in of]
    assert ["3:00", "2:00", "2:40"] == [one.left for one in of]
    assert [0.0, 0.0, 60.0] == [one.ended for one in of]
    assert [0, 1, 0] == [one.restarts for one in of]
    assert "0:00" == facts(Standing("RUNNING", "", 2, runs), time="0:30").left
    assert "UNLIMITED" == facts(Standing("RUNNING", "", 2, runs)).left
    never = facts(Standing("CANCELLED", "", 1, Run(1, 40.0, "login1", how="cancelled", ended=40.0)))
    assert (0.0, "", 0.0, 40.0) == (never.began, never.nodelist, never.elapsed, never.ended)


@pytest.mark.parametrize(
    ("how", "status", "signal", "shown"),
    [
        ("exit", 3, 0, "3:0"), ("signal", 0, 9, "0:9"), ("timeout", 0, 15, "0:0"),
        ("cancelled", 0, 15, "0:0"), ("memory", 0, 9, "0:125"), ("start", 127, 0, "127:0"),
    ],
)  # fmt: skip
def test_exit_codes(how: How, status: int, signal: int, shown: str) -> None:
    run = Run(1, 40.0, "n1", "w", how, 60.0, status, signal)
    assert shown == facts(Standing(outcome(run), "", 1, run)).exit_code


def test_memory_and_what_a_job_waits_for() -> None:
    given = {"nodes": "3", "mem": "1G", "dependency": "afterok:1:2,after:3"}
    waits, never, free = (
        facts(Standing("PENDING", reason, 1), **given) for reason in ("dependency", "never", "")
    )
    assert ("1G", "3G") == (waits.memory, waits.memory_of_all)
    text = "afterok:1({0}),afterok:2({0}),after:3({0})"
    assert text.format("unfulfilled") == waits.dependency
    assert text.format("failed") == never.dependency
    assert "" == free.dependency


@pytest.mark.parametrize(
    ("ends", "of_srun", "of_sbatch"),
    [
        ([Run(1, 1.0, "h", "w", "exit", 2.0)], 0, 0),
        ([Run(1, 1.0, "h", "w", "exit", 2.0, 3), Run(1, 1.0, "h", "w", "exit", 2.0, 2)], 3, 3),
        ([Run(1, 1.0, "h", "w", "signal", 2.0, signal=9)], 137, 1),
        ([Run(1, 1.0, "h", "w", "timeout", 2.0, signal=15)], 1, 1),
        ([Run(1, 1.0, "h", "w", "cancelled", 2.0), Run(1, 1.0, "h", "w", "exit", 2.0, 5)], 5, 5),
    ],
)
def test_the_status_of_a_job_is_the_highest_of_its_tasks(
    ends: list[Run], of_srun: int, of_sbatch: int
) -> None:
    entry = Entry(1, made({"array": f"1-{len(ends)}"}))
    for task, run in enumerate(ends, 1):
        entry.set_runs(task, [run])
    assert (of_srun, of_sbatch) == (exit_status(entry), exit_status(entry, otherwise=1))


# ---- steps

NO_CPU_BIND = "srun: fatal: Failed to parse --cpu-bind= values."
JOB = {"SLURM_JOB_ID": "12", "SLURM_NTASKS": "6", "SLURM_STEP_ID": "3", "PATH": "/bin"}


def ordered(given: Mapping[str, str], env: Mapping[str, str] = JOB) -> dict[str, Any]:
    return steps.step_order(given, env, ["/bin/true"], "/work")[0]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, {"tasks": 6, "nodes": 0, "exact": False, "overlap": False, "name": "true"}),
        ({"ntasks": "2", "nodes": "1-3"}, {"tasks": 2, "nodes": 1}),
        ({"ntasks": "9000", "nodes": "2K-1m"}, {"tasks": 9000, "nodes": 2048}),
        ({"ntasks-per-node": "3", "nodes": "2"}, {"tasks": 6, "tasks_per_node": 3, "nodes": 2}),
        ({"cpus-per-task": "2"}, {"each": 2, "exact": True}),
        ({"exact": ""}, {"each": 0, "exact": True}),
        ({"exclusive": ""}, {"exact": True}),
        ({"exact": "", "whole": ""}, {"exact": False}),
        ({"overlap": ""}, {"exact": False, "overlap": True}),
        ({"mem": "1G"}, {"memory": 1024.0}),
        ({"mem-per-cpu": "10"}, {"memory_per_cpu": 10.0}),
        ({"gres": "gpu:a100:2"}, {"gpus": 2}),
        ({"gres": "none"}, {"gpus": 0}),
        ({"gpus": "3"}, {"gpus_in_all": 3}),
        ({"gpus-per-task": "1"}, {"gpus_per_task": 1}),
        ({"gpus-per-socket": "2", "sockets-per-node": "2"}, {"gpus": 4}),
        ({"nodelist": "n[2-3]"}, {"hosts": ["n2", "n3"]}),
        ({"exclude": "n[2-3]"}, {"excluded": ["n2", "n3"]}),
        ({"relative": "1"}, {"relative": 1}),
        ({"distribution": "Cyclic:block"}, {"distribution": "cyclic:block"}),
        ({"distribution": "plane=2"}, {"distribution": "plane=2"}),
        ({"time": "0:30", "immediate": ""}, {"limit": 30.0, "immediate": True}),
        ({"output": "none", "error": "all"}, {"stdout": "/dev/null", "stderr": ""}),
        ({"jobid": "12", "job-name": "opt"}, {"name": "opt"}),
    ],
)
def test_options_of_a_step(given: dict[str, str], asked: dict[str, Any]) -> None:
    found = ordered(given)
    assert asked == {name: found[name] for name in asked}
    assert {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_STEP_ID"} == found["environment"].keys()


def test_a_step_takes_the_gpu_of_which_its_job_has_shards() -> None:
    job = {**JOB, "SLURM_SHARDS_ON_NODE": "2"}
    assert ordered({"gres": "shard:2"}, job) == ordered({}, job)
    for env in job, JOB:
        with pytest.raises(steps.StepRefused, match=r"job 12: Invalid generic resource \(gres\)"):
            ordered({"gres": "shard:3"}, env)


@pytest.mark.parametrize(
    "given",
    [
        {"mpi": "no"}, {"jobid": "13"}, {"x11": ""}, {"het-group": "1"}, {"gres": "shards:2"},
        {"gpus": "1.5"}, {"exclude": "n[1"}, {"nodelist": "n1", "exclude": "n[1-2]"},
    ],
)  # fmt: skip
def test_steps_that_there_are_not(given: dict[str, str]) -> None:
    with pytest.raises(steps.StepRefused):
        ordered(given)


@pytest.mark.parametrize(
    "given",
    [
        {"cpus-per-task": "0"}, {"ntasks": "x"}, {"nodes": "0"}, {"nodes": "x"}, {"nodes": "1g"},
        {"time": "x"}, {"mem": "x"}, {"relative": "x"}, {"distribution": "nope"},
        {"distribution": "plane"}, {"distribution": "arbitrary"}, {"gpus-per-socket": "1"},
    ],
)  # fmt: skip
def test_values_of_options_of_a_step_that_make_no_sense(given: dict[str, str]) -> None:
    with pytest.raises(BadUse):
        ordered(given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"accel-bind": "x"}, "Invalid --accel-bind specification"),
        ({"open-mode": "x"}, "Invalid --open-mode specification"),
        ({"exclusive": "x"}, "Invalid --exclusive specification"),
        ({"uid": "nobody-here"}, "Invalid --uid specification"),
        ({"gid": "nobody-here"}, "Invalid --gid specification"),
        ({"send-libs": "x"}, "Invalid --send-libs specification"),
        ({"resv-ports": "x"}, 'Invalid numeric value "x" for --resv-port.'),
        ({"signal": "nope"}, "Invalid --signal specification"),
        ({"threads": "0"}, 'Invalid numeric value "0" for --threads.'),
        ({"mem-bind": "map_mem:g"}, 'unrecognized --mem-bind argument "g"'),
        (
            {"cpu-bind": "rank,x"},
            f'unrecognized --cpu-bind argument "x"\n{NO_CPU_BIND}',
        ),
    ],
)
def test_wrong_arguments_of_options_of_a_step_are_refused_as_by_srun(
    given: dict[str, str], text: str
) -> None:
    with pytest.raises(BadUse) as refused:
        ordered(given)
    assert f"srun: error: {text}" == str(refused.value)
    ordered({"uid": "ann", "gid": str(os.getgid())}, {**JOB, "SLURM_JOB_USER": "ann"})
    ordered({"send-libs": "no", "bcast-exclude": "NONE", "resv-ports": "2", "bb": "x"})
    ordered({"cpu-bind": "v,mask_cpu:0x5,a0", "accel-bind": "gv", "exclusive": "user"})


def test_of_some_options_of_a_step_only_one_may_be_given() -> None:
    with pytest.raises(BadUse, match="--mem-per-gpu are mutually exclusive"):
        run_step(["--mem=1", "--mem-per-cpu=1", "true"], JOB)


def test_variables_with_memory_count_where_no_option_does() -> None:
    both = {"SLURM_MEM_PER_NODE": "50", "SLURM_MEM_PER_CPU": "20"}
    with pytest.raises(BadUse, match=r"srun: fatal: SLURM_MEM_PER_CPU, .* mutually exclusive"):
        run_step(["true"], {**JOB, **both})
    for name, option in (("SLURM_MEM_PER_NODE", "mem"), ("SLURM_MEM_PER_CPU", "mem-per-cpu")):
        with pytest.raises(BadUse, match=f"Invalid --{option} specification"):
            run_step(["true"], {**JOB, name: "bad"})
    # An option goes before both.
    assert 0 == run_step(["--test-only", "--mem=10", "true"], {**JOB, **both})


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"SLURM_HINT": "bad"}, 'unrecognized --hint argument "bad", see --hint=help'),
        (
            {"SLURM_THREADS_PER_CORE": "bad"},
            'Invalid numeric value "bad" for --threads-per-core.',
        ),
    ],
)
def test_wrong_variables_of_a_step_are_refused(variables: dict[str, str], text: str) -> None:
    with pytest.raises(BadUse) as refused:
        ordered({}, {**JOB, **variables})
    assert f"srun: error: {text}" == str(refused.value)
    job = {**JOB, "SLURM_HINT": "nomultithread", "SLURM_THREADS_PER_CORE": "1"}
    assert ordered({})["exact"] == ordered({}, job)["exact"]


def test_a_step_has_the_planes_of_its_job() -> None:
    env = {**JOB, "SLURM_DIST_PLANESIZE": "3"}
    assert "plane=3" == ordered({"distribution": "plane"}, env)["distribution"]


def test_a_colon_divides_the_parts_of_a_step_that_there_are_not() -> None:
    with pytest.raises(steps.StepRefused, match="heterogeneous"):
        steps.step_order({}, JOB, ["a", ":", "-n1", "b"], "/work")
    assert ordered({}) == steps.step_order({}, JOB, ["true", "a:b"], "/work")[0]


_FEWER = "srun: Warning: can't run {} processes on {} nodes, setting nnodes to {}"
_OTHER = (
    "srun: Warning: can't honor --ntasks-per-node set to {} which doesn't match the requested "
    "tasks {} with the number of requested nodes {}. Ignoring --ntasks-per-node."
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (4, 0, 0)),
        ({"ntasks": "2"}, (2, 0, 0)),
        ({"ntasks": "1"}, (1, 0, 0, _FEWER.format(1, 2, 1))),
        ({"ntasks": "1", "nodes": "2"}, (1, 1, 0, _FEWER.format(1, 2, 1))),
        ({"ntasks": "2", "nodes": "1"}, (2, 1, 0)),
        ({"nodes": "5"}, (4, 4, 0, _FEWER.format(4, 5, 4))),
        ({"ntasks-per-node": "2"}, (4, 0, 2)),
        ({"ntasks-per-node": "1"}, (4, 0, 0, _OTHER.format(1, 4, 2))),
        ({"ntasks-per-node": "1", "nodes": "2"}, (4, 2, 0, _OTHER.format(1, 4, 2))),
        ({"ntasks-per-node": "2", "nodes": "1"}, (4, 1, 0, _OTHER.format(2, 4, 1))),
        ({"ntasks-per-node": "2", "ntasks": "3"}, (3, 0, 0, _OTHER.format(2, 3, 2))),
        ({"ntasks-per-node": "2", "ntasks": "2"}, (2, 0, 2)),
        ({"ntasks-per-node": "3", "ntasks": "2", "nodes": "1"}, (2, 1, 3)),
    ],
)
def test_numbers_of_a_step_that_contradict_each_other(
    given: dict[str, str], expected: tuple[int | str, ...]
) -> None:
    env = {"SLURM_NTASKS": "4", "SLURM_NNODES": "2"}
    *numbers, warnings = steps.step_numbers(given, env)
    assert expected == (*numbers, *warnings)


def test_a_job_without_a_number_of_tasks_has_those_of_each_node() -> None:
    env = {"SLURM_NNODES": "2"}
    assert (0, 0, 1, ()) == steps.step_numbers({"ntasks-per-node": "1"}, env)
    assert 3 == steps.step_numbers({}, {"SLURM_NPROCS": "3"}).tasks


def test_variables_stand_for_options_of_srun() -> None:
    env = {"SRUN_CPUS_PER_TASK": "3", "SLURM_OVERLAP": "1", "SLURM_LABELIO": "0", "SLURM_WAIT": "5"}
    assert {"cpus-per-task": "3", "overlap": "", "wait": "5"} == steps.with_variables({}, env)
    given = {"exact": "", "cpus-per-task": "1"}
    assert {**given, "wait": "5"} == steps.with_variables(given, env)
    more = {"SLURM_LABELIO": "", "SLURM_OVERLAP": "no", "SLURM_REMOTE_CWD": "/a"}
    assert {"label": "", "chdir": "/a"} == steps.with_variables({}, more)
    limits = {"SLURM_TIMELIMIT": "2", "SLURM_STEP_GRES": "gpu:1", "SLURM_EXACT": "yes"}
    expected = {"time": "2", "gres": "gpu:1", "exact": ""}
    assert expected == steps.with_variables({}, limits)


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ({}, {"stdin": "all", "kills": False, "label": False, "bound": True, "wait": 0.0}),
        ({"input": "NONE"}, {"stdin": "/dev/null"}),
        ({"input": "2"}, {"stdin": "2"}),
        ({"kill-on-bad-exit": ""}, {"kills": True}),
        ({"kill-on-bad-exit": "0"}, {"kills": False}),
        ({"cpu-bind": "verbose,none"}, {"bound": False}),
        ({"cpu-bind": "q"}, {"bound": True}),
        ({"wait": "3", "open-mode": "append"}, {"wait": 3.0, "append": True}),
    ],
)
def test_how_srun_runs_processes(given: dict[str, str], how: dict[str, Any]) -> None:
    found = steps.srun_words(given)._asdict()
    assert how == {name: found[name] for name in how}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0 a %t\n1-2 b %o\n", [["a", "0"], ["b", "0"], ["b", "1"]]),
        ("* 'a b'\n", [["a b"]] * 3),
        # As a real srun has it: double quotes are letters, and so is # but at the begin of a line.
        ("* a%t '%t %o' \"%o\"\n", [[f"a{n}", "%t %o", f'"{n}"'] for n in range(3)]),
        (' # x\n0,2 a # x\n\n1 b "c d"\n', [["a", "#", "x"], ["b", '"c', 'd"'], ["a", "#", "x"]]),
        ("* a'b c'd\\ e '' \\%t 'f\\' %%t %x%\n", [["ab cd e", "", "%t", "f\\", "t", ""]] * 3),
        ("* a\\\nb \\\n c\n", [["ab", "", "c"]] * 3),
        ("0- a\n1-2 b", [["a"], ["b"], ["b"]]),
        ("0-1 a\n", None),
        ("0-2 a\n1 b\n", None),
        ("x a\n", None),
        ("0-2\n", None),
        ("0-2 'a\n", None),
    ],
)
def test_several_programs_of_a_step(text: str, found: list[list[str]] | None) -> None:
    if found is None:
        with pytest.raises(steps.StepRefused):
            steps.programs(text, 3, "conf")
        return
    assert found == steps.programs(text, 3, "conf")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("* a\n0 b", "Task range specification with asterisk must be last"),
        ("0 a\n0-1 b", "Duplicate record for task 0"),
        ("0 a\n1-3 b", "Invalid task id, 3 >= ntasks"),
        ("0 a\n9 b", "Invalid task id, 9 >= ntasks"),
        ("0 a\n'1' b", "Invalid task range specification ('1')"),
        ("0 a\n1 'b", "No executable program specified for this task"),
    ],
)
def test_wrong_numbers_of_programs_are_refused_as_by_srun(text: str, why: str) -> None:
    with pytest.raises(steps.StepRefused) as refused:
        steps.programs(text, 3, "conf")
    second = "srun: error: Line 2 of configuration file conf invalid"
    assert f"srun: error: {why}\n{second}" == str(refused.value)
    others = steps.programs("1 a\n* b %t %o\n* c", 3, "conf")
    assert [["b", "0", "0"], ["a"], ["b", "2", "2"]] == others


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]), ("n1,n2", ["n1", "n2"]), ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10]x,m", ["n08x", "n09x", "n10x", "m"]), ("n[1,4-5]", ["n1", "n4", "n5"]),
    ],
)  # fmt: skip
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert names == hosts(text)
