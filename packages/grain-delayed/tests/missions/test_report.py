"""The output of a mission on standard error, on a terminal and elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.delayed import delayed, mission
from grain.delayed.missions.report import Reporter
from grain.head.events import (
    CanStart,
    Event,
    LastTasksAway,
    MembersApart,
    NeverStarts,
    NoWorkers,
    OtherSoftware,
    RunsEnded,
    SchedulerTrouble,
    Statistics,
    TaskOutlived,
    TasksPrinted,
    WorkersLost,
    WorkersStopped,
)
from grain.resource import Cores

if TYPE_CHECKING:
    from collections.abc import Mapping


FOUR, FIVE = Cores(4), Cores(5)
LACK = (
    "a task that asks for Cores({}) (w: too small); it waits for another worker, which `grain up`"
)


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        pytest.param(
            [NoWorkers(FOUR, "no worker"), NoWorkers(FIVE, "no worker"), CanStart(FOUR),
             CanStart(FIVE)],
            ["No workers are there yet", "Workers are there now."],
            id="workers come after the tasks",
        ),
        pytest.param(
            [NoWorkers(FOUR, "no worker"), CanStart(FOUR), NoWorkers(FOUR, "no worker")],
            ["No workers are there yet", "Workers are there now.", "No workers are there any more"],
            id="workers leave again",
        ),
        pytest.param(
            [WorkersStopped(("w",), 2, "SIGTERM"), NoWorkers(FOUR, "no worker")],
            ["worker w has left",
             "for them. Unless `grain ls` lists one that is to come, `grain up` starts one, from"],
            id="the only worker leaves",
        ),
        pytest.param(
            [NoWorkers(FOUR, "no worker"), NeverStarts(FOUR, "w: too small"),
             NeverStarts(FOUR, "v: too small; w: too small"), CanStart(FOUR)],
            ["No workers are there yet", LACK.format(4),
             "A worker is there now that can run tasks which ask for Cores(4)."],
            id="the first workers do not fit",
        ),
        pytest.param(
            [NoWorkers(FOUR, "no worker"), NoWorkers(FIVE, "no worker"), CanStart(FOUR),
             NeverStarts(FIVE, "w: too small")],
            ["No workers are there yet", "Workers are there now.", LACK.format(5)],
            id="they fit some of the tasks",
        ),
        pytest.param(
            [NoWorkers(FOUR, "no worker"), NeverStarts(FIVE, "the whole cluster has ...",
             cluster=True), NoWorkers(FOUR, "no worker")],
            ["No workers are there yet", "a task that asks for Cores(5) (the whole cluster"],
            id="there are too few licences, and no workers",
        ),
        pytest.param([CanStart(FOUR)], [], id="nothing was said before"),
    ],
)  # fmt: skip
def test_what_was_said_about_workers_is_taken_back_when_they_come(
    events: list[Event], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = Reporter(routine=False)
    for event in events:
        reporter.on_event(event)
    said = capsys.readouterr().err.splitlines()

    assert len(lines) == len(said), said
    for part, line in zip(lines, said, strict=True):
        assert part in line


@pytest.mark.parametrize(
    ("done", "failed", "cached", "word"),
    [(2, 0, 2, "yet"), (3, 0, 2, "any more"), (0, 1, 0, "any more")],
)
def test_workers_that_have_run_tasks_are_not_there_any_more(
    done: int, failed: int, cached: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results from the cache took no worker."""
    reporter = Reporter(routine=False)
    reporter.on_opened(lambda: Statistics(1, 0, done, failed, 0, 0, cached=cached))
    reporter.on_event(NoWorkers(FOUR, "no worker"))

    assert f"No workers are there {word}; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (WorkersLost(("n02",), 2, 130.0),
         "worker n02 is lost, last heard 2 min 10 s ago; 2 tasks run again elsewhere"),
        (WorkersLost(("n02",), 1, 0.0), "worker n02 is lost; 1 task runs again elsewhere"),
        (WorkersLost(("n02",), 0, 0.0), "worker n02 is lost, without any task of this mission"),
        (WorkersLost(("n02",), 1, 0.0, "its job has ended: OUT_OF_MEMORY"),
         "worker n02 is lost (its job has ended: OUT_OF_MEMORY; raise script.memory); 1 task runs"),
        (WorkersLost(("n02",), 1, 0.0, "its job has ended: NODE_FAIL"),
         "worker n02 is lost (its job has ended: NODE_FAIL); 1 task runs again"),
        (WorkersLost(("a", "b"), 3, 0.0), "2 workers are lost (a, b); 3 tasks run again elsewhere"),
        (WorkersLost(tuple("abcdefg"), 3, 0.0), "7 workers are lost (a, b, c, d, e and 2 others)"),
        (WorkersLost(("a\x1b[2J",), 3, 0.0), "worker a?[2J is lost; 3"),
        (WorkersStopped(("n02",), 1, "SIGTERM"),
         "worker n02 has left (SIGTERM, as from scancel, or when its job's time is over); 1 task "),
        (WorkersStopped(("n02",), 1, "asked to drain"),
         "worker n02 has left (asked to drain); 1 task that ran there begins again elsewhere"),
        (WorkersStopped(("n02",), 2, ""), "worker n02 has left (it was asked to); 2 tasks begin"),
        (WorkersStopped(tuple("abcdefg"), 9, "asked to drain"),
         "7 workers have left (a, b, c, d, e and 2 others) (asked to drain); 9 tasks begin again"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("progress", [None, False])
def test_a_worker_that_is_gone_is_reported_with_the_time_on_screen_and_in_the_log(
    event: WorkersLost | WorkersStopped,
    text: str,
    progress: bool | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    remarks: list[str] = []
    reporter = Reporter(progress, wall=lambda: 1e9)
    reporter.on_recorded(lambda line, *_: remarks.append(line))

    reporter.on_event(event)

    now = time.strftime("%H:%M", time.localtime(1e9))
    assert capsys.readouterr().err.startswith(f"{now} {text}")
    assert remarks[0].startswith(text.replace("?", "\x1b"))


@pytest.mark.parametrize(
    ("chosen", "source", "command", "origin"),
    [
        (None, None, "grain up", "the default, as no configuration file is used"),
        (None, "/run/grain.toml", "grain up", "from /run/grain.toml"),
        ("my.toml", "/run/my.toml", "grain -c /run/my.toml up", "from /run/my.toml"),
    ],
)
def test_the_lack_of_workers_comes_with_the_address_and_where_it_is_from(
    chosen: str | None,
    source: str | None,
    command: str,
    origin: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(routine=False)
    reporter.on_configured(chosen, source, "edge:///e")
    reporter.on_event(NoWorkers(FOUR, "no worker is here"))

    assert (
        f"No workers are there yet; tasks wait for them. `{command}` starts one, from any shell. "
        f"Workers join at edge:///e ({origin}).\n"
    ) == capsys.readouterr().err


def test_troubles_of_the_scheduler_are_shown_and_taken_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(routine=False)
    reporter.on_event(SchedulerTrouble("/e.d", "the scheduler, process 7 on n1, cannot ..."))
    reporter.on_event(SchedulerTrouble("/e.d", ""))
    reporter.on_event(SchedulerTrouble("the command 'lmstat'", ""))
    noted: list[tuple[str, ...]] = []
    reporter.on_recorded(lambda *line: noted.append(line))
    for why in ("set aside for 1 min", ""):
        reporter.on_event(SchedulerTrouble("GPU 0", why, aside=True))

    warning, over = "warning: GPU 0 is set aside for 1 min", "This works again: GPU 0."
    assert [(warning, "GPU 0", "set aside for 1 min"), (over, "", "")] == noted
    assert (
        "warning: the scheduler, process 7 on n1, cannot ...\n"
        "The scheduler can store something again in /e.d.\n"
        "This works again: the command 'lmstat'.\n"
        f"{warning}\n{over}\n"
    ) == capsys.readouterr().err


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (LastTasksAway(1, "w1", "n7", 1, 59.6), "the last task is on w1 on n7, "),
        (
            LastTasksAway(3, "w", "n", 2, 60),
            "the last 3 tasks are on w on n and 1 more worker, ",
        ),
        (LastTasksAway(9, "w", "n", 4, 60), "the last 9 tasks are on w on n and 3 more workers, "),
    ],
)
def test_a_mission_says_for_whom_it_waits_at_its_end(
    event: LastTasksAway, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Reporter().on_event(event)

    assert (
        f"warning: {words}which the scheduler does not reach: it waits up to 1 min, and then "
        f"starts {'it' if event.tasks == 1 else 'them'} elsewhere\n"
    ) == capsys.readouterr().err


def test_the_lack_of_workers_comes_with_another_way_to_run_if_there_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(routine=False, elsewhere="or -j N runs the jobs on this machine")
    reporter.on_event(NoWorkers(FOUR, "no worker is here"))

    assert (
        "No workers are there yet; tasks wait for them. `grain up` starts one, from any shell, or "
        "-j N runs the jobs on this machine.\n"
    ) == capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "source", "advice"),
    [
        (None, "/run/grain.toml", "grain.toml and type `grain up`"),
        ("my.toml", "/run/my.toml", "/run/my.toml and type `grain -c /run/my.toml up`"),
    ],
)
def test_a_request_that_is_too_large_for_all_workers_comes_with_the_advice_for_a_larger_node(
    chosen: str | None, source: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = Reporter(routine=False)
    reporter.on_configured(chosen, source, "edge:///e")
    reporter.on_event(NeverStarts(FOUR, "w: too small", larger=True))

    assert (
        "warning: no worker that is here can ever run a task that asks for Cores(4) (w: too "
        "small); it waits for a worker that has what it asks for: ask for less, or describe such a "
        f"node in {advice}\n"
    ) == capsys.readouterr().err


def test_a_request_for_more_than_the_whole_cluster_has_comes_with_the_advice_for_that(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reporter = Reporter(routine=False)
    reporter.on_configured(None, "/run/grain.toml", "edge:///e")
    reporter.on_event(NeverStarts(FOUR, "the whole cluster has ...", cluster=True))

    assert (
        "warning: no worker that is here can ever run a task that asks for Cores(4) (the whole "
        "cluster has ...); it waits without end: ask for less, or correct [head.res] in "
        "grain.toml, which the next scheduler reads\n"
    ) == capsys.readouterr().err


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            RunsEnded(3, 140.0, 130.0),
            """\
warning: this program did not run its event loop for 2 min 10 s, so the scheduler took it for \
ended and ended its 3 runs; they start again. Put what computes for long into a function with \
resources, or call it by `await in_thread(fn)(x)` (grain.worker.blocking)
""",
        ),
        (
            RunsEnded(1, 140.0, 0.0),
            """\
warning: the scheduler did not reach this mission for 2 min 20 s and ended its run; it starts \
again. To let it wait longer, raise head.gnaw.grace in grain.toml
""",
        ),
    ],
)
def test_runs_that_the_scheduler_has_ended_are_reported_with_the_reason(
    event: RunsEnded, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Reporter(routine=False).on_event(event)

    assert text == capsys.readouterr().err


def test_a_worker_with_another_python_is_a_warning_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Reporter().on_event(OtherSoftware("w1", "n17", "Python 3.12", "Python 3.11"))

    assert (
        "warning: worker w1 on host n17 has Python 3.12, this mission Python 3.11: tasks whose "
        "functions travel by value, as those of the script itself do, wait for a worker with "
        "Python 3.11; start workers and mission with the same Python, or put the functions, "
        "undecorated, into a module that both can import, and call delayed(module.function)\n"
    ) == capsys.readouterr().err


def test_a_worker_with_another_major_version_of_numpy_is_a_warning_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Reporter().on_event(OtherSoftware("w1", "n17", "NumPy 1.26.4", "NumPy 2.1.0", numpy=True))

    assert (
        "warning: worker w1 on host n17 has NumPy 1.26.4, this mission NumPy 2.1.0: arrays of the "
        "one may not load on the other; install the same major version on both\n"
    ) == capsys.readouterr().err


def test_what_tasks_print_is_shown_as_far_as_a_person_can_read_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = 100.0
    reporter = Reporter(False, clock=lambda: now)
    reporter.on_event(TasksPrinted("w1", "m:1 f | one\nm:1 f | \x1b[31mtwo\n", 0))
    assert "m:1 f | one\nm:1 f | ?[31mtwo\n" == capsys.readouterr().err
    reporter.on_event(TasksPrinted("w1", "m:1 f | more\n" * 400, 7))
    lines = capsys.readouterr().err.splitlines()
    assert 298 + 1 == len(lines)
    assert (
        f"... {400 - 298 + 7} lines more than can be shown here; the workers' logs have all: "
        "grain logs NAME:NUMBER"
    ) == lines[-1]
    now += 2
    reporter.on_event(TasksPrinted("w1", "m:1 f | later\n" * 200, 0))
    assert 2 * 50 == len(capsys.readouterr().err.splitlines())


def test_what_a_line_quotes_does_not_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tried: Escapes in what lines of a mission quote.
    Result: question marks.
    """
    Reporter().on_event(OtherSoftware("w\x1b]0;title\x07", "\x9bn17", "Python 3.12", "Python 3.11"))
    assert capsys.readouterr().err.startswith("warning: worker w?]0;title? on host ?n17 has")


def test_what_a_line_quotes_begins_no_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter().line("warning: worker x\nerror: all is lost\rw")
    assert "warning: worker x error: all is lost w\n" == capsys.readouterr().err
    Reporter().routine("worker x\nerror: all is lost\rw clear")
    assert "worker x error: all is lost w clear\n" == capsys.readouterr().err


@delayed
async def sleep(seconds: float) -> None:
    await trio.sleep(seconds)


async def log_of(capsys: pytest.CaptureFixture[str], **options: Any) -> list[str]:
    async with mission(Cores(1), config_file=False, name="me", **options):
        for _ in range(7):
            (sleep @ Cores(1))(20)
    captured = capsys.readouterr()
    assert "" == captured.out
    return captured.err.splitlines()


@pytest.mark.parametrize("progress", [None, True])
async def test_without_a_terminal_progress_is_a_line_a_minute(
    autojump_clock: trio.testing.MockClock,
    capsys: pytest.CaptureFixture[str],
    progress: bool | None,
) -> None:
    first, *lines, cleaning, clear, summary, last = await log_of(capsys, progress=progress)

    assert FRAME == [first, cleaning, clear]
    assert re.fullmatch(r"7 done, cores 100 % given, (< )?[\d.]+ % of that computing", summary)
    assert last.startswith("Time elapsed for all jobs: ")
    assert 2 == len(lines)
    for line, minutes in zip(lines, "12", strict=True):
        assert re.fullmatch(
            rf"\d done, 1 running, \d queued, 0 failed, {minutes} min elapsed, "
            r"[\d.]+/min, 1 of 1 cores given, \d\.\d computing, "
            r"submitted so far: about \d+ (s|min)( \d+ s)?",
            line,
        )


async def test_progress_can_be_turned_off_and_nothing_is_written_then(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [] == await log_of(capsys, progress=False)


async def test_without_progress_failures_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with mission(Cores(1), config_file=False, progress=False):
            (sleep @ Cores(1))(0)
            (sleep @ Cores(1))("long")  # type: ignore[arg-type]

    with pytest.raises(TypeError):
        await main()

    summary, last = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"1 done, 1 failed \(1 x TypeError, first: sleep\('long'\)\), \d+ s", summary
    )
    assert re.fullmatch(WHICH, last)


@pytest.mark.parametrize(
    ("failed", "took", "options", "last"),
    [
        (0, 9.0, {}, ""),
        (0, 11.0, {}, "Where the time went: grain report 91b7584a"),
        (0, 11.0, {"progress": False}, ""),
        (
            2,
            1.0,
            {"progress": False},
            "Which calls failed, and why: grain history --failed 91b7584a",
        ),
        (2, 11.0, {}, "Which calls failed, and why: grain history --failed 91b7584a"),
        (2, 11.0, {"routine": False}, ""),
    ],
)
def test_the_last_line_names_the_command_that_shows_more(
    failed: int, took: float, options: dict[str, Any], last: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Not for a mission of some seconds, whose output is that of the tutorial."""
    now = [0.0]
    reporter = Reporter(**options, clock=lambda: now[0])
    reporter.on_opened(lambda: Statistics(0, 0, 3, failed, 0, 0))
    now[0] = took
    reporter.on_ended(interrupted=False)
    before = capsys.readouterr().err

    reporter.on_log_closed("91b7584a")

    assert "grain" not in before
    assert last == capsys.readouterr().err.removesuffix("\n")
    assert "91b7584a" == reporter.log


@pytest.mark.parametrize("progress", [None, False])
async def test_a_mission_without_tasks_has_no_summary(
    capsys: pytest.CaptureFixture[str], progress: bool | None
) -> None:
    async with mission(Cores(1), config_file=False, progress=progress):
        await sleep(0)

    assert "done" not in capsys.readouterr().err


@delayed
async def fail(*args: object) -> None:
    raise LookupError(args)


@delayed(retries=2)
async def fail_twice(marks: list[int]) -> None:
    marks.append(1)
    if len(marks) < 3:
        raise OSError("again")


async def test_an_attempt_that_is_followed_by_another_is_no_failure_in_the_summary(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with mission(Cores(1), config_file=False):
        with pytest.raises(LookupError):
            await (fail @ Cores(1))(1)
        await (fail_twice @ Cores(1))([])

    assert "1 done, 1 failed (1 x LookupError, first: fail(1))\n" in capsys.readouterr().err


async def test_tasks_that_were_cancelled_are_counted_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyError):
        async with mission(Cores(2), config_file=False):
            for _ in range(5):
                (sleep @ Cores(1))(1000)
            await trio.testing.wait_all_tasks_blocked()
            raise KeyError

    assert "\n2 stopped, 3 not begun" in capsys.readouterr().err


PROGRAM = """
import os, sys, trio
from grain.delayed import delayed, each, run
from grain.resource import Cores

@delayed
async def work(i):
    await trio.sleep(0.3)
    while os.path.exists(f"wait-{i}"):
        await trio.sleep(0.01)
    print(f"printed by {i}", flush=True)
    if i == 2:
        raise ValueError("broken")

async def main():
    tasks = [(work @ Cores(1))(i) for i in range(4)]
    for task in tasks:
        try:
            await task
        except ValueError:
            pass

run(main, Cores(1), config_file=False, name="me", progress=PROGRESS, total=4)
"""
FAILED = r"3 done, 1 failed \(1 x ValueError, first: work\(2\)\)"
CORES = r"(, cores \d+ % given(, \d+ % of that computing)?)?"
SUMMARY, SUMMARY_WITH_TIME = FAILED + CORES, rf"{FAILED}, \d+ s{CORES}"


def on_terminal(
    program: str,
    stdout: Path | None = None,
    folder: Path | None = None,
    seen: Mapping[str, str] | None = None,
    **variables: str,
) -> str:
    """Return the output of a program on a terminal: its stderr, and its stdout if no file is.

    The files named in `seen` are in its folder until what they stand for was written. The other
    arguments are environment variables.
    """
    waiting = {Path(folder or ".", name): pattern for name, pattern in (seen or {}).items()}
    for path in waiting:
        path.touch()
    ours, terminal = pty.openpty()
    env = dict(os.environ, TERM="xterm", COLUMNS="100", LINES="25")
    env.pop("NO_COLOR", None)
    env |= variables
    out = terminal if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT)
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=terminal,
        stdout=out,
        stderr=terminal,
        env=env,
        cwd=folder,
    )
    os.close(terminal)
    if stdout is not None:
        os.close(out)
    written = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # Linux's end of file on a terminal
            break
        if not data:
            break
        written += data
        for path, pattern in waiting.items():
            if re.search(pattern, written.decode(errors="replace")):
                path.unlink(missing_ok=True)
    os.close(ours)
    assert 0 == process.wait()
    return written.decode()


def shown(written: str) -> list[str]:
    """Return the rows of a terminal after that output, obeying the few sequences needed."""
    rows, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif part == "\x1b[2K":
            rows[row] = ""
        elif match := re.fullmatch(r"\x1b\[(\d*)A", part):
            row -= int(match[1] or 1)
        elif not part.startswith("\x1b"):
            rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in rows]


WHICH = r"Which calls failed, and why: grain history --failed [0-9a-f]{8}"
SPAN = r"(\d+ min )?\d+ s"
FRAME = [
    "Config file is disabled, using default settings.",
    "worker me(local) starts cleaning up",
    "worker me(local) clear",
]


WAITING = {
    "wait-0": "0 % of 4 ?, .*0 done, .*1 running, .*3 queued",
    "wait-3": "75 % of 4 ?, .*2 done, .*1 failed, .*1 running, .*1/1 cores given",
}


def plain(written: str) -> str:
    """Return output without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", written)


def test_on_a_terminal(tmp_path: Path) -> None:
    """One line shows the progress below what the program prints, and is gone in the end.

    The cursor stays visible beside it: a signal may end the process on the spot, as SIGQUIT
    (Ctrl-\\) and SIGKILL do.
    """
    seen = {name: coloured(pattern) for name, pattern in WAITING.items()}
    written = on_terminal(PROGRAM.replace("PROGRESS", "None"), None, tmp_path, seen)

    *lines, summary, elapsed, last, nothing = shown(written)
    assert [FRAME[0], *(f"printed by {i}" for i in range(4)), *FRAME[1:]] == [x for x in lines if x]
    assert re.fullmatch(SUMMARY, summary)
    assert elapsed.startswith("Time elapsed for all jobs: ")
    assert re.fullmatch(WHICH, last)
    assert "" == nothing
    assert "\x1b[1;31m1 failed" in written  # red
    assert f"\x1b[2m{FRAME[0]}" in written  # dim
    hidden, shown_again = "\x1b[?25l", "\x1b[?25h"
    assert hidden in written
    assert hidden not in written.replace(hidden + shown_again, "")


def coloured(pattern: str) -> str:
    """Return the pattern for a line that may have colours between its words."""
    return pattern.replace(", ", r"(\x1b\[[\d;]*m)*, ")


def test_on_a_narrow_terminal_the_failures_stay(tmp_path: Path) -> None:
    seen = {"wait-3": "1 failed"}
    program = PROGRAM.replace("PROGRESS", "None")
    written = on_terminal(program, None, tmp_path, seen, COLUMNS="40")

    drawn = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", written).replace("\r", "\n").splitlines()
    progress = [line for line in drawn if " % " in line or line.endswith(" failed")]
    assert [line for line in progress if "1 failed" in line]
    assert [] == [line for line in progress if len(line) >= 40]


def test_without_colour_on_a_terminal(tmp_path: Path) -> None:
    seen = {"wait-3": "1 failed"}
    program = PROGRAM.replace("PROGRESS", "None")
    written = on_terminal(program, None, tmp_path, seen, NO_COLOR="1")

    assert not re.search(r"\x1b\[(\d+;)*3\d", written)
    assert f"\x1b[2m{FRAME[0]}" not in written


def test_on_a_terminal_that_cannot_move_its_cursor_progress_is_a_log() -> None:
    written = on_terminal(PROGRAM.replace("PROGRESS", "None"), TERM="dumb")

    assert "\x1b" not in written
    assert "running" not in written
    assert re.search(SUMMARY, written)


def test_on_a_terminal_with_output_to_a_file(tmp_path: Path) -> None:
    """Standard output that was sent to a file gets the program's own lines and nothing else."""
    program = PROGRAM.replace("PROGRESS", "True")
    written = on_terminal(program, tmp_path / "out", tmp_path, {"wait-3": "1 running"})

    assert [f"printed by {i}" for i in range(4)] == (tmp_path / "out").read_text().splitlines()
    assert "1 running" in written
    assert FRAME == [line for line in shown(written) if line][:-3]


def test_on_a_terminal_without_progress() -> None:
    """progress=False leaves the terminal to the program: no line, no control sequences."""
    written = on_terminal(PROGRAM.replace("PROGRESS", "False"))

    assert "\x1b" not in written
    assert "running" not in written
    *printed, summary, last = written.splitlines()
    assert [f"printed by {i}" for i in range(4)] == printed
    assert re.fullmatch(SUMMARY_WITH_TIME, summary)
    assert re.fullmatch(WHICH, last)


def test_missions_within_missions_on_a_terminal(tmp_path: Path) -> None:
    """Only the outermost mission shows a line, or two would fight for one place."""
    program = """
import os, trio
from grain.delayed import delayed, mission
from grain.resource import Cores

@delayed
async def work():
    while os.path.exists("wait"):
        await trio.sleep(0.01)

async def main():
    async with mission(Cores(1), config_file=False):
        async with mission(Cores(2), config_file=False):
            for _ in range(2):
                (work @ Cores(1))()

trio.run(main)
"""
    # By the fourth line of the outer one, there would be several of the inner one.
    seen = {"wait": r"(?s)(0 running.*){4}"}
    written = on_terminal(program, None, tmp_path, seen)

    assert "0 running" in written
    assert "2 running" not in written


def test_missions_in_threads_on_a_terminal() -> None:
    """In other threads than the main one, progress is logged: the line is one per process."""
    program = """
import sys, threading, trio
from grain.delayed import run

streams = sys.stdout, sys.stderr

async def main():
    await trio.sleep(0.3)
    sys.stdout.write(f"own: {streams == (sys.stdout, sys.stderr)}\\n")

threads = [threading.Thread(target=run, args=(main,)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
    written = on_terminal(program)

    assert 2 == written.count("own: True")
    assert 2 == len(re.findall(r"^Time elapsed for all jobs: \S+s\r$", written, re.MULTILINE))
    assert "\x1b" not in written
    assert "running" not in written


def test_a_standard_error_that_is_gone() -> None:
    """A mission goes on when its progress cannot be printed any more."""
    program = PROGRAM.replace("PROGRESS", "None")
    for gone in ("sys.stderr = None", "sys.stderr.close()"):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("\n@delayed", f"\n{gone}\n@delayed", 1)],
            capture_output=True,
            text=True,
            check=False,
        )

        assert [f"printed by {i}" for i in range(4)] == done.stdout.splitlines()
        assert 0 == done.returncode


@pytest.mark.parametrize(
    ("most", "said"),
    [
        (True, "was over, which was 1 min 55 s in all; it starts again from its beginning, and"),
        (False, "was over; it starts again from its beginning, where more time is left: state"),
    ],
)
def test_a_task_that_outlives_its_worker_is_reported_with_what_to_do(
    most: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Reporter(False, routine=False).on_event(TaskOutlived("m:1", "f", 110.0, 115.0, most))
    begin = "warning: m:1 f had run 1 min 50 s when its worker's time "
    line = capsys.readouterr().err
    assert line.startswith(begin + said)
    assert most == ("script.walltime" in line)
    assert "how long it takes (WTime)" in line


def test_workers_that_do_not_reach_each_other_are_named_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "w3 on host n3 did not join w1 on host n1: it cannot be reached"

    Reporter(False, routine=False).on_event(MembersApart("m:1", "f", why))

    line = f"warning: m:1 f has not begun: {why}; it gets other workers, and fails after a few"
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(
    ("total", "share", "left"),
    [
        (14, "14 % of 14", "submitted so far: about 1 min 20 s"),
        (7, "28 % of 7", "left: about 1 min 20 s"),
        ({sleep: 14}, "14 % of 14", "left: about 3 min 40 s"),
        ({"sleep": 14}, "14 % of 14", "left: about 3 min 40 s"),
    ],
)
async def test_a_program_that_says_how_many_calls_there_will_be_has_a_share_and_the_time_of_all(
    autojump_clock: trio.testing.MockClock,
    capsys: pytest.CaptureFixture[str],
    total: Any,
    share: str,
    left: str,
) -> None:
    _, line, *_ = await log_of(capsys, total=total)

    assert line.startswith(f"{share}, 2 done, 1 running, 4 queued, ")
    assert line.endswith(left)


@pytest.mark.parametrize("total", [-1, 1.5, "7", True, {"f": -1}, {"f": "7"}, {7: 1}])
async def test_a_total_that_is_no_number_of_calls_is_refused(total: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="total="):
        async with mission(Cores(1), config_file=False, total=total):
            pass
