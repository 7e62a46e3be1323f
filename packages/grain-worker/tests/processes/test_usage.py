"""The use of programs: memory of the whole tree, CPU time, data, and the account of a run."""

from __future__ import annotations

import math
import os
import sys
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain import GVAR
from grain.eventlog.usage import LearnedAmount, Usage
from grain.resource import Cores, Memory, RootAllocation
from grain.worker import Call
from grain.worker.call import run_call
from grain.worker.errors import ExternalError, ExternalStartError, ExternalTimeoutError
from grain.worker.external import run_external
from grain.worker.guards.meter import SAVED, SHARE, Budget, in_memory, kibibytes
from grain.worker.processes.account import (
    Programs,
    RunAccount,
    WorkerEnd,
    never_told,
    of_call,
    of_members,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

MB = 1_000_000

LOOKED = """
import mmap, os, time

def wait_for_look(supervisor=os.getppid()):
    # A look reads files of /proc. The first one that is seen may have begun before; when the third
    # one begins, the second one is complete. Amid a look it does not sleep, but may wait for a CPU.
    def reads():
        with open(f"/proc/{supervisor}/io") as file:
            return int(file.read().split("syscr: ")[1].split()[0])
    def sleeps():
        with open(f"/proc/{supervisor}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "S"
    for _ in range(3):
        before = reads()
        while reads() == before:
            time.sleep(0.01)
        while (before := reads()) != (time.sleep(0.01), reads())[1] or not sleeps():
            pass

def beside(count, prepare):
    ready, done = os.pipe(), os.pipe()
    for _ in range(count):
        if not os.fork():
            kept = prepare()
            os.write(ready[1], b"r")
            os.close(done[1])
            os.read(done[0], 1)
            os._exit(0)
    for _ in range(count):
        os.read(ready[0], 1)
    wait_for_look()
    os.close(done[1])
    for _ in range(count):
        os.wait()
"""

PROGRAM = "import sys; x = b'x' * 50_000_000; print(flush=True); sys.stdin.read()"

TABLE = {
    "4 programs, 50 each": (
        f"""
import subprocess, sys
options = {{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}}
programs = [subprocess.Popen([sys.executable, "-c", {PROGRAM!r}], **options) for _ in range(4)]
for program in programs:
    program.stdout.readline()
wait_for_look()
for program in programs:
    program.communicate()
""",
        205,
        270,
    ),
    "one process, 100": ("kept = b'x' * 100_000_000\nwait_for_look()", 100, 120),
    "4 processes, 50 each": ("beside(4, lambda: b'x' * 50_000_000)", 195, 225),
    "fork, 100 shared by 5": ("kept = b'x' * 100_000_000\nbeside(5, lambda: 0)", 100, 125),
    "4 map one segment of 100": (
        """
kept = mmap.mmap(-1, 100_000_000)
for at in range(0, 100_000_000, 4096):
    kept[at] = 1
beside(4, lambda: sum(kept[::4096]))
""",
        100,
        160,
    ),
    "file of 100 that is read": (
        """
with open("/tmp/grain-%d" % os.getpid(), "wb+") as file:
    os.unlink(file.name)
    for _ in range(100):
        file.write(bytes(1_000_000))
    file.seek(0)
    while file.read(1_000_000):
        pass
    wait_for_look()
""",
        5,
        25,
    ),
    "file of 100 in /dev/shm, not mapped": (
        """
with open("/dev/shm/grain-%d" % os.getpid(), "wb") as file:
    os.unlink(file.name)
    for _ in range(100):
        file.write(bytes(1_000_000))
    wait_for_look()
""",
        5,
        25,
    ),
}


async def in_run(tasklet: Callable[[], Awaitable[Any]], account: RunAccount | None = None) -> Any:
    """Call a tasklet as a run, and return its result."""
    scope = trio.CancelScope()
    call = Call(tasklet, (), {})
    ended = await run_call(call, Cores([3]), "w", math.inf, scope, account=account)
    return None if ended is None else ended.unwrap()


@pytest.mark.parametrize("case", TABLE)
async def test_polling_finds_the_memory_of_the_whole_tree_and_counts_shared_pages_once(
    case: str,
) -> None:
    """The last row is the known limit: pages of files in memory belong to no process."""
    code, least, most = TABLE[case]
    done = await run_external([sys.executable, "-c", LOOKED + code])
    assert "polling" == done.usage.measured_by
    assert least * MB <= done.peak_memory * 1e9 <= most * MB


async def test_addresses_without_memory_do_not_count() -> None:
    """As of a program with OMP_STACKSIZE=1G and many threads, which uses a few MB of them."""
    code = "kept = mmap.mmap(-1, 16 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n"
    code += "wait_for_look()\n" * 3
    with GVAR.scope(Memory(0.2)):
        done = await run_external([sys.executable, "-c", LOOKED + code], enforce=True)
    assert done.peak_memory < 0.1


async def test_files_in_a_scratch_directory_in_memory_count(tmp_path: Path) -> None:
    code = """
below = os.environ["TMPDIR"] + "/below"
os.mkdir(below)
with open(below + "/file", "wb") as file:
    for _ in range(100):
        file.write(bytes(1_000_000))
os.symlink("/", below + "/link")
wait_for_look()
"""
    argv = [sys.executable, "-c", LOOKED + code]
    done = await run_external(argv, env={"TMPDIR": "/dev/shm"}, scratch=True)
    assert 105 * MB <= done.peak_memory * 1e9 <= 130 * MB
    done = await run_external(argv, env={"TMPDIR": str(tmp_path)}, scratch=True)
    if not in_memory(bytes(tmp_path)):
        assert done.peak_memory * 1e9 <= 30 * MB


async def test_a_program_that_ends_before_the_first_look_has_the_peak_of_its_largest_process() -> (
    None
):
    done = await run_external(["true"])
    assert ("rusage", done.max_rss) == (done.usage.measured_by, done.peak_memory)


async def test_cpu_time_of_descendants_counts_once_however_deep_they_are() -> None:
    burn = (
        "import os\nwhile os.times().user < 0.3: pass\nprint(os.times().user + os.times().system)"
    )
    done = await run_external(["sh", "-c", f"sh -c '{sys.executable} -c \"{burn}\"; true'; true"])
    assert float(done.stdout or 0) <= done.usage.cpu + 0.01
    assert done.usage.cpu < float(done.stdout or 0) + 0.25
    assert (done.user, done.system) == (done.usage.user, done.usage.system)


async def test_data_that_descendants_write_counts_once(tmp_path: Path) -> None:
    mounts = await trio.Path("/proc/self/mountinfo").read_text()
    kinds = {one.split()[2]: one.split(" - ")[1].split()[0] for one in mounts.splitlines()}
    device = tmp_path.stat().st_dev
    if kinds.get(f"{os.major(device)}:{os.minor(device)}") == "tmpfs":
        pytest.skip("files in memory are on no device")
    command = "dd if=/dev/zero of=file bs=1000000 count=20 && sync file"
    first = await run_external(["sh", "-c", f"({command}); true"], cwd=tmp_path)
    second = await run_external(["true"], cwd=tmp_path)
    assert 0.02 <= first.usage.written < 0.022
    assert second.usage.written < 0.001


async def test_the_account_of_a_run_shows_the_same_figures_as_results_and_errors() -> None:
    async def tasklet() -> None:
        assert Usage() == GVAR.usage
        done = await run_external(["sh", "-c", "exit 3"], check=False)
        assert (GVAR.usage, {3: 1}) == (done.usage, done.usage.exit_statuses)
        with pytest.raises(ExternalError) as failed:
            await run_external(["sh", "-c", "kill -9 $$"])
        with pytest.raises(ExternalTimeoutError) as late:
            await run_external(["sleep", "1000"], timeout=0.01)
        with pytest.raises(ExternalStartError) as missing:
            await run_external(["/missing"])
        usages = [done.usage, failed.value.usage, late.value.usage]
        assert all(usages)
        assert (None, None) == (missing.value.usage, missing.value.peak_memory)
        total = GVAR.usage
        assert (3, {3: 1, -9: 1, -15: 1}) == (total.programs, total.exit_statuses)
        # One after the other, as the account does: from Python 3.12 on, sum() rounds otherwise.
        assert total.user == reduce(add, (usage.user for usage in usages if usage))
        assert total.peak_memory == max(usage.peak_memory for usage in usages if usage)

    account = RunAccount(Cores([3]))
    await in_run(tasklet, account)
    account.close()
    report = account.report("host", "worker")
    assert ("host", "worker", (3,)) == (report.host, report.worker, report.cpus)
    assert (3, True) == (report.usage.programs, report.started <= report.ended)


def test_a_report_has_the_memory_that_a_group_has_learned_also_on_several_workers() -> None:
    memory = Memory(32, group="opt", size=9).after(4.0)
    assert memory is not None
    expected = LearnedAmount(group="opt", amount=8.0, attempt=2, size=9.0, after=4.0)
    own = Cores([3]) & memory.given(8.0)
    for res in (own, RootAllocation(own, ())):
        assert expected == RunAccount(res).report("host", "worker").learned
    assert RunAccount(Cores([3]) & Memory(8)).report("host", "worker").learned is None


@pytest.mark.parametrize(
    ("elapsed", "waits"), [(0.01, 0.0), (0.09, 0.0), (2.0, 0.02), (10.0, 0.1), (1e6, 0.1)]
)
async def test_the_end_of_a_program_waits_for_a_signal_as_long_as_is_little_beside_its_time(
    elapsed: float, waits: float, autojump_clock: trio.testing.MockClock
) -> None:
    end, began = WorkerEnd(lambda: None, lambda: math.inf), trio.current_time()
    with trio.CancelScope() as scope:
        scope.cancel()  # has no effect on it
        await end.after_signals(elapsed)
        assert waits == pytest.approx(trio.current_time() - began)


@pytest.mark.parametrize("told_at", [never_told, lambda: 0.0])
async def test_no_end_waits_for_a_signal_that_has_come_or_that_nobody_would_notice(
    told_at: Callable[[], float], autojump_clock: trio.testing.MockClock
) -> None:
    began = trio.current_time()
    await WorkerEnd(lambda: None, told_at).after_signals(1e6)
    assert trio.current_time() == began


async def test_programs_of_a_run_that_is_cancelled_are_charged_to_it() -> None:
    account = RunAccount(Cores([3]))

    async def tasklet() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_external, ["sh", "-c", "echo $$ > /dev/null; exec sleep 1000"])
            await run_external(["true"])
            nursery.cancel_scope.cancel()

    await in_run(tasklet, account)
    assert 2 == account.usage.programs


def test_outside_of_a_run_nothing_is_counted() -> None:
    async def main() -> None:
        await run_external(["true"])
        assert (0, 0.0, {}) == (
            GVAR.usage.programs,
            GVAR.usage.cpu,
            GVAR.usage.exit_statuses,
        )

    trio.run(main)


async def test_runs_side_by_side_have_accounts_of_their_own() -> None:
    counts: list[int] = []

    async def tasklet(programs: int) -> None:
        for _ in range(programs):
            await run_external(["true"])
        counts.append(GVAR.usage.programs)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_run, lambda: tasklet(1))
        nursery.start_soon(in_run, lambda: tasklet(2))
    assert [1, 2] == sorted(counts)


def used(peak: float, **more: Any) -> Usage:
    return Usage(peak_memory=peak, measured_by="polling", programs=1, **more)


def test_the_peak_of_a_run_is_the_largest_sum_of_programs_that_ran_at_the_same_time() -> None:
    programs = Programs()
    programs.begin("a", 0.0)
    programs.end("a", 1.0, used(3.0))
    programs.begin("b", 1.0)
    programs.begin("c", 2.0)
    programs.end("b", 3.0, used(2.0))
    assert 3.0 == programs.total.peak_memory
    programs.begin("d", 3.0)
    programs.end("c", 4.0, used(2.0))
    assert 4.0 == programs.total.peak_memory
    programs.end("d", 5.0, used(1.5))
    assert (4.0, 4) == (programs.total.peak_memory, programs.total.programs)


def test_a_program_that_never_ran_counts_for_nothing() -> None:
    programs = Programs()
    programs.begin("a", 0.0)
    programs.end("a", 1.0, None)
    assert Usage() == programs.total


def test_thousands_of_programs_beside_a_long_one_are_not_kept_one_by_one() -> None:
    programs = Programs()
    programs.begin("long", 0.0)
    for number in range(2000):
        programs.begin(number, number + 0.1)
        programs.end(number, number + 0.9, used(1.0, exit_statuses={number % 7: 1}))
    assert (2000, 1.0) == (programs.total.programs, programs.total.peak_memory)
    assert len(programs._ended) < 300
    programs.end("long", 3000.0, used(5.0))
    assert (6.0, 7) == (programs.total.peak_memory, len(programs.total.exit_statuses))


def test_a_budget_is_a_share_of_the_time_and_little_of_it_is_saved_up() -> None:
    budget, now, used = Budget(SHARE), 10_000.0, 0.0
    began = now
    while now < began + 1000.0:
        now = max(now, budget.affordable_at())
        budget.pay(0.01, now)
        used += 0.01
    assert SHARE * 1000.0 < used <= SHARE * (1000.0 + SAVED) + 0.02


def test_a_field_that_the_kernel_does_not_have_is_zero() -> None:
    assert (12.0, 0.0) == (
        kibibytes(b"Name:\tx\nVmRSS:\t  12 kB\n", b"\nVmRSS:"),
        kibibytes(b"Name:\tx\n", b"\nRssAnon:"),
    )


# ---- several workers


ONE = Usage(
    user=1.0, system=0.5, peak_memory=2.0, measured_by="polling", read=0.1, written=0.2, programs=1,
    exit_statuses={0: 1}, outputs=("/out",),
)  # fmt: skip
TWO = Usage(
    user=3.0, peak_memory=5.0, measured_by="rusage", cpu_measured_by="cgroup", read=0.3, programs=2,
    exit_statuses={0: 1, -9: 1},
)  # fmt: skip


def test_several_workers_have_sums_and_the_largest_peak_and_each_has_its_own() -> None:
    assert Usage(
        user=4.0, system=0.5, peak_memory=5.0, measured_by="rusage", read=0.4, written=0.2,
        programs=3, exit_statuses={0: 2, -9: 1}, outputs=("/out",), members=(ONE, TWO),
    ) == of_members([ONE, TWO])  # fmt: skip
    nothing = Usage()
    assert (nothing, TWO) == of_members([nothing, TWO]).members
    assert "cgroup" == of_members([nothing, TWO]).cpu_measured_by
    assert nothing == of_members([nothing, nothing])


def test_a_program_and_what_it_has_others_run_count_together_on_the_first_worker() -> None:
    used = of_call(ONE, {0: ONE, 2: TWO}, 3)

    assert [(2.0, 4.0, 2), (0.0, 0.0, 0), (3.0, 5.0, 2)] == [
        (one.user, one.peak_memory, one.programs) for one in used.members
    ]
    assert (5.0, 5.0, 4) == (used.user, used.peak_memory, used.programs)
