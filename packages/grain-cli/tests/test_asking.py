"""`grain ls`, `why` and `drain`, with a scheduler that says one thing."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import trio
from click.testing import CliRunner, Result
from msgspec.structs import replace
from trio.testing import MockClock

from grain.cli import completion, main, query
from grain.cli.batch import JobPhase, JobRecord, JobRecords, JobState
from grain.cli.status.ls import state_data
from grain.cli.status.ls_text import MANY, jobs_text, state_text, versions_text
from grain.cli.workers.jobs import OwnJob
from grain.edge import make_key
from grain.edge.errors import DialError
from grain.edge.questions import (
    CallAnswer,
    ClusterState,
    PeerVersions,
    ProgramsAnswer,
    ProgramState,
    StateAnswer,
    TaskCounts,
    WhyAnswer,
)
from grain.facts.rows import Mission, Worker
from grain_testkit import small_log
from grain_testkit.local_processes import stop
from grain_testkit.states import mission, queue, state, worker

if TYPE_CHECKING:
    from pathlib import Path

Put = Callable[[str, str], "Path"]

WORKER = worker(
    "w1",
    id="1",
    total={"Cores": 16, "Memory": 59.5, "Streams": {"orca": 3}},
    free={"Cores": [0, 1, 2, 3], "Memory": 19.5, "Streams": {"orca": 1}},
    used={"Cores": 0.75, "Memory": 0.6723, "Streams": None},
    left=2530.0,
    running=3,
    tasks=["opt:3", "opt:5"],
)
OPT = mission("opt", id="abcdef12", running=3, waiting=13, done=120, failed=2, retried=4)
FULL = queue({"Cores": 4}, waiting=12, running=3, oldest="opt:6", why="the worker is full")
NO_GPUS = "w1: it has no GPUs at all"
NEVER = queue({"GPUs": 1}, priority=2, waiting=1, oldest="opt:40", never=NO_GPUS, why=NO_GPUS)
STATE = state(
    [WORKER],
    [OPT],
    [FULL, NEVER],
    [Mission(name="first", host="login1", ended=86400.0, done=7, failed=0, retried=1)],
    tasks=TaskCounts(
        waiting=13, awaiting_report=2, running=3, done=0, failed=0, retried=4, suspect=1
    ),
)


@pytest.fixture
def address(alone: Path) -> str:
    """Write a configuration with a fake Slurm, and return its address."""
    folder = alone / "s"
    folder.mkdir(mode=0o700)
    url = f"unix://{folder}/s"
    (alone / "grain.toml").write_text(f'system = "slurm"\naddress = "{url}"\n')
    return url


def grain(*words: str) -> Result:
    """Type a command; with patience, as a busy machine may keep the scheduler from answering."""
    if words[0] in {"cancel", "ls", "why", "drain"} and "--patience" not in words:
        words = (words[0], "--patience", "60", *words[1:])
    return CliRunner().invoke(main, [*words], catch_exceptions=False)


def listed(*words: str) -> Result:
    """`grain ls` with an answer of the batch system, for which it waits some seconds only."""
    end = time.monotonic() + 120
    while "the batch system has not answered yet" in (done := grain("ls", *words)).output:
        assert time.monotonic() < end
    return done


def submitted(folder: Path, address: str, **ids: str) -> float:
    """Write records, by name; of a minute ago, which is returned."""
    at = time.time() - 60
    records = JobRecords(folder / "state/grain/jobs")
    file = records.new_file()
    for name, one in ids.items():
        log = str(folder / f"{name}.log")
        records.add(file, JobRecord(one, "slurm", name, log, address, "", at))
    return at


def test_ls_shows_what_there_is(address: str, answering: Any) -> None:
    """Workers with what they own, use and have left; missions; what waits and why."""
    with answering(address, state=STATE):
        done = grain("ls")

    assert 0 == done.exit_code
    lines = [line.split() for line in done.output.splitlines()]
    words = " ".join(done.output.split())
    assert ["w1", "n17", "serving", "00:42:10", "3"] in lines
    assert "runs opt:3 opt:5 ...\n" in done.output
    assert (
        "given Cores 75 %, Memory 67 %, Streams ? of Cores(16) & Memory(59.5) & "
        'Streams({"orca": 3}); free Cores(4) & Memory(19.5) & Streams({"orca": 1}) '
    ) in words
    assert ["opt", "login1", "connected", "3", "13", "120", "2", "4"] in lines
    assert "opt      0         3        12       opt:6   Cores(4)\n  waits: the " in done.output
    assert (
        "opt:40  GPUs(1)\n  waits: no worker here can run it: w1: it has no GPUs at" in done.output
    )
    [last] = [line for line in lines if line[:1] == ["first"]]
    assert ["login1", "7", "0", "1"] == [last[1], *last[-3:]]
    assert last[2].startswith("1970-01-0")
    assert "2 tasks wait for the reports of the workers that they ran on.\n" in done.output
    assert "1 task that crashed waits for a worker of its own.\n" in done.output


def versions(python: str, grain: str = "1.0", numpy: str = "2.1.0") -> dict[str, str]:
    name = f"Python {python.rpartition('.')[0]}"
    return {"interpreter": name, "python": python, "grain": grain, "numpy": numpy}


def mixed(mission: dict[str, str], *workers: dict[str, str]) -> StateAnswer:
    """Return the state with a mission and workers of these versions."""
    here = [worker(f"w{n}", versions=v) for n, v in enumerate(workers)]
    missions = [replace(OPT, versions=mission)]
    return replace(
        STATE, workers=here, missions=missions, versions=PeerVersions(**versions("3.13.0"))
    )


def test_ls_shows_versions_where_they_differ() -> None:
    old, new = versions("3.11.7", numpy=""), versions("3.12.1", numpy="1.26.4")
    answer = mixed(old, *[new] * 6, old)

    assert (
        "VERSIONS DIFFER\n"
        "PYTHON       GRAIN  NUMPY  WORKERS                 MISSIONS\n"
        "Python 3.11  1.0    -      w6                      opt\n"
        "Python 3.12  1.0    1      w0 w1 w2 w3 and 2 more  -\n"
    ) == versions_text(answer)
    assert versions_text(answer) in state_text(answer)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (versions("3.11.2"), False),
        (versions("3.11.7", numpy="2.4.0"), False),
        (versions("3.11.7", numpy=""), False),
        ({}, False),
        (versions("3.11.7", numpy="1.26.4"), True),
        (versions("3.11.7", grain="1.1"), True),
    ],
    ids=["patch", "minor NumPy", "no NumPy", "not stated", "major NumPy", "Grain"],
)
def test_ls_shows_only_versions_that_matter(other: dict[str, str], differs: bool) -> None:
    assert differs is bool(versions_text(mixed(versions("3.11.7"), other)))


def test_ls_shows_clusters_where_there_are_several() -> None:
    workers = [worker(f"w{n}", cluster=n * "two", left=2530.0) for n in range(2)]

    several = state_text(replace(STATE, workers=workers)).splitlines()
    assert "NAME  CLUSTER  HOST  STATE    LEFT      RUNNING" == several[1]
    assert ["w0    -  ", "w1    two"] == [line[:9] for line in several if line.startswith("w")]
    assert "CLUSTER" not in state_text(replace(STATE, workers=workers[1:]))
    evil = [workers[0], replace(WORKER, cluster="\x1b[2Jx")]
    assert "?[2Jx" in state_text(replace(STATE, workers=evil))


def test_ls_sums_up_many_workers() -> None:
    """Unless each is asked for; by state and size."""
    workers = [worker(f"w{n:02}", left=60.0 * n, running=2) for n in range(MANY + 5)]
    workers[-1] = replace(workers[-1], state="away", running=0, left=None)
    text = state_text(replace(STATE, workers=workers))
    lines = text.splitlines()

    assert "COUNT  STATE    LEFT             RUNNING" == lines[1]
    assert "1      away     -                0" == lines[2]
    assert f"{MANY + 4}     serving  0 s to 00:23:00  48" in lines
    assert "  w00 w01 w02 ..." in lines
    assert "Each of the 25 workers: grain ls --all" in lines
    assert "of Cores" in text
    each = state_text(replace(STATE, workers=workers), everything=True)
    assert [] == [one.name for one in workers if one.name not in each]
    assert "COUNT" not in state_text(replace(STATE, workers=workers[:MANY]))


def test_ls_lists_so_many_jobs_and_the_number_of_the_others() -> None:
    record = JobRecord("6", "slurm", "w", "", "", "", time.time())
    jobs = [OwnJob(record, JobState(JobPhase.PENDING))] * (MANY + 3)

    assert jobs_text(jobs, ()).splitlines()[-1] == "and 3 more: grain ls --all"
    assert len(jobs_text(jobs, (), everything=True).splitlines()) == MANY + 6
    assert "more" not in jobs_text(jobs[:MANY], ())


def test_ls_shows_what_the_whole_cluster_has() -> None:
    licences = ClusterState("Licences", {"orca": (0, 2), "vasp": (3, 5)}, "vasp: others use 1")
    disks = ClusterState("Disks", {"": (1, 4)})
    text = state_text(replace(STATE, cluster=[licences, disks]))

    assert (
        "cluster: Licences 0 of 2 orca, 3 of 5 vasp in use (vasp: others use 1)\n"
        "cluster: Disks 1 of 4 in use\n"
    ) in text


def test_ls_shows_a_mission_that_is_paused() -> None:
    paused = replace(OPT, paused=True, unconfirmed=7, unconfirmed_bytes=1_100_000_000)
    text = state_text(replace(STATE, missions=[paused]))
    assert "paused" in text
    assert "opt has not taken 7 outcomes, 1.1 GB: no more of it starts until it has." in " ".join(
        text.split()
    )


def test_ls_as_json(address: str, answering: Any) -> None:
    """The output has the scheduler's answer and the jobs whose workers have not joined yet."""
    with answering(address, state=STATE):
        results = json.loads(grain("ls", "--json").output)

    assert state_data(STATE).items() <= results.items()
    assert (address, []) == (results["address"], results["jobs"])


def test_the_names_in_the_json_of_ls_stay_as_they_are() -> None:
    """Programs of users read them."""
    data = state_data(STATE)

    names = "epoch tasks workers missions queues more_queues ended versions troubles cluster"
    assert names.split() == [*data]
    counts = ["waiting", "awaiting report", "running", "done", "failed", "retried", "suspect"]
    assert counts == [*data["tasks"]]
    names = (
        "id name label host cluster state backlog total free used left running computing tasks "
        "versions"
    )
    assert names.split() == [*data["workers"][0]]
    names = (
        "done failed retried id name label host connected unconfirmed unconfirmed_bytes paused "
        "running waiting versions number"
    )
    assert names.split() == [*data["missions"][0]]
    names = "request interpreter mission priority waiting running oldest never why"
    assert names.split() == [*data["queues"][0]]
    assert ["name", "host", "at", "done", "failed", "retried"] == [*data["ended"][0]]
    assert ["interpreter", "python", "grain", "numpy"] == [*data["versions"]]


def test_ls_names_the_scheduler_and_the_configuration(
    alone: Path, address: str, answering: Any
) -> None:
    """Also one that was found in a directory above."""
    below = alone / "runs"
    below.mkdir()
    os.chdir(below)
    with answering(address, state=STATE):
        done = grain("ls")

    last = f"The scheduler is at {address}; the configuration is {alone}/grain.toml.\n"
    assert done.output.endswith(last)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_ls_fits_the_terminal(
    address: str, answering: Any, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Names are shortened in the middle, sentences are folded between words."""
    monkeypatch.setenv("COLUMNS", str(columns))
    name = "a-very-long-name-of-a-mission-that-somebody-chose-for-its-parameters-0.25"
    host = "node0017.cluster.chemistry.example-university.edu"
    answer = replace(
        STATE,
        workers=[replace(WORKER, label=f"w-{name}", host=host, tasks=[f"{name}:1"] * 4)],
        missions=[replace(OPT, label=name, host=host)],
        queues=[replace(one, mission=name, oldest=f"{name}:7") for one in STATE.queues],
        ended=[replace(STATE.ended[0], name=name, host=host)],
    )
    with answering(address, state=answer):
        listed = grain("ls").output

    *lines, _ = listed.splitlines()  # the last one has the paths of this test
    assert [] == [line for line in lines if len(line) > columns]
    assert (f"\n{name} " in listed) == (columns > 80)
    assert "no worker here can run it" in " ".join(listed.split())


def test_ls_of_nothing(address: str, answering: Any) -> None:
    """It says what to do."""
    with answering(address, state=state()):
        done = grain("ls")

    assert done.output.startswith("No worker is here; `grain up` submits some.\n\nNo mission is h")


def test_ls_shows_jobs_that_are_not_here(
    alone: Path, address: str, command: Put, answering: Any
) -> None:
    """With the batch system's reason; workers that are here are not shown twice."""
    submitted(alone, address, w1="6_0", w2="6_1", gone="5")
    command("squeue", "echo '6_0|RUNNING|None|n17'; echo '6_1|PENDING|Priority|'")
    with answering(address, state=STATE):
        done = listed()

    table = done.output.split("JOBS NOT HERE YET\n")[1].splitlines()
    assert ["w2", "6_1", "pending"] == table[1].split()[:3]
    assert "Priority" == table[1].split()[-1]
    assert "" == table[2]


def test_ls_shows_the_jobs_of_workers_that_wait_for_the_first_mission(
    alone: Path, address: str, command: Put
) -> None:
    """As after `grain up`: nothing is wrong, so the exit status is 0."""
    submitted(alone, address, w1="6_0")
    command("squeue", "echo '6_0|PENDING|Priority|'")
    done = listed("--patience", "0.1")

    assert 0 == done.exit_code
    assert "JOBS NOT HERE YET\n" in done.output
    assert (
        "No scheduler runs yet: the first mission starts it, and workers join it.\n" in done.output
    )


def test_ls_says_why_it_shows_no_jobs_where_there_is_no_scheduler_either(
    alone: Path, address: str, command: Put
) -> None:
    """As where another user could have written their records."""
    submitted(alone, address, w1="6_0")
    command("squeue", "echo 'squeue: error: Socket timed out' >&2; exit 1")
    done = listed("--patience", "0.1")

    assert 1 == done.exit_code
    assert "Note: jobs are not shown: squeue failed (exit code 1)" in done.output


def test_ls_shows_workers_without_an_answer_of_the_batch_system(
    alone: Path, address: str, command: Put, answering: Any
) -> None:
    submitted(alone, address, w2="6_1")
    command("squeue", "echo 'squeue: error: Socket timed out' >&2; exit 1")
    with answering(address, state=STATE):
        done = listed()

    assert 0 == done.exit_code
    assert "w1" in done.output
    assert "Note: jobs are not shown: squeue failed (exit code 1)" in done.output


def test_without_a_task_why_lists_some(address: str, answering: Any) -> None:
    with answering(address, state=STATE):
        done = grain("why")

    assert 2 == done.exit_code
    expected = "name a task, as in: grain why opt:6; waiting: opt:6 opt:40; running: opt:3 opt:5\n"
    assert done.output.endswith(f"Error: {expected}")


@pytest.mark.parametrize(
    ("missions", "expected"),
    [
        ([OPT], "none of opt waits or runs now"),
        ([], "none is here, no mission either"),
    ],
)
def test_without_a_task_why_says_that_there_is_none(
    address: str, answering: Any, missions: list[Any], expected: str
) -> None:
    with answering(address, state=state(missions=missions)):
        done = grain("why")

    assert done.output.endswith(f"Error: name a task, as in: grain why opt:17; {expected}\n")


def test_without_a_pattern_quit_lists_the_workers(
    alone: Path, address: str, command: Put, answering: Any
) -> None:
    """Those that are here, and jobs that are not here yet."""
    submitted(alone, address, w1="6_0", w2="6_1")
    command("squeue", "echo '6_0|RUNNING|None|n17'; echo '6_1|PENDING|Priority|'")
    with answering(address, state=STATE):
        done = grain("drain")

    assert 2 == done.exit_code
    expected = "name the workers, as in: grain drain w1; there are: w1, w2\n"
    assert done.output.endswith(f"Error: {expected}")


def test_without_a_pattern_and_workers_quit_says_what_to_do(address: str, answering: Any) -> None:
    with answering(address, state=state()):
        done = grain("drain")

    expected = "no worker is here, and none waits for its job; `grain up` submits some\n"
    assert done.output.endswith(f"Error: {expected}")


def complete(monkeypatch: pytest.MonkeyPatch, *words: str) -> set[str]:
    """Return the completions of the last word, as bash gets them."""
    monkeypatch.setenv("_GRAIN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(["grain", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    done = CliRunner().invoke(main, [], prog_name="grain")
    return {line.removeprefix("plain,") for line in done.output.split()}


@pytest.mark.usefixtures("patient_completion")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["drain", "w"], {"w1", "w2"}),
        (["drain", "x"], set()),
        (["logs", ""], {"w2"}),
        (["why", "opt:"], {"opt:6", "opt:40", "opt:3", "opt:5"}),
    ],
)
def test_completion_knows_names(
    alone: Path, address: str, answering: Any, monkeypatch: pytest.MonkeyPatch,
    words: list[str], expected: set[str],
) -> None:  # fmt: skip
    """Of workers, those that are here and those that were submitted; of tasks, some of each."""
    submitted(alone, address, w2="6_1")
    evil = worker("w\x1b[2J")
    with answering(address, state=replace(STATE, workers=[WORKER, evil])):
        completed = complete(monkeypatch, *words)

    assert expected == completed


@pytest.fixture
def patient_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a busy machine may keep the scheduler from answering."""
    monkeypatch.setattr(completion, "PATIENCE", 60.0)


@pytest.mark.usefixtures("address")
def test_completion_is_silent_without_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set() == complete(monkeypatch, "why", "")


def test_completion_follows_the_configuration_that_is_named(
    alone: Path, address: str, answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "PATIENCE", 60.0)
    (alone / "grain.toml").rename(alone / "other.toml")
    with answering(address, state=STATE):
        before = complete(monkeypatch, "-c", "other.toml", "drain", "w")
        after = complete(monkeypatch, "drain", "-c", "other.toml", "w")

    assert {"w1"} == before == after


def test_names_cannot_move_the_cursor(address: str, answering: Any) -> None:
    """Nothing that another user has named is written to the terminal as it is."""
    evil = "\x1b[2J\x9b\r\n\u202e"
    listed = state([worker(f"w{evil}", host=evil)])
    with answering(address, state=listed, why=WhyAnswer(1, evil, [evil])):
        shown = grain("ls").output + grain("why", "opt:1").output

    assert not set("\x1b\x9b\r\u202e") & set(shown)
    assert "w?[2J????" in shown


def test_lines_of_failed_jobs(alone: Path, address: str, command: Put, answering: Any) -> None:
    """Jobs that ended as soon as they were submitted are reported, with their log."""
    at = submitted(alone, address, a="1", b="2", c="3")
    command("squeue", "exit 0")
    for name in "abc":
        log = alone / f"{name}.log"
        log.write_text("no such module")
        os.utime(log, (at + 3, at + 3))
    with answering(address, state=STATE):
        done = listed()

    note = "Note: 3 of the last 3 jobs ended within 10 s: see "
    assert f"{note}{alone}/c.log\n" in done.output


def test_why_sends_the_task_and_prints_the_reasons(address: str, answering: Any) -> None:
    answer = WhyAnswer(17, "waiting", ["it asks for Cores(4)", "w1: not now"])
    with answering(address, why=answer) as scheduler:
        done = grain("why", "my:opt:17")

    assert ("my:opt", 17) == (scheduler.asked[0].mission, scheduler.asked[0].task)
    assert "task my:opt:17 is waiting\n  it asks for Cores(4)\n  w1: not now\n" == done.output


RUN: dict[str, Any] = {"function": "energy", "worker": "w1", "began": 86400.0, "seconds": 3723.4}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            {"state": "running", "reasons": ["it asks for Cores(4)"], **RUN, "host": "n17"},
            (
                "task opt:17 is running\n"
                "  it calls energy\n"
                "  it runs on worker w1 (host n17), from 1970-01-02 AT, for 1 h 2 min\n"
                "  it asks for Cores(4)\n"
            ),
        ),
        (
            {
                "state": "running",
                "reasons": [],
                **RUN,
                "host": "n17",
                "programs": [
                    ["xtb h2o.xyz --opt", 65.2, 250.04, 1.5],
                    ["sh", 2.0, None, None],
                ],
            },
            (
                "task opt:17 is running\n"
                "  it calls energy\n"
                "  it runs on worker w1 (host n17), from 1970-01-02 AT, for 1 h 2 min\n"
                "  it has run for 1 min 5 s, with 250.0 s of CPU time and 1.5 GB of memory now: "
                "xtb h2o.xyz --opt\n"
                "  it has run for 2 s: sh\n"
            ),
        ),
        (
            {"state": "ended", "reasons": [], **RUN, "ended": "value"},
            (
                "task opt:17 is done\n"
                "  it calls energy\n"
                "  it ran on worker w1, from 1970-01-02 AT, for 1 h 2 min\n"
            ),
        ),
        (
            {"state": "ended", "reasons": [], **RUN, "ended": "error", "why": "ValueError: odd"},
            (
                "task opt:17 has failed\n"
                "  it calls energy\n"
                "  it ran on worker w1, from 1970-01-02 AT, for 1 h 2 min\n"
                "  the reason: ValueError: odd\n"
            ),
        ),
    ],
)
def test_why_of_a_run_says_function_worker_and_time(
    address: str, answering: Any, answer: dict[str, Any], expected: str
) -> None:
    """Also of one that has ended."""
    programs = ProgramsAnswer([ProgramState(*one) for one in answer.pop("programs", [])])
    why = WhyAnswer(17, **answer)
    with answering(address, why=why, arguments=CallAnswer(""), programs=programs):
        done = grain("why", "opt:17")

    assert expected == re.sub(r"1970-01-0\d [\d:]+", "1970-01-02 AT", done.output)
    assert 0 == done.exit_code


def test_why_shows_the_call_that_the_mission_has(address: str, answering: Any) -> None:
    """In place of the function's name alone; without an answer that stays."""
    answer = WhyAnswer(17, "waiting", [], "energy")
    call, none = CallAnswer("energy('h2o.xyz')"), ProgramsAnswer([])
    with answering(address, why=answer, arguments=call, programs=none):
        assert "  it calls energy('h2o.xyz')\n" in grain("why", "opt:17").output
        assert "energy('h2o.xyz')" == json.loads(grain("why", "--json", "opt:17").output)["call"]
    with answering(address, why=answer, arguments=CallAnswer(""), programs=none):
        assert "  it calls energy\n" in grain("why", "opt:17").output


def test_why_reads_the_log_of_the_very_mission_and_of_no_namesake(
    address: str, answering: Any
) -> None:
    """The scheduler knows which mission it means; another one of the name has left a log."""
    small_log.write(small_log.HEADER, [*small_log.body(), small_log.END])
    answer = WhyAnswer(3, "ended", [], **RUN, ended="value", mission_id="0123456789")
    known: dict[str, Any] = {"arguments": CallAnswer(""), "programs": ProgramsAnswer([])}

    with answering(address, why=answer, **known):
        other = grain("why", "opt:3")
    with answering(address, why=replace(answer, mission_id=small_log.HEADER.id), **known):
        same = grain("why", "opt:3")

    assert "task opt:3 is done\n" in other.output
    assert "by the event log of mission" not in other.output
    assert "by the event log of mission opt (a1b2c3d4) of " in same.output
    assert "mission_id" not in other.output


def test_why_of_what_is_not_there(address: str, answering: Any) -> None:
    """Exit code 1, and JSON for programs."""
    answer = {"task": 17, "state": "unknown", "reasons": ["it has ended, or was never submitted"]}
    with answering(address, why=answer):
        done = grain("why", "--json", "opt:17")

    assert 1 == done.exit_code
    assert {**answer, "mission": "opt"} == json.loads(done.output)


def test_the_name_of_a_job_of_several_nodes_lets_all_of_its_workers_go(
    alone: Path, address: str, command: Put, answering: Any
) -> None:
    """A pattern that matches the names of the workers themselves is asked for once."""
    records = JobRecords(alone / "state/grain/jobs")
    job = JobRecord("7", "slurm", "w1", "", address, "", time.time() - 60, nodes=2)
    records.add(records.new_file(), job)
    command("squeue", "echo '7|RUNNING|None|n[1-2]'")
    one = Worker(name="id1", label="w1.1", host="n1", state="serving")
    with answering(address, state=state([]), drain=[one]) as scheduler:
        named = grain("drain", "w1")
        grain("drain", "w1*")

    assert 0 == named.exit_code
    assert "w1.1 on n1: leaves\n" in named.output
    asked = [one.pattern for one in scheduler.asked if one.about == "drain"]
    assert ["w1", "w1.*", "w1*"] == asked


@pytest.mark.parametrize("words", [["opt"], [":3"], ["opt:x"], ["opt:-1"], ["opt:" + "9" * 30]])
def test_why_of_nonsense(address: str, words: list[str]) -> None:
    """Is a mistake of the command line, before a scheduler is asked."""
    done = grain("why", *words)

    assert 2 == done.exit_code
    assert "is not a task; `grain ls` names some" in done.output


def test_quit_of_workers_and_jobs(alone: Path, address: str, command: Put, answering: Any) -> None:
    """Workers are asked, jobs that wait are cancelled; starting jobs are reported."""
    submitted(alone, address, w1="6_0", w2="6_1", w3="6_2", other="7")
    squeue = "6_0|RUNNING|None|n1\n6_1|PENDING|Priority|\n6_2|RUNNING|None|n3\n7|PENDING|x|"
    command("squeue", f"printf '{squeue}\n'")
    command("scancel", f'echo "$@" >> "{alone}/cancelled"')
    answer = [Worker(name="w1", label="w1", host="n1", state="serving", running=2)]
    with answering(address, drain=answer) as scheduler:
        done = grain("drain", "w*")
        forced = grain("drain", "-f", "w*")

    assert [("w*", False), ("w*", True)] == [(a.pattern, a.at_once) for a in scheduler.asked]
    assert (
        "w1 on n1: leaves, when 2 tasks have ended\n"
        "w2: job 6_1 waited and is cancelled\n"
        "w3: job 6_2 runs, but is not with the scheduler (yet); `grain drain -f w3` cancels it\n"
    ) == done.output
    assert (
        "w1 on n1: leaves now; 2 tasks will run again elsewhere\n"
        "w2: job 6_1 waited and is cancelled\n"
        "w3: job 6_2 is asked to end\n"
    ) == forced.output
    assert ["6_1", "6_1", "6_2"] == (alone / "cancelled").read_text().split()


def test_quit_of_a_name_that_several_workers_have_lists_them(address: str, answering: Any) -> None:
    """A name with its number means one of them; a pattern means all."""
    both = [worker("w", label=f"w@{n}", host=f"n{n}") for n in (1, 2)]
    second = Worker(name="w", label="w@2", host="n2", state="serving", running=3)
    with answering(address, state=state(both), drain=[second]) as scheduler:
        ambiguous = grain("drain", "w")
        one = grain("drain", "w@2")
        grain("drain", "w@*")

    assert 1 == ambiguous.exit_code
    assert (
        "Error: 2 workers are called 'w': w@1 on n1, w@2 on n2; `grain drain 'w@*'` lets all of "
        "them go\n"
    ) == ambiguous.output
    assert "w@2 on n2: leaves, when 3 tasks have ended\n" == one.output
    assert ["w@2", "w@*"] == [ask.pattern for ask in scheduler.asked if ask.about == "drain"]


def test_quit_without_a_match(address: str, answering: Any) -> None:
    """Exit code 1, and the pattern."""
    with answering(address, drain=[]):
        done = grain("drain", "nobody*")

    assert 1 == done.exit_code
    assert "Error: no worker's name matches 'nobody*'; see `grain ls`\n" == done.output


def test_quit_of_jobs_without_a_scheduler(alone: Path, address: str, command: Put) -> None:
    """Jobs that wait can be cancelled all the same."""
    submitted(alone, address, w2="6_1")
    command("squeue", "echo '6_1|PENDING|Priority|'")
    command("scancel", "exit 0")
    done = grain("drain", "--patience", "0.2", "w*")

    assert (0, "w2: job 6_1 waited and is cancelled\n") == (done.exit_code, done.output)


def test_a_scheduler_that_hangs_up(address: str, answering: Any) -> None:
    """Is a sentence, too."""
    with answering(address, state=None):
        done = grain("ls")

    assert 1 == done.exit_code
    assert f"Error: the scheduler at {address} cannot be asked: " in done.output


def test_a_scheduler_of_another_version_is_a_sentence_with_both(
    address: str, answering: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = {**msgspec.to_builtins(STATE), "something": "new"}
    with answering(address, state=newer):
        monkeypatch.setattr("grain.edge.questions.package_version", lambda: "9.7.5")
        done = grain("ls")

    assert 1 == done.exit_code
    words = f"Error: the scheduler at {address} cannot be asked: it answers as Grain '"
    assert done.output.startswith(words)
    assert "and this side is Grain '9.7.5': install the same version on both" in done.output


@pytest.fixture
def left_behind(alone: Path, request: pytest.FixtureRequest) -> str:
    """Make what an earlier scheduler has left, and return its address."""
    folder = alone / "s"
    folder.mkdir(mode=0o700)
    if request.param == "an empty directory":
        return f"edge://{folder}/meeting"
    if request.param == "a dead socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(f"{folder}/s")
    return f"unix://{folder}/s"


@pytest.mark.parametrize(
    ("words", "left_behind"),
    [
        (["ls"], "nothing"),
        (["ls", "--json"], "a dead socket"),
        (["why", "opt:1"], "an empty directory"),
        (["drain", "w*"], "nothing"),
    ],
    indirect=["left_behind"],
)
def test_without_a_scheduler(alone: Path, words: list[str], left_behind: str) -> None:
    """One sentence and exit code 1, whatever is left of an earlier one."""
    (alone / "grain.toml").write_text(f'address = "{left_behind}"\n')

    done = grain(*words, "--patience", "0.1")

    assert (1, "") == (done.exit_code, done.stdout)
    assert 1 == done.stderr.count("\n")
    assert done.stderr.startswith(f"Error: no scheduler answers at {left_behind}: ")


@pytest.mark.parametrize(
    "left_behind", ["nothing", "a dead socket", "an empty directory"], indirect=True
)
def test_the_search_for_a_scheduler_ends_within_5_s(left_behind: str) -> None:
    """By trio's clock, which jumps ahead wherever everything waits."""

    async def search() -> None:
        with pytest.raises(Exception) as caught:
            await query._put(left_behind, (), (), query.PATIENCE, query.ANSWER)
        error: BaseException = caught.value
        while inner := query.members(error):
            (error,) = inner
        assert isinstance(error, DialError | trio.TooSlowError)
        assert trio.current_time() - began <= 5.0

    clock = MockClock(autojump_threshold=0)
    began = clock.current_time()
    trio.run(search, clock=clock)


def test_a_bridge_that_is_not_reached_is_named(alone: Path) -> None:
    """Nothing listens at a port that is bound, and not listening."""
    key = alone / "key"
    key.touch(0o600)
    key.write_text(make_key())
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        (alone / "grain.toml").write_text(f'address = "bridge://@{key}@{where}"\n')
        result = grain("ls", "--patience", "3")
        if "the bridge" not in result.stderr:  # a busy machine has not tried it in that time
            result = grain("ls", "--patience", "30")
    assert (
        f"Error: no scheduler answers at bridge://@{key}@{where}: the bridge at {where} is not "
        "reached: Connection refused; `grain doctor` shows more\n"
    ) == result.stderr


@pytest.mark.parametrize("scheme", ["edge", "unix"])
def test_a_scheduler_that_is_stopped_is_named(alone: Path, scheme: str) -> None:
    """With its process, and the command that lets it go on."""
    (alone / "s").mkdir(mode=0o700)
    edge = alone / "s" / "meeting"
    (alone / "grain.toml").write_text(f'address = "{scheme}://{edge}"\n')
    serving = (
        "import functools, trio, grain.edge as e\n"
        "async def handle(peer): pass\n"
        "async def main():\n"
        "    async with trio.open_nursery() as nursery:\n"
        f"        await nursery.start(functools.partial(e.serve, handle, '{scheme}://{edge}'))\n"
        "        print('serves', flush=True)\n"
        "trio.run(main)\n"
    )
    with subprocess.Popen([sys.executable, "-c", serving], stdout=subprocess.PIPE) as head:
        try:
            assert head.stdout is not None
            assert b"serves\n" == head.stdout.readline()
            stop(head.pid)
            done = grain("ls", "--patience", "0.1")
        finally:
            head.kill()

    who = f"process {head.pid} on {socket.gethostname()}"
    words = f"Error: the scheduler at {scheme}://{edge} ({who}) is stopped"
    assert done.stderr.startswith(words)
    assert f"`kill -CONT {head.pid}` there lets it go on\n" in done.stderr


def test_cancel_without_a_mission_lists_those_that_are_here(address: str, answering: Any) -> None:
    with answering(address, state=STATE):
        done = grain("cancel")

    assert 2 == done.exit_code
    assert "name a mission, as in: grain cancel opt; there are: opt" in done.output
