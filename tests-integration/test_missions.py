"""Missions that `grain run -d` starts: they outlive their terminal, are killed, and go on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from click.testing import CliRunner, Result
from command_site import Site

from grain.cli import main
from grain_testkit.local_processes import alive
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENERGIES = """
import sys
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed(cache_hfn="args")
async def energy(i):
    # Not brief, or others would go ahead in a lane.
    wait = f"sleep 0.3; until [ {i} -lt 4 ] || [ -e '{FOLDER}/go' ]; do sleep 0.05; done"
    await run_external(["sh", "-c", f"{wait}; echo {i} >> '{FOLDER}/energies'"])
    return i

async def main():
    total = 0
    for one in [(energy @ Cores(1))(i) for i in range(int(sys.argv[1]))]:
        total += await one
        print("so far", total, flush=True)

run(main)
"""
"""A mission of so many tasks; after four of them, the others wait for a sign."""
WAITS = """
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def waits():
    await run_external(["sh", "-c", "echo $$ >> '{FOLDER}/programs'; exec sleep 1000.25"])

async def main():
    await (waits @ Cores(1))()

run(main)
"""

LABELLED = """
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def runs(command):
    await run_external(["sh", "-c", command])

async def main():
    await (runs @ Cores(1))("sleep 0.1")
    await (runs @ Cores(1))("exec sleep 1000.25")

run(main)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for one in missions(site):
        if one["state"] == "running":
            with suppress(ProcessLookupError):  # it has ended since it was listed
                os.kill(one["pid"], signal.SIGKILL)


def missions(site: Site) -> list[dict[str, Any]]:
    """Return what `grain missions` lists, by the command in this process."""
    env = {
        "GRAIN_CONFIG": str(site.folder / "grain.toml"),
        "XDG_STATE_HOME": site.environ["XDG_STATE_HOME"],
    }
    done = CliRunner(env=env).invoke(main, ["missions", "--json"], catch_exceptions=False)
    assert 0 == done.exit_code, done.output
    return list(json.loads(done.stdout))


async def until_state(site: Site, label: str, state: str) -> dict[str, Any]:
    while True:
        for one in await trio.to_thread.run_sync(missions, site):
            if (label, state) == (one["label"], one["state"]):
                return one
        await trio.sleep(0.1)


async def until_lines(path: Path, count: int) -> list[str]:
    while not path.exists() or len(path.read_text().split()) < count:
        await trio.sleep(0.02)
    return path.read_text().split()


async def test_a_mission_that_was_killed_is_resumed_and_has_every_result_once(site: Site) -> None:
    """Started in a terminal that is closed; killed; resumed; followed to its end."""
    (site.folder / "opt.py").write_text(ENERGIES.replace("{FOLDER}", str(site.folder)))
    energies = site.folder / "energies"
    with site.gnaw(), site.worker("w", Cores=1), trio.fail_after(300):
        started = await site.grain("run", "-d", "opt.py", "12")
        assert 0 == started.returncode, started.stderr
        first = await until_state(site, "opt@1", "running")
        # Its results are in the cache before it has them.
        output = site.folder / "state/grain/started/opt@1/output"
        while "so far 6\n" not in output.read_text():
            await trio.sleep(0.02)
        os.kill(first["pid"], signal.SIGKILL)
        await until_state(site, "opt@1", "killed")
        (site.folder / "go").touch()
        resumed = await site.grain("resume", "opt")
        assert 0 == resumed.returncode, resumed.stderr
        followed = await site.grain("attach", "-n", "1000", "opt")

    assert 0 == followed.returncode, followed.stderr
    assert "so far 66" in followed.stdout
    written = energies.read_text().split()
    # The one that ran when its mission was killed may have run twice.
    assert {str(i) for i in range(12)} == set(written)
    assert len(written) <= 13


async def test_a_label_means_one_mission_in_every_command_for_as_long_as_its_log_is_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it was started; and it is not given again when all records of it are gone."""
    (site.folder / "opt.py").write_text(LABELLED)
    monkeypatch.setenv("XDG_STATE_HOME", site.environ["XDG_STATE_HOME"])
    monkeypatch.chdir(site.folder)

    async def grain(*words: str) -> Result:
        invoke = partial(CliRunner().invoke, main, words, catch_exceptions=False)
        return await trio.to_thread.run_sync(invoke)

    patient = ("--patience", "30")
    with ExitStack() as stack, site.gnaw(), site.worker("w", Cores=2), trio.fail_after(300):
        first = start("opt.py", cwd=site.folder, env=site.environ, stderr=subprocess.DEVNULL)
        stack.callback(first.kill)
        await site.until(lambda s: s["tasks"]["running"] == 1 == s["missions"][0]["done"])
        assert 0 == (await site.grain("run", "-d", "opt.py")).returncode
        here = await site.until(
            lambda s: s["tasks"]["running"] == 2 and all(one["done"] for one in s["missions"])
        )
        ids = {one["label"]: one["id"] for one in here["missions"]}
        assert {"opt@1", "opt@2"} == ids.keys()
        assert "running" == (await until_state(site, "opt@2", "running"))["state"]
        for label in ids:
            why = await grain("why", *patient, f"{label}:2")
            assert f"task {label}:2 is running" in why.stdout
        refused = await grain("cancel", "-y", *patient, "opt")
        for label, id_ in ids.items():
            assert f"{label} (id {id_[:8]}" in refused.stderr
        ended = await grain("cancel", "-y", *patient, "opt@1")
        assert "mission opt@1 is told to end" in ended.stdout
        await trio.to_thread.run_sync(first.wait, 100)
        # The number is left out where no other of the name is here; commands take it all the same.
        [other] = (await site.until(lambda s: len(s["missions"]) == 1))["missions"]
        assert ("opt", 2) == (other["label"], other["number"])
        assert "task opt@2:2 is running" in (await grain("why", *patient, "opt@2:2")).stdout
        past = (await grain("why", *patient, "opt@1:2")).stdout
        assert f"mission opt ({ids['opt@1'][:8]})" in past
        assert 0 == (await grain("cancel", "-y", *patient, "opt@2")).exit_code
        await until_state(site, "opt@2", "interrupted")

        listed = json.loads((await grain("history", "--json")).stdout)
        assert ids == {one["label"]: one["id"] for one in listed}
        for label, id_ in ids.items():
            for word in (label, id_, id_[:6]):
                assert id_ == json.loads((await grain("history", "--json", word)).stdout)["id"]
            assert id_ in (await grain("report", "-o", "-", label)).stdout
            assert 0 == (await grain("whatif", label)).exit_code
            assert 0 == (await grain("logs", f"{label}:1")).exit_code
        assert "opt@2 was cancelled by" in (await grain("attach", "opt@2")).stderr
        unknown = await grain("history", "opt@9")
        assert "no log of 'opt@9' in" in unknown.stderr
        assert "the latest missions are opt@2 of " in unknown.stderr

        assert 0 == (await site.grain("resume", ids["opt@2"])).returncode
        await site.until(
            lambda s: s["tasks"]["running"] and [3] == [one["number"] for one in s["missions"]]
        )
        assert 0 == (await grain("cancel", "-y", *patient, "opt@3")).exit_code
        await until_state(site, "opt@3", "interrupted")

    for folder in ("missions", "started"):
        shutil.rmtree(site.folder / "state/grain" / folder)
    assert 0 == (await site.grain("run", "--name", "opt", "true")).returncode
    assert ["opt@4"] == [one["label"] for one in missions(site)]


@pytest.mark.parametrize("how", ["SIGTERM", "grain cancel"])
async def test_the_programs_of_a_mission_that_is_ended_end_at_once(site: Site, how: str) -> None:
    """Not after the grace period for missions that are away."""
    (site.folder / "opt.py").write_text(WAITS.replace("{FOLDER}", str(site.folder)))
    with site.gnaw(grace=3600), site.worker("w", Cores=1), trio.fail_after(300):
        assert 0 == (await site.grain("run", "-d", "opt.py")).returncode
        [program] = await until_lines(site.folder / "programs", 1)
        one = await until_state(site, "opt@1", "running")
        if how == "SIGTERM":
            os.kill(one["pid"], signal.SIGTERM)
        else:
            done = await site.grain("cancel", "-y", "opt")
            assert "mission opt is told to end; 1 running" in done.stdout, done.stderr
        await site.until(lambda s: not s["missions"] and not s["tasks"]["running"])
        assert not alive(int(program))
        await until_state(site, "opt@1", "interrupted")


async def test_a_map_goes_on_without_its_terminal_and_is_resumed(site: Site) -> None:
    """By its joblog: what had ended does not run again."""
    # After two jobs the others wait for a sign.
    line = "until [ $1 -lt 2 ] || [ -e go ]; do sleep 0.05; done; echo $1"
    words = ["map", "-d", "-j", "1", "--joblog", "log", "--", "sh", "-c", line, "sh", "{}"]
    with trio.fail_after(300):
        started = await site.grain(*words, ":::", *map(str, range(8)))
        assert 0 == started.returncode, started.stderr
        one = await until_state(site, "map@1", "running")
        while (
            not (site.folder / "log").exists() or (site.folder / "log").read_text().count("\n") < 3
        ):
            await trio.sleep(0.05)
        os.kill(one["pid"], signal.SIGTERM)
        await until_state(site, "map@1", "interrupted")
        (site.folder / "go").touch()
        assert 0 == (await site.grain("resume", "map")).returncode
        followed = await site.grain("attach", "map")

    assert 0 == followed.returncode
    assert "had ended before" in followed.stdout
    rows = (site.folder / "log").read_text().splitlines()[1:]
    assert sorted(range(1, 9)) == sorted({int(row.split("\t")[0]) for row in rows})


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-a", "nofile", "echo", "{}"], "nofile: No such file"),
        (["sleep 1; echo {}", ":::", "1"], "is one word"),
    ],
    ids=["inputs", "template"],
)
async def test_a_map_that_cannot_begin_is_not_started_out_of_sight(
    site: Site, words: list[str], sentence: str
) -> None:
    refused = await site.grain("map", "-d", *words)
    listed = await site.grain("missions", "--json")

    assert 255 == refused.returncode
    assert sentence in refused.stderr
    assert [] == json.loads(listed.stdout)
