"""The shepherd of one job: ``python -m fake_small.shepherd FOLDER``."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from fake_batch.processes import end_all_of, living, send

from fake_small.jobs import Job, write

MARK = "FAKE_SMALL_JOB"
PAUSE = 0.02


def main(folder: Path) -> None:
    """Run the job until it has ended, or the fake is stopped."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: the job's orphans come here
    job = Job(**json.loads((folder / "job.json").read_text()))
    starts = 0
    while waits(folder):
        again = run(folder, job, starts)
        starts += 1
        kill(folder, signal.SIGKILL, everyone=True)
        if not again:
            break
    if not stopped(folder):
        write(folder, "ended")


def stopped(folder: Path) -> bool:
    """Return True if the fake is at its end."""
    return (folder.parent / "stop").exists()


def taken(folder: Path, word: str) -> bool:
    """Take an order; return True if there was one."""
    path = folder / f"order.{word}"
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
        return True
    return False


def waits(folder: Path) -> bool:
    """Wait for the start; return False if it never comes."""
    held = False
    while not stopped(folder):
        held = (held or taken(folder, "hold")) and not taken(folder, "release")
        if taken(folder, "cancel"):
            return False
        if not held and (folder / "state").read_text() != "error":
            return True
        if held:
            write(folder, "held")
        time.sleep(PAUSE)
    return False


def run(folder: Path, job: Job, starts: int) -> bool:
    """Run the script once; return True if it is to run again."""
    env = {**job.env, MARK: str(folder), "RESTARTED": str(min(starts, 1))}
    try:
        with Path(job.cwd, job.output or folder / "out").open("ab" if job.append else "wb") as out:
            process = subprocess.Popen(
                job.argv,
                cwd=job.cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
    except OSError:
        write(folder, "error")
        return job.errs is not None
    write(folder, "running")
    ends: list[tuple[float, str, bool]] = []
    ending = requeued = False
    while process.poll() is None and not stopped(folder):
        cancelled = taken(folder, "cancel")
        if cancelled or (folder / "order.requeue").exists():
            requeued = taken(folder, "requeue") and not cancelled
            if not ending:
                ends = [(time.monotonic() + wait, name, every) for wait, name, every in job.ends]
            ending = True
            if not requeued:
                write(folder, "ending")
        if taken(folder, "warn") and job.warning:
            name, every = job.warning
            kill(folder, signal.Signals[f"SIG{name}"], everyone=every, first=process.pid)
        while ends and time.monotonic() >= ends[0][0]:
            _, name, every = ends.pop(0)
            kill(folder, signal.Signals[f"SIG{name}"], everyone=every, first=process.pid)
        reap(process.pid)
        time.sleep(PAUSE)
    if stopped(folder):
        return False
    if not ending and job.errs is not None and process.returncode == job.errs:
        write(folder, "error")
        return True
    if requeued or (not ending and process.returncode == job.requeues):
        write(folder, "waiting")
        return True
    return False


def reap(but: int) -> None:
    """Collect orphans of the job, but not its first process, which is waited for."""
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        if int(pid) != but:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(pid), os.WNOHANG)


def kill(folder: Path, number: signal.Signals, *, everyone: bool, first: int = 0) -> None:
    """Send a signal to the processes of the job, or to the first one."""
    if everyone and number in (signal.SIGTERM, signal.SIGKILL):
        end_all_of(lambda: marked(folder), number)
    else:
        send(marked(folder) if everyone else [first], number)


def marked(folder: Path) -> list[int]:
    """Return the living processes of the job."""
    return living(f"{MARK}={folder}")


if __name__ == "__main__":
    # A test that is killed cannot stop the fake; its folder is gone some time later.
    with contextlib.suppress(FileNotFoundError):
        main(Path(sys.argv[1]))
    kill(Path(sys.argv[1]), signal.SIGKILL, everyone=True)
