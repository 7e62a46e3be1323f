"""The local worker of a mission: its CPUs, its crashes, and a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.delayed import delayed, each, mission, run
from grain.delayed.futures.executor import Executor
from grain.head.errors import TaskCrashed
from grain.resource import Cores, GPUs, Infeasible, Node
from grain.worker.external import run_external

if TYPE_CHECKING:
    from pathlib import Path

USABLE = sorted(os.sched_getaffinity(0))
AFFINITY = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]


@delayed
async def cpus() -> tuple[list[int], list[int]]:
    """Return the CPUs that were allocated, and those that a program may use."""
    done = await run_external(AFFINITY)
    return GVAR.res.c, [int(word) for word in done.stdout_text.split()]


@delayed
async def process() -> int:
    return os.getpid()


@delayed
async def crash() -> None:
    import ctypes

    print("before")
    ctypes.string_at(0)


def program(text: str, tmp_path: Path, *, check: bool = True, cpu: int | None = None) -> Any:
    """Run a program as a user does; on one CPU alone, if it is given."""
    (tmp_path / "program.py").write_text(text)
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=check,
        preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}),
    )


SHARED_OUTPUT = """
from grain.delayed import delayed, each, run
from grain.resource import Capacity
from grain.worker.external import run_external

@delayed
async def scan(own, other):
    wait = f"touch begun{own}; while ! [ -e begun{other} ]; do sleep 0.01; done"
    await run_external(["sh", "-c", wait], stdout="same.txt")

async def main():
    await each([(scan @ Capacity(1))(0, 1), (scan @ Capacity(1))(1, 0)])

run(main, local=Capacity(2), config_file=False, isolated=%s)
"""


@pytest.mark.parametrize("isolated", [False, True])
def test_a_mission_says_that_two_tasks_have_written_to_one_file(
    tmp_path: Path, isolated: bool
) -> None:
    done = program(SHARED_OUTPUT % isolated, tmp_path)
    [line] = [line for line in done.stderr.splitlines() if "same.txt" in line]
    assert line.startswith("warning: scan (task ")
    assert f" programs of both wrote to {tmp_path}/same.txt, " in line


# ---- CPUs


@pytest.mark.skipif(len(USABLE) < 2, reason="this machine has one CPU")
async def test_two_missions_on_one_machine_are_bound_to_different_cpus() -> None:
    async with mission(Cores(1), config_file=False) as first:
        one = await (cpus @ Cores(1))()
        async with mission(Cores(1), config_file=False) as second:
            two = await (cpus @ Cores(1))()
            assert first is not second
    async with mission(Cores(1), config_file=False):
        again = await (cpus @ Cores(1))()

    assert ([USABLE[0]], [USABLE[0]]) == one == again
    assert ([USABLE[1]], [USABLE[1]]) == two


PARTS = [
    sys.executable,
    "-c",
    (
        "import os; print(*os.sched_getaffinity(0));"
        "print(os.environ['OMP_NUM_THREADS'], os.environ.get('CUDA_VISIBLE_DEVICES'))"
    ),
]


@delayed
async def seen(gate: trio.Event | None = None, together: list[object] | None = None) -> Any:
    """Return the allocation, and the CPUs, threads and GPUs that a program of it sees."""
    done = await run_external(PARTS)
    if gate is not None and together is not None:
        together.append(done)
        if len(together) == 4:
            gate.set()
        await gate.wait()
    cpus, rest = done.stdout_text.splitlines()
    threads, gpus = rest.split()
    return GVAR.res, [int(word) for word in cpus.split()], int(threads), gpus


@pytest.mark.skipif(len(USABLE) < 2, reason="this machine has one CPU")
async def test_programs_of_parts_share_one_cpu_and_one_gpu_and_those_of_all_have_all() -> None:
    """Four run at the same time on half of what there is, each bound to what it was given."""
    gate, together = trio.Event(), list[object]()
    async with mission(Cores(USABLE[:2]) & GPUs([5, 6]), config_file=False):
        quarter = seen @ (Cores(0.25) & GPUs(0.25))
        four = await each([quarter(gate, together) for _ in range(4)])
        whole = await (seen @ (Node() & GPUs("all")))()
        spread = await (seen @ (Cores(2, spread=True) & GPUs(1)))()

    assert [([USABLE[0]], 1, "5")] * 4 == [result[1:] for result in four]
    for res, *_ in four:
        assert ([USABLE[0]], 1, [5]) == (res.c, res.N, res.g)
        assert 0.25 == res.get(Cores).share == res.get(GPUs).share
    assert (USABLE[:2], 2, "5,6") == whole[1:]
    assert (USABLE[:2], [5, 6]) == (whole[0].c, whole[0].g)
    assert (USABLE[:2], 2, "5") == spread[1:]


async def test_all_cores_of_this_machine_are_those_that_the_process_may_use() -> None:
    async with mission(Cores("all"), config_file=False):
        res, cpus, *_ = await (seen @ Node())()

    assert cpus == res.c
    assert set(cpus) <= set(USABLE)


async def test_a_part_of_a_core_is_no_local_worker() -> None:
    with pytest.raises(ValueError, match="a worker offers whole cores"):
        async with mission(Cores(0.5), config_file=False):
            pass


CPUS = """
from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def cpus():
    done = await run_external(["sh", "-c", "grep Cpus_allowed_list /proc/self/status"])
    return GVAR.res, done.stdout_text.split()[1]

async def main():
    print(*await (cpus @ Cores(1))())

for local in {locals}:
    run(main, local=local, config_file=False, name="m")
"""


def test_a_mission_that_is_confined_to_a_cpu_uses_that_one_and_says_if_it_has_too_few(
    tmp_path: Path,
) -> None:
    """It binds programs to no CPUs then, and says so once."""
    few = "Cores([2000, 2001])", "Cores(2000)"
    text = CPUS.replace("{locals}", f"Cores(1), {', '.join(few)}")
    done = program(text, tmp_path, cpu=USABLE[-1])

    assert [
        f"CPU_Cores([{first}]) {USABLE[-1]}" for first in (USABLE[-1], 2000, 0)
    ] == done.stdout.splitlines()
    for local in few:
        warning = (
            f"warning: local={local}: this process may use only CPU {USABLE[-1]}, so programs are "
            "bound to no CPUs\n"
        )
        assert 1 == done.stderr.count(warning)
    assert len(few) == done.stderr.count("warning")


def test_ids_of_cpus_are_allocated_as_they_are_stated(tmp_path: Path) -> None:
    """As the tutorial shows; whatever else runs here."""
    done = program(CPUS.replace("{locals}", f"[Cores([{USABLE[0]}])]"), tmp_path)

    assert f"CPU_Cores([{USABLE[0]}]) {USABLE[0]}\n" == done.stdout


# ---- crashes

CRASH = """
import ctypes, faulthandler
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def crashes():
    ctypes.string_at(0)

async def main():
    await (crashes @ Cores(1))()

{before}
run(main, local=Cores(1), config_file=False)
"""


def test_a_crash_of_the_mission_s_process_shows_the_line_of_the_leaf(tmp_path: Path) -> None:
    done = program(CRASH.replace("{before}", ""), tmp_path, check=False)

    assert -signal.SIGSEGV == done.returncode
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert 'program.py", line 8 in crashes' in done.stderr


def test_a_fault_handler_that_the_program_has_is_left_alone(tmp_path: Path) -> None:
    before = "faulthandler.enable(open('faults.txt', 'w'))"
    done = program(CRASH.replace("{before}", before), tmp_path, check=False)

    assert -signal.SIGSEGV == done.returncode
    assert "Fatal Python error" not in done.stderr
    assert "line 8 in crashes" in (tmp_path / "faults.txt").read_text()


@pytest.mark.parametrize("stream", ["None", "open('/dev/null')"])
def test_a_mission_without_a_standard_error_goes_on(tmp_path: Path, stream: str) -> None:
    text = CRASH.replace("ctypes.string_at(0)", "print('well')")
    before = f"import sys; sys.__stderr__ = {stream}"
    if stream != "None":
        before += "; sys.__stderr__.close()"
    assert "well\n" == program(text.replace("{before}", before), tmp_path).stdout


# ---- a process of its own


def test_run_isolates_the_local_worker(capfd: pytest.CaptureFixture[str]) -> None:
    """A crash is the error of its task, which has printed before, and the others end well."""

    async def main() -> list[int]:
        before, *_ = await each(process_at() for _ in range(3))
        with pytest.raises(TaskCrashed, match="crash was given up: what it ran in died 5 times"):
            await (crash @ Cores(1))()
        with pytest.raises(Infeasible):
            (process @ Cores(3))()
        return [before, *await each(process_at() for _ in range(3))]

    process_at = process @ Cores(1)
    before, *after = run(main, local=Cores(2), isolated=True, config_file=False, progress=False)

    assert os.getpid() not in (before, *after)
    assert before not in after
    assert 1 == len(set(after))
    assert "before\n" * 5 == capfd.readouterr().out


async def test_an_isolated_worker_shares_its_mission_with_workers_that_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mission with a configuration file; the context is entered in the process of the worker."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "surroundings.py").write_text(
        "import os\nfrom contextlib import asynccontextmanager\n"
        "@asynccontextmanager\nasync def grain_context():\n"
        "    open('entered', 'w').write(str(os.getpid()))\n    yield\n"
    )
    (tmp_path / "grain.toml").write_text(
        f'address = "unix://{tmp_path}/socket"\ncontextmod = "surroundings.py"\n'
    )
    async with mission(Cores(1), isolated=True):
        pid = await (process @ Cores(1))()

    assert str(pid) == (tmp_path / "entered").read_text()
    assert os.getpid() != pid


def test_asyncio_programs_and_executors_isolate_their_workers_too() -> None:
    async def main() -> int:
        async with mission(Cores(1), isolated=True, config_file=False, progress=False):
            return await (process @ Cores(1))()

    assert os.getpid() != asyncio.run(main())
    with Executor(local=Cores(1), isolated=True, config_file=False, progress=False) as executor:
        assert os.getpid() != executor.submit(os.getpid).result()


PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def waits():
    import trio
    open("runner.new", "w").write(str(os.getpid()))
    os.rename("runner.new", "runner")
    command = "echo $$ > program.new; mv program.new program; sleep 1000"
    await trio.run_process(["sh", "-c", command])

async def main():
    await (waits @ Cores(1))()

run(main, local=Cores(1), isolated=True, config_file=False)
"""


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_isolated_worker_ends_with_its_mission_whatever_ends_that(
    tmp_path: Path, number: signal.Signals
) -> None:
    """On Ctrl-C nothing is left when the mission has ended; after SIGKILL soon."""
    (tmp_path / "program.py").write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.DEVNULL
    ) as started:
        deadline = time.monotonic() + 120
        while not (tmp_path / "program").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        started.send_signal(number)
        started.wait(120)
    pids = [int((tmp_path / name).read_text()) for name in ("runner", "program")]
    while number is signal.SIGKILL and any(map(is_alive, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.02)

    assert not any(map(is_alive, pids))


# ---- options


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"isolated": True}, TypeError, r"there is no local worker: state its resources, as in"),
        ({"env": ["A=1"]}, TypeError, r"env=\['A=1'\]: give names and values, as in env={"),
        ({"env": {"A": 1}}, TypeError, r"env: 'A': 1: a variable has a string as its name and"),
        ({"env": {"A=": "1"}}, ValueError, r"env: 'A=': '1' cannot be a variable"),
        ({"env": {"A": "\0"}}, ValueError, r"env: 'A': '\\x00' cannot be a variable"),
        (
            {"local": Cores(1), "isolated": True, "env": {"A": "1" * 100_000}},
            ValueError,
            r"env: 1000\d\d bytes of variables would travel with every task, 65536 may",
        ),
    ],
)
async def test_options_that_no_mission_can_have_are_refused(
    options: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        async with mission(**options, config_file=False):
            raise AssertionError("it began")


@delayed
async def lose_supervisors(notes: str, losses: int) -> int:
    """Run a program which kills its supervisor, so many times; return the number of runs."""
    script = 'echo run >> "$0"; [ "$(grep -c run "$0")" -gt "$1" ] || kill -KILL $PPID; cat "$0"'
    done = await run_external(["sh", "-c", script, notes, str(losses)])
    return done.stdout_text.count("run")


def test_a_task_whose_supervisor_is_killed_runs_again_in_the_mission(tmp_path: Path) -> None:
    """Also alone on the worker, from the third run on; other tasks go on beside the first two."""

    async def main() -> list[Any]:
        lost = (lose_supervisors @ Cores(1))(str(tmp_path / "notes"), 3)
        return [await lost, await (process @ Cores(1))()]

    assert [4, os.getpid()] == run(main, local=Cores(2), config_file=False, progress=False)


def test_a_task_whose_supervisor_is_killed_five_times_fails(tmp_path: Path) -> None:
    async def main() -> None:
        await (lose_supervisors @ Cores(1))(str(tmp_path / "notes"), 99)

    with pytest.raises(TaskCrashed, match="lose_supervisors was given up: .* died 5 times"):
        run(main, local=Cores(1), config_file=False, progress=False)
