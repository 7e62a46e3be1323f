"""The first runner of a worker: forked from the agent, and yet like one that is started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from grain.worker.messages import InventoryEnd
from grain_testkit.head_by_hand import code, head, worker
from grain_testkit.local_processes import alive, read_pid

if TYPE_CHECKING:
    from pathlib import Path

FORKED = ("-m", "grain.worker")

STARTED = ("-c", "import sys; from grain.worker.agent.command import main; sys.exit(main())")
"""The words of a worker that forks no runner."""


async def surroundings() -> dict[str, Any]:
    """Return what a runner sees of itself."""
    import logging
    import os
    import resource
    import signal
    import sys
    import threading
    from multiprocessing import spawn
    from pathlib import Path

    proc, parent = Path("/proc/self"), Path(f"/proc/{os.getppid()}")
    status = (proc / "status").read_text().splitlines()
    spawned = spawn.get_preparation_data("child")
    del spawned["authkey"]
    mine = (proc / "fd").iterdir()
    return {
        "names": [(place / "comm").read_text() for place in (proc, parent)],
        "environment": sorted(os.environ),
        "marks": os.environb[b"GRAIN_SUBREAPERS"] in (proc / "environ").read_bytes(),
        "path": sys.path,
        "argv": sys.argv,
        "original": [*sys.orig_argv[:-3], sys.orig_argv[-1]],
        "spawned": spawned,
        "module": str(sys.modules["__main__"].__spec__).partition(",")[0],
        "blocked": [line for line in status if line.startswith(("SigBlk", "SigPnd"))],
        "handlers": {
            number.name: type(signal.getsignal(number)).__name__
            for number in signal.valid_signals()
            if isinstance(number, signal.Signals)
        },
        "session": os.getsid(0) == os.getppid(),
        "preferred": (proc / "oom_score_adj").read_text(),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "standard": [os.readlink(proc / "fd" / str(fd)) for fd in (0, 1)],  # noqa: PTH115
        "channel": os.readlink(proc / "fd" / "3").partition(":")[0],  # noqa: PTH115
        "open": sum(path.exists() for path in mine) < 16,
        "inherited": [fd for fd in range(3, 64) if _is_inherited(fd)],
        "logs": [logging.getLogger(name).handlers for name in (None, "grain.worker")],
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "directory": str(Path.cwd()),
    }


def _is_inherited(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


async def test_it_sees_of_itself_what_a_started_one_sees(tmp_path: Path) -> None:
    seen = []
    res = '{"Cores": 1}'
    for words in (FORKED, STARTED):
        async with (
            head(tmp_path) as h,
            worker("--url", h.address, "--res", res, command=words) as process,
        ):
            await h.get(InventoryEnd)
            status, ended = await h.settled(await h.lease(surroundings))
            assert "value" == status
            seen.append(ended.unwrap())
            process.send_signal(signal.SIGTERM)
            assert 0 == await code(process)

    forked, started = seen
    assert started == forked
    assert ["grain-runner\n", "grain-subreaper\n"] == forked["names"]
    assert forked["marks"]


@pytest.mark.parametrize("words", [FORKED, STARTED], ids=["forked", "started"])
async def test_what_a_task_forks_ends_though_the_guard_of_the_runner_was_killed(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """It executes nothing, so only what /proc shows of it tells whose it is.

    It also holds the runner's end of the channel, which says nothing of the runner then.
    """

    async def forks(path: str) -> None:
        import os
        import signal
        from pathlib import Path

        if not os.fork():
            os.setsid()
            Path(path).write_text(str(os.getpid()))
            while True:
                signal.pause()

    async with (
        head(tmp_path) as h,
        worker("--url", h.address, "--res", '{"Cores": 1}', command=words) as process,
    ):
        await h.get(InventoryEnd)
        await h.settled(await h.lease(forks, str(tmp_path / "pid")))
        left = await read_pid(tmp_path / "pid")

        async def parent() -> int:
            return os.getppid()

        _, ended = await h.settled(await h.lease(parent))
        os.kill(ended.unwrap(), signal.SIGKILL)

        # Another runner serves, which is started; a run that the dead one has got has crashed. The
        # worker leaves when nothing is left.
        while "value" != (await h.settled(await h.lease(parent)))[0]:
            pass
        process.send_signal(signal.SIGTERM)
        assert 0 == await code(process)
        assert not alive(left)


ALONE = """\
import os, resource, sys, threading
from grain.worker.agent.first_runner import FirstRunner

{before}
first = FirstRunner.fork()
print(first is None)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "False\n"),
        ("threading.Timer(1000, print).start()", "True\n"),
        # Even root has no more processes then.
        (
            "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0)); os.setuid(os.getuid() or 12345)",
            "True\n",
        ),
        ("os.close(0)", "True\n"),
    ],
    ids=["alone", "a thread", "no more processes", "no standard input"],
)
def test_a_process_is_forked_only_where_that_is_safe(before: str, expected: str) -> None:
    program = ALONE.format(before=before)
    done = subprocess.run(
        [sys.executable, "-c", program], input="", capture_output=True, text=True, check=True
    )
    assert expected == done.stdout


GONE = """\
import os, signal, socket, sys, trio
from pathlib import Path
from grain.worker.agent.first_runner import FirstRunner

async def main():
    signal.signal(signal.SIGCHLD, getattr(signal, sys.argv[1]))
    first = FirstRunner.fork()
    first.send_signal(signal.SIGKILL)
    await first.wait()
    first.send_signal(signal.SIGKILL)  # of a number that may be another process's by now
    with socket.socket() as sock:
        fds = sock.fileno(), sock.fileno()
        print(first.start(["python", "w", "1", "{}"], 1.0, fds))
        # One that cannot take what it is told is not left, nor as a zombie, though it is stopped.
        first = FirstRunner.fork()
        first.send_signal(signal.SIGSTOP)
        print(first.start(["python", "w", "1", "x" * 40_000], 1.0, fds))
    print(Path(f"/proc/self/task/{os.getpid()}/children").read_text())

trio.run(main)
"""


@pytest.mark.parametrize("inherited", ["SIG_DFL", "SIG_IGN"])
def test_one_that_is_gone_is_not_waited_for(inherited: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GONE, inherited], capture_output=True, text=True, check=True
    )
    assert "None\nNone\n\n" == done.stdout
