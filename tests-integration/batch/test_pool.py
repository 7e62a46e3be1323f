"""A scheduler that keeps workers alive by jobs, and what becomes of these when it leaves."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
from command_site import running
from fake_batch.start import fake

from grain.remote_exer import GnawConnector, RemoteExecutor

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """\
system = "slurm"
address = "{address}"
[worker]
log_file = "w.log"
[script]
cores = 4
memory = 1
"""


@pytest.mark.parametrize("end", ["idle", "signal"])
async def test_what_waits_when_gnaw_leaves(tmp_path: Path, end: str) -> None:
    """For want of missions it takes its own jobs back, before its worker makes room for them.

    Jobs of others stay. After a signal to leave, its successor counts all of them.
    """
    (tmp_path / "edge").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/edge/meeting"
    (tmp_path / "grain.toml").write_text(CONFIG.format(address=address))
    idle_timeout = {"idle": "8", "signal": "600"}[end]
    gnaw = ("grain.head", "--address", address, "--idle-timeout", idle_timeout, "--pool", "3")
    with fake("slurm", tmp_path / "fake", "--nodes=1") as slurm, trio.fail_after(600):
        env: dict[str, Any] = {**slurm.env, "XDG_STATE_HOME": str(tmp_path / "state")}

        def states() -> dict[str, str]:
            lines = slurm.out("squeue", "-h", "-r", "-t", "all", "-o", "%i %T").splitlines()
            return dict(sorted(line.split() for line in lines))

        with running(*gnaw, "--config", str(tmp_path / "grain.toml"), **env) as process:
            # A mission keeps it from being idle before there are jobs.
            connect = GnawConnector(address, start=False).connect
            async with RemoteExecutor(address, connect=connect) as mission:
                await mission.ask_why(0)
                while "RUNNING" not in states().values():
                    await trio.sleep(0.1)
                up = [sys.executable, "-m", "grain.cli", "up", "--json"]
                done = await trio.run_process(up, cwd=tmp_path, env=env, capture_stdout=True)
                [other] = [job["id"] for job in json.loads(done.stdout)]
                before = states()
            if end == "signal":
                process.terminate()
            assert 0 == await trio.to_thread.run_sync(partial(process.wait, 180))
        after = states()

    waiting = {"1_1": "PENDING", "1_2": "PENDING", other: "PENDING"}
    assert {"1_0": "RUNNING", **waiting} == before
    if end == "idle":
        assert {"1_1": "CANCELLED", "1_2": "CANCELLED"}.items() <= after.items()
        assert after[other] in {"PENDING", "RUNNING"}  # it may have the node now
    else:
        assert before == after
