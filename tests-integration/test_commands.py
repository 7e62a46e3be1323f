"""The `grain` command with a real scheduler, real workers, and processes as jobs."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site, running

from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores, Memory
from grain.worker import Call
from grain.worker.external import run_external
from grain_testkit.local_processes import alive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_what_is_listed_is_what_there_is(site: Site) -> None:
    """Workers, missions, tasks that run and wait, why, and departures on request."""
    with site.gnaw(), site.worker("w-a", Cores=2, Memory=8), site.worker("w-b", Cores=1):
        with trio.fail_after(300):
            # It starts no scheduler of its own, which would outlive the test.
            connect = GnawConnector(site.address, name="opt", start=False).connect
            await site.until(lambda _: True)
            async with RemoteExecutor(site.address, name="opt", connect=connect) as executor:
                sleep = Call(trio.sleep, (1000.0,), {})
                program = Call(run_external, (["sleep", "1000"],), {"check": False})
                jobs = [
                    executor.submit_call(Cores(2) & Memory(6), program, lambda _: None),
                    executor.submit_call(Cores(2), sleep, lambda _: None),
                    executor.submit_call(Cores(64), sleep, lambda _: None),
                ]
                state = await site.until(
                    lambda s: len(s["workers"]) == 2 and s["tasks"]["running"] == 1
                )
                [busy] = [one for one in state["workers"] if one["name"] == "w-a"]
                listed = await site.grain("ls")
                why = await site.grain("why", f"opt:{jobs[1]}")
                while (
                    "GB of memory now: sleep 1000\n"
                    not in (runs := await site.typed("why", f"opt:{jobs[0]}")).stdout
                ):
                    await trio.sleep(0.1)
                never = await site.typed("why", f"opt:{jobs[2]}")
                quitting = await site.grain("drain", "w-a")
                unknown = await site.typed("drain", "x*")
                state = await site.until(lambda s: "draining" in str(s["workers"]))
                await site.typed("drain", "-f", "w-*")
                await site.until(lambda s: not s["workers"])
                for job in jobs:
                    executor.cancel(job)

    assert {"Cores": 1.0, "Memory": 0.75} == busy["used"]
    assert [f"opt:{jobs[0]}"] == busy["tasks"]
    words = " ".join(listed.stdout.split())
    assert "given Cores 100 %, Memory 75 % of Cores(2) & Memory(8)" in words
    assert "no worker here can run it: " in words
    assert f"configuration is {site.folder}/grain.toml.\n" in listed.stdout
    assert f"task opt:{jobs[0]} is running\n" in runs.stdout
    assert "  it calls run_external(['sleep', '1000'], check=False)\n" in runs.stdout
    assert "  it runs on worker w-a (host " in runs.stdout
    assert f"task opt:{jobs[1]} is waiting\n" in why.stdout
    assert "w-a: not now, " in why.stdout
    assert "w-b: never, " in why.stdout
    assert "w-a: never, " in never.stdout
    assert quitting.stdout.endswith(": leaves, when 1 task has ended\n")
    assert (1, "") == (unknown.returncode, unknown.stdout)


CANCELLED = """
import trio
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def forever():
    await trio.sleep_forever()

async def main():
    one, other = (forever @ Cores(1))(), (forever @ Cores(1))()
    try:
        await one
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    try:
        await other
    finally:
        print("finally", flush=True)

run(main)
"""


async def test_a_task_and_a_mission_end_by_command(site: Site) -> None:
    """Both by a user who is named; the mission as by Ctrl-C. It is called after its script."""
    (site.folder / "opt.py").write_text(CANCELLED)
    with site.gnaw(), site.worker("w", Cores=2), trio.fail_after(300):
        await site.until(lambda s: s["workers"])
        with site.script("opt.py") as mission:
            await site.until(lambda s: s["tasks"]["running"] == 2)
            unknown = await site.typed("cancel", "opt:77")
            task = await site.grain("cancel", "opt:1")
            await site.until(lambda s: s["tasks"]["running"] == 1)
            # Cancelled before it has resumed after its task, it would not get there any more.
            assert mission.stdout is not None
            first = await trio.to_thread.run_sync(mission.stdout.readline)
            ended = await site.grain("cancel", "-y", "opt")
            out, err = await trio.to_thread.run_sync(partial(mission.communicate, timeout=120))
        await site.until(lambda s: not s["missions"] and not s["tasks"]["running"])

    assert 1 == unknown.returncode
    assert "Error: task 77 of opt has ended, or was never submitted\n" == unknown.stderr
    assert "task opt:1 is cancelled; it ran, and its programs end\n" == task.stdout
    assert ended.stdout.startswith("mission opt is told to end; 1 running and 0 waiting tasks end")
    name = f"{getpass.getuser()} on {socket.gethostname()}"
    assert [
        f"TaskCancelled: forever was cancelled by {name} with `grain cancel` (task 1)",
        "finally",
    ] == (first + out).splitlines()
    assert 1 == mission.returncode
    text = f"the mission was cancelled by {name} with `grain cancel`"
    assert err.endswith(f"MissionCancelled: {text}\n")


async def test_workers_come_and_go_by_command(site: Site) -> None:
    """`up`, `ls`, `logs`, `drain`, and nothing is left."""
    with site.gnaw(), trio.fail_after(300):
        [job] = json.loads((await site.grain("up", "--json")).stdout)
        pid = int(job["id"].split(":")[-2])
        try:
            state = await site.until(lambda s: s["workers"])
            # The scheduler counts it before it has written that.
            while "connected to " not in (await site.typed("logs", "w")).stdout:
                await trio.sleep(0.1)
            quitting = await site.typed("drain", "w")
            await site.until_listed(lambda s: not s["workers"] and not s["jobs"])
        finally:
            _end(pid)

    [worker] = state["workers"]
    assert {"Cores", "Memory", "Capacity"} == worker["total"].keys()
    assert {"Cores": 0.0, "Memory": 0.0, "Capacity": 0.0} == worker["used"]
    assert quitting.stdout.startswith("w on ")


async def test_scale_replaces_a_worker_that_died(site: Site) -> None:
    """A signal ends the command; its worker stays until it gets a request to leave."""
    pids: list[int] = []
    with site.gnaw(), trio.fail_after(300):
        scale = site.scale("1", "--json")
        try:
            await site.until(lambda s: s["workers"])
            jobs = (await site.until_listed(lambda s: s["jobs"]))["jobs"]
            assert len(jobs) == 1
            first = jobs[0]["id"]
            pids.append(int(first.split(":")[-2]))
            # It has proven itself neither now nor ever, so the next one comes after a pause.
            _end(pids[0])
            state = await site.until_listed(lambda s: s["jobs"] and s["jobs"][0]["id"] != first)
            pids.append(int(state["jobs"][0]["id"].split(":")[-2]))
            assert len(state["jobs"]) == 1
            scale.terminate()
            assert 0 == await trio.to_thread.run_sync(partial(scale.wait, 60))
            await site.until_listed(lambda s: s["jobs"])
            await site.typed("drain", "-f", "w")
            await site.until_listed(lambda s: not s["workers"] and not s["jobs"])
        finally:
            scale.kill()
            scale.wait()
            for pid in pids:
                _end(pid)


async def test_gnaw_keeps_a_pool(site: Site) -> None:
    """It submits workers; when Gnaw is killed nothing goes on submitting."""
    config = str(site.folder / "grain.toml")
    words = ("grain.head", "--address", site.address, "--pool", "1", "--config", config)
    state = str(site.folder / "state")
    with running(*words, XDG_STATE_HOME=state) as gnaw, trio.fail_after(300):
        await site.until(lambda s: s["workers"])
        job = (await site.until_listed(lambda s: s["jobs"]))["jobs"][0]
        try:
            gnaw.kill()
            gnaw.wait()
            while (done := await site.grain("scale", "1", "--parent", "1")).returncode:
                assert "already; end it first" in done.stderr
                await trio.sleep(0.2)
        finally:
            _end(int(job["id"].split(":")[-2]))

    assert str(site.folder / "w.log") == job["log_file"]


async def test_the_pool_of_the_configuration(site: Site) -> None:
    """With head.gnaw.pool a mission needs no `grain up`; Gnaw lets the workers go with it."""
    # Idle until the mission has found it, too, which may take some seconds.
    with (site.folder / "grain.toml").open("a") as config:
        config.write('[head.gnaw]\npool = 1\nidle_timeout = 12\nlog_file = "gnaw.log"\n')
    (site.folder / "mission.py").write_text(
        "from grain.delayed import delayed, run\n"
        "from grain.resource import Cores\n"
        "@delayed\n"
        "async def double(x):\n    return 2 * x\n"
        "async def main():\n    print(await (double @ Cores(1))(21))\n"
        "run(main)\n"
    )
    with trio.fail_after(300):
        program = [sys.executable, "mission.py"]
        done = await trio.run_process(
            program, cwd=site.folder, env=site.environ, capture_stdout=True
        )
        records = await trio.Path(site.folder / "state/grain/jobs").glob("*.jsonl")
        # More than one where the mission was kept from it for longer, and has started another one.
        submitted = [json.loads(await file.read_text()) for file in sorted(records)]
        pids = [int(record["id"].split(":")[-2]) for record in submitted]
        try:
            while any(map(alive, pids)):
                await trio.sleep(0.1)
        finally:
            for pid in pids:
                _end(pid)

    assert b"42" in done.stdout
    assert {("w", "gnaw")} == {(record["name"], record["by"]) for record in submitted}
    assert "leaving" in (site.folder / "gnaw.log").read_text()


async def test_a_healthy_site(site: Site) -> None:
    """The doctor finds the scheduler, and nothing to fix."""
    with site.gnaw() as gnaw, trio.fail_after(300):
        await site.until(lambda _: True)
        # On a busy machine the disk or the scheduler may be slow, which is reported: a check that
        # has found nothing once has nothing to find.
        well: set[str] = set()
        while True:
            checks = await findings(site)
            faults = {one["check"] for one in checks if one["state"] != "ok"}
            well |= {one["check"] for one in checks} - faults
            if faults <= well:
                break
            await trio.sleep(0.2)
        gnaw.kill()
        gnaw.wait()
        while (killed := await site.typed("doctor")).returncode:
            await trio.sleep(0.2)

    assert "has ended unexpectedly" in killed.stdout


async def findings(site: Site) -> list[dict[str, str]]:
    """Return the findings of `grain doctor`."""
    checks: list[dict[str, str]] = json.loads((await site.typed("doctor", "--json")).stdout)
    return checks


def _end(pid: int) -> None:
    """End a job's processes, if any are left."""
    try:
        os.killpg(pid, 15)
    except ProcessLookupError:
        return
