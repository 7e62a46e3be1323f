"""`grain up` as users type it, on each batch system."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_batch.start import Batch, until

if TYPE_CHECKING:
    from pathlib import Path

GRAIN = [sys.executable, "-c", "from grain.cli import main; main(prog_name='grain')"]


def up(
    folder: Path, text: str, *words: str, batch: Batch | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it in a folder with a configuration of this text; jobs run the worker of the test."""
    set_up = f"export PATH={folder}/bin:$PATH GRAIN_TEST_STOP={os.environ['GRAIN_TEST_STOP']}"
    script, table, rest = text.partition("[script]\n")
    text = f"{script}{table or '[script]' + chr(10)}setup_cleanup = ['{set_up}']\n{rest}"
    (folder / "grain.toml").write_text(text)
    env = {**os.environ, **({} if batch is None else batch.env)}
    env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env['PATH']}"
    env.update({name: os.environ[name] for name in ("GRAIN_TEST_STOP", "XDG_STATE_HOME")})
    env.pop("GRAIN_CONFIG", None)
    return subprocess.run(
        [*GRAIN, "up", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def records(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "state/grain/jobs").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def logs(folder: Path) -> list[str]:
    return [path.read_text() for path in (folder / "logs").glob("*.log")]


@pytest.mark.usefixtures("worker")
def test_two_workers_start_through_slurm_with_a_log_each(slurm: Batch, tmp_path: Path) -> None:
    """Two workers start, each with a log of its own in a directory that was made for them."""
    text = 'system = "slurm"\n[worker]\nlog_file = "logs/w{{HHMMSS}}.log"\n'

    done = up(tmp_path, text, "-n", "2", "--", "--mem=100", batch=slurm)
    until(lambda: sum("worker: --url edge://" in text for text in logs(tmp_path)) == 2)
    ids = [str(record["id"]) for record in records(tmp_path)]
    (tmp_path / "stop").touch()
    until(lambda: slurm.out("squeue", "-h", "-j", ",".join(ids)) == "")

    assert (0, f"Using config file {tmp_path}/grain.toml.\n") == (done.returncode, done.stderr)
    assert 2 == len(ids)
    assert all(f"is job {one}, output in {tmp_path}/logs/w" in done.stdout for one in ids)


@pytest.mark.usefixtures("worker")
def test_two_workers_start_through_pbs(pbs: Batch, tmp_path: Path) -> None:
    """Two workers start, one by one."""
    (tmp_path / "stop").touch()
    text = 'system = "pbs"\n[worker]\nlog_file = "logs/w{{HHMMSS}}.log"\n'

    done = up(tmp_path, text, "-n", "2", batch=pbs)
    until(lambda: sum("worker: --url edge://" in text for text in logs(tmp_path)) == 2)

    assert (0, f"Using config file {tmp_path}/grain.toml.\n") == (done.returncode, done.stderr)
    assert ["0.pbs", "1.pbs"] == [record["id"] for record in records(tmp_path)]


@pytest.mark.usefixtures("worker")
def test_a_local_worker_outlives_the_command_and_ends_on_sigterm(tmp_path: Path) -> None:
    """A worker starts as a process that outlives the command, and ends upon SIGTERM."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what it leaves comes here
    done = up(tmp_path, '[worker]\nlog_file = "logs/w.log"\n[script]\ncores = 1\n')
    [record] = records(tmp_path)
    pid = int(str(record["id"]).split(":")[1])
    try:
        until(lambda: any("worker: --url edge://" in text for text in logs(tmp_path)))
        os.kill(pid, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-pid, 0)
        libc.prctl(36, 0, 0, 0, 0)

    assert (0, f"Using config file {tmp_path}/grain.toml.\n") == (done.returncode, done.stderr)
    assert done.stdout.endswith(f"is process {pid}, output in {tmp_path}/logs/w.log\n")
    assert 3 == status
    assert "worker: TERM\n" == logs(tmp_path)[0].splitlines(keepends=True)[-1]


@pytest.mark.usefixtures("worker")
def test_a_refusal_of_slurm_is_shown_with_a_remedy(slurm: Batch, tmp_path: Path) -> None:
    """Slurm's message is shown as it is, with the setting to change, and the exit code is 1."""
    text = 'system = "slurm"\n[script]\nqueue = "nope"\n'

    done = up(tmp_path, text, batch=slurm)

    assert (1, "") == (done.returncode, done.stdout)
    assert (
        f"Using config file {tmp_path}/grain.toml.\n"
        "Error: sbatch failed (exit code 1):\n"
        "  sbatch: error: invalid partition specified: nope\n"
        "  sbatch: error: Batch job submission failed: Invalid partition name specified\n"
        "Set script.queue to a partition that there is; `sinfo -s` lists them.\n"
    ) == done.stderr
    assert [] == records(tmp_path)
