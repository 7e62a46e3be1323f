"""The settings of runs, from those of their mission and of the worker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from grain.config import WorkerSettings
from grain.worker.call import RunSettings
from grain.worker.errors import PayloadError
from grain.worker.messages import StartRun
from grain.worker.node.directory import find_directory
from grain.worker.runner.settings import RunnerSettings, Settings, mission_settings

if TYPE_CHECKING:
    from pathlib import Path


async def energy() -> None:
    """Serve as the function of a run."""


def run(settings: bytes) -> StartRun:
    return StartRun((1, 7), {}, task=3, settings=settings)


def test_a_run_has_the_directory_and_the_variables_of_its_mission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With names that no text can have, as those of old files."""
    odd = tmp_path / os.fsdecode(b"\xff")
    odd.mkdir()
    monkeypatch.chdir(odd)
    data = mission_settings("m", {"A": "\udcff", "B": None})

    assert RunSettings(str(odd), {"A": "\udcff", "B": None}) == (
        Settings(RunnerSettings()).of(run(data), energy)
    )
    assert RunSettings(str(odd), {"A": "\udcff", "B": None}, False, "m:3", energy, (1, 7)) == (
        Settings(RunnerSettings(bind=False, own_directory=True, labels=True)).of(run(data), energy)
    )


@pytest.mark.parametrize("labels", [False, True])
def test_a_run_has_what_its_worker_enforces(labels: bool) -> None:
    settings = RunnerSettings(WorkerSettings(enforce=True), labels=labels)
    data = mission_settings("m", {})
    assert Settings(settings).of(run(data), energy).enforce
    assert not Settings(RunnerSettings(labels=labels)).of(run(data), energy).enforce


def test_a_label_has_the_beginning_of_its_missions_id_as_others_may_have_its_name() -> None:
    of_worker = Settings(RunnerSettings(own_directory=True, labels=True))
    settings = of_worker.of(run(mission_settings("m", {}, id="1234abcd5678")), energy)

    assert "m:3 (1234abcd)" == settings.label


@pytest.mark.parametrize("own_directory", [False, True])
def test_programs_start_where_the_worker_began_wherever_a_task_has_moved_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_directory: bool
) -> None:
    """On a worker without the directory of the mission, or with one of its own."""
    of_mission, begun, moved = (tmp_path / name for name in ("mission", "worker", "moved"))
    for folder in (of_mission, begun, moved):
        folder.mkdir()
    monkeypatch.chdir(of_mission)
    data = mission_settings("m", {})
    of_mission.rename(tmp_path / "away")
    monkeypatch.chdir(begun)
    settings = Settings(RunnerSettings(own_directory=own_directory))
    monkeypatch.chdir(moved)
    assert {str(begun)} == {settings.of(run(data), energy).cwd, settings.of(run(b""), energy).cwd}


def test_a_mission_whose_directory_was_removed_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "removed"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    data = mission_settings("m", {})
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path) == Settings(RunnerSettings()).of(run(data), energy).cwd


def test_settings_that_are_not_readable_fail_only_the_run() -> None:
    settings = Settings(RunnerSettings())
    for data in (b"\xc1", b"\x93\x01\x02\x03"):
        with pytest.raises(PayloadError, match="settings of this mission are not readable"):
            settings.of(run(data), energy)


def test_a_directory_is_found_by_its_inode_number(tmp_path: Path) -> None:
    here = os.stat(tmp_path).st_ino  # noqa: PTH116
    paths = ("/no/such", str(tmp_path))

    assert (str(tmp_path), "") == find_directory(paths, here)
    assert ("", "another directory has that path") == find_directory(paths, here + 1)
    assert ("", "No such file or directory") == find_directory(paths[:1], here)


def test_settings_reach_a_runner_as_they_are_also_paths_that_are_no_text() -> None:
    worker = WorkerSettings(cwd=os.fsdecode(b"/scratch/\xff"), contextmod="/a b/'é'.py")
    settings = RunnerSettings(worker, bind=False, labels=True, groups="/sys/fs/cgroup/x")

    assert settings == RunnerSettings.from_word(settings.to_word())
