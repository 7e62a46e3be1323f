"""Outputs of ``grain map`` that are large: whole, in order, not in memory, and without leftovers.

The command and the services are real processes, whose peaks are those of the kernel.
"""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, NamedTuple

import pytest

from grain_testkit.local_processes import descendants_of
from grain_testkit.programs import killed, start, terminated, wait_until
from grain_testkit.small_disk import small_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from grain_testkit.programs import Process

# Notes the peak of its memory at its end. The usage of wait4(2) would have that of the test in it.
GRAIN = """
import atexit, pathlib, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: pathlib.Path("peak").write_text(status.read_text()))
from grain.cli import main; main()
"""
LARGE = "seq 11000000; seq 2000000 >&2"
MORE = 64 << 20  # bytes of memory that a large output may take


class Stream(NamedTuple):
    """A stream that was read, and is not kept: its bytes and their digest."""

    size: int
    digest: str


def read(file: IO[bytes] | None) -> Stream:
    assert file is not None
    size, digest = 0, hashlib.sha256()
    while piece := file.read(1 << 20):
        size += len(piece)
        digest.update(piece)
    return Stream(size, digest.hexdigest())


def lines(last: int) -> Stream:
    """The stream of ``seq LAST``."""
    with subprocess.Popen(["seq", str(last)], stdout=subprocess.PIPE) as process:
        return read(process.stdout)


def peak(status: Path) -> int:
    """The peak of a process in bytes, from its status in proc(5); 0 for one that has ended."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 0 if found is None else 1024 * int(found[1])


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, which is the current directory, and no configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    return tmp_path


def begun(*words: str) -> AbstractContextManager[Process]:
    pipe = subprocess.PIPE
    words = ("-c", GRAIN, "map", "--no-progress", *words)
    return killed(start(*words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe))


def printed(*words: str) -> tuple[int, Stream, Stream]:
    """Run the command; return its exit status and what it has printed, without the last line."""
    with begun(*words) as process:
        assert process.stderr is not None
        found: list[Stream] = []
        reader = Thread(target=lambda: found.append(read(process.stdout)))
        reader.start()
        digest, size, last = hashlib.sha256(), 0, b""
        for line in process.stderr:
            digest.update(last)
            size, last = size + len(last), line
        reader.join()
        return process.wait(240), found[0], Stream(size, digest.hexdigest())


def outputs(home: Path) -> list[Path]:
    """The files and folders of large outputs that there are."""
    return sorted((home / ".local/state/grain/outputs").rglob("*"))


@contextmanager
def cluster(home: Path) -> Iterator[tuple[list[str], list[Process]]]:
    """Have a scheduler and a worker; yield the options that lead there, and the services."""
    address = f"edge://{home}/edge/meeting"
    (home / "edge").mkdir(mode=0o700)
    config = home / "mine.toml"
    config.write_text(f'address = "{address}"\n')
    services = [
        ["grain.head", "--address", address, "--grace", "20"],
        ["grain.worker", "--url", address, "--res", '{"Cores": 2}', "--name", "far"],
    ]
    with ExitStack() as stack:
        processes = [start("-m", *words, stderr=subprocess.DEVNULL) for words in services]
        for process in processes:
            stack.enter_context(terminated(process))
        wait_until((home / "edge" / "meeting").exists)  # else the mission starts one that stays
        yield ["-c", str(config), "-r", "Cores=1"], processes


@pytest.mark.parametrize("where", ["here", "worker"])
def test_a_large_output_arrives_whole_and_takes_little_memory(home: Path, where: str) -> None:
    with ExitStack() as stack:
        options = ["-j", "1"]
        services: list[Process] = []
        if where == "worker":
            options, services = stack.enter_context(cluster(home))
        _, small, _ = printed(*options, "echo", ":::", "a")
        mission = peak(home / "peak")
        pids = [pid for one in services for pid in (one.pid, *descendants_of(one.pid))]
        before = {pid: peak(Path(f"/proc/{pid}/status")) for pid in pids}

        status, out, err = printed(*options, "--shell", LARGE + "; :", ":::", "a")
        more = [peak(Path(f"/proc/{pid}/status")) - before[pid] for pid in pids]

    assert small.size == 2
    assert (0, lines(11_000_000), lines(2_000_000)) == (status, out, err)
    assert peak(home / "peak") - mission < MORE
    assert max(more, default=0) < MORE
    assert bool(services) == (len(more) > 3)  # the runner and its guards among them
    assert not outputs(home)


def test_large_outputs_keep_the_order_of_the_inputs_and_have_tags(home: Path) -> None:
    """Meanwhile the second one waits in its file; the first attempt at the other is removed."""
    job = """
        if [ {} = 1 ]; then
            if [ $GRAIN_ATTEMPT ]; then touch again; while ! [ -e go ]; do sleep 0.02; done; fi
            seq 400000; exit 3
        fi
        seq 400000
    """
    with begun(
        "-j2", "-k", "--tag", "--retries=2", "--joblog=log", "--shell", job, ":::", "1", "2"
    ) as process:
        wait_until(lambda: Path("again").exists() and Path("log").read_bytes().count(b"\n") == 2)
        waiting = outputs(home)
        Path("go").touch()
        found = read(process.stdout)
        assert 1 == process.wait(240)

    digest = hashlib.sha256()
    for number in range(1, 3):
        for line in range(1, 400_001):
            digest.update(b"%d\t%d\n" % (number, line))
    assert digest.hexdigest() == found.digest
    assert 2 == len(waiting)  # the folder, and the file of the job that has ended
    assert not outputs(home)


def test_a_full_disk_is_the_failure_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk("3m") as disk:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk))
        job = 'echo "job "{}; [ {} = 2 ] || head -c 20000000 /dev/zero'
        with begun("-j1", "--no-progress", "--shell", job, ":::", "1", "2") as process:
            out, err = process.communicate(timeout=240)
        left = list(disk.rglob("*/outputs/*"))

    assert (1, b"job 2\n") == (process.returncode, out)
    assert f"job 1: its output could not be stored in {disk}/grain/outputs/" in err.decode()
    assert "No space left on device. With --results DIR" in err.decode()
    assert not left


def test_a_call_that_ends_early_leaves_no_output_and_a_killed_one_until_the_next(
    home: Path,
) -> None:
    job = "seq 400000; sleep 1000.25"
    with begun("-j1", "--shell", job + "; :", ":::", "1") as process:
        wait_until(lambda: len(outputs(home)) == 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
    assert not outputs(home)

    with begun("-j1", "--shell", job + "; :", ":::", "1") as process:
        wait_until(lambda: len(outputs(home)) == 2)
        process.kill()
        process.communicate(timeout=240)
    assert outputs(home)
    with begun("-j1", "echo", ":::", "1") as process:
        process.communicate(timeout=240)
    assert not outputs(home)
