"""``grain map`` as users run it: on this machine and on a cluster's workers.

The command is a process of its own where that matters: for signals, streams, the environment and
the words that it was called with. Elsewhere it runs in the process of the test, as Python and its
imports take longer than the jobs; these are processes everywhere.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pytest

from grain.map.command import map_command
from grain.map.job_log.entries import read_line
from grain_testkit.local_processes import alive
from grain_testkit.programs import killed, run, start, wait_until

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from grain_testkit.programs import Process

# SIGINT may be ignored where tests run, and what is ignored stays so.
GRAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from grain.cli import main; main()"
)
# Notes its process and that it ran; unless there is a file `go`, all but 1 and 2 go on forever.
STUBBORN = 'echo $$ >> ran-{1}; [ {1} -le 2 ] || [ -e go ] || exec sleep 1000.25; echo "did "{1}'
# Time limits, in seconds: the second one if a busy machine needs the first for what comes before
# the sleep that is cut short.
LIMITS = ("1", "60")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, which is the current directory, and no configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    return tmp_path


def grain_map(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process."""
    with (
        TemporaryFile("w+") as out,
        TemporaryFile("w+") as err,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        with pytest.raises(SystemExit) as ended:
            map_command.main(words, "grain map")
        out.seek(0)
        err.seek(0)
        status = ended.value.code
        assert isinstance(status, int)
        return subprocess.CompletedProcess(words, status, out.read(), err.read())


def grain_map_process(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return run("-c", GRAIN, "map", *words, input=stdin, timeout=240)


def begun(*words: str) -> AbstractContextManager[Process]:
    pipe = subprocess.PIPE
    words = ("-c", GRAIN, "map", *words)
    return killed(start(*words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe))


def logged(path: str = "log") -> list[tuple[int, int, int]]:
    """Sequence number, exit code and signal of each entry of a result log."""
    try:
        lines = Path(path).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    results = [read_line(line) for line in lines]
    return [(one.seq, one.exitval, one.signal) for one in results if one is not None]


def pids() -> list[int]:
    """The processes that wrote notes."""
    return [int(pid) for note in Path().glob("ran-*") for pid in note.read_text().split()]


WHICH = r"Which jobs failed, and why: grain history --failed [0-9a-f]{8}"


def test_outputs_and_exit_status() -> None:
    """Outputs come in order, grouped; the exit status counts what failed; the log has all."""
    done = grain_map_process(
        "-j", "2", "-k", "--joblog", "log", "--", "sh", "-c",
        'case $0 in 1) sleep 0.3;; 2) sleep 0.2;; esac; echo out $0 "$1"; echo err $0 >&2; '
        'case $0 in 2) ;; *) exit $0;; esac',
        "{#}", "{}", ":::", "a b", "$HOME", "c",
    )  # fmt: skip

    assert done.stdout == "out 1 a b\nout 2 $HOME\nout 3 c\n"
    # Nothing but what the jobs wrote, one line about all of them, and two for those that failed.
    *errors, last, again, which = done.stderr.splitlines()
    assert [f"err {i}" for i in (1, 2, 3)] == errors
    assert (
        "grain map: 1 job succeeded, 2 failed (1 x exit 1, first: job 1 (a b); "
        "1 x exit 3, first: job 3 (c))"
    ) == last
    assert again.startswith("Run them again: grain map --resume-failed -j 2 -k --joblog log -- sh")
    assert re.fullmatch(WHICH, which)
    assert done.returncode == 2
    assert [(1, 1, 0), (2, 0, 0), (3, 3, 0)] == sorted(logged())


def test_killed_and_resumed() -> None:
    """After SIGKILL nothing is left; what had ended is not run again, what had not is."""
    words = ["-j", "2", "-k", "--joblog", "log", "--shell", STUBBORN, ":::", *"12345"]
    with begun(*words) as process:
        wait_until(lambda: len(logged()) == 2 and len(pids()) == 4)
        process.kill()
        process.wait()
    wait_until(lambda: not any(map(alive, pids())))
    with Path("log").open("ab") as log:
        log.write(b"3\tsomewhere\t17")  # as if it were killed while it wrote
    Path("go").touch()

    again = grain_map("--resume", *words)

    assert again.returncode == 0, again.stderr
    assert again.stdout == "did 3\ndid 4\ndid 5\n"
    assert "3 jobs succeeded, 0 failed, 2 had ended before" in again.stderr
    assert [(i, 0, 0) for i in range(1, 6)] == sorted(logged())
    runs = [len(Path(f"ran-{i}").read_text().split()) for i in range(1, 6)]
    assert [1, 1, 2, 2, 1] == runs


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_every_job_and_the_log_has_those_that_ended(
    number: signal.Signals, status: int
) -> None:
    """The exit status is a shell's."""
    words = ["-j", "2", "--joblog", "log", "--shell", STUBBORN, ":::", *"12345"]
    with begun(*words) as process:
        wait_until(lambda: len(logged()) == 2 and len(pids()) == 4)
        process.send_signal(number)
        _, message = process.communicate(timeout=180)
        assert process.returncode == status, message.decode()
    assert not any(map(alive, pids()))
    assert [(1, 0, 0), (2, 0, 0)] == sorted(logged())
    assert b"Traceback" not in message
    assert b"interrupted: 2 jobs succeeded, 0 failed; nothing is left running" in message


def test_ctrl_c_prints_the_command_that_goes_on() -> None:
    """The command can be typed as it is: it is run here, and does what is left."""
    words = ["-j", "2", "--joblog", "my log", "--results", "t.csv", "--shell", STUBBORN, ":::"]
    words += "12345"
    with begun(*words) as process:
        wait_until(lambda: len(logged("my log")) == 2 and len(pids()) == 4)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=180)
    Path("go").touch()
    line = next(line for line in message.decode().splitlines() if line.startswith("To go on: "))
    grain, name, *rest = shlex.split(line.removeprefix("To go on: "))

    again = grain_map(*rest)

    assert ("grain", "map", "--resume") == (grain, name, rest[0])
    assert again.returncode == 0, again.stderr
    with Path("t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(str(i), f"did {i}\n") for i in range(1, 6)] == sorted(
        (row["V1"], row["Stdout"]) for row in rows
    )


@pytest.mark.parametrize(
    ("values", "command"),
    [
        (["a b"], "grain map --resume-failed -j1 --joblog log --halt 1 -- false ::: 'a b'"),
        (["\x1b[2J"], "the same command, with --resume-failed before its other options"),
        (["x"] * 3000, "the same command, with --resume-failed before its other options"),
    ],
)
def test_a_halt_prints_the_command_that_goes_on_unless_it_is_no_line_to_print(
    values: list[str], command: str
) -> None:
    done = grain_map_process("-j1", "--joblog", "log", "--halt", "1", "--", "false", ":::", *values)

    assert f"To go on: {command}" == done.stderr.splitlines()[-2]


def test_the_last_lines_name_the_ends_of_jobs_and_the_command_that_runs_them_again() -> None:
    line = "[ -e go ] || case {} in a) kill -SEGV $$;; b) exit 3;; c) sleep 1000.25;; esac"
    for limit in LIMITS:
        Path("my log").unlink(missing_ok=True)
        words = ["-j", "1", "--timeout", limit, "--joblog", "my log", "--shell", line, ":::"]
        done = grain_map_process(*words, *"abcd")
        *_, last, again, _ = done.stderr.splitlines()
        if "1 x time limit" in last:  # not two
            break
    Path("go").touch()
    resumed = grain_map(*shlex.split(again.removeprefix("Run them again: grain map ")))

    assert (
        "grain map: 1 job succeeded, 3 failed (1 x SIGSEGV, first: job 1 (a); "
        "1 x exit 3, first: job 2 (b); 1 x time limit, first: job 3 (c))"
    ) == last
    assert 0 == resumed.returncode, resumed.stderr
    assert "grain map: 3 jobs succeeded, 0 failed, 1 had ended before" in resumed.stderr


@pytest.mark.parametrize(
    ("options", "values"),
    [([], ["a"]), (["--joblog", "log"], ["x"] * 300), (["--joblog", "log"], ["\x1b[2J"])],
)
def test_without_a_log_or_with_a_long_command_there_is_none_to_type_again(
    options: list[str], values: list[str]
) -> None:
    done = grain_map("-j", "4", *options, "--", "false", ":::", *values)

    *_, last, which = done.stderr.splitlines()
    assert last.startswith(
        f"grain map: 0 jobs succeeded, {len(values)} failed ({len(values)} x exit 1, first: job 1 ("
    )
    assert re.fullmatch(WHICH, which)


def test_without_a_log_ctrl_c_says_what_to_add() -> None:
    with begun("-j", "2", "--shell", STUBBORN, ":::", *"12345") as process:
        wait_until(lambda: len(pids()) == 4)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=180)

    assert "it needs a log: --joblog FILE" in message.decode()


def test_values_of_strangers_are_not_run() -> None:
    """What would be evaluated is refused before its job runs; jobs before it have run.

    Tried: The same with programs that leave a mark when they run.
    Result: none ran.
    """
    attack = "a[$(touch ran)]"
    done = grain_map("-j", "1", "--shell", "echo $(( {} ))", ":::", "7", attack, "8")

    assert done.stdout == "7\n"
    assert done.returncode == 255
    assert "{} of input 2 is 'a[$(touch ran)]', and stands in arithmetic" in done.stderr
    assert not Path("ran").exists()


def test_variables_slots_and_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SETTING", "a b")
    done = grain_map(
        "-j", "1", "-k", "--env", "MY_SETTING", "--tagstring", "{#}/{%}", "--wd", "slot-{%}",
        "--shell", 'echo "$MY_SETTING" {%} {}; pwd', ":::", "x", "y",
    )  # fmt: skip
    where = Path("slot-1").resolve()

    assert done.stdout == (f"1/1\ta b 1 x\n1/1\t{where}\n2/1\ta b 1 y\n2/1\t{where}\n"), done.stderr


def test_an_exported_function_of_bash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASH_FUNC_f%%", '() { echo "<$1>"; }')
    done = grain_map(
        "-j", "1", "-k", "--env", "BASH_FUNC_f%%", "--", "bash", "-c", 'f "$1"', "-", "{}",
        ":::", "a b", "c",
    )  # fmt: skip

    assert done.stdout == "<a b>\n<c>\n", done.stderr


def test_resumed_with_other_inputs() -> None:
    """Inputs that have changed are not taken for those of the log."""
    assert grain_map("-j", "2", "--joblog", "log", "true", ":::", "a", "b").returncode == 0

    other = grain_map("-j", "2", "--joblog", "log", "--resume", "true", ":::", "x", "b")
    fresh = grain_map("-j", "2", "--joblog", "log", "true", ":::", "a", "b")
    explicit = grain_map(
        "-j", "2", "--joblog", "log", "--resume", "--by-command", "echo", ":::", "x"
    )  # fmt: skip

    assert other.returncode == fresh.returncode == 255
    assert "job 1 is 'true x' now" in other.stderr
    assert "--resume goes on with it" in fresh.stderr
    assert explicit.stdout == "x\n"


def test_resume_failed_runs_only_the_failed_jobs_again() -> None:
    """--resume leaves failures alone and counts them; --resume-failed runs them once more."""
    words = ["-j", "2", "--joblog", "log", "--shell", "[ {} = a ] || [ -e go ]", ":::", "a", "b"]
    assert grain_map(*words).returncode == 1
    Path("go").touch()

    assert grain_map("--resume", *words).returncode == 1
    assert [(1, 0, 0), (2, 1, 0)] == sorted(logged())
    assert grain_map("--resume-failed", *words).returncode == 0
    assert [(1, 0, 0), (2, 0, 0), (2, 1, 0)] == sorted(logged())


def test_csv_with_names() -> None:
    """A row of CSV from standard input is a job, by the names of its columns."""
    done = grain_map_process(
        "-j", "2", "-k", "--csv", "--header", ":", "--", "echo", "{name/.} at {T} K",
        stdin='name,T\n"x/a, b.xyz",300\nc.xyz,400\n',
    )  # fmt: skip

    assert done.stdout == "a, b at 300 K\nc at 400 K\n"


@pytest.mark.parametrize("read_once", [False, True])
def test_files_that_jobs_would_share_are_refused_before_any_runs(read_once: bool) -> None:
    Path("inputs").write_text("a/x\nb/y\nb/x\n")
    Path("out").mkdir()
    words = ["-j", "1", "--results", "out/{/}", "touch", "ran-{#}"]
    if read_once:  # then the jobs before it have run
        done = grain_map_process(*words, stdin=Path("inputs").read_text())
        assert Path("ran-1").exists()
    else:
        done = grain_map(*words, "::::", "inputs")
        assert not Path("ran-1").exists()
    assert 255 == done.returncode
    assert "job 1 (a/x) and job 3 (b/x) would write to one file" in done.stderr
    assert not Path("ran-3").exists()


def test_no_tilde_and_no_variable_becomes_the_name_of_a_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In quotes, as the braces need, no shell fills them in."""
    monkeypatch.setenv("WORK", str(home / "work"))
    words = ["-j", "1", "--results", "~/out/{}", "--joblog", "~/log", "--wd", "$WORK/{}", "pwd"]
    done = grain_map(*words, ":::", "a")
    assert 0 == done.returncode, done.stderr
    assert f"{home}/work/a\n" == (home / "out/a").read_text()
    assert (home / "log").exists()
    monkeypatch.delenv("WORK")
    done = grain_map(*words, ":::", "a")
    assert (255, True) == (done.returncode, "--wd $WORK/{}: the environment" in done.stderr)
    assert not [one for one in home.iterdir() if one.name[0] in "~$"]


def test_a_directory_that_jobs_share_is_said() -> None:
    done = grain_map("-j", "1", "--wd", "work/{/}", "pwd", ":::", "a/x", "b/x")
    assert (0, 2) == (done.returncode, len(done.stdout.splitlines()))
    assert "grain map: job 1 (a/x) and job 2 (b/x) run in one directory" in done.stderr


def test_results_puts_outputs_into_files_and_prints_nothing() -> None:
    """Outputs go to files, and nothing is printed."""
    done = grain_map("-j", "2", "--results", "out/{/.}.log", "echo", ":::", "x/a.b", "c")

    assert (done.returncode, done.stdout) == (0, "")
    assert Path("out/a.log").read_text() == "x/a.b\n"
    assert Path("out/c.log").read_text() == "c\n"


def test_each_job_has_its_own_working_directory() -> None:
    """Each job has its own, so what they write under one name does not meet."""
    done = grain_map(
        "-j", "2", "--wd", "my work/{/.}", "--results", "my logs/{#}",
        "--shell", "echo {} > out; pwd", ":::", "x/a.b", "c",
    )  # fmt: skip
    fixed = grain_map("-j", "1", "--workdir", "my work", "pwd", ":::", "-P")

    assert (done.returncode, done.stdout) == (0, "")
    assert ["x/a.b\n", "c\n"] == [Path("my work", x, "out").read_text() for x in "ac"]
    assert f"{Path('my work/c').resolve()}\n" == Path("my logs/2").read_text()
    assert f"{Path('my work').resolve()}\n" == fixed.stdout


def test_retries_and_timeout() -> None:
    """A job that fails is tried so often; one that takes too long is ended."""
    line = "echo {} >> tries; [ $(wc -l < tries) = 3 ]"
    tried = grain_map("-j", "1", "--retries", "3", "--joblog", "log", "--shell", line, ":::", "a")
    for limit in LIMITS:
        Path("slow").unlink(missing_ok=True)
        slow = grain_map(
            "-j", "1", "--timeout", limit, "--joblog", "slow", "--shell",
            "echo far; exec sleep {}", ":::", "1000.25",
        )  # fmt: skip
        if slow.stdout:
            break

    assert tried.returncode == 0, tried.stderr
    assert [(1, 0, 0)] == logged()
    assert slow.returncode == 1
    assert [(1, -1, signal.SIGTERM)] == logged("slow")
    assert f"ended after its time limit of {limit} s: echo far; exec sleep 1000.25" in slow.stderr
    assert "far\n" == slow.stdout
    assert socket.gethostname() == Path("slow").read_text().splitlines()[1].split("\t")[1]


def test_an_endless_input_gives_outputs_before_it_ends() -> None:
    """Inputs are a stream: outputs come before it ends, and a halt leaves it unread."""
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as yes:
        done = start(
            "-c", GRAIN, "map", "-j", "2", "--halt", "now,done=5", "echo",
            stdin=yes.stdout, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        stdout, stderr = done.communicate(timeout=240)
        yes.kill()

    assert done.returncode == 0, stderr
    assert {"y"} == set(stdout.split())
    assert "halted" in stderr


@pytest.mark.parametrize(("where", "more"), [(["-j", "2"], 0), (["--local", "Cores=2"], 1)])
def test_halt_starts_no_more(where: list[str], more: int) -> None:
    """Running jobs go on to their end; no job starts but those that the worker has already."""
    # The first one ends when the log has the end of another one, below its heading.
    line = (
        "echo >> ran-{}; if [ {} = 1 ]; then while [ $(wc -l < log) -lt 2 ]; do sleep 0.02; done; "
        "exit 0; fi; while ! [ -s ran-1 ]; do sleep 0.02; done; exit 7"
    )
    words = [*where, "--joblog", "log", "--halt", "soon,fail=1", "--shell", line]
    done = grain_map(*words, ":::", *map(str, range(1, 50)))

    assert done.returncode == 7, done.stderr
    assert (1, 0, 0) in logged()
    assert 2 <= len(logged()) <= 2 + more


def test_halt_ends_what_runs() -> None:
    """One failure is enough: what runs is ended, and the status is that of the failure."""
    line = (
        "echo $$ > ran-{}; [ {} = 1 ] && exec sleep 1000.25; "
        "while ! [ -s ran-1 ]; do sleep 0.02; done; exit 7"
    )
    done = grain_map("-j", "2", "--halt", "now,fail=1", "--shell", line, ":::", "1", "2", "3")

    assert done.returncode == 7, done.stderr
    assert not any(map(alive, pids()))
    assert re.search(r"; halted, as job \d \([23]\) failed with exit status 7\n", done.stderr)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--pipe", "wc"], 255, "a job reads nothing"),
        (["-S", "host", "wc"], 255, "grain up"),
        (["-d,", "wc"], 255, "--colsep"),
        (["-d", ",", "wc", ":::", "a,b"], 255, "it takes no delimiter"),
        (["-d", r"\t", "wc", ":::", "a,b"], 255, r"`tr '\t' '\n'` makes lines"),
        (["-j", "2", "-r", "Cores=1", "Memory=2", "wc", ":::", "a"], 255, "part of -r"),
        (["--quux", "wc"], 255, "--quux"),
        (["-r", "cores=4", "wc"], 255, "Did you mean Cores"),
        (
            ["-j", "2", "-r", "GPUs=1", "wc", ":::", "a"],
            255,
            "ask for less by -r, or give more by --local\n",
        ),
        (["--resume", "wc", ":::", "a"], 255, "--joblog FILE"),
        (["-j", "1", "--wd", "{2}", "wc", ":::", "a"], 255, "1 column"),
        (
            ["-j", "1", "--wd", "/dev/null/{}", "wc", ":::", "a"],
            255,
            "/dev/null/a: Not a directory",
        ),
        (["-j", "1", "wc {}", ":::", "a"], 255, "--shell"),
        (["-j", "1", "wc", "::::", "nowhere"], 255, "nowhere: No such file"),
        (["-j", "1", "no-such-program", ":::", "a"], 1, "no-such-program"),
        (["-j", "1", "true"], 0, "no input"),
    ],
)
def test_what_goes_wrong(words: list[str], status: int, message: str) -> None:
    """The error is a sentence without a traceback, with a status that no failed jobs have."""
    done = grain_map(*words)

    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert status == done.returncode


def test_a_home_that_cannot_be_written_is_a_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this machine alone nothing is written there; for the scheduler there is a way around."""
    monkeypatch.setenv("HOME", "/proc/fs")
    monkeypatch.setenv("TMPDIR", "/proc/fs")

    local = grain_map_process("-j", "1", "-k", "echo", ":::", "a")
    shared = grain_map_process("echo", ":::", "a")

    assert (0, "a\n") == (local.returncode, local.stdout), local.stderr
    assert 255 == shared.returncode
    assert "Traceback" not in shared.stderr
    assert "Error: /proc/fs/" in shared.stderr
    assert "To run only on this machine, without a scheduler, add -j N." in shared.stderr


@pytest.mark.parametrize(
    "words", [["-j1"], ["-j1", "--results", "-.csv"], ["-j1", "-k"], ["-j1", "--dry-run"]]
)
def test_an_output_that_cannot_be_written_is_a_sentence(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        words = ["-c", GRAIN, "map", *words, "echo", ":::", "a"]
        done = start(*words, stdout=full, stderr=subprocess.PIPE, text=True)
        _, stderr = done.communicate(timeout=240)

    assert "No space left on device" in stderr
    assert "Traceback" not in stderr
    assert 255 == done.returncode


def test_a_message_that_cannot_be_printed_changes_no_exit_status() -> None:
    with Path("/dev/full").open("w") as full:
        words = ["-c", GRAIN, "map", "-j1", "--no-progress", "echo", ":::", "a"]
        done = start(*words, stdout=subprocess.PIPE, stderr=full, text=True)
        stdout, _ = done.communicate(timeout=240)

    assert (0, "a\n") == (done.returncode, stdout)


def test_a_directory_that_was_removed_is_a_sentence(home: Path) -> None:
    (home / "gone").mkdir()
    os.chdir(home / "gone")
    (home / "gone").rmdir()

    # As the installed command, whose directory is not on the path of imports.
    words = [sys.executable, "-I", "-c", GRAIN, "map", "-j1", "echo", ":::", "a"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)

    assert "Error: this directory was removed; change to another one" in done.stderr
    assert 255 == done.returncode


def test_a_dry_run_prints_the_commands_and_runs_nothing() -> None:
    """The commands are printed as they would be typed, and nothing runs."""
    done = grain_map("--dry-run", "touch", "{}.{#}", ":::", "a b", "c")

    assert done.stdout == "touch 'a b.1'\ntouch c.2\n"
    assert not list(Path().glob("*.[12]"))


def test_on_a_cluster(home: Path) -> None:
    """Without -j, jobs go to Gnaw's workers, in the directory where they were asked for."""
    address = f"edge://{home}/edge/meeting"
    (home / "edge").mkdir(mode=0o700)
    (home / "here").mkdir()
    config = home / "mine.toml"
    config.write_text(f'address = "{address}"\n')
    services = [
        ["grain.head", "--address", address, "--grace", "20"],
        ["grain.worker", "--url", address, "--res", '{"Cores": 2}', "--name", "far"],
    ]
    running = [start("-m", *words, stderr=subprocess.DEVNULL) for words in services]
    try:
        wait_until((home / "edge" / "meeting").exists)  # else the mission starts one that stays
        os.chdir(home / "here")
        done = grain_map_process(
            "-c", str(config), "-r", "Cores=1", "-k", "--joblog", "log", "--shell",
            "echo {} > {}.out; nproc; exit {}", ":::", "0", "3", "0",
        )  # fmt: skip
    finally:
        for process in reversed(running):
            process.terminate()
        for process in reversed(running):
            process.wait(120)

    assert done.returncode == 1, done.stderr
    assert done.stdout == "1\n1\n1\n"  # bound to the core that each was given
    assert [(1, 0, 0), (2, 3, 0), (3, 0, 0)] == sorted(logged())
    assert Path("3.out").read_text() == "3\n"


def test_without_workers_the_message_has_both_ways_to_run_the_jobs(home: Path) -> None:
    address = f"edge://{home}/edge/meeting"
    (home / "edge").mkdir(mode=0o700)
    config = home / "mine.toml"
    config.write_text(f'address = "{address}"\n')
    head = start("-m", "grain.head", "--address", address, stderr=subprocess.DEVNULL)
    try:
        wait_until((home / "edge" / "meeting").exists)  # else the mission starts one that stays
        with begun("-c", str(config), "true", ":::", "a") as process:
            assert process.stderr is not None
            line = next(line for line in process.stderr if b"No workers" in line).decode()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=180)
    finally:
        head.terminate()
        head.wait(120)

    assert (
        f"`grain -c {shlex.quote(str(config))} up` starts one, from any shell, or -j N runs the "
        f"jobs on this machine. Workers join at {address} (from {config}).\n"
    ) in line


def test_a_read_only_home_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can meet there, and no scheduler be started; /proc is read-only for root, too."""
    monkeypatch.setenv("HOME", "/proc")
    done = grain_map_process("echo", ":::", "a")

    assert 255 == done.returncode
    error, advice = done.stderr.splitlines()[-2:]
    assert error.startswith(
        "Error: /proc/.local/share/edge-file-default: No such file or directory."
    )
    assert "To run only on this machine, without a scheduler, add -j N." == advice
    assert "Traceback" not in done.stderr
