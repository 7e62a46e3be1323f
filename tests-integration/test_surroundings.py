"""The surroundings of a leaf on a worker: directory, environment, the log of what it prints."""

from __future__ import annotations

import logging
import os
import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.delayed import delayed, mission
from grain.resource import Cores
from grain.subproc import subprocify
from grain.worker.external import run_external
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable


@delayed
async def places() -> tuple[str, str, str, str]:
    """Return where programs run, by default and in a relative directory, and two ways to ask."""
    here = await run_external(["sh", "-c", "pwd; cat input.txt"])
    below = await run_external(["pwd"], cwd="below", stdout="there.txt")
    assert below.returncode == 0
    return (
        here.stdout_text,
        Path(f"{GVAR.cwd}/below/there.txt").read_text(),
        GVAR.cwd,
        str(Path.cwd()),
    )


@subprocify
def computes(word: str) -> tuple[str, str, str]:
    print("computing", word)
    return GVAR.cwd, str(GVAR.env["WORD"]), str(Path.cwd())


@delayed
async def calls(word: str) -> tuple[str, str, str]:
    """Compute in a process, which serves one call after the other."""
    return await computes(word)


@delayed
async def variables(*names: str, **env: str | None) -> list[str]:
    """Return variables as a program sees them."""
    text = "".join(f"echo ${{{name}-none}};" for name in names)
    return (await run_external(["sh", "-c", text], env=env)).stdout_text.split()


@delayed
async def talks(word: str) -> None:
    print("hello", word)
    print("no end of line", end="")
    await trio.to_thread.run_sync(print, f"from a thread\nof {word}")
    logging.getLogger("solver").warning("slow: %s", word)
    logging.getLogger("solver").info("never written")


class Site:
    """The directories of a mission and of a worker, and the worker's log."""

    def __init__(self, folder: Path) -> None:
        self.mission = folder / "mission"
        self.worker = folder / "worker"
        self.log = folder / "worker.log"
        self.address = f"unix://{folder}/socket"
        (self.mission / "below").mkdir(parents=True)
        (self.worker / "below").mkdir(parents=True)
        (self.mission / "input.txt").write_text("the mission's\n")
        (self.worker / "input.txt").write_text("the worker's\n")
        self.config = folder / "grain.toml"
        self.config.write_text(f'address = "{self.address}"\n[head.gnaw]\nenabled = false\n')

    @asynccontextmanager
    async def serving(self, *options: str, **env: str) -> AsyncGenerator[None]:
        """Have a worker serve, which was started in a directory of its own."""
        words = ["--url", self.address, "--name", "w1", "--res", '{"Cores": [0]}', *options]
        with self.log.open("wb") as log:
            process = start(
                "-m",
                "grain.worker",
                *words,
                cwd=self.worker,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **env},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            with trio.fail_after(120):
                yield
        finally:
            process.terminate()
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(process.wait)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    made = Site(tmp_path)
    monkeypatch.chdir(made.mission)
    monkeypatch.setenv("PWD", str(made.mission))
    return made


async def test_programs_run_in_the_directory_of_the_mission(site: Site) -> None:
    """Relative paths too; Python code of the leaf is where the worker is."""
    async with mission(config_file=str(site.config)), site.serving():
        here, below, cwd, python = await (places @ Cores(1))()

    assert f"{site.mission}\nthe mission's\n" == here
    assert f"{site.mission}/below\n" == below
    assert (str(site.mission), str(site.worker)) == (cwd, python)


@pytest.mark.parametrize("joinable", [False, True])
async def test_a_local_worker_runs_programs_where_the_mission_began(
    site: Site, monkeypatch: pytest.MonkeyPatch, joinable: bool
) -> None:
    """Also one that others can join, and whose leaves travel as bytes."""
    async with mission(Cores(1), config_file=str(site.config) if joinable else False):
        monkeypatch.chdir(site.worker)
        here, below, cwd, python = await (places @ Cores(1))()

    assert f"{site.mission}\nthe mission's\n" == here
    assert f"{site.mission}/below\n" == below
    assert (str(site.mission), str(site.worker)) == (cwd, python)


async def test_a_mission_in_a_leaf_runs_programs_in_the_directory_of_the_outer_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    @delayed
    async def outer() -> str:
        monkeypatch.chdir(site.worker)
        async with mission(Cores(1), config_file=False):
            return (await (places @ Cores(1))())[2]

    async with mission(Cores(1), config_file=False):
        assert str(site.mission) == await (outer @ Cores(1))()


async def test_a_worker_with_a_directory_of_its_own_runs_programs_there(site: Site) -> None:
    """It imports from the directory in which it was started, as its context and its tasks do."""
    (site.worker / "surrounding.py").write_text(
        "import helper\nfrom contextlib import nullcontext as grain_context\n"
    )
    (site.worker / "helper.py").write_text("")
    options = ("--cwd", "below", "--context", "surrounding.py")
    async with mission(config_file=str(site.config)), site.serving(*options):
        (site.worker / "below" / "below").mkdir()
        (site.worker / "below" / "input.txt").write_text("its own\n")
        here, below, cwd, python = await (places @ Cores(1))()

    assert f"{site.worker}/below\nits own\n" == here
    assert f"{site.worker}/below/below\n" == below
    assert f"{site.worker}/below" == cwd == python


async def test_a_directory_that_only_has_the_same_path_is_not_used_and_the_log_says_so(
    site: Site,
) -> None:
    """As on nodes with disks of their own."""
    async with mission(config_file=str(site.config), name="sweep"):
        site.mission.rename(site.mission.with_name("on another host"))
        site.mission.mkdir()
        async with site.serving():
            here, *_ = await (places @ Cores(1))()
            await (places @ Cores(1))()

    assert f"{site.worker}\nthe worker's\n" == here
    line = (
        f"WARNING grain.worker: {site.mission}, the directory of the mission sweep, is not here "
        f"(another directory has that path): its programs run in {site.worker}; --cwd, or "
        "worker.cwd in the configuration, states another directory\n"
    )
    assert 1 == site.log.read_text().count(line)


async def test_a_directory_that_a_link_leads_to_is_used_by_the_name_of_the_link(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the link is broken, by its own name."""
    link = site.mission.with_name("link")
    link.symlink_to(site.mission)
    monkeypatch.setenv("PWD", str(link))
    async with mission(config_file=str(site.config)):
        async with site.serving():
            assert str(link) == (await (places @ Cores(1))())[2]
        link.unlink()
        async with site.serving():
            assert str(site.mission) == (await (places @ Cores(1))())[2]


@pytest.mark.parametrize("local", [False, True])
async def test_a_call_s_variables_go_before_the_mission_s_the_allocation_s_and_the_worker_s(
    site: Site, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    names = ("OF_WORKER", "BOTH", "OF_MISSION", "OF_CALL", "REMOVED")
    of_worker = {"OF_WORKER": "w", "BOTH": "w", "OF_CALL": "w", "REMOVED": "w"}
    env = {"BOTH": "m", "OF_MISSION": "m", "OF_CALL": "m", "REMOVED": None}
    if local:
        for name, value in of_worker.items():
            monkeypatch.setenv(name, value)
        opened = mission(Cores(1), config_file=False, env=env)
    else:
        opened = mission(config_file=str(site.config), env=env)
    async with opened, site.serving(OMP_NUM_THREADS="64", **of_worker):
        seen = await (variables @ Cores(1))(*names, OF_CALL="c")
        threads = await (variables @ Cores(1))("OMP_NUM_THREADS")
    assert ["w", "m", "m", "c", "none"] == seen
    assert ["1"] == threads
    async with mission(Cores(1), config_file=False, env={"OMP_NUM_THREADS": "7"}):
        assert ["7"] == await (variables @ Cores(1))("OMP_NUM_THREADS")


def without_ids(lines: Iterable[str]) -> list[str]:
    """Return lines of tasks without the id of their mission, which each of them has."""
    parts = [re.fullmatch(r"(\w+:\d+) \([0-9a-f]{8}\)( .*)", line) for line in lines]
    return [part[1] + part[2] if part else "a line without an id" for part in parts]


async def test_what_a_leaf_prints_and_logs_carries_its_mission_task_and_function(
    site: Site,
) -> None:
    async with mission(config_file=str(site.config), name="sweep"), site.serving():
        await (talks @ Cores(1))("one")
        await (talks @ Cores(1))("two")
    log = site.log.read_text().splitlines()

    assert [
        "sweep:1 talks | hello one",
        "sweep:1 talks | no end of linefrom a thread",
        "sweep:1 talks | of one",
        "sweep:1 talks | WARNING solver: slow: one",
        "sweep:2 talks | hello two",
        "sweep:2 talks | no end of linefrom a thread",
        "sweep:2 talks | of two",
        "sweep:2 talks | WARNING solver: slow: two",
    ] == without_ids(line for line in log if "talks" in line)
    assert "never written" not in site.log.read_text()


async def test_a_mission_that_asks_for_it_shows_what_its_leaves_print_elsewhere(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    options: dict[str, Any] = {"config_file": str(site.config), "name": "sweep", "progress": False}
    async with mission(**options, echo=True), site.serving():
        await (talks @ Cores(1))("one")
    assert [
        "sweep:1 talks | hello one",
        "sweep:1 talks | no end of linefrom a thread",
        "sweep:1 talks | of one",
        "sweep:1 talks | WARNING solver: slow: one",
    ] == without_ids(line for line in capsys.readouterr().err.splitlines() if "talks" in line)
    async with mission(**options), site.serving():
        await (talks @ Cores(1))("one")
    assert "talks" not in capsys.readouterr().err


async def test_functions_in_processes_have_the_surroundings_of_their_task(site: Site) -> None:
    (site.worker / "surrounding.py").write_text(
        "from grain.subproc import subprocess_pool_scope as grain_context\n"
    )
    env = {"WORD": "m"}
    async with (
        mission(config_file=str(site.config), name="sweep", env=env),
        site.serving("--context", "surrounding.py"),
    ):
        one = await (calls @ Cores(1))("one")
        two = await (calls @ Cores(1))("two")
    log = site.log.read_text().splitlines()

    assert (str(site.mission), "m", str(site.worker)) == one == two
    assert ["sweep:1 calls | computing one", "sweep:2 calls | computing two"] == without_ids(
        line for line in log if "computing" in line
    )
