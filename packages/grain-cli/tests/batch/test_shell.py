"""The shell around a worker: signals, set-up, clean-up, exit status."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from grain.cli.batch import BatchError, BatchJob
from grain.cli.batch.scripts.shell import body, interpreter

Made = Callable[..., BatchJob]

# Tells its signals; ends on TERM only, after a while and with a status of its own. There is no
# `$(...)` in it, in which bash 5.2 loses a signal.
MAIN = """bash -c '
    trap "echo main USR1" USR1
    trap "echo main TERM; sleep 0.2; exit 7" TERM
    echo main "$0"
    for ((i = 0; i < 6000; i++)); do sleep 0.05 & wait $!; done' "$grain_name\""""


@pytest.fixture(params=["bash", "dash", "sh"])
def shell(request: pytest.FixtureRequest) -> str:
    """A shell that a script may be run by."""
    path = shutil.which(str(request.param))
    if path is None:
        pytest.skip(f"there is no {request.param} here")
    return path


@contextmanager
def running(shell: str, job: BatchJob, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A script that runs, and whatever it started, ended at the end."""
    path = out.with_suffix(".sh")
    path.write_text("#!\n" + body(job))
    with out.open("wb") as file:
        process = subprocess.Popen(
            [shell, path],
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def until(out: Path, text: str, times: int = 1) -> None:
    deadline = time.monotonic() + 180
    while out.read_text().count(text) < times:
        assert time.monotonic() < deadline, out.read_text()
        time.sleep(0.01)


def wait_for(path: Path) -> str:
    """For a shell: until there is such a file."""
    return f"until [ -e '{path}' ]; do sleep 0.05; done"


def commands(job: BatchJob, setup_cleanup: tuple[str, ...], main: str = MAIN) -> BatchJob:
    return replace(
        job,
        main=main,
        script=type(job.script)(setup_cleanup=setup_cleanup),
    )


@pytest.fixture
def job(job_of: Made) -> BatchJob:
    return commands(job_of("[script]\nwalltime = 3600"), ("defer echo clean",))


@pytest.mark.parametrize("status", [0, 5])
def test_status_is_that_of_the_worker(
    shell: str, job: BatchJob, tmp_path: Path, status: int
) -> None:
    """The script ends as the worker does, and cleans up."""
    with running(shell, replace(job, main=f"sh -c 'exit {status}'"), tmp_path / "out") as process:
        assert status == process.wait(60)

    assert "clean\n" == (tmp_path / "out").read_text()


def test_worker_that_is_not_there(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """A missing worker is status 127, not success."""
    with running(shell, replace(job, main="grain-no-such-command"), tmp_path / "out") as process:
        assert 127 == process.wait(60)

    assert "clean" in (tmp_path / "out").read_text()


@pytest.mark.parametrize(
    ("setup", "there", "worker"),
    [
        ((), True, "own"),
        (("export PATH='{chosen}':$PATH",), True, "chosen"),
        ((), False, "other"),
    ],
    ids=["own", "chosen by the set-up", "not here"],
)
def test_the_worker_is_that_of_the_grain_which_submitted_the_job(
    shell: str,
    job_of: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    setup: tuple[str, ...],
    there: bool,
    worker: str,
) -> None:
    """Not another one that the node's PATH has first; but one that the set-up puts there.

    Other programs of that environment do not go before those of the node.
    """
    folders = {name: tmp_path / name for name in ("own", "chosen", "other")}
    for name, folder in folders.items():
        folder.mkdir()
        if name != "own" or there:
            program = folder / "grain-worker"
            program.write_text(f"#!/bin/sh\necho {name}; other\n")
            program.chmod(0o700)
        (folder / "other").write_text(f"#!/bin/sh\necho with {name}\n")
        (folder / "other").chmod(0o700)
    monkeypatch.setenv("PATH", f"{folders['other']}:{os.environ['PATH']}")
    job = job_of("", path=str(folders["own"]))
    lines = tuple(line.format(**folders) for line in setup)
    with running(shell, commands(job, lines, job.main), tmp_path / "out") as process:
        assert 0 == process.wait(60)

    tasks = "chosen" if worker == "chosen" else "other"
    assert f"{worker}\nwith {tasks}\n" == (tmp_path / "out").read_text()


def test_signals_reach_the_worker_and_it_ends_in_peace(
    shell: str, job: BatchJob, tmp_path: Path
) -> None:
    """USR1 and TERM are forwarded; the script waits for the real end, then cleans up."""
    out = tmp_path / "out"
    with running(shell, job, out) as process:
        until(out, "main w093015")
        for times in (1, 2, 3):
            process.send_signal(signal.SIGUSR1)
            until(out, "main USR1", times)  # or two become one
        process.send_signal(signal.SIGTERM)

        assert 7 == process.wait(60)

    assert ["main w093015", *["main USR1"] * 3, "main TERM", "clean"] == out.read_text().split(
        "\n"
    )[:-1]


def test_signal_during_the_setup(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """The worker is not started at all, and the clean-up runs."""
    out, go = tmp_path / "out", tmp_path / "go"
    setup = (f"echo begin; {wait_for(go)}", "defer echo clean")
    with running(shell, commands(job, setup), out) as process:
        until(out, "begin")
        process.send_signal(signal.SIGTERM)
        go.touch()

        assert 1 == process.wait(60)

    assert [
        "begin",
        "grain: SIGTERM came during the set-up; w093015 is not started",
        "clean",
    ] == out.read_text().splitlines()


def test_signal_during_the_cleanup(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """A signal that comes when the worker has left does not keep the clean-up from its work."""
    out, go = tmp_path / "out", tmp_path / "go"
    cleanup = ("defer echo last", f"defer echo first; {wait_for(go)}")
    with running(shell, commands(job, cleanup, "true"), out) as process:
        until(out, "first")
        process.send_signal(signal.SIGTERM)
        go.touch()

        assert 0 == process.wait(60)

    assert "first\nlast\n" == out.read_text()


def test_failed_setup_with_set_e(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """Under `set -e` the script ends with the command that fails, and cleans up nevertheless."""
    setup = ("set -eu", "defer echo last", "defer false", "defer echo first", "false")
    with running(shell, commands(job, setup), tmp_path / "out") as process:
        assert 1 == process.wait(60)

    assert "first\nlast\n" == (tmp_path / "out").read_text()


def test_set_e_does_not_abandon_the_worker(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """Under `set -eu` as without, a signal does not end the script before the worker."""
    out = tmp_path / "out"
    with running(shell, commands(job, ("set -eu", "defer echo clean")), out) as process:
        until(out, "main w093015")
        process.send_signal(signal.SIGTERM)

        assert 7 == process.wait(60)

    assert "main w093015\nmain TERM\nclean\n" == out.read_text()


def test_no_line_of_ours_makes_bash_lose_a_signal(job: BatchJob) -> None:
    """Bash 5.2 does, if it comes in the midst of a command substitution with parentheses."""
    assert [] == re.findall(r".*\$\((?!\().*", body(job))


def test_setup_counts_against_the_walltime(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """The time left that the worker gets is less by the time of the set-up."""
    slow = replace(commands(job, ("sleep 1.1",), 'echo "$grain_left"'), time_left=1000)
    began = time.time()
    with running(shell, slow, tmp_path / "out") as process:
        assert 0 == process.wait(60)
    seconds = int(time.time()) - int(began)  # as the shell counts them

    assert 1000 - seconds <= int((tmp_path / "out").read_text()) <= 999


def test_setup_that_takes_all_of_the_walltime(shell: str, job: BatchJob, tmp_path: Path) -> None:
    """No worker is started that would have no time for a task."""
    slow = replace(commands(job, ("sleep 1.1", "defer echo clean")), time_left=1)
    with running(shell, slow, tmp_path / "out") as process:
        assert 1 == process.wait(60)

    assert (
        "grain: the set-up took all of the walltime; w093015 is not started\nclean\n"
        == (tmp_path / "out").read_text()
    )


@pytest.mark.parametrize(
    ("shebang", "shell"),
    [
        ("#!/bin/bash", "/bin/bash"),
        ("#!/bin/bash -l", "/bin/bash"),
        ("#! /usr/bin/zsh", "/usr/bin/zsh"),
        ("#!/usr/bin/env -S bash -l", "/bin/bash"),
    ],
)
def test_the_first_line_names_the_interpreter(shebang: str, shell: str) -> None:
    """The shell that runs the script is the one that its first line names."""
    assert shell == interpreter(shebang)


@pytest.mark.parametrize(
    "shebang", ["#!", "#!/bin/csh", "#!/usr/bin/env python3", "#!/usr/bin/env"]
)
def test_a_first_line_without_a_shell_is_refused(shebang: str) -> None:
    """A first line that names no shell is refused before the script is submitted."""
    with pytest.raises(BatchError) as info:
        interpreter(shebang)

    assert (
        f"script.shebang: {shebang!r} names no shell that can run the script\n"
        "Name one of sh, bash, dash, ksh, zsh, as in '#!/bin/bash'."
    ) == str(info.value)


@pytest.mark.parametrize(
    ("count", "name", "file"),
    [("", "w", "w 7.log"), ("0", "w", "w 7.log"), ("2", "w-r2", "w 7-r2.log")],
)
def test_a_job_that_is_started_again_has_a_name_and_an_output_of_its_own(
    shell: str, job_of: Made, tmp_path: Path, count: str, name: str, file: str
) -> None:
    """Its first processes may still live. The output is for its owner alone."""
    job = replace(job_of(""), name="w", log_file=f"{tmp_path}/w %j.log", main="echo $grain_name")
    (tmp_path / "script").write_text(body(job, restarts="COUNT"))
    with (tmp_path / "w 7.log").open("ab") as log:
        subprocess.run(
            [shell, tmp_path / "script"],
            env={**os.environ, "COUNT": count},
            stdout=log,
            stderr=log,
            check=True,
        )

    assert 0o666 == Path(os.devnull).stat().st_mode & 0o777
    assert f"{name}\n" == (tmp_path / file).read_text()
    assert 0o600 == (tmp_path / file).stat().st_mode & 0o777


def test_a_job_that_is_started_again_runs_where_no_other_output_can_be_made(
    shell: str, job_of: Made, tmp_path: Path
) -> None:
    job = replace(job_of(""), name="w", log_file=f"{tmp_path}/w.log", main="echo $grain_name")
    (tmp_path / "script").write_text(body(job, restarts="COUNT"))
    (tmp_path / "w-r1.log").mkdir()
    with (tmp_path / "w.log").open("ab") as log:
        env = {**os.environ, "COUNT": "1"}
        subprocess.run([shell, tmp_path / "script"], env=env, stdout=log, stderr=log, check=True)

    assert "w-r1\n" == (tmp_path / "w.log").read_text()
