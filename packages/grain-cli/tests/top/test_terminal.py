"""`grain top` as a command: on a terminal of tmux, where there is one; and as plain text."""

from __future__ import annotations

import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from grain.cli import main
from grain.cli.top.command import unfit
from grain.cli.top.link import Link, Seen, problem
from grain.cli.top.plain import text
from grain.cli.top.tables.picture import ASCII
from grain.edge.questions import Ask, LoadAnswer, ProgramsAnswer, ProgramState, WhyAnswer
from grain_testkit.overviews import overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TMUX = shutil.which("tmux")
WIDE = {"COLUMNS": "120"}


# ---- the connection


def test_a_link_looks_again_and_again_and_puts_questions_between(
    address: str, answering: Any
) -> None:
    seen: queue.SimpleQueue[Seen] = queue.SimpleQueue()
    answers: queue.SimpleQueue[WhyAnswer] = queue.SimpleQueue()
    running = WhyAnswer(7, "running", [])
    with answering(address, overview=overview(), why=running) as fake:
        link = Link(address, seen.put, seconds=0.01, patience=60)
        link.start()
        try:
            assert [overview()] * 3 == [seen.get(timeout=120).answer for _ in range(3)]
            link.put(Ask("why", mission="m", task=7), WhyAnswer, answers.put)
            assert running == answers.get(timeout=120)
        finally:
            link.stop()
    [why] = [ask for ask in fake.asked if ask.about == "why"]
    assert ("m", 7) == (why.mission, why.task)


def test_a_link_says_that_the_scheduler_is_lost_and_finds_the_next(
    address: str, answering: Any
) -> None:
    seen: queue.SimpleQueue[Seen] = queue.SimpleQueue()
    link = Link(address, seen.put, seconds=0.01, patience=0.3)
    link.start()
    try:
        assert seen.get(timeout=120).answer is None
        with answering(address, overview=overview()):
            while seen.get(timeout=120).answer is None:
                pass
        while (lost := seen.get(timeout=120)).answer is not None:
            pass
        assert address in lost.problem
    finally:
        link.stop()


def test_a_question_without_a_scheduler_is_dropped(address: str) -> None:
    link = Link(address, lambda _: None)
    link.put(Ask("load"), LoadAnswer, lambda _: pytest.fail("an answer"))


def test_a_problem_is_a_sentence() -> None:
    assert "the scheduler at here cannot be asked: no" == problem(RuntimeError("no"), "here")


# ---- plain text


def test_as_text_it_has_every_table_that_has_rows() -> None:
    lines = text(overview(failures=0), 80, ASCII).splitlines()

    assert all(line.isascii() and len(line) <= 80 for line in lines)
    assert any(line.startswith("WORKERS  3 serving") for line in lines)
    assert not any(line.startswith("FAILURES") for line in lines)


def test_as_text_a_long_table_ends_with_the_number_of_the_others() -> None:
    assert "... and 980 more" in text(overview(workers=1000, runs=1), 80, ASCII)


def test_once_prints_it_once(address: str, answering: Any) -> None:
    programs = ProgramsAnswer([ProgramState("xtb caffeine.xyz", 2.0, 7.5, 1.25)])
    with answering(address, overview=overview(runs=1), programs=programs) as fake:
        done = CliRunner().invoke(main, ["top", "--once", "--patience", "60"], env=WIDE)

    assert 0 == done.exit_code
    assert "w093015-2" in done.output
    assert ["overview"] == [ask.about for ask in fake.asked][:1]
    assert 3 == done.output.count("3.8  1.25 GB  2 s xtb caffeine.xyz")


def test_without_a_scheduler_it_says_so(address: str) -> None:
    done = CliRunner().invoke(main, ["top", "--once", "--patience", "0.3"])

    assert 1 == done.exit_code
    assert f"no scheduler answers at {address}" in done.output


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_terminal_that_cannot_be_drawn_on_is_named(
    term: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", term)

    assert f"the terminal (TERM={term}) cannot be drawn on" == unfit()
    monkeypatch.setenv("TERM", "xterm")
    assert "" == unfit()


def test_a_pipe_is_no_terminal() -> None:
    assert "input or output is not a terminal" == unfit()


# ---- a terminal


class Terminal:
    """A shell in a terminal of tmux."""

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        assert TMUX is not None
        self._tmux = [TMUX, "-S", str(folder / "tmux"), "-f", "/dev/null"]
        width, height = map(str, size)
        shell = ["sh", "-c", "PS1='ready>' exec sh"]
        self.run("new-session", "-d", "-s", "t", "-x", width, "-y", height, *shell)
        self.until("ready>")

    def run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def type(self, *keys: str) -> None:
        self.run("send-keys", "-t", "t", *keys)

    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-t", "t")

    def until(self, words: str) -> str:
        """Wait until a pattern is on the screen; return that."""
        end = time.monotonic() + 120
        while not re.search(words, screen := self.screen()):
            assert time.monotonic() < end, screen
            time.sleep(0.1)  # the terminal reports nothing by itself
        return screen

    def modes(self) -> list[str]:
        """Return whether the second screen, the mouse and a hidden cursor are on."""
        form = "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{bracketed_paste_flag}"
        return self.run("display", "-p", "-t", "t", form).split()[:3]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[int, int], Terminal]]:
    opened: list[Terminal] = []

    def of_size(width: int, height: int) -> Terminal:
        opened.append(Terminal(tmp_path, (width, height)))
        return opened[-1]

    yield of_size
    for one in opened:
        one.run("kill-server")


@contextmanager
def top_in(terminal: Terminal, *before: str) -> Iterator[None]:
    """Type the command; in the end its exit code and the terminal's settings are on the screen."""
    command = f"{shlex.quote(sys.executable)} -m grain.cli top --patience 60"
    terminal.type(f"stty -a | cksum; {' '.join(before)} {command}; echo code $?; stty -a | cksum")
    terminal.type("Enter")
    terminal.until("w093015-0")
    terminal.until("q quit")
    assert "1" == terminal.modes()[0]
    yield


@pytest.mark.skipif(TMUX is None, reason="needs tmux")
@pytest.mark.parametrize(
    ("number", "code"), [(None, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_terminal_is_as_before_however_it_ends(
    terminal: Callable[[int, int], Terminal],
    address: str,
    answering: Any,
    number: signal.Signals | None,
    code: int,
) -> None:
    with answering(address, overview=overview(), programs=ProgramsAnswer([])):
        here = terminal(80, 24)
        with top_in(here):
            if number is None:
                here.type("q")
            else:
                pids = here.run("list-panes", "-t", "t", "-F", "#{pane_pid}").split()
                [child] = subprocess.run(
                    ["ps", "-o", "pid=", "--ppid", pids[0]],
                    check=True, capture_output=True, text=True,
                ).stdout.split()  # fmt: skip
                os.kill(int(child), number)
        screen = here.until(rf"\d{{4,}} \d+\s+code {code}\s+\d{{4,}} \d+")

    assert 1 == len(set(re.findall(r"\d{4,} \d+", screen))), screen
    assert ["0", "0", "1"] == here.modes()


@pytest.mark.skipif(TMUX is None, reason="needs tmux")
def test_a_terminal_that_is_dumb_gets_text(
    terminal: Callable[[int, int], Terminal], address: str, answering: Any
) -> None:
    with answering(address, overview=overview()):
        here = terminal(80, 60)
        command = f"TERM=dumb {shlex.quote(sys.executable)} -m grain.cli top --patience 60"
        here.type(command, "Enter")
        screen = here.until("FAILURES")
        assert "the terminal (TERM=dumb) cannot be drawn on, so this is text" in screen.replace(
            "\n", ""
        )
        here.type("C-c")
        here.until("ready>")
