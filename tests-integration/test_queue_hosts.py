"""The queue on two login hosts that share a home: its dispatcher dies on one of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import Site

from grain.queue.dispatchers import Dispatchers
from grain.queue.folder import Queue

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import hosts, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.queue.records import Dispatcher

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    pytest.mark.nightly,  # signs of life have their real times
]


@pytest.fixture
def logins() -> Iterator[tuple[Site, Site, Site]]:
    """Two login hosts, and a node."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    with hosts("login1", "login2", "n1") as machines:
        site = Site(folder)
        site.environ["HOME"] = str(folder)
        one, two, node = (site.at(host) for host in machines)
        yield one, two, node
    rmtree(folder)


async def dispatcher_of(site: Site) -> Dispatcher:
    """Return the dispatcher in charge, once there is one."""
    queue = Queue.open(site.folder / "state/grain/queues/queue")
    while (last := Dispatchers(queue.files).last()) is None:
        await trio.sleep(0.05)
    return last[1]


@pytest.mark.parametrize("ask", [("submit", "--", "true"), ("jobs",), ("wait", "2")])
async def test_a_job_is_taken_though_the_dispatcher_has_died_on_another_host(
    logins: tuple[Site, Site, Site], ask: tuple[str, ...]
) -> None:
    """Whoever submits or asks on the other host makes sure of that, and need not stay."""
    one, two, node = logins
    with trio.fail_after(600), one.gnaw(), node.worker("w", Cores=2):
        assert 0 == (await one.grain("submit", "-W", "--", "true")).returncode
        first = await dispatcher_of(one)
        assert "login1" == first.host
        assert first.address, "the one of its scheduler"
        assert one.host is not None
        words = one.host.entering(["kill", "-KILL", str(first.pid)])
        await trio.to_thread.run_sync(lambda: subprocess.run(words, check=True))
        if ask[0] != "submit":
            # A job that a process has submitted which was killed at once.
            (two.folder / "killed.py").write_text(
                "from grain.cli.jobs.client import QueueClient\n"
                "QueueClient.open().submit('opt', command=('true',))\n"
            )
            with two.script("killed.py") as submitter:
                await trio.to_thread.run_sync(submitter.wait)
        await two.grain(*ask)

        queue = Queue.open(one.folder / "state/grain/queues/queue")
        while not (attempts := queue.attempts(2)) or attempts[-1].ended is None:
            await trio.sleep(0.5)
        assert "login2" == (await dispatcher_of(two)).host
        assert "queue is a queue of jobs: " in (await two.grain("cancel", "queue")).stderr
        await two.grain("queue", "stop")


async def test_a_dispatcher_that_lives_on_another_host_stays_in_charge(
    logins: tuple[Site, Site, Site],
) -> None:
    one, two, node = logins
    with trio.fail_after(600), one.gnaw(), node.worker("w", Cores=2):
        assert 0 == (await one.grain("submit", "-W", "--", "true")).returncode
        first = await dispatcher_of(one)
        assert 0 == (await two.grain("submit", "-W", "--", "true")).returncode
        assert two.host is not None
        words = two.host.entering(["pgrep", "-f", "[g]rain.cli.jobs.dispatcher"])
        while not (await trio.run_process(words, check=False, capture_stdout=True)).returncode:
            await trio.sleep(0.5)  # until it has seen a sign of life
        assert first == await dispatcher_of(two)
        assert "it runs on login1" in (await two.grain("queue", "stop")).stderr
        assert 0 == (await one.grain("queue", "stop")).returncode
