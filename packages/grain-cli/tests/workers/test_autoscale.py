"""`grain scale --auto`, with commands in place of a batch system and a scheduler that is a fake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from grain.cli import main
from grain.cli.scaling.configured import with_shape, worker_shape
from grain.cli.status.ls_text import scaling_text
from grain.cli.workers.autoscale import default_most
from grain.cli.workers.scaling_state import ScalingState, read_state
from grain.config import Config
from grain.edge.questions import DemandAnswer
from grain.facts.rows import Queue, Worker
from grain.files.batch_systems import facts_of
from grain.resource import Cores, GPUs, Memory, from_data
from grain_testkit.scale_command import line, scaling, slurm

Put = Callable[[str, str], Path]
Configure = Callable[[str], Config]
CLASS = Queue(request={"Cores": 4}, asked="Cores(4)", waiting=3)
SHAPED = """\
system = "slurm"
address = "{address}"
[worker]
log_file = ""
[script]
cores = 4
[[shape]]
name = "cpu"
max = 2
[[shape]]
name = "large"
cores = 16
"""


@pytest.fixture
def site(alone: Path, command: Put) -> str:
    """A Slurm and a configuration with two shapes; the address."""
    slurm(alone, command)
    (alone / "edge").mkdir(mode=0o700)
    address = f"edge://{alone}/edge/meeting"
    (alone / "grain.toml").write_text(SHAPED.format(address=address))
    return address


def demand(*classes: Queue) -> DemandAnswer:
    return DemandAnswer(1, list(classes), 0, [])


def test_it_submits_what_tasks_need_and_says_why(alone: Path, site: str, answering: Any) -> None:
    fake = answering(site, demand=demand(CLASS))
    with fake as head, scaling("--auto", "--max", "3") as output:
        assert (0, 3, "workers by demand, 3 at most") == line(output)
        alive, _, what = line(output)

    assert 2 == alive
    # So a mission is told of no worker that is replaced.
    assert all(ask.scales for ask in head.asked if ask.about == "demand")
    assert what.startswith("+2 cpu: 3 tasks of Cores(4) wait; how long they take is not ")
    [file] = (alone / "state/grain/jobs").iterdir()
    marks = [json.loads(one) for one in file.read_text().splitlines()]
    assert [("cpu", "scale")] * 2 == [(one["shape"], one["by"]) for one in marks]


def test_impossible_tasks_are_reported_once_and_nothing_is_submitted(
    alone: Path, site: str, answering: Any
) -> None:
    huge = replace(CLASS, request={"Cores": 64}, asked="Cores(64)")
    with answering(site, demand=demand(huge)), scaling("--auto", "--max", "3") as output:
        line(output)
        _, _, what = line(output)

    assert (
        "Cores(64) can run on no worker of this file: cpu: it has CPU_Cores([0-3]), asked for "
        "Cores(64); large: it has CPU_Cores([0-15]), asked for Cores(64)"
    ) == what
    assert not (alone / "n").exists()


@pytest.mark.parametrize(
    "nonsense", [{"classes": 3}, [], demand(replace(CLASS, request={"Cores": "x"}))]
)
def test_a_scheduler_that_answers_nonsense_is_named_and_nothing_is_submitted(
    alone: Path, site: str, answering: Any, nonsense: Any
) -> None:
    with answering(site, demand=nonsense), scaling("--auto", "--max", "3") as output:
        line(output)
        _, _, what = line(output)

    assert re.match(r"the scheduler('s answer is not understood| at .* answer is not valid)", what)
    assert not (alone / "n").exists()


def test_a_batch_system_that_does_not_answer_stops_everything(
    alone: Path, site: str, answering: Any, command: Put
) -> None:
    command("sbatch", "cat > /dev/null; echo 1")
    with scaling("--auto", "--min", "1", "--max", "3", "-s", "cpu") as output:
        lines = [line(output) for _ in range(3)]
    assert any("there are always 1" in what for *_, what in lines)
    command("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1")
    with answering(site, demand=demand(CLASS)):
        refused = CliRunner().invoke(main, ["scale", "--auto"])

    assert 1 == refused.exit_code
    assert "squeue failed (exit code 1)" in refused.output


def test_a_second_one_for_an_address_ends_with_a_sentence(alone: Path, site: str) -> None:
    with scaling("--auto") as output:
        line(output)
        second = CliRunner().invoke(main, ["scale", "--auto"])

    assert 1 == second.exit_code
    assert f"keeps workers for {site} already; end it first" in second.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("4", "--auto"), "for 4 at most: grain scale --auto --max 4"),
        (("4", "--min", "2"), "--min belongs to --auto: grain scale --auto --min 2"),
        (("4", "--idle", "5m"), "--idle belongs to --auto: grain scale --auto --idle 5m"),
        (("--auto", "--min", "3", "--max", "2"), "--min 3 is more than --max 2"),
        (("--auto", "--idle", "soon"), "--idle soon: write a span of time, as 10m, 1h30m or"),
        (("--auto", "--work", "much"), "--work much: write a span of time, as 10m, 1h30m or"),
        ((), "or let the tasks decide: grain scale --auto"),
    ],
)
def test_wrong_usage_is_explained(alone: Path, words: tuple[str, ...], expected: str) -> None:
    done = CliRunner().invoke(main, ["scale", *words])

    assert 2 == done.exit_code
    assert expected in " ".join(done.output.split())


def test_an_unknown_shape_is_refused(alone: Path, site: str) -> None:
    done = CliRunner().invoke(main, ["scale", "--auto", "-s", "gpu"])

    assert (1, True) == (done.exit_code, "there is no shape 'gpu'" in done.output)


def test_what_a_worker_will_have_follows_from_the_configuration(configure: Configure) -> None:
    text = """
    system = "slurm"
    [worker.res]
    Token = { token = "a" }
    Capacity = "auto"
    [worker.reserve]
    memory = 1
    walltime = 100
    [script]
    cores = 8
    memory = 32
    walltime = 3700
    [[shape]]
    name = "gpu"
    max = 3
    charge = 7
    extra_args = ["--gres=gpu:2"]
    """
    config = configure(text)
    shape = worker_shape(with_shape(config, config.shape[0]), config.shape[0], 1)

    have = Cores(8) & Memory(31) & GPUs(2) & from_data({"Token": {"token": "a"}})
    assert (have, frozenset({"Capacity"})) == (shape.total, shape.unknown)
    assert (3600, 3, 7.0, "gpu") == (shape.seconds, shape.most, shape.cost, shape.name)
    plain = worker_shape(configure('system = "slurm"'), None, 1)
    assert ("node", frozenset({"Cores", "Memory"})) == (plain.name, plain.unknown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('system = "slurm"', 10),
        ('system = "local"', 1),
        ('system = "ssh"\nhosts = ["n1", "n2:3"]', 4),
        ("[[shape]]\nname = 'a'\nmax = 3\n[[shape]]\nname = 'b'\nmax = 4", 7),
        ("system = 'slurm'\n[[shape]]\nname = 'a'\nmax = 3\n[[shape]]\nname = 'b'", 10),
    ],
)
def test_without_max_there_is_a_sane_limit(configure: Configure, text: str, expected: int) -> None:
    assert expected == default_most(configure(text))


def test_the_workers_of_a_job_of_several_nodes_are_let_go_together(
    alone: Path, command: Put, answering: Any
) -> None:
    """As one job, when all of them are idle."""
    slurm(alone, command)
    (alone / "edge").mkdir(mode=0o700)
    address = f"edge://{alone}/edge/meeting"
    with (alone / "grain.toml").open("a") as config:
        config.write(f'dial = "{address}"\n[script]\nnodes = 2\ncores = 4\n')
    with scaling("--auto", "--min", "1") as output:
        assert any("+1 node: there are always 1 (w)" in line(output)[2] for _ in range(3))
    (alone / "listed").write_text("1|RUNNING|None|n[1-2]\n")
    both = [
        Worker(
            id=f"id{at}",
            name=f"w.{at}",
            host="n1",
            total=cores,
            free=cores,
            idle=4000.0 + at,
            job="1",
        )
        for at, cores in enumerate([{"Cores": 4}] * 2)
    ]
    with (
        answering(address, demand=DemandAnswer(1, [], 0, both), drain=[]) as scheduler,
        scaling("--auto", "--idle", "1m") as output,
    ):
        told = [line(output)[2] for _ in range(2)]

    assert "-1 node (w): it was idle for 1 h 7 min" == told[1]
    assert ["id0", "id1"] == [one.pattern for one in scheduler.asked if one.about == "drain"]


def test_nodes_are_avoided_where_the_batch_system_can() -> None:
    nodes = ("n1", "n2")
    assert ("--exclude=n1,n2",) == facts_of("slurm").avoiding(nodes)
    assert ("-l", "h=!(n1|n2)") == facts_of("sge").avoiding(nodes)
    assert ("--requires=-host:n1,n2",) == facts_of("flux").avoiding(nodes)
    assert ("-R", "select[hname!='n1' && hname!='n2']") == facts_of("lsf").avoiding(nodes)
    assert () == facts_of("pbs").avoiding(nodes) == facts_of("slurm").avoiding(())


def test_ls_shows_shapes_decisions_and_impossible_tasks(tmp_path: Path) -> None:
    state = ScalingState(tmp_path, "edge:///x")
    state.note("+2 cpu: 3 tasks of Cores(4) wait, 30 min of work (w1, w2)")
    shape = {"name": "cpu", "jobs": {"pending": 2}, "max": 4, "pause": 30.0, "avoided": ["n1"]}
    reasons = {"cpu": "it has CPU_Cores([0-3]), asked for Cores(64)"}
    impossible = [{"ask": "Cores(64)", "waiting": 3, "reasons": reasons}]
    learnt = {**shape, "name": "gpu", "pause": 0, "avoided": [], "worth": 90.0}
    state.write({"min": 0, "max": 10, "shapes": [shape, learnt], "impossible": impossible})
    text = scaling_text(read_state(tmp_path, "edge:///x"), 80)
    state.remove()

    assert "cpu    2        0        0     4    pause of 30 s after failures; avoids n1\n" in text
    assert "gpu    2        0        0     4    one for each 1 min 30 s of work\n" in text
    assert " +2 cpu: 3 tasks of Cores(4) wait, 30 min of work (w1, w2)\n" in text
    assert "Impossible: Cores(64), 3 waiting (cpu: it has CPU_Cores([0-3])" in text
    assert "From 0 to 10 workers, by process " in text
    assert "" == scaling_text(read_state(tmp_path, "edge:///x"))


def test_a_state_that_is_old_or_cut_off_is_not_shown(tmp_path: Path) -> None:
    state = ScalingState(tmp_path, "a")
    state.write({})
    [path] = tmp_path.iterdir()
    for text in ('{"time": 1.0}', '{"time', "[]", '{"time": "x"}'):
        path.write_text(text)
        assert read_state(tmp_path, "a") is None


def test_a_state_that_another_user_may_have_written_is_not_read(tmp_path: Path) -> None:
    """A named pipe there would hold up `grain ls`.

    Tried: Plant records of jobs and missions in a state directory that others share, so that
    `grain drain` or `grain cancel` ends another process of the user.
    Result: not believed.
    """
    ScalingState(tmp_path, "a").write({"count": 1})
    assert read_state(tmp_path, "a") is not None
    tmp_path.chmod(0o777)
    assert None is read_state(tmp_path, "a")
