"""Missions that `grain run -d` starts: they outlive their terminal, are killed, and go on."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import Site

from grain_testkit.local_processes import alive
from grain_testkit.programs import run

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
    # Not brief, or others would go ahead on the worker in a chain.
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


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    for one in missions(site):
        if one["state"] == "running":
            os.kill(one["pid"], signal.SIGKILL)


def missions(site: Site) -> list[dict[str, Any]]:
    words = ("-m", "grain.cli", "missions", "--json")
    done = run(*words, cwd=site.folder, env=site.environ, timeout=120)
    done.check_returncode()
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
