"""`grain doctor`: each check, well and ill."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import asdict

from grain.cli.doctor import batch, checks, installed, meeting, peers
from grain.cli.doctor.checks import CheckResult
from grain.config import Config
from grain.edge import Attempt
from grain.edge.version import Versions, own_versions
from grain.facts.rows import Worker
from grain_testkit.command_line import grain
from grain_testkit.small_disk import fill, small_disk
from grain_testkit.states import state
from grain_testkit.states import worker as worker_state

Put = Callable[[str, str], Path]
Configure = Callable[[str], Config]


def states(*words: str) -> dict[str, str]:
    """Return the state of each check of the doctor."""
    checks = json.loads(grain("doctor", "--json", *words).output)
    return {one["check"]: one["state"] for one in checks}


@pytest.fixture
def worker(alone: Path) -> None:
    """grain-worker is there, also where this package is alone."""
    (alone / "bin" / "grain-worker").touch(0o755)


@pytest.mark.usefixtures("worker")
def test_all_is_well(alone: Path, answering: Any) -> None:
    """With a scheduler that answers: exit code 0, a line for each check."""
    (alone / "s").mkdir(mode=0o700)
    (alone / "grain.toml").write_text(f'address = "edge://{alone}/s/meeting"\n')
    end = time.monotonic() + 120
    with answering(f"edge://{alone}/s/meeting", state=state()):
        # It looks for 5 s, in which the scheduler of a busy machine may get no processor.
        while "\nok    scheduler" not in (done := grain("doctor")).output:
            assert time.monotonic() < end, done.output

    assert "fail" not in done.output
    assert "\nok    scheduler      on " in done.output
    assert 0 == done.exit_code


@pytest.mark.usefixtures("worker")
def test_without_a_scheduler(alone: Path) -> None:
    """That is not a mistake: a mission starts one."""
    (alone / "grain.toml").write_text(f'address = "edge://{alone}/s/meeting"\n')
    done = grain("doctor")

    assert "scheduler      none at" in done.output
    assert "-> None is needed: a mission starts one." in done.output
    assert f"{alone}/s is to be made by the first mission" in done.output
    assert 0 == done.exit_code


def test_checks_that_need_no_configuration_run_despite_a_wrong_one(alone: Path) -> None:
    (alone / "grain.toml").write_text("[script]\nwalltme = 1")

    assert 1 == grain("doctor").exit_code
    results = states()
    assert ("fail", "ok") == (results["configuration"], results["versions"])
    assert "scheduler" not in results


def test_something_that_hangs() -> None:
    """It has failed, and is not waited for; nor does a bug hide the rest."""
    stuck = threading.Event()

    def slow() -> list[CheckResult]:
        stuck.wait()
        return []

    def broken() -> list[CheckResult]:
        raise RuntimeError("a bug")

    assert "fail" == checks.within(0.05, "disk", slow)[0].state  # or it would never return
    assert [CheckResult("disk", "fail", "RuntimeError: a bug")] == checks.within(60, "disk", broken)
    stuck.set()


def test_differing_versions_are_named_with_what_to_install() -> None:
    """All are named, and what to install."""
    results = installed.judge_versions({"grain-edge": "1.0.0", "grain-cli": "1.1.0"})

    assert ("fail", "they differ: grain-edge 1.0.0, grain-cli 1.1.0") == (
        results.state,
        results.says,
    )
    assert "pip install grain-edge==1.1.0 grain-cli==1.1.0" == results.fix


class Installed:
    """A distribution that has some files."""

    def __init__(self, name: str, *files: str) -> None:
        self.metadata = {"Name": name}
        self._record = "".join(f"{file},sha256=x,1\n" for file in files)

    def read_text(self, name: str) -> str | None:
        return self._record if name == "RECORD" else None


def test_who_owns_the_import_name() -> None:
    """Google's data loader and grain-scheduler up to 0.17 have the same."""
    distributions: Any = [
        Installed("grain-resource", "grain/__init__.py"),
        Installed("grain-edge", "grain/edge/__init__.py"),
        Installed("grain", "grain/__init__.py", "grain/python.py"),
        Installed("grain_nightly", "grain/__init__.py"),
        Installed("whole-grain", "whole/grain/__init__.py"),
    ]

    assert ["grain", "grain-nightly"] == installed.intruders(distributions)


@pytest.mark.parametrize("name", ["grain.py", "grain/__init__.py"])
def test_a_file_that_hides_the_package_is_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python searches the directory of a script first."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)

    [result] = installed.import_name()

    assert "fail" == result.state
    assert f"scripts of this directory import {name}" in result.says
    assert f"Give {name.split('/')[0]} another name." == result.fix


def test_an_intruder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    monkeypatch.setattr(installed, "intruders", lambda _: ["grain"])
    [results] = installed.import_name()

    assert "fail" == results.state
    assert "`grain` is claimed by grain, too" in results.says
    assert results.fix.startswith("pip uninstall grain, then pip install --force-reinstall")


def test_slurm_commands_are_missing_refuse_or_answer(
    alone: Path, command: Put, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that are missing, refuse, or answer."""
    monkeypatch.setenv("PATH", str(alone / "bin"))
    config = configure('system = "slurm"')
    assert "slurm: no sbatch, squeue, scancel here" == batch.batch(config)[0].says
    for name in ("sbatch", "scancel"):
        command(name, "exit 0")
    command("squeue", "echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1")
    [refused] = batch.batch(config)
    assert "squeue failed (exit code 1): squeue: error: Unable to contact" in refused.says
    assert "Slurm's controller does not answer; try again later." == refused.fix
    command("squeue", "exit 0")
    assert "ok" == batch.batch(config)[0].state


def test_grid_engine_without_an_environment_for_several_nodes_is_a_failure(
    alone: Path, command: Put, configure: Configure
) -> None:
    for name in ("qsub", "qstat", "qdel"):
        command(name, "exit 0")
    command("qconf", 'case "$1" in -spl) echo mpi ;; *) echo "allocation_rule \\$fill_up" ;; esac')
    text = 'system = "sge"\n[script]\ncores = 4\n'

    [one] = batch.batch(configure(text))
    [several] = batch.batch(configure(f"{text}nodes = 2"))

    assert ("ok", "fail") == (one.state, several.state)
    assert "gives 4 slots on each of several nodes" in several.says


def test_the_custom_submit_command_is_looked_for(
    alone: Path, command: Put, configure: Configure
) -> None:
    """The command that submits is there or not."""
    text = (
        'system = "custom"\n[custom_system]\nsubmit_cmd = "mysub -x"\ndirectory = "/tmp"\n'
        'template = "{{body}}"'
    )
    assert "custom: there is no command 'mysub'" == batch.batch(configure(text))[0].says
    command("mysub", "exit 0")
    assert "ok" == batch.batch(configure(text))[0].state


@pytest.mark.parametrize(("mode", "state"), [(0o700, "ok"), (0o775, "fail"), (0o1777, "ok")])
def test_who_may_write_to_the_directory(
    tmp_path: Path, mode: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As grain.edge judges; nothing is left there."""
    # A busy disk, to which it takes a while to write, is another finding.
    stopwatch = SimpleNamespace(time=time.time, monotonic=lambda: 0.0)
    monkeypatch.setattr("grain.cli.doctor.meeting.time", stopwatch)
    folder = tmp_path / "d"
    folder.mkdir()
    folder.chmod(mode)

    results = meeting.files(f"edge://{folder}/meeting")
    assert state == results[0].state
    assert [] == list(folder.iterdir())


def test_a_directory_on_a_full_disk_needs_room_and_no_other_address() -> None:
    with small_disk("64k") as disk:
        fill(disk)
        results = meeting.files(f"edge://{disk}/meeting")

    assert ["fail"] == [one.state for one in results]
    assert results[0].fix.startswith("Make room there, or set `address`")


def test_a_directory_that_cannot_be_there(tmp_path: Path) -> None:
    """Below a file, say."""
    (tmp_path / "file").write_text("")
    [results] = meeting.files(f"edge://{tmp_path}/file/deep/meeting")

    assert "fail" == results.state


def test_clocks_far_apart_are_reported_with_the_one_behind() -> None:
    """A large difference is reported, with the clock that is behind."""
    assert "ok" == meeting.clock(1.0).state
    assert "this host is 60 s behind the file server" == meeting.clock(60.0).says
    assert "this host is 60 s ahead of the file server" == meeting.clock(-60.0).says


def test_where_the_meeting_is() -> None:
    """By address; a Unix socket needs no file system that is shared."""
    assert Path("/a/meeting") == meeting.meeting_file("edge:///a/meeting")
    assert Path("/a b/m") == meeting.meeting_file("tcp://host:1?edge=/a%20b/m")
    default = Path.home() / ".local/share/edge-file-default"
    assert default == meeting.meeting_file("tcp://host:1")
    assert meeting.meeting_file("unix:///a/s") is None


def attempts(**outcomes: str) -> list[Attempt]:
    return [Attempt(transport, "there", outcome, 0.5) for transport, outcome in outcomes.items()]


def test_a_bridge_that_is_not_reached_is_a_failure() -> None:
    """No scheduler there is none: a mission starts one."""
    down = Attempt(
        "meeting", "bridge://x:1/ab", "the bridge at x:1 is not reached", 0.1, unusable=True
    )
    finding = meeting.not_reached("bridge://@/key@x:1", [down], slow=False)
    assert ("fail", "the bridge at x:1 is not reached") == (finding.state, finding.says)
    vacant = replace(down, unusable=False)
    assert "warn" == meeting.not_reached("bridge://@/key@x:1", [vacant], slow=False).state


def test_a_scheduler_that_is_not_reached(alone: Path) -> None:
    """One whose socket is here was killed or hangs; one elsewhere may be behind a firewall."""
    not_reached = partial(meeting.not_reached, "edge:///x", slow=False)
    killed = not_reached(attempts(unix="refused", tcp="refused"))
    stuck = not_reached(attempts(unix="no answer within 10 s", tcp="no answer"))
    far = not_reached(attempts(tcp="no answer"))
    none = not_reached(attempts(meeting="no file"))

    assert ["warn", "fail", "fail", "warn"] == [s.state for s in (killed, stuck, far, none)]
    assert "has ended unexpectedly: unix     there: refused (0.5 s); tcp" in killed.says
    assert stuck.says.startswith("one on this host does not answer")
    assert "grain doctor --slow" in far.fix


def test_each_way_is_told_by_itself() -> None:
    """With --slow: not in the scheduler's line, and what it is for if another one works."""
    failed = attempts(tcp="refused", files="no answer")
    first = meeting.not_reached("edge:///x", failed, slow=True)
    alone, beside = (
        [meeting.way(one, others=others) for one in failed] for others in (False, True)
    )

    assert "the one in the meeting file is not reached" == first.says
    assert ("by tcp", "warn", "there: refused", "") == alone[0]
    assert "open between nodes" in beside[0].fix
    assert "by files" == beside[1].check
    [works] = attempts(files="ok")
    assert ("by files", "ok", "there (0.5 s)", "") == meeting.way(works, others=True)


def test_an_address_that_is_none() -> None:
    """Is a mistake."""
    for look in (meeting.scheduler, meeting.every_way):
        [results] = look("http://x")

        assert ("fail", "Correct `address`.") == (results.state, results.fix)


def test_a_scheduler_of_another_version_is_reported_with_both() -> None:
    results = meeting.judge_scheduler("n1 by tcp", "0.9")

    assert "warn" == results.state
    assert results.says.startswith("n1 by tcp is Grain 0.9, this is ")


def test_an_unwritable_output_directory_is_reported(alone: Path, configure: Configure) -> None:
    assert "ok" == batch.outputs(configure('[worker]\nlog_file = "a/b/w.log"'))[0].state
    wrong = configure('[worker]\nlog_file = "/proc/nowhere/w.log"')
    expected = "ok" if os.access("/proc", os.W_OK) else "fail"
    assert expected == batch.outputs(wrong)[0].state


OWN = Versions("Python 3.11", "3.11.7", "1.0", "2.1.0")


def here(**versions: Versions) -> list[Worker]:
    """Return workers of these versions, as in the scheduler's answer."""
    return [worker_state(name, versions=asdict(v)) for name, v in versions.items()]


def test_workers_with_another_python_are_named_with_what_follows() -> None:
    new = Versions("Python 3.12", "3.12.1", "1.0", "1.26.4")
    workers = here(a=new, b=OWN, c=new, d=new, e=new)

    assert CheckResult(
        "workers",
        "warn",
        "this is Python 3.11, workers have another: "
        "a Python 3.12, c Python 3.12, d Python 3.12, 1 more",
        "Start workers with the Python of your missions: tasks whose functions travel by "
        "value wait for such a worker.",
    ) == peers.judge_workers(workers, OWN)


def test_workers_with_another_major_version_of_numpy_are_named() -> None:
    found = peers.judge_workers(here(a=Versions("Python 3.11", "3.11.2", "1.0", "1.26.4")), OWN)

    assert ("warn", "NumPy here is 2.1.0, and workers have another: a NumPy 1.26.4") == found[1:3]


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ({}, "none is here"),
        ({"a": OWN}, "1 worker has Python 3.11, as this command"),
        (
            {"a": OWN, "b": Versions("Python 3.11", "3.11.2", "1.0")},
            "2 workers have Python 3.11, as this command",
        ),
    ],
)
def test_workers_that_fit(workers: dict[str, Versions], says: str) -> None:
    assert CheckResult("workers", "ok", says) == peers.judge_workers(here(**workers), OWN)


@pytest.mark.usefixtures("worker")
def test_the_scheduler_is_asked_for_its_workers(alone: Path, answering: Any) -> None:
    (alone / "s").mkdir(mode=0o700)
    address = f"edge://{alone}/s/meeting"
    (alone / "grain.toml").write_text(f'address = "{address}"\n')
    end = time.monotonic() + 120
    with answering(address, state=state(here(a=own_versions()))):
        while "workers" not in (found := states()):  # it may be slow, as above
            assert time.monotonic() < end, found

    assert "ok" == found["workers"]
