"""Missions with their local worker alone: what commands say of them, and how they are ended."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from grain.cli import main
from grain.edge.mission_ids import lasting_id
from grain.eventlog.schema import TaskStarted, TaskSubmitted
from grain_testkit import states
from grain_testkit.command_line import grain
from grain_testkit.small_log import HEADER, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Mission = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def mission(address: str, tmp_path: Path) -> Iterator[Mission]:
    """Start a process that holds the log of a mission open, as one with a local worker does."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(
        name: str = "opt",
        id: str = "ab12cd34",  # noqa: A002 - its name
        *,
        writes: bool = True,
        **fields: Any,
    ) -> subprocess.Popen[bytes]:
        log = tmp_path / id
        log.touch()
        with log.open("rb") as file:
            process = subprocess.Popen(
                ["sleep", "1000"], stdin=file if writes else subprocess.DEVNULL
            )
        processes.append(process)
        now = time.time()
        fields = {"host": socket.gethostname(), "pid": process.pid, "time": now, **fields}
        folder = write(
            replace(HEADER, name=name, id=id, **fields),
            [
                TaskSubmitted(time=now, task=1, function="f"),
                TaskStarted(time=now, task=1, worker=f"{name}(local)"),
            ],
        )
        # The log has the number of a process that has the log open.
        log.write_bytes((folder / "events.jsonl").read_bytes())
        log.replace(folder / "events.jsonl")
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_without_a_scheduler_every_command_names_the_mission_and_what_shows_it(
    mission: Mission,
) -> None:
    mission()
    for words in (["ls"], ["top", "--once"], ["cancel", "nope"], ["drain", "w*"], ["why"]):
        done = grain(*words, "--patience", "0.1")
        assert 1 == done.exit_code
        assert (
            "mission opt runs on this host with only its local worker: `grain history opt` shows "
            "its tasks, `grain why opt:1` one, `grain cancel opt` ends it"
        ) in done.stderr, words


def test_missions_that_have_ended_or_meet_elsewhere_are_not_named(mission: Mission) -> None:
    process = mission("gone", "aa11")
    process.kill()
    process.wait()
    mission("elsewhere", "bb22", address="edge:///somewhere/else")
    done = grain("ls", "--patience", "0.1")
    assert "mission" not in done.stderr.partition("elsewhere;")[2]


def test_a_task_is_explained_by_the_log_while_the_mission_runs(mission: Mission) -> None:
    mission()
    done = grain("why", "opt:1", "--patience", "0.1")
    assert (0, "task opt:1 is running") == (done.exit_code, done.stdout.splitlines()[0])
    later = grain("why", "opt:9", "--patience", "0.1")
    assert (1, "task opt:9 is unknown") == (later.exit_code, later.stdout.splitlines()[0])
    assert "its event log has it, which is a few seconds behind" in later.stdout


def test_the_process_of_a_lasting_mission_is_with_the_scheduler_though_its_log_has_another_id(
    mission: Mission, address: str, answering: Any
) -> None:
    id_ = lasting_id("queue", "0123")
    mission("queue", address=address, time=time.time() - 20, lasting=id_, generation=1)
    lasting = states.mission("queue", id=id_, host=socket.gethostname(), connected=True)
    with answering(address, state=states.state(missions=[lasting])):
        assert "Beside it" not in grain("ls", "--patience", "60").output
    with answering(address, state=states.state(missions=[replace(lasting, connected=False)])):
        assert "Beside it, mission queue" in grain("ls", "--patience", "60").output


@pytest.mark.parametrize("connected", [True, False])
def test_the_scheduler_knows_better_of_a_lasting_mission_whose_host_has_died(
    mission: Mission, address: str, answering: Any, connected: bool
) -> None:
    id_ = lasting_id("queue", "0123")
    began = time.time() - 20
    mission("queue", address=address, host="login7", time=began, lasting=id_, generation=1)
    mission("opt", "cd34", address=address, host="login7", time=time.time() - 20)
    lasting = states.mission("queue", id=id_, host="login8", connected=connected)
    with answering(address, state=states.state(missions=[lasting])):
        output = grain("ls", "--patience", "60").output
    assert (
        "Beside it, mission opt may still run on login7 with only its own worker: `grain history "
        "opt` shows its tasks, `grain why opt:1` one, `grain cancel opt` on login7 ends it."
    ) in output


def test_missions_of_several_hosts_may_still_run_there(mission: Mission) -> None:
    mission("opt", "ab12", host="login7")
    mission("md", "cd34")
    done = grain("ls", "--patience", "0.1")
    hosts = " and ".join(sorted(["login7", socket.gethostname()]))
    assert f" may still run on {hosts} with only their own workers: for example, " in done.stderr


def test_ls_names_missions_that_run_beside_the_scheduler(
    mission: Mission, address: str, answering: Any
) -> None:
    process = mission(address=address, time=time.time() - 20)
    mission("with_it", "dd44", address=address, time=time.time() - 20)
    mission("about to connect", "ee55", address=address)
    here = states.state(missions=[states.mission("with_it", id="dd44")])
    with answering(address, state=here):
        done = grain("ls", "--patience", "60")
        data = json.loads(grain("ls", "--json", "--patience", "60").stdout)
    assert "Beside it, mission opt runs on this host with only its own worker" in done.stdout
    assert [("opt", process.pid)] == [(one["name"], one["pid"]) for one in data["alone"]]


def test_cancel_ends_the_process_after_a_question(mission: Mission) -> None:
    process = mission()
    words = ["cancel", "--patience", "0.1", "opt"]
    no = CliRunner().invoke(main, words, input="n\n")
    assert f"End mission opt (id ab12cd34, process {process.pid} on " in no.output
    assert (1, None) == (no.exit_code, process.poll())
    done = grain(*words, "-y")
    assert 0 == done.exit_code, done.output
    assert done.stdout.endswith("is told to end, by SIGTERM\n")
    assert -signal.SIGTERM == process.wait()


def test_cancel_takes_the_beginning_of_an_id_of_four_characters(mission: Mission) -> None:
    """Fewer may be a typing mistake for a name."""
    process = mission()
    short = grain("cancel", "--patience", "0.1", "-y", "ab1")
    assert (1, None) == (short.exit_code, process.poll())
    assert 0 == grain("cancel", "--patience", "0.1", "-y", "ab12").exit_code
    assert -signal.SIGTERM == process.wait()


def test_cancel_ends_the_process_of_a_kernel_without_descriptors_of_processes(
    mission: Mission, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before Linux 5.3, which clusters with Enterprise Linux 8 have."""

    def refuse(_: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    process = mission()
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert 0 == grain("cancel", "--patience", "0.1", "-y", "opt").exit_code
    monkeypatch.undo()
    assert -signal.SIGTERM == process.wait()


def test_cancel_ends_no_process_that_does_not_write_the_log(mission: Mission) -> None:
    process = mission(writes=False)
    done = grain("cancel", "--patience", "0.1", "-y", "opt")
    assert (1, None) == (done.exit_code, process.poll())
    assert f"if it is, `kill {process.pid}` ends it" in done.stderr


def test_cancel_ends_no_process_that_has_only_the_target_of_a_link_open(
    mission: Mission, tmp_path: Path
) -> None:
    """In a folder that others share, one of them could name any process of the user.

    Tried: The same by an event log in a folder that users share, with a link to a file that the
    process has open.
    Result: that process stays.
    """
    process = mission(writes=False)
    [folder] = {path.parent for path in tmp_path.rglob("events.jsonl")}
    (folder / "events.1.jsonl").symlink_to(os.devnull)
    done = grain("cancel", "--patience", "0.1", "-y", "opt")
    assert (1, None) == (done.exit_code, process.poll())


def test_cancel_of_a_mission_of_another_host_says_where_to_type_it(mission: Mission) -> None:
    mission(host="login7")
    done = grain("cancel", "--patience", "0.1", "-y", "opt")
    assert 1 == done.exit_code
    assert "log in on login7 and repeat: grain cancel ab12cd34" in done.stderr


def test_cancel_of_one_task_says_that_the_mission_can_be_ended(mission: Mission) -> None:
    process = mission()
    done = grain("cancel", "--patience", "0.1", "opt:1")
    assert (1, None) == (done.exit_code, process.poll())
    assert "no command ends one task of it; `grain cancel opt` ends the mission" in done.stderr


@pytest.mark.parametrize(
    "words", [["cancel", "-y", "opt"], ["why", "opt:1"], ["history", "opt"], ["report", "opt"]]
)
def test_a_name_of_which_several_run_is_refused_by_every_command(
    words: list[str], mission: Mission
) -> None:
    processes = [mission(), mission(id="ef56ab78")]
    done = grain(*words)
    assert 1 == done.exit_code
    assert "2 missions called 'opt' run: " in done.stderr
    assert "id ab12cd34, " in done.stderr
    assert "id ef56ab78, " in done.stderr
    assert [None, None] == [process.poll() for process in processes]
    assert "task ab12:1 is running" in grain("why", "ab12:1", "--patience", "0.1").stdout


def test_the_name_of_a_queue_means_its_last_dispatcher_though_the_host_of_another_died(
    mission: Mission,
) -> None:
    lasting = lasting_id("queue", "0123")
    mission("queue", "ab12cd34", host="login7", lasting=lasting, generation=1)
    last = mission("queue", "ef56ab78", lasting=lasting, generation=2)
    assert "queue (ef56ab78): running" in grain("history", "queue").stdout
    assert 0 == grain("cancel", "--patience", "0.1", "-y", "queue").exit_code
    assert -signal.SIGTERM == last.wait()


def test_a_name_means_the_mission_that_runs_though_another_began_later(mission: Mission) -> None:
    mission()
    later = mission(id="ef56ab78")
    later.kill()
    later.wait()
    done = grain("history", "opt")
    assert "opt (ab12cd34): running" in done.stdout
    note = "Note: this is the running one of 2 missions of that name; the other is ef56ab78 of "
    assert note in done.stderr
    assert "task opt:1 is running" in grain("why", "opt:1", "--patience", "0.1").stdout
