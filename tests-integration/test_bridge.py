"""A mission, a scheduler and workers that meet at a bridge, as real processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTNAMES = """
from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def one(i):
    await run_external(["sleep", "0.2"])
    return i, GVAR.instance

async def main():
    for job in [(one @ Cores(1))(i) for i in range(30)]:
        print(*await job, flush=True)

run(main)
"""
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root, for a mount namespace"
)


@contextmanager
def bridge(listen: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`grain bridge serve`; yields the process and its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "grain.cli", "bridge", "serve", "--listen", listen],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"127\.0\.0\.1 port (\d+)", line)
        assert match is not None, line
        yield process, match[1]
    finally:
        process.kill()
        process.communicate()


@contextmanager
def far_worker(site: Site) -> Iterator[None]:
    """A worker in whose name space no Unix socket leads to the scheduler."""
    words = ["--url", site.address, "--res", '{"Cores": 2}', "--name", "far"]
    script = 'mount -t tmpfs -o mode=700 none /tmp/grain-0 && exec "$@"'
    process = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "grain.worker", *words],
        env=site.environ,
        stderr=subprocess.DEVNULL,
        cwd=site.folder,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


@needs_namespaces
async def test_a_bridge_that_is_killed_twice_loses_nothing(tmp_path: Path) -> None:
    """One worker beside the scheduler, and one that only the bridge reaches."""
    site = Site(tmp_path)
    (tmp_path / "key").touch(mode=0o600)
    (tmp_path / "key").write_text((await site.grain("bridge", "key")).stdout)
    with trio.fail_after(300), bridge("127.0.0.1:0") as (first, port):
        # No interface has that name, so nobody connects directly by TCP.
        site.address = f"bridge://@{tmp_path}/key@127.0.0.1:{port}?iface=none0"
        toml = tmp_path / "grain.toml"
        toml.write_text(re.sub(r'address = ".*?"', f'address = "{site.address}"', toml.read_text()))
        (tmp_path / "opt.py").write_text(HOSTNAMES)
        with site.gnaw(), site.worker("beside", Cores=1), far_worker(site):
            await site.until(lambda state: len(state["workers"]) == 2)
            with site.script("opt.py") as mission:
                assert mission.stdout is not None
                out = await trio.to_thread.run_sync(mission.stdout.readline)
                first.send_signal(signal.SIGKILL)
                first.wait()
                with bridge(f"127.0.0.1:{port}") as (second, _):
                    await trio.sleep(3)
                    second.send_signal(signal.SIGKILL)
                    second.wait()
                with bridge(f"127.0.0.1:{port}"):
                    out += await trio.to_thread.run_sync(mission.stdout.read)
                    status = await trio.to_thread.run_sync(mission.wait)
    assert 0 == status
    got = [line.split() for line in out.splitlines()]
    assert {"far", "beside"} == {side for _, side in got}
    assert list(range(30)) == sorted(int(number) for number, _ in got)
