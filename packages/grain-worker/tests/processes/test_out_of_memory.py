"""Programs that were killed for want of memory: the evidence, and the error that says so."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.eventlog.usage import Usage
from grain.resource import ZERO, Memory
from grain.worker.call import RunSettings
from grain.worker.errors import Failure, exceeded_memory, how_failed
from grain.worker.external import (
    CAPTURE,
    ExternalError,
    ExternalMemoryError,
    ExternalTimeoutError,
    ProgramCall,
    program,
    run_external,
)
from grain.worker.guards.group import LATELY, KillCounter, event_files
from grain.worker.guards.meter import Budgets, Meter
from grain.worker.node.cgroup import Cgroups
from grain.worker.processes.account import RunAccount
from grain.worker.processes.fork_server_client import ForkServerClient, ProgramResult
from grain.worker.processes.out_of_memory import SETTLED, SharedKills, evidence_of_memory
from grain.worker.processes.supervisor_client import ProgramExit

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

if TYPE_CHECKING:
    from pathlib import Path

    from grain.resource import Resource

KILL = ["sh", "-c", "kill -KILL $$"]


def asked(memory: float) -> Resource:
    return Memory(memory)


@pytest.mark.parametrize(
    ("returncode", "kills", "own", "peak", "bounds", "expected"),
    [
        pytest.param(-9, 0, False, 1.0, (None, None), False, id="a signal alone"),
        pytest.param(-9, 0, True, 1.0, (4.0, 8.0), False, id="far from every bound"),
        pytest.param(-9, 0, False, 3.9, (4.0, None), True, id="near the request"),
        pytest.param(137, 0, False, 3.9, (4.0, None), True, id="a launcher whose rank had so much"),
        pytest.param(-9, 0, False, 3.5, (4.0, 8.0), False, id="below nine tenths of each"),
        pytest.param(-9, 0, False, 8.0, (None, 8.0), True, id="at the limit"),
        pytest.param(-9, 1, False, 0.1, (None, None), True, id="a kill in a shared group"),
        pytest.param(137, 1, False, 0.1, (None, None), True, id="a shell that reports it"),
        pytest.param(-9, 1, True, 0.1, (None, None), True, id="a kill in its own group"),
        pytest.param(1, 1, True, 0.1, (None, None), True, id="a launcher whose rank was killed"),
        pytest.param(1, 1, False, 0.1, (None, None), False, id="somebody else was killed"),
        pytest.param(0, 2, True, 0.1, (None, None), True, id="a launcher that hides it"),
        pytest.param(0, 2, False, 0.1, (None, None), False, id="it ended well beside others"),
        pytest.param(1, 0, False, 4.0, (4.0, 4.0), False, id="it failed with much memory"),
        pytest.param(-11, 0, False, 4.0, (4.0, 4.0), False, id="a fault with much memory"),
    ],
)
def test_what_counts_as_want_of_memory(
    returncode: int,
    kills: int,
    own: bool,
    peak: float,
    bounds: tuple[float | None, ...],
    expected: bool,
) -> None:
    assert expected == bool(evidence_of_memory(returncode, kills, peak, bounds, own_group=own))


@pytest.mark.parametrize(
    ("peak", "memory"),
    [(0.4, False), (3.7, True)],
    ids=["an operator's, or the neighbour's in its place", "the one near its amount"],
)
def test_of_two_that_were_killed_in_a_shared_group_it_was_the_one_near_its_amount(
    peak: float, memory: bool
) -> None:
    for returncode in (-9, 137):
        evidence = evidence_of_memory(returncode, 1, peak, (4.0, None), own_group=False, other=True)
        assert memory == bool(evidence)


@pytest.mark.parametrize("first", ["near", "far"])
async def test_which_of_two_that_were_killed_together_ends_first_makes_no_difference(
    first: str, autojump_clock: trio.testing.MockClock
) -> None:
    kills, found = SharedKills(), {}

    async def end(name: str, peak: float) -> None:
        if name != first:
            await trio.sleep(0.9 * SETTLED)
        found[name] = await kills.other(-9, 1, peak, (4.0, None))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(end, "near", 3.7)
        nursery.start_soon(end, "far", 0.4)
    assert {"near": False, "far": True} == found


async def test_a_program_that_the_kernel_has_killed_by_itself_had_too_little(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Also far from its amount, and long after another one was."""
    kills = SharedKills()
    assert not await kills.other(-9, 1, 3.7, (4.0, None))
    await trio.sleep(LATELY)
    assert not await kills.other(-9, 1, 0.4, (4.0, None))


@pytest.mark.parametrize(("returncode", "count"), [(1, 1), (-9, 0), (-15, 3)])
async def test_other_ends_wait_for_no_other_program(returncode: int, count: int) -> None:
    with trio.fail_after(0):  # it would be over at any checkpoint
        assert not await SharedKills().other(returncode, count, 0.4, (4.0, None))


async def test_a_kill_by_an_operator_while_a_neighbour_runs_out_of_memory_is_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have the kernel's count of one kill in the group that they share."""
    run = ForkServerClient.run
    near: dict[bytes, int] = {b"neighbour": 3_900_000_000, b"killed": 100_000_000}

    async def counted(self: ForkServerClient, *args: Any) -> ProgramResult:
        result = await run(self, *args)
        assert isinstance(result.report, ProgramExit)
        peak = near[args[0]["argv"][-1]]
        report = result.report._replace(oom_kills=1, own_group=False, peak_memory=peak)
        return result._replace(report=report)

    monkeypatch.setattr(ForkServerClient, "run", counted)
    ended: dict[str, ExternalError] = {}

    async def program(name: str) -> None:
        with pytest.raises(ExternalError) as caught:
            await run_external([*KILL, name])
        ended[name] = caught.value

    # One after the other, as a test on a busy machine cannot have both end within a second.
    with GVAR.scope(asked(4.0)):
        await program("neighbour")
        await program("killed")
    assert ExternalMemoryError is type(ended["neighbour"])
    assert ExternalError is type(ended["killed"])


@pytest.mark.parametrize(
    ("error", "exceeded"),
    [
        (MemoryError(), True),
        (ExceptionGroup("", [ValueError(), ExceptionGroup("", [MemoryError()])]), True),
        (ExceptionGroup("", [ValueError()]), False),
        (OSError(errno.ENOMEM, "no memory"), False),  # a limit of another kind has this, too
    ],
)
def test_a_tasklet_says_by_its_memory_error_that_memory_was_too_little(
    error: Exception, exceeded: bool
) -> None:
    assert exceeded is exceeded_memory(error)
    assert ("memory" if exceeded else "failed") == how_failed(error)


async def test_a_killed_program_that_had_what_it_asked_for_ran_out_of_memory() -> None:
    """Every program is taken to have had 0.01 GB, and more."""
    with GVAR.scope(asked(0.005)), pytest.raises(ExternalMemoryError) as caught:
        await run_external(KILL)
    error = caught.value

    assert isinstance(error, ExternalError)
    assert isinstance(error, MemoryError)
    assert ("SIGKILL", -9, 0.005) == (error.signal, error.returncode, error.memory_request)
    line = str(error).splitlines()[0]
    assert "killed for want of memory: ended by signal SIGKILL (peak memory 0.0" in line
    assert "0.005 GB asked for" in line
    twin = pickle.loads(pickle.dumps(error))
    assert (type(error), str(error), error.failure) == (type(twin), str(twin), twin.failure)


async def test_a_killed_program_that_had_all_of_its_control_group_ran_out_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its limit is in bytes, and the error has it in GB."""
    monkeypatch.setattr(program, "read_cgroups", lambda: Cgroups(memory=5_000_000))
    with GVAR.scope(asked(4.0)), pytest.raises(ExternalMemoryError) as caught:
        await run_external(KILL)

    assert 0.005 == caught.value.memory_limit


@pytest.mark.parametrize(
    ("argv", "memory"),
    [(KILL, 4.0), (["sh", "-c", "exit 1"], 0.005), (["sh", "-c", "kill -SEGV $$"], 0.005)],
)
async def test_other_failures_are_none_for_want_of_memory(argv: list[str], memory: float) -> None:
    with GVAR.scope(asked(memory)), pytest.raises(ExternalError) as caught:
        await run_external(argv)

    assert ExternalError is type(caught.value)


async def test_a_shell_that_reports_the_end_of_a_program_by_its_exit_code_counts_as_well() -> None:
    with GVAR.scope(asked(0.005)), pytest.raises(ExternalMemoryError, match="exit code 137"):
        await run_external(["sh", "-c", "sh -c 'kill -KILL $$'; exit $?"])


@pytest.mark.parametrize(
    ("own", "whose"), [(True, "events of its control"), (False, "events of the worker's control")]
)
def test_the_message_has_what_the_control_group_says(own: bool, whose: str) -> None:
    error = ExternalMemoryError(
        Failure(
            argv=("orca", "a.inp"),
            host="n1",
            returncode=-9,
            usage=Usage(peak_memory=1.051),
            memory_limit=2.0,
            oom_kills=3,
            own_group=own,
        )
    )

    assert (
        "orca a.inp: killed for want of memory: ended by signal SIGKILL (peak memory 1.05 GB, no "
        f"Memory asked for, limit of the control group 2.00 GB, oom_kill 3 in the {whose} group)"
    ) == str(error).splitlines()[0]


# ---- the counts of the kernel


def test_the_files_of_both_versions_are_looked_for_in_the_group_and_above() -> None:
    listed = "9:cpu,cpuacct:/x\n4:memory:/job/step\n0::/job\n"

    assert [
        "/r/memory/job/step/memory.oom_control",
        "/r/memory/job/memory.oom_control",
        "/r/memory/memory.oom_control",
        "/r/job/memory.events",
        "/r/memory.events",
    ] == event_files(listed, "/r")
    assert ["/r/memory.events"] == event_files("0::/\n", "/r")


@pytest.mark.parametrize("deep", [True, False])
def test_kills_during_a_program_are_counted(tmp_path: Path, deep: bool) -> None:
    """Where the group itself has no count, that of the group above is not its own."""
    group = tmp_path / "job" / "grain-1"
    group.mkdir(parents=True)
    events = (group if deep else group.parent) / "memory.events"
    events.write_text("low 0\noom 2\noom_kill 2\noom_group_kill 0\n")
    meter = Meter(Budgets(), None, KillCounter(True, b"0::/job/grain-1\n", str(tmp_path)))
    meter.begin(0.0)
    events.write_text("low 0\noom 9\noom_kill 5\noom_group_kill 0\n")
    first = meter.end([0.0] * 5, 256)
    meter.begin(0.0)
    second = meter.end([0.0] * 5, 256)

    assert ((3, deep), (0, deep)) == (first[-2:], second[-2:])

    meter.begin(0.0)
    events.write_text("low 0\noom 9\noom_kill 6\noom_group_kill 0\n")
    # A launcher may hide it, and end well; but of a shared group it may be another program.
    assert int(deep) == meter.end([0.0] * 5, 0)[-2]


@pytest.mark.parametrize(
    ("status", "own", "counted"),
    [
        pytest.param(signal.SIGKILL, False, 0, id="the neighbour was killed long ago"),
        pytest.param(137 << 8, False, 1, id="a launcher whose rank was killed long ago"),
        pytest.param(signal.SIGKILL, True, 1, id="a part of it was killed long ago"),
    ],
)
def test_a_kill_of_long_ago_in_a_shared_group_is_not_that_of_a_program_killed_now(
    tmp_path: Path, status: int, own: bool, counted: int
) -> None:
    events = tmp_path / "memory.events"
    events.write_text("oom_kill 0\n")
    meter = Meter(Budgets(), None, KillCounter(own, b"0::/\n", str(tmp_path)))
    meter.begin(0.0)
    events.write_text("oom_kill 1\n")
    meter.look(LATELY)
    meter.look(2 * LATELY - 0.1)
    assert 1 == meter.end([0.0] * 5, signal.SIGKILL)[-2]
    meter.look(2 * LATELY)
    assert counted == meter.end([0.0] * 5, status)[-2]


def test_without_a_count_nothing_was_killed(tmp_path: Path) -> None:
    counter = KillCounter(True, b"0::/job\n", str(tmp_path))

    assert (0, False) == (counter.count(), counter.own)


def test_the_first_evidence_that_holds_is_named() -> None:
    def named(returncode: int, kills: int = 0, **facts: Any) -> str:
        own = facts.pop("own", False)
        return evidence_of_memory(returncode, kills, 3.7, (4.0, None), own_group=own, **facts)

    assert "Grain ended it" in named(-15, 0, own=True, exceeded=True, said="std::bad_alloc")
    assert named(-9, 3, own=True) == (
        "the kernel counts 3 kills for want of memory in its own control group"
    )
    assert "in the worker's control group, and it ended by SIGKILL" in named(137, 1)
    assert named(-9) == "it ended by SIGKILL when it had 3.70 of 4.00 GB"
    assert named(3, said="std::bad_alloc") == "it wrote 'std::bad_alloc'"
    assert named(0, said="std::bad_alloc") == ""


GROWS = """
import time
kept = []
for _ in range(50):
    kept.append(bytearray(10_000_000))
    time.sleep(0.02)
time.sleep(60)
"""
SUPERVISED = """
import math, os, socket, sys
from grain.worker.guards.meter import Budgets, Meter
from grain.worker.guards.supervisor import Supervisor

ends = sys.argv[2] == "ends"

class SecondLook(Meter):
    "It finds too much, and no other look comes after it."

    def look(self, now):
        if ends:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        self._over, self.due = 2, math.inf

here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
supervisor = Supervisor([there.detach()], None, Budgets())
supervisor.meter = SecondLook(Budgets())
request = dict(
    argv=[b"sh", b"-c", sys.argv[1].encode()], env={b"PATH": b"/usr/bin:/bin"}, cwd=b"/",
    cpus=None, stdin=None, stdout=b"/dev/null", stderr=b"/dev/null", merged=False,
    append=(False, False), grace=60.0, scratch=None, warned=False, most=1.0, shell=None, name=None,
    overflow=None,
)
ended = supervisor.run(request, os.open("/dev/null", os.O_RDONLY))
_, status, _, by_itself, *_, exceeded, _, _, _ = ended
print(os.waitstatus_to_exitcode(status), by_itself, exceeded)
"""
FORKS = """
import os, time
kept = bytearray(os.urandom(1000) * 100_000)
for _ in range(4):
    if not os.fork():
        time.sleep(60)
time.sleep(60)
"""


async def test_a_program_with_more_than_its_amount_is_ended_and_says_so() -> None:
    ended = pytest.raises(ExternalMemoryError, match=r"used 0\.\d\d GB of 0\.2 and was")
    with GVAR.scope(Memory(0.2)), ended as raised:
        await run_external([sys.executable, "-c", GROWS], enforce=True)
    assert raised.value.used > 0.2
    assert raised.value.memory_request == 0.2
    assert "Grain ended it" in raised.value.evidence
    brief = ExternalMemoryError(replace(raised.value.failure, elapsed=0.4))
    assert brief.reason.endswith("and was ended after 0.4 s")


async def test_the_amount_is_enforced_by_itself_where_it_is_learned() -> None:
    with GVAR.scope(Memory(8, group="opt").given(0.2)), pytest.raises(ExternalMemoryError):
        await run_external([sys.executable, "-c", GROWS])


@pytest.mark.parametrize(("enforce", "held"), [(None, True), (False, False)])
async def test_a_worker_may_hold_all_programs_to_what_their_tasks_ask_for(
    enforce: bool | None, held: bool
) -> None:
    """A call may say otherwise. There is nothing to hold to where nothing was asked for, or 0."""
    GVAR.enter(Memory(0.2), "w", RunSettings(enforce=True), RunAccount(Memory(0.2)))
    call = ProgramCall(
        ["true"], "/", {}, None, CAPTURE, CAPTURE, 1.0, False, None, False, enforce=enforce
    )
    assert held is (call.request["most"] is not None)
    for res in (ZERO, Memory(0)):
        GVAR.enter(res, "w", RunSettings(enforce=True), RunAccount(res))
        call = ProgramCall(["true"], "/", {}, None, CAPTURE, CAPTURE, 1.0, False, None, False)
        assert call.request["most"] is None


async def test_it_is_ended_for_its_reason_without_check_too() -> None:
    with GVAR.scope(Memory(0.2)), pytest.raises(ExternalMemoryError):
        await run_external([sys.executable, "-c", GROWS], enforce=True, check=False)


@pytest.mark.parametrize(
    ("script", "ends", "report"),
    [
        pytest.param("sleep 600", "goes on", f"-{int(signal.SIGTERM)} False True", id="at once"),
        pytest.param("sleep 0.3", "ends", "0 True False", id="not if it has ended already"),
    ],
)
async def test_the_second_look_at_a_program_with_too_much_ends_it(
    script: str, ends: str, report: str
) -> None:
    with trio.fail_after(120):
        done = await trio.run_process(
            [sys.executable, "-c", SUPERVISED, script, ends], capture_stdout=True
        )

    assert report == done.stdout.decode().strip()


async def test_pages_that_processes_share_count_once() -> None:
    with GVAR.scope(Memory(0.2)), pytest.raises(ExternalTimeoutError):
        await run_external([sys.executable, "-c", FORKS], enforce=True, timeout=3)


async def test_a_program_says_that_memory_was_too_little() -> None:
    script = "echo 'insufficient memory in allocate' >&2; exit 3"
    with pytest.raises(ExternalMemoryError, match="failed for want of memory: exit code 3"):
        await run_external(["sh", "-c", script], memory_signs=["insufficient memory"])
    with pytest.raises(ExternalError) as raised:
        await run_external(["sh", "-c", script], memory_signs=["bad_alloc"])
    assert not isinstance(raised.value, ExternalMemoryError)


@pytest.mark.parametrize(
    "files", [{"stdout": "out"}, {"stderr": "err"}, {"stdout": "both", "stderr": "both"}]
)
async def test_it_says_so_in_files_too(tmp_path: Path, files: dict[str, str]) -> None:
    """What it wrote long before does not count."""
    to = ">&2" if "stderr" in files else ""
    lines = "i=0; while [ $i -lt 4000 ]; do echo going on; i=$((i+1)); done"
    script = f"{{ echo bad_alloc; {lines}; echo 'not enough memory'; }} {to}; exit 3"
    where: dict[str, Any] = {"cwd": tmp_path, **files}
    with pytest.raises(ExternalMemoryError, match="failed for want of memory: exit code 3"):
        await run_external(["sh", "-c", script], memory_signs=["not enough memory"], **where)
    with pytest.raises(ExternalError) as raised:
        await run_external(["sh", "-c", script], memory_signs=["bad_alloc"], **where)
    assert not isinstance(raised.value, ExternalMemoryError)


async def test_output_in_a_fifo_is_not_read(tmp_path: Path) -> None:
    """Its reader gets all of it, and nothing waits."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    script = "echo 'not enough memory'; echo 'not enough memory' >&2; exit 3"
    with pytest.raises(ExternalError) as raised:
        await run_external(
            ["sh", "-c", script],
            cwd=tmp_path,
            stdout="pipe",
            stderr="pipe",
            memory_signs=["not enough memory"],
        )
    assert not isinstance(raised.value, ExternalMemoryError)
    assert b"not enough memory\n" * 2 == os.read(reader, 1000)
    os.close(reader)


@pytest.mark.parametrize("signs", ["no room", [b"no room"], [""], None, {"no room"}])
async def test_what_no_output_can_have_is_no_sign_of_memory(signs: Any) -> None:
    with pytest.raises(TypeError, match="memory_signs=.*: write a list of texts"):
        await run_external(["true"], memory_signs=signs)


async def test_the_amount_is_enforced_or_not() -> None:
    with pytest.raises(TypeError, match="enforce='yes': write True or False"):
        await run_external(["true"], enforce="yes")  # type: ignore[arg-type]


async def test_there_is_nothing_to_enforce_without_an_amount() -> None:
    with pytest.raises(ValueError, match="state it, as in @ Memory"):
        await run_external(["true"], enforce=True)
