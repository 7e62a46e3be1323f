"""A worker in a control group that was handed over to it, as real processes."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain.worker.external import run_external
from grain.worker.guards.group import removed
from grain_testkit.control_groups import group_of_test

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def control_group() -> Iterator[Path]:
    with group_of_test() as path:
        yield path
        # Its subreaper, in the group of the worker's own processes, ends a moment after the worker.
        deadline = time.monotonic() + 60
        while groups_in(path) and time.monotonic() < deadline:
            for name in groups_in(path):
                removed(str(path / name))
            time.sleep(0.02)


async def measured() -> tuple[str, str]:
    await run_external(["true"])
    return GVAR.usage.measured_by, GVAR.usage.cpu_measured_by


def groups_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


@contextmanager
def running(*words: str) -> Iterator[Popen[bytes]]:
    with Popen(words, stderr=DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_programs_of_a_worker_have_groups_which_are_gone_soon_after_it_was_killed(
    control_group: Path, tmp_path: Path
) -> None:
    (tmp_path / "edge").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/edge/meeting"
    enter = f'echo $$ > {control_group}/cgroup.procs && exec "$@"'
    words = ("-m", "grain.worker", "--url", address, "--res", '{"Cores": 1}')
    ends: list[Any] = []
    with (
        running(sys.executable, "-m", "grain.head", "--address", address),
        running("sh", "-c", enter, "sh", sys.executable, *words) as worker,
        trio.fail_after(120),
    ):
        connect = GnawConnector(address, start=False).connect
        async with RemoteExecutor(address, connect=connect) as executor:
            executor.submit_call(Cores(1), Call(measured, (), {}), ends.append)
            await executor.join()
        # Other processes cannot set an event here: one has to look.
        in_use = groups_in(control_group)
        worker.kill()
        # A group of the worker's own processes may stay, see docs/workers.md.
        while any(name[6:].isdigit() for name in groups_in(control_group)):
            await trio.sleep(0.02)

    assert any(name[6:].isdigit() for name in in_use)
    by_memory, by_cpu = ends[0].unwrap()
    assert (True, "cgroup") == (by_memory in ("cgroup", "rusage"), by_cpu)
