"""The use of programs by control groups: what they count, and that nothing is left of them."""

from __future__ import annotations

import os
import signal
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.eventlog.usage import Usage
from grain.worker.external import ExternalLostError, run_external
from grain.worker.guards.group import GroupMemory, KillCounter, field, remove_empty
from grain.worker.guards.meter import Budgets, Meter
from grain.worker.processes.account import Programs
from grain.worker.processes.fork_server_client import ForkServerClient, set_control_groups
from grain_testkit.program_trees import own_fork_server, own_supervisors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("no_allocation")

MB = 1_000_000

BURN = """
import os, time
def burn():
    began = time.process_time()
    while time.process_time() < began + 0.3: pass
"""

UNAWAITED = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if not os.fork():
    burn()
    os._exit(0)
try:
    os.wait()  # until no child is left, and then it fails (wait(2))
except ChildProcessError:
    print(time.process_time())
"""
"""A program whose child is reaped by the kernel, so that no parent gets its times.

It prints the time that it has used itself, without that child.
"""

ESCAPED = """
done, ours = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        burn()
        print(open("/proc/self/cgroup").read(), flush=True)
        os.write(ours, b"d")
    os._exit(0)
os.wait()
os.read(done, 1)
"""
"""A program whose grandchild is in another session and below another parent."""

SPIKE = """
import os
grown, hold = os.pipe(), os.pipe()
for _ in range(4):
    if not os.fork():
        os.close(hold[1])
        kept = b"x" * 50_000_000
        os.write(grown[1], b"g")
        os.read(hold[0], 1)
        os._exit(0)
for _ in range(4):
    os.read(grown[0], 1)
os.close(hold[1])
for _ in range(4):
    os.wait()
"""
"""A program with four processes that are large at the same moment, and gone as soon as all are."""


def groups_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def need_memory(group: Path) -> None:
    if "memory" not in (group / "cgroup.controllers").read_text().split():
        pytest.skip("control groups of version 2 have no memory controller here")
    if not (group / "memory.peak").stat().st_mode & 0o200:
        pytest.skip("before Linux 6.12, memory.peak cannot be reset")
    (group / "cgroup.subtree_control").write_text("+memory")


async def test_the_group_counts_cpu_time_of_processes_that_are_not_waited_for(
    control_group: Path,
) -> None:
    set_control_groups(str(control_group))
    await run_external(["true"])
    done = await run_external(python(BURN + UNAWAITED))
    assert "cgroup" == done.usage.cpu_measured_by
    assert done.usage.cpu >= float(done.stdout_text) + 0.29
    again = await run_external(["true"])
    assert again.usage.cpu < done.usage.cpu - 0.29


def test_without_a_group_cpu_time_of_processes_that_are_not_waited_for_is_missing() -> None:
    """The known limit, which documentation names."""

    done = trio.run(run_external, python(BURN + UNAWAITED))
    assert "rusage" == done.usage.cpu_measured_by
    assert done.usage.cpu < float(done.stdout_text) + 0.2


async def test_a_grandchild_in_another_session_stays_in_the_group(control_group: Path) -> None:
    set_control_groups(str(control_group))
    done = await run_external(python(BURN + ESCAPED))
    (name,) = groups_in(control_group)
    (line,) = [one for one in done.stdout_text.splitlines() if one.startswith("0::")]
    assert line.endswith(f"/{control_group.name}/{name}")
    assert done.usage.cpu >= 0.3


async def test_the_group_counts_a_moment_in_which_several_processes_are_large(
    control_group: Path,
) -> None:
    need_memory(control_group)
    set_control_groups(str(control_group))
    done = await run_external(python(SPIKE))
    assert "cgroup" == done.usage.measured_by
    assert 195 * MB <= done.peak_memory * 1e9 <= 240 * MB
    small = await run_external(["true"])
    assert ("cgroup", True) == (small.usage.measured_by, small.peak_memory * 1e9 < 30 * MB)


async def test_the_group_counts_files_in_memory_and_not_the_page_cache(
    control_group: Path, tmp_path: Path
) -> None:
    need_memory(control_group)
    set_control_groups(str(control_group))
    write = "import os, sys\nwith open(sys.argv[1], 'wb') as file:\n"
    write += "    for _ in range(100): file.write(bytes(1_000_000))\n"
    in_memory = f"/dev/shm/grain-test-{os.getpid()}"
    done = await run_external([*python(write + "os.unlink(sys.argv[1])"), in_memory])
    assert 95 * MB <= done.peak_memory * 1e9 <= 125 * MB
    done = await run_external([*python(write), str(tmp_path / "file")])
    assert done.peak_memory * 1e9 <= 40 * MB


def test_groups_are_removed_when_the_run_ends(control_group: Path) -> None:
    seen: list[int] = []

    async def main() -> None:
        set_control_groups(str(control_group))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(run_external, ["true"])
        seen.append(len(groups_in(control_group)))

    trio.run(main)
    assert 1 <= seen[0] <= 3
    assert [] == groups_in(control_group)


def test_the_group_of_a_killed_supervisor_is_removed(control_group: Path) -> None:
    async def main() -> None:
        set_control_groups(str(control_group))
        with pytest.raises(ExternalLostError):
            # The program kills its parent.
            await run_external(["sh", "-c", "kill -9 $PPID; sleep 1000"])
        assert (await run_external(["true"])).usage.cpu_measured_by == "cgroup"

    trio.run(main)
    assert [] == groups_in(control_group)


async def test_what_a_killed_fork_server_has_left_the_next_one_removes(
    control_group: Path,
) -> None:
    (control_group / "grain-999999999").mkdir()
    (control_group / "another").mkdir()
    set_control_groups(str(control_group))
    await run_external(["true"])
    (supervisor,) = own_supervisors()
    assert ["another", f"grain-{supervisor}"] == groups_in(control_group)
    for pid in (supervisor, own_fork_server()):
        os.kill(pid, signal.SIGKILL)
    fork_server = ForkServerClient.of_this_run()
    await trio.lowlevel.wait_readable(fork_server.control)
    assert (await run_external(["true"])).usage.cpu_measured_by == "cgroup"
    (control_group / "another").rmdir()


@pytest.mark.parametrize(
    "break_it", [lambda group: group / "missing", lambda group: group / "cgroup.procs"]
)
async def test_a_program_runs_where_no_group_can_be_made(
    control_group: Path, break_it: Callable[[Path], Path]
) -> None:
    set_control_groups(str(break_it(control_group)))
    done = await run_external(["echo", "runs"])
    assert (b"runs\n", "rusage", "rusage") == (
        done.stdout,
        done.usage.measured_by,
        done.usage.cpu_measured_by,
    )


def test_a_group_with_a_process_is_not_removed(control_group: Path) -> None:
    group = control_group / "grain-1"
    group.mkdir()
    (group / "below").mkdir()
    assert not remove_empty(str(control_group))
    (group / "below").rmdir()
    assert remove_empty(str(control_group))


class FakeMemory:
    """The files of a group, which a test fills: total, page cache, files in memory, in bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.set(0)

    def set(self, current: int, cached: int = 0, in_memory: int = 0, peak: int = 0) -> None:
        file = cached + in_memory
        (self.path / "memory.stat").write_text(f"anon 7\nfile {file}\nshmem {in_memory}\n")
        (self.path / "memory.current").write_text(f"{current}\n")
        (self.path / "memory.peak").write_text(f"{max(peak, current)}\n")


@pytest.fixture
def fake(tmp_path: Path) -> FakeMemory:
    return FakeMemory(tmp_path)


def test_a_group_without_a_peak_leaves_no_descriptor_open(fake: FakeMemory) -> None:
    (fake.path / "memory.peak").unlink()
    before = os.listdir("/proc/self/fd")

    with pytest.raises(FileNotFoundError):
        GroupMemory(str(fake.path))

    assert before == os.listdir("/proc/self/fd")


def test_the_group_of_a_program_has_its_amount_as_the_limit(fake: FakeMemory) -> None:
    """With what was there at its begin, and only as long as it runs; on files, not by a kernel."""
    limit = fake.path / "memory.max"
    limit.write_text("")
    memory = GroupMemory(str(fake.path))
    fake.set(5_000_000)
    memory.begin()
    assert "" == limit.read_text()
    memory.begin(2e9)
    assert "2005000000" == limit.read_text()
    memory.begin()
    assert "max" == limit.read_text().replace("2005000000", "")[:3]
    limit.unlink()
    memory.begin(1e9)  # looks guard it


def test_a_program_of_which_the_kernel_has_killed_a_process_is_ended(fake: FakeMemory) -> None:
    """As the rest of it may wait for that process for ever."""
    events = fake.path / "memory.events"
    events.write_text("oom_kill 0\n")
    group: Any = SimpleNamespace(memory=GroupMemory(str(fake.path)))
    meter = Meter(Budgets(), group, KillCounter(True, b"0::/\n", str(fake.path)))
    meter.begin(0.0, 1e6)
    fake.set(0)
    meter.look(1.0)
    assert not meter.exceeded
    events.write_text("oom_kill 1\n")
    fake.set(0)
    meter.look(2.0)
    assert meter.exceeded


def test_a_peak_between_two_looks_counts_without_the_larger_page_cache(fake: FakeMemory) -> None:
    memory = GroupMemory(str(fake.path))
    fake.set(200, cached=100, peak=900)
    assert 800 == memory.look()
    fake.set(300, cached=50, peak=950)
    assert 850 == memory.look()
    fake.set(300, cached=50, peak=400)
    assert 850 == memory.look()


def test_a_program_that_reads_a_file_has_no_peak_of_its_size(fake: FakeMemory) -> None:
    memory = GroupMemory(str(fake.path))
    fake.set(5010, cached=5000, peak=5020)
    assert 20 == memory.look()


def test_files_in_memory_count_and_what_is_left_of_them_does_not_for_the_next_program(
    fake: FakeMemory,
) -> None:
    memory = GroupMemory(str(fake.path))
    fake.set(1100, in_memory=1000)
    assert 1100 == memory.look()
    memory.begin()
    fake.set(1200, in_memory=1000, peak=1250)
    assert 150 == memory.look()


def test_memory_that_an_earlier_program_had_is_no_peak_of_the_next_one(fake: FakeMemory) -> None:
    """What the caller drops between two programs is their output, where that is captured."""
    memory = GroupMemory(str(fake.path))
    fake.set(500 * MB)
    memory.look()
    fake.set(30 * MB)
    memory.begin()
    fake.set(50 * MB, peak=60 * MB)
    assert 30 * MB == memory.look()


def test_a_group_without_a_peak_has_no_figures_of_memory(fake: FakeMemory) -> None:
    (fake.path / "memory.peak").unlink()
    with pytest.raises(FileNotFoundError):
        GroupMemory(str(fake.path))


def test_fields_are_found_by_their_whole_name() -> None:
    text = b"inactive_file 9\nfile 3\nfile_mapped 4\nslab 5"
    assert (3, 4, 0) == (field(text, b"file"), field(text, b"file_mapped"), field(text, b"shmem"))
    assert 5 == field(text + b"\n", b"slab")


def test_cpu_time_of_a_run_is_by_its_groups_only_if_that_of_each_program_is() -> None:
    ways = ["cgroup", "rusage", "cgroup"]
    programs, seen = Programs(), []
    for number, way in enumerate(ways):
        programs.begin(number, number)
        used = Usage(measured_by="polling", cpu_measured_by=way, programs=1)  # type: ignore[arg-type]
        programs.end(number, number + 0.5, used)
        seen.append(programs.total.cpu_measured_by)
    assert ["cgroup", "rusage", "rusage"] == seen
