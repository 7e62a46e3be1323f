"""The call that runs an external program: arguments, results, errors."""

from __future__ import annotations

import errno
import gc
import marshal
import math
import os
import pickle
import re
import resource
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain import GVAR
from grain.resource import Cores, GPUs, Token
from grain.worker.external import (
    CAPTURE,
    STDOUT,
    ExternalError,
    ExternalStartError,
    ProgramCall,
    run_external,
)
from grain.worker.guards.protocol import RUN, RUN_LONGEST
from grain_testkit.program_trees import own_supervisors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from grain.resource import Resource


PYTHON = sys.executable


def allocation(c: Sequence[int] = (), g: Sequence[int] = ()) -> Resource:
    """Return an allocation; without CPUs it is a tag."""
    cores = Cores(c) if c else Token("own")
    return cores & GPUs(g) if g else cores


@pytest.fixture(autouse=True)
def no_allocation() -> Iterator[None]:
    with GVAR.scope(allocation()):
        yield


async def test_both_streams_are_captured_in_full() -> None:
    done = await run_external(["sh", "-c", "echo out; echo err >&2; head -c 3000000 /dev/zero"])

    assert done.stdout == b"out\n" + bytes(3_000_000)
    assert done.stderr == b"err\n"
    assert done.returncode == 0
    assert done.stderr_text == "err\n"
    assert done.argv[0] == "sh"


async def test_the_costs_of_all_processes_of_a_program_are_measured() -> None:
    """Units are seconds and GB."""
    code = "x = bytearray(200_000_000)\nfor _ in range(3_000_000): pass"
    done = await run_external(["sh", "-c", f"{PYTHON} -c '{code}'; true"])

    assert 0.2 < done.max_rss < 0.4
    assert 0.01 < done.user <= done.elapsed + 0.05
    assert done.system > 0


async def test_a_supervisor_that_serves_again_starts_from_nothing() -> None:
    """No output, directory or CPUs of one call are left for the next."""
    with GVAR.scope(allocation(c=[min(os.sched_getaffinity(0))])):
        await run_external(["sh", "-c", "echo first; echo first >&2"], cwd="/usr")
    done = await run_external(["sh", "-c", "pwd -P; grep Cpus_allowed: /proc/self/status"])

    directory, cpus = done.stdout_text.splitlines()
    mask = sum(1 << cpu for cpu in os.sched_getaffinity(0))
    assert directory == str(Path.cwd())
    assert int(cpus.split()[1].replace(",", ""), 16) == mask
    assert done.stderr == b""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
async def test_a_supervisor_serves_the_cpus_again_to_which_it_is_bound() -> None:
    """It finds the caches warm, and the kernel need not move it."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    served: list[tuple[int, str]] = []

    async def run(cpu: int) -> None:
        # The program tells by which supervisor it was started.
        with GVAR.scope(allocation(c=[cpu])):
            done = await run_external(["sh", "-c", "echo $PPID"])
        served.append((cpu, done.stdout_text))

    async with trio.open_nursery() as nursery:
        for cpu in cpus:
            nursery.start_soon(run, cpu)
    for cpu in cpus + cpus[::-1]:
        await run(cpu)

    assert len(set(served)) == len(own_supervisors()) == 2


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
async def test_a_program_that_binds_its_supervisor_leaves_the_next_one_its_cpus() -> None:
    """A launcher may bind its whole process tree, parents included."""
    one, other = sorted(os.sched_getaffinity(0))[:2]
    bind = f"import os; os.sched_setaffinity(os.getppid(), [{other}]); print(os.getppid())"
    show = "import os; print(os.getppid(), *os.sched_getaffinity(0))"
    for cpus in ([one], []):
        with GVAR.scope(allocation(c=cpus)):
            bound = await run_external([PYTHON, "-c", bind])
            shown = await run_external([PYTHON, "-c", show])

        supervisor, *seen = shown.stdout_text.split()
        assert supervisor == bound.stdout_text.strip()
        assert [int(cpu) for cpu in seen] == (cpus or sorted(os.sched_getaffinity(0)))


async def test_an_environment_that_was_sent_before_is_the_same_again(tmp_path: Path) -> None:
    """It travels once to each supervisor; a scratch directory is no part of it."""
    shown: list[str] = []
    for env, scratch in (
        ({"GRAIN_A": "1"}, False),
        ({"GRAIN_A": "1"}, True),
        ({"GRAIN_A": "1"}, False),
        ({}, False),
        ({"GRAIN_A": "2"}, False),
    ):
        changes = {**env, "TMPDIR": str(tmp_path)}
        argv = ["sh", "-c", "echo $GRAIN_A,$TMPDIR"]
        done = await run_external(argv, env=changes, scratch=scratch)
        shown.append(done.stdout_text.strip())
        assert len(own_supervisors()) == 1

    assert shown[1].startswith(f"1,{tmp_path}/grain-")
    assert [f"1,{tmp_path}"] * 2 == [shown[0], shown[2]]
    assert [f",{tmp_path}", f"2,{tmp_path}"] == shown[3:]


async def test_merged_output_keeps_its_order() -> None:
    done = await run_external(["sh", "-c", "echo 1; echo 2 >&2; echo 3"], stderr=STDOUT)

    assert done.stdout == b"1\n2\n3\n"
    assert done.stderr is None


@pytest.mark.parametrize("size", [0, 5, 5_000_000])
async def test_a_program_reads_bytes_of_any_size(size: int) -> None:
    done = await run_external(["wc", "-c"], stdin=b"x" * size)

    assert int(done.stdout_text) == size


async def test_a_program_reads_a_file_or_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("from a file")

    assert (await run_external(["cat"], stdin="in", cwd=tmp_path)).stdout == b"from a file"
    assert (await run_external(["cat"])).stdout == b""


async def test_output_files_are_relative_to_the_directory_of_the_program(tmp_path: Path) -> None:
    """Paths are relative to the program's directory, as in a shell after `cd`."""
    (tmp_path / "out").write_text("something longer that was there before")
    done = await run_external(
        ["sh", "-c", "echo out; echo err >&2"], cwd=tmp_path, stdout="out", stderr=tmp_path / "err"
    )

    assert (done.stdout, done.stderr) == (None, None)
    assert (tmp_path / "out").read_text() == "out\n"
    assert (tmp_path / "err").read_text() == "err\n"


async def test_both_streams_to_one_file_keep_their_order(tmp_path: Path) -> None:
    await run_external(
        ["sh", "-c", "echo 1; echo 2 >&2; echo 3"], cwd=tmp_path, stdout="log", stderr="log"
    )

    assert (tmp_path / "log").read_text() == "1\n2\n3\n"


async def test_the_error_of_a_failed_program_has_the_facts(tmp_path: Path) -> None:
    """The facts: command, host, exit code, directory, files, last lines of stderr."""
    script = "seq 30 >&2; echo 'no convergence' >&2; exit 3"
    with pytest.raises(ExternalError) as caught:
        await run_external(["sh", "-c", script], cwd=tmp_path, stdout="out.log")

    error = caught.value
    assert error.returncode == 3
    assert error.signal is None
    assert error.argv == ("sh", "-c", script)
    assert error.host == socket.gethostname()
    assert error.stdout_path == str(tmp_path / "out.log")
    assert error.stderr_tail.splitlines() == [*map(str, range(12, 31)), "no convergence"]
    assert "sh -c 'seq 30" in str(error)
    assert "exit code 3" in str(error)
    assert f"on host {socket.gethostname()}" in str(error)
    assert f"in directory {tmp_path}" in str(error)
    assert f"stdout is in {tmp_path}/out.log" in str(error)
    assert str(error).endswith("no convergence")


async def test_the_error_has_the_last_lines_of_stdout_where_programs_say_why_they_fail() -> None:
    script = "seq 30; echo 'SCF not converged'; echo 'abnormal termination' >&2; exit 1"
    with pytest.raises(ExternalError) as caught:
        await run_external(["sh", "-c", script])

    assert caught.value.stdout_tail.splitlines() == [*map(str, range(22, 31)), "SCF not converged"]
    assert caught.value.stderr_tail == "abnormal termination"
    lines = "  the last lines of stdout:\n    22\n"
    assert lines in str(caught.value)
    assert str(caught.value).endswith("  the last lines of stderr:\n    abnormal termination")


async def test_streams_in_one_are_shown_once() -> None:
    with pytest.raises(ExternalError) as caught:
        await run_external(["sh", "-c", "echo bad; exit 1"], stderr=STDOUT)

    assert caught.value.stdout_tail == ""
    assert caught.value.stderr_tail == "bad"


async def test_the_message_of_an_error_does_not_control_a_terminal() -> None:
    """Arguments and output may be of a stranger's choosing; the attributes stay as they are.

    Tried: Escapes in what a program writes to stderr, and in its arguments.
    Result: question marks in the error.
    """
    with pytest.raises(ExternalError) as info:
        await run_external(["sh", "-c", "printf '\\033]0;x\\007' >&2; exit 3", "a\x1b[2J"])

    assert "\x1b]0;x\x07" == info.value.stderr_tail
    assert "a?[2J" in str(info.value)
    assert "    ?]0;x?" in str(info.value).splitlines()


async def test_the_tail_of_stderr_comes_from_a_file_too(tmp_path: Path) -> None:
    with pytest.raises(ExternalError) as caught:
        await run_external(["sh", "-c", "echo bad >&2; exit 1"], cwd=tmp_path, stderr="e")

    assert caught.value.stderr_tail == "bad"
    assert caught.value.stderr_path == str(tmp_path / "e")


async def test_the_error_names_the_signal() -> None:
    with pytest.raises(ExternalError, match="ended by signal SIGSEGV") as caught:
        await run_external(["sh", "-c", "kill -SEGV $$"])

    assert caught.value.returncode == -11
    assert caught.value.signal == "SIGSEGV"


async def test_a_failure_is_returned_without_check() -> None:
    done = await run_external(["sh", "-c", "echo x; exit 4"], check=False)

    assert (done.returncode, done.stdout) == (4, b"x\n")


async def test_errors_can_be_pickled() -> None:
    with pytest.raises(ExternalError) as caught:
        await run_external(["sh", "-c", "echo bad >&2; exit 1"])
    twin = pickle.loads(pickle.dumps(caught.value))

    assert str(twin) == str(caught.value)
    assert twin.failure == caught.value.failure
    with pytest.raises(ExternalStartError) as start:
        await run_external(["no-such-program"])
    assert pickle.loads(pickle.dumps(start.value)).errno == errno.ENOENT


@pytest.mark.parametrize(
    ("argv", "options", "code", "text"),
    [
        (["no-such-program"], {}, errno.ENOENT, "program not found on PATH: no-such-program"),
        (["./gone"], {}, errno.ENOENT, "program not found: ./gone"),
        (["./data"], {}, errno.EACCES, "not an executable file: ./data"),
        (["./folder"], {}, errno.EACCES, "not an executable file: ./folder"),
        (["./no-shebang"], {}, errno.ENOEXEC, "a script without a #! line"),
        (["./lost"], {}, errno.ENOENT, "the interpreter that its first line"),
        (["true"], {"cwd": "/no/where"}, errno.ENOENT, "the working directory /no/where: No such"),
        (["cat"], {"stdin": "data", "stdout": "./data"}, errno.EINVAL, "reads it"),
        (["cat"], {"stdin": "data", "stderr": "alias"}, errno.EINVAL, "would empty it"),
        (["true"], {"stdin": "gone"}, errno.ENOENT, "cannot read stdin from gone: No such file"),
        (["true"], {"stdout": "a/b"}, errno.ENOENT, "cannot write stdout to a/b: No such file"),
        (["true"], {"stderr": "folder"}, errno.EISDIR, "cannot write stderr to folder: Is a dir"),
        (["true"], {"env": {"TMPDIR": "/no"}, "scratch": True}, errno.ENOENT, "directory in /no"),
    ],
)
async def test_the_error_of_a_failed_start_has_the_reason(
    tmp_path: Path, argv: list[str], options: dict[str, object], code: int, text: str
) -> None:
    (tmp_path / "data").write_text("x")
    (tmp_path / "alias").symlink_to("data")
    (tmp_path / "folder").mkdir()
    for name, content in {"no-shebang": "true\n", "lost": "#!/no/interpreter\n"}.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)

    with pytest.raises(ExternalStartError) as caught:
        await run_external(argv, **{"cwd": tmp_path, **options})  # type: ignore[arg-type]
    assert caught.value.errno == code
    assert text in str(caught.value)
    assert "x" == (tmp_path / "data").read_text()
    assert (await run_external(["echo", "still"])).stdout == b"still\n"


@pytest.mark.parametrize(
    ("argv", "options", "text"),
    [
        ([], {}, "argv must be"),
        ("", {}, r'as in \["echo", "a"\]$'),
        ("true", {}, r'argv must be .*; write \["true"\]$'),
        (b"echo a", {}, r'write \["echo", "a"\]$'),
        ("xtb 'my mol.xyz' --gfn 2", {}, r'write \["xtb", "my mol.xyz", "--gfn", "2"\]$'),
        ("echo it's", {}, """write \\["echo", "it's"\\]$"""),
        (["a\0b"], {}, "null character"),
        (["true"], {"env": {"A=B": "x"}}, "not a name"),
        (["true"], {"env": {"A": "x\0"}}, "null character in the value of A"),
        (["true"], {"threads": 0}, "threads must be"),
        (["true"], {"grace": -1}, "grace must be"),
        (["true"], {"stdout": STDOUT}, "only stderr"),
        (["true"], {"timeout": -1}, "timeout=-1: write a number"),
        (["true"], {"timeout": math.nan}, "timeout=nan: write a number"),
    ],
)
async def test_arguments_that_no_program_can_have_are_refused(
    argv: list[str], options: dict[str, object], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        await run_external(argv, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argv", "options", "text"),
    [
        (["echo", 3], {}, "argv: 3 is not a string; write '3' instead of it"),
        (7, {}, "argv=7: write a list of strings"),
        (["true"], {"timeout": "1"}, "timeout='1': write a number of seconds, as in timeout=60"),
        (["true"], {"grace": "1"}, "grace='1': write a number of seconds"),
        (["true"], {"threads": "1"}, "threads='1': write a number"),
        (["true"], {"env": {"A": 1}}, "write env={'A': '1'}, or None to remove it"),
        (["true"], {"env": ["A=1"]}, "env=['A=1']: write names and values"),
        (["true"], {"stdin": 3}, "stdin=3: write bytes"),
        (["true"], {"stdout": None}, "stdout=None: write the path of a file"),
        (["true"], {"cwd": 3}, "cwd=3: write the path"),
    ],
)
async def test_arguments_of_a_wrong_type_are_named_with_what_to_write(
    argv: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        await run_external(argv, **options)


async def test_a_command_with_an_end_of_a_line_stands_in_one_line_of_the_message() -> None:
    with pytest.raises(ExternalError) as caught:
        await run_external(["sh", "-c", "echo 'a'\nexit 3"])
    first = str(caught.value).splitlines()[0]
    assert first.startswith("sh -c $'echo \\'a\\'\\nexit 3': exit code 3")


async def test_a_program_sees_the_environment_and_affinity_of_its_allocation() -> None:
    """The allocation overrides inherited variables; `env` overrides both."""
    cpu = max(os.sched_getaffinity(0))
    show = "echo $OMP_NUM_THREADS $MKL_NUM_THREADS $CUDA_VISIBLE_DEVICES; nproc"
    env = {"MKL_NUM_THREADS": "7", "OMP_PROC_BIND": "true"}
    with GVAR.scope(allocation(c=[cpu], g=[2, 3])):
        done = await run_external(["sh", "-c", show], env=env)
        mask = await run_external(["grep", "Cpus_allowed_list", "/proc/self/status"])
        free = await run_external(["grep", "Cpus_allowed_list", "/proc/self/status"], bind=False)
        one = await run_external(["sh", "-c", "echo $OMP_NUM_THREADS"], threads=5)

    assert done.stdout == b"1 7 2,3\n1\n"
    assert mask.stdout_text.split()[1] == str(cpu)
    assert (mask.stdout == free.stdout) == (len(os.sched_getaffinity(0)) == 1)
    assert one.stdout == b"5\n"


async def test_foreign_cpus_are_not_bound() -> None:
    """A user who offers 64 cores on a laptop gets 64 threads and the whole machine."""
    mine = sorted(os.sched_getaffinity(0))
    with GVAR.scope(allocation(c=[mine[0], *range(5000, 5063)])):
        done = await run_external(
            ["sh", "-c", "echo $OMP_NUM_THREADS; env -u OMP_NUM_THREADS nproc"]
        )

    assert done.stdout_text.split() == ["64", str(len(mine))]


async def test_environment_and_arguments_may_be_huge() -> None:
    """The kernel takes hundreds of kB."""
    env = {f"BIG_{number}": "x" * 100_000 for number in range(6)}
    words = ["y" * 1000] * 400
    script = 'env | wc -c; echo "$*" | wc -c; wc -c'
    argv = ["sh", "-c", script, "sh", *words]
    done = await run_external(argv, env=env, stdin=b"z" * 70_000)
    empty = await run_external(argv, env=env)

    first, *others = map(int, done.stdout_text.split())
    assert first > 600_000
    assert others == [400 * 1001, 70_000]
    assert empty.stdout_text.split() == [str(first), str(400 * 1001), "0"]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
async def test_a_request_fits_into_one_message_or_goes_by_a_file(beyond: int) -> None:
    sizes: list[int] = []
    argv = ["printf", "%s", ""]
    with GVAR.scope(allocation()):
        sizes.append(len(marshal.dumps((False, dict(program_call(argv).request)))))
        argv[2] = "x" * (RUN_LONGEST - len(RUN) - sizes[0] + beyond)
        sizes.append(len(marshal.dumps((False, dict(program_call(argv).request)))))
    done = await run_external(argv)

    assert sizes[1] == RUN_LONGEST - len(RUN) + beyond
    assert done.stdout_text == argv[2]


def program_call(argv: list[str]) -> ProgramCall:
    return ProgramCall(argv, None, {}, None, CAPTURE, CAPTURE, 1.0, True, None, False)


async def test_a_program_inherits_no_files_but_its_streams() -> None:
    """Here this process has an inheritable file open."""
    fd = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        done = await run_external([PYTHON, "-c", "import os; print(os.listdir('/proc/self/fd'))"])
    finally:
        os.close(fd)

    assert done.stdout == b"['0', '1', '2', '3']\n"  # the last is the listing itself


async def test_signals_are_at_their_defaults_but_for_ignored_warnings() -> None:
    """Nothing else is ignored or blocked, although Python ignores SIGPIPE."""
    done = await run_external(["cat", "/proc/self/status"])

    masks = dict(line.split(":") for line in done.stdout_text.splitlines() if line[:3] == "Sig")
    standard = (1 << 31) - 1  # the real-time signals above are not ours to reset
    warnings = sum(1 << number - 1 for number in (signal.SIGUSR1, signal.SIGUSR2))
    shown = [int(masks[name], 16) & standard for name in ("SigBlk", "SigIgn", "SigCgt")]
    assert [0, warnings, 0] == shown


async def test_a_signal_that_the_caller_ignores_stays_ignored() -> None:
    """As with every program that is started; the others are reset without a look at each."""
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        done = await run_external(["grep", "SigIgn", "/proc/self/status"])
    finally:
        signal.signal(signal.SIGALRM, before)

    ignored = signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2
    mask = int(done.stdout_text.split()[1], 16) & ((1 << 31) - 1)
    assert sum(1 << number - 1 for number in ignored) == mask


def test_a_caller_without_stderr_has_programs_with_all_three_streams() -> None:
    """No socket or file of a guard gets the number 2, which programs write to."""
    words = [sys.executable, "-c", WITHOUT_STDERR]
    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", *words], capture_output=True, check=True)

    assert b"Completed out err\n" == done.stdout


WITHOUT_STDERR = """
import trio
from grain import GVAR
from grain.resource import Token
from grain.worker.external import run_external

async def main():
    done = await run_external(["sh", "-c", "echo out; echo err >&2"])
    print(type(done).__name__, done.stdout_text.strip(), done.stderr_text.strip())

with GVAR.scope(Token("own")):
    trio.run(main)
"""


async def test_calls_leave_no_files_open() -> None:
    async def call(options: dict[str, bytes]) -> None:
        await run_external(["true"], stdin=options.get("stdin"))

    await call({})
    gc.collect()  # what earlier tests have left open, and nobody has, may be closed at any time
    before = open_files()
    for number in range(1000):
        await call({"stdin": b"x"} if number % 2 else {})

    assert open_files() == before


async def test_a_program_that_succeeds_costs_its_caller_no_read_of_a_file() -> None:
    """A dozen of them, for limits that only matter after a kill, took longer than the program."""

    def reads() -> int:
        counters = Path("/proc/self/io").read_text()  # proc_pid_io(5); sockets do not count
        return int(counters.split("syscr: ")[1].split()[0])

    await run_external(["true"])
    before = reads()
    for _ in range(20):
        await run_external(["true"])
    assert reads() - before < 20


async def test_nothing_is_left_when_the_trio_run_ends() -> None:
    """The run waits for the end of its helper processes."""

    async def calls() -> list[int]:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(run_external, ["true"])
        return children_of_mine()

    def in_a_thread() -> tuple[int, set[int], int, set[int]]:
        gc.collect()  # or it closes files of earlier tests meanwhile
        others = set(children_of_mine())  # of earlier tests
        before = len(open_files())
        during = trio.run(calls)
        after = len(open_files())
        return before, set(during) - others, after, set(children_of_mine()) - others

    before, during, after, left = await trio.to_thread.run_sync(in_a_thread)
    assert len(during) == 1
    assert (after, left) == (before, set())


def open_files() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def children_of_mine() -> list[int]:
    pids: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that has ended meanwhile has none
            pids += map(int, path.read_text().split())
    return pids


async def test_two_hundred_programs_run_side_by_side(tmp_path: Path) -> None:
    """None ends before all have started; each call gets its own output."""
    seen = []
    (tmp_path / "there").mkdir()
    os.mkfifo(tmp_path / "gate")
    gate = os.open(tmp_path / "gate", os.O_RDWR)  # who reads waits until this is closed

    async def one(number: int) -> None:
        script = f"exec 3< gate; cat; touch there/{number}; cat <&3"
        done = await run_external(["sh", "-c", script], stdin=b"%d" % number, cwd=tmp_path)
        seen.append(int(done.stdout_text))

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(one, number)
            while len(os.listdir(tmp_path / "there")) < 200:
                await trio.sleep(0.05)
            assert [] == seen
            os.close(gate)

    assert sorted(seen) == list(range(200))


async def test_the_limit_of_open_files_is_explained() -> None:
    """The error says how to raise the limit, or to stay below it."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_external, ["sleep", "1000"])  # takes the only supervisor
        await trio.testing.wait_all_tasks_blocked()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        gc.collect()  # or it closes files of earlier tests meanwhile
        # The limit is one of numbers: those of two more, whatever gaps there are among the others.
        two = [os.dup(0), os.dup(0)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(two) + 1, hard))
        for fd in two:
            os.close(fd)
        try:
            with pytest.raises(OSError, match=r"`ulimit -n`.* Capacity\(100\) .*: sleep 0$"):
                await run_external(["sleep", "0"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (await run_external(["echo", "on"])).stdout == b"on\n"
        nursery.cancel_scope.cancel()


async def test_a_program_may_append_to_the_file_that_it_reads(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("one\n")
    call = ProgramCall(
        ["head", "-n1"], tmp_path, {}, "data", "data", STDOUT, 1.0, True, None, False,
        append=(True, True),
    )  # fmt: skip
    await call.run()
    assert "one\none\n" == (tmp_path / "data").read_text()
