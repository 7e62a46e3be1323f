"""The state of a start, by its files and by processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from grain.cli.mission_records import (
    STARTING,
    Cancellation,
    End,
    MissionStart,
    Process,
    StartRecord,
)
from grain.cli.missions.environment import kept, restored
from grain.cli.missions.logout import judge as judge_logout
from grain.cli.missions.state import SILENCE, Phase, State, judge

NOW = 10_000.0
START = MissionStart(name="opt", command=("./opt",), directory="/", environment={}, at=NOW - 1000)
PROCESS = Process(host="login1", kernel="here", pid=7, began=70, keeper=6, keeper_began=60)
DEAD: dict[int, int] = {}


def state(
    process: Process | None = PROCESS,
    end: End | None = None,
    *,
    alive: float = NOW,
    processes: dict[int, int] = DEAD,
    host: str = "login2",
    kernel: str = "here",
    started: float = NOW - 1000,
) -> State:
    record = StartRecord(Path("/x"), 1, START, process, end, alive, made=started)
    return judge(
        record, host=host, kernel=kernel, now=lambda: NOW, began=lambda pid: processes.get(pid)
    )


@pytest.mark.parametrize(
    ("status", "phase", "detail"),
    [
        (0, Phase.DONE, "is done"),
        (3, Phase.FAILED, "failed with exit status 3"),
        (-9, Phase.KILLED, "was killed by SIGKILL"),
        (-15, Phase.INTERRUPTED, "was ended by SIGTERM"),
        (143, Phase.INTERRUPTED, "was ended by SIGTERM"),
        (130, Phase.INTERRUPTED, "was ended by SIGINT"),
    ],
)
def test_an_exit_status_says_how_a_mission_has_ended(
    status: int, phase: Phase, detail: str
) -> None:
    assert State(phase, detail) == state(end=End(status=status, at=NOW))


@pytest.mark.parametrize(
    ("status", "phase", "detail"),
    [(1, Phase.INTERRUPTED, "was cancelled by me on n1"), (0, Phase.DONE, "is done")],
)
def test_a_mission_that_was_cancelled_is_interrupted_unless_it_went_well(
    status: int, phase: Phase, detail: str
) -> None:
    """A mission that is cancelled through its scheduler ends by an exception, with status 1."""
    end, by = End(status=status, at=NOW), Cancellation(by="me on n1")
    record = StartRecord(Path("/x"), 1, START, PROCESS, end, NOW, by)
    judged = judge(record, host="", kernel="here", now=lambda: NOW, began=lambda _: None)
    assert State(phase, detail) == judged


def test_a_process_of_this_host_runs_if_it_is_the_one_that_was_started() -> None:
    """A pid is used again; by its start it is known."""
    assert State(Phase.RUNNING, "runs on login1") == state(processes={7: 70})
    lost = State(Phase.KILLED, "was killed on login1, or that host was rebooted")
    assert lost == state(processes={7: 71})
    assert lost == state()


def test_a_mission_whose_keeper_is_about_to_write_its_end_still_runs() -> None:
    assert State(Phase.RUNNING, "is ending on login1") == state(processes={6: 60})


def test_a_mission_of_another_host_runs_as_long_as_it_gives_signs_of_life() -> None:
    """Its processes cannot be seen, even if one of this host has the same number."""
    others = {"kernel": "there", "processes": {7: 70}}
    assert Phase.RUNNING is state(alive=NOW - SILENCE + 1, **others)[0]  # type: ignore[arg-type]
    lost = state(alive=NOW - SILENCE - 1, **others)  # type: ignore[arg-type]
    assert (Phase.KILLED, False) == (lost.phase, lost.certain)
    assert "has given no sign of life for 301 s" in lost.detail


def test_a_silent_mission_of_this_host_is_dead_for_certain_if_the_host_was_rebooted() -> None:
    """Not if it is in another container of this host, which shares the boot id."""
    was = Process(host="login1", kernel="boot1/5", pid=7, began=70, keeper=6, keeper_began=60)
    silent = NOW - SILENCE - 1
    rebooted = State(Phase.KILLED, "was killed as login1 was rebooted")
    assert rebooted == state(was, alive=silent, host="login1", kernel="boot2/5")
    assert not state(was, alive=silent, host="login1", kernel="boot1/6").certain
    assert not state(was, alive=silent, host="login2", kernel="boot2/5").certain
    assert Phase.RUNNING is state(was, alive=NOW, host="login1", kernel="boot2/5").phase


def test_a_start_without_a_process_is_about_to_begin_and_then_lost() -> None:
    assert Phase.STARTING is state(None, alive=0, started=NOW - STARTING + 1)[0]
    assert Phase.KILLED is state(None, alive=0, started=NOW - STARTING - 1)[0]


def test_a_further_start_gets_modules_but_neither_the_old_terminal_nor_secrets() -> None:
    before = {
        "PATH": "/apps/xtb/bin:/bin",
        "OMP_NUM_THREADS": "4",
        "SSH_CONNECTION": "a",
        "TERM": "xterm",
        "GITHUB_TOKEN": "x",
        "KEYBOARD": "us",
    }
    stored = kept(before)
    assert {"PATH": "/apps/xtb/bin:/bin", "OMP_NUM_THREADS": "4", "KEYBOARD": "us"} == stored

    here = {"PATH": "/bin", "TERM": "screen", "GITHUB_TOKEN": "y", "NEW": "1"}
    assert {**stored, "TERM": "screen", "GITHUB_TOKEN": "y"} == restored(stored, here)


@pytest.mark.parametrize(
    ("manager", "own", "ends", "problem"),
    [
        ({}, {}, False, False),
        ({"KillUserProcesses": "no"}, {}, False, False),
        ({"KillUserProcesses": "yes"}, {}, True, True),
        ({"KillUserProcesses": "yes"}, {"Linger": "yes"}, True, False),
        ({"KillUserProcesses": "yes", "KillExcludeUsers": "root me"}, {}, False, False),
        ({"KillUserProcesses": "yes", "KillOnlyUsers": "you"}, {}, False, False),
    ],
)
def test_a_host_that_ends_processes_at_logout_is_recognised(
    manager: dict[str, str], own: dict[str, str], ends: bool, problem: bool
) -> None:
    """Where a user may linger, the mission gets a scope of the user's own manager."""
    logout = judge_logout(manager, own, "me")
    said = logout.problem("run `grain start`")
    assert (ends, problem) == (logout.ends, said.endswith(", or run `grain start`"))
    assert ends == bool(logout.prefix)
