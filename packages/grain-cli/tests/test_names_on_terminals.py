"""Names that users and programs choose, in every command: none controls a terminal or a row."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli import main
from grain.cli.hq.__main__ import main as hq
from grain.cli.slurm.__main__ import main as slurm
from grain.cli.slurm.setup.folder import COMMANDS as SLURM
from grain.cli.streams import harmless_streams, plain, write_data
from grain_testkit.every_command import COMMANDS, available
from grain_testkit.job_commands import JobCommands

if TYPE_CHECKING:
    from pathlib import Path

FORGED = "77|COMPLETED|done"
NASTY = f"x\n{FORGED}\x1b]0;title\a\r\b\x85\x9b31m\u202eevil\u2028{FORGED}\u2066"
BYTES = "\udcff"  # which is not text, and which no file of the queue has
CONTROLLING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


class Screen(io.BytesIO):
    """The file behind a standard stream; a terminal or a pipe."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def close(self) -> None:
        """Stay open, for who looks at it."""


Show = Callable[..., str]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """Run the main function of a command; return all that it has printed."""

    def shown(run: Callable[[], object], *, terminal: bool, own: bool = True) -> str:
        screen = Screen(terminal=terminal)
        for name in ("stdout", "stderr"):
            stream = io.TextIOWrapper(screen, "utf-8", "surrogateescape", write_through=True)
            monkeypatch.setattr(sys, name, stream)
        # Commands that speak Slurm or HyperQueue see to that themselves.
        with suppress(SystemExit), harmless_streams() if own else nullcontext():
            run()
        return screen.getvalue().decode(errors="surrogateescape")

    return shown


def check(text: str, *, terminal: bool) -> None:
    """Check that a text has no control, and on a terminal nothing invisible."""
    bad = CONTROLLING if terminal else {"Cc", "Zl", "Zp"}
    assert {one for one in text if unicodedata.category(one) in bad} <= {"\n", "\t"}


def check_rows(text: str, *, terminal: bool) -> None:
    """Check that, and that no name is a row."""
    check(text, terminal=terminal)
    assert [] == [line for line in text.splitlines() if line.startswith(FORGED)]


@pytest.fixture
def jobs(alone: Path, idle: JobCommands) -> JobCommands:
    """A queue whose jobs, directory and reasons have such a name: ended, cancelled and waiting."""
    folder = alone / NASTY
    folder.mkdir()
    found = JobCommands(folder)
    named: dict[str, Any] = {"options": {"comment": NASTY, "account": NASTY}, "script_name": NASTY}
    ended, cancelled, _ = (found.submit(NASTY, **named) for _ in range(3))
    found.end(ended, message=NASTY, status=3)
    found.end(cancelled, how="cancelled", message=NASTY)
    return found


LISTS = ("squeue", "sacct", "scontrol", "sinfo")
WORDS: dict[str, list[list[str]]] = {
    "squeue": [
        ["-h", "-t", "all", "-o", "%i|%T|%j|%Z|%k|%a|%r|%o"],
        ["-l"],
        ["-O", "Name,WorkDir"],
    ],
    "sacct": [["-n", "-X", "-P", "-o", "JobID,State,JobName,WorkDir,Comment,Account"], ["-l"]],
    "scontrol": [["show", "job"], ["-o", "show", "job"]],
    "sinfo": [[]],
    "scancel": [["-v", "1"], [NASTY]],
    "sbatch": [[NASTY], ["--test-only", "-J", NASTY, "--wrap", "x"], [f"--{NASTY}"]],
    "srun": [[f"--{NASTY}"]],
}
OF_OTHERS = [[NASTY], ["-j", NASTY], [f"--{NASTY}"], ["1"]]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("command", SLURM)
def test_commands_that_speak_slurm(
    command: str, terminal: bool, jobs: JobCommands, show: Show
) -> None:
    """Tried: Escapes, line breaks, marks of direction and bytes that are not text in names,
    reasons and directories, in every command, on a terminal and in a pipe.
    Result: question marks; no name makes a row.
    """
    for words in WORDS.get(command, OF_OTHERS):
        text = show(lambda words=words: slurm([command, "", *words]), terminal=terminal, own=False)
        # The others print no rows, but quote their words in errors.
        (check_rows if command in LISTS else check)(text, terminal=terminal)
        if "-h" in words or "-X" in words:
            assert 3 == len(text.splitlines())


def test_names_reach_programs_with_their_marks_of_direction(jobs: JobCommands, show: Show) -> None:
    text = show(
        lambda: slurm(["squeue", "", "-h", "-t", "all", "-o", "%j"]), terminal=False, own=False
    )

    assert 3 * f"x?{FORGED}?]0;title?????31m\u202eevil?{FORGED}\u2066\n" == text


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    "words",
    [["job", "list", "--all"], ["--output-mode=json", "job", "info", "all"], ["job", "info", "1"]],
)
def test_commands_that_speak_hyperqueue(
    words: list[str], terminal: bool, jobs: JobCommands, show: Show
) -> None:
    """Tried: Escapes, line breaks, marks of direction and bytes that are not text in names,
    reasons and directories, in every command, on a terminal and in a pipe.
    Result: question marks; no name makes a row.
    """
    check_rows(show(lambda: hq(words), terminal=terminal, own=False), terminal=terminal)


OF_JOBS = [
    ["jobs"], ["jobs", "1"], ["jobs", "--all"], ["jobs", "--csv"], ["jobs", "--json", "all"],
    ["why", "1"], ["why", "2"], ["why", "3"], ["logs", "1"], ["wait", "1-2"], ["hold", "3"],
    ["release", "3"], ["cancel", "-y", "3", "--reason", NASTY], ["resubmit", "1"], ["history"],
    ["queue", "status"], ["submit", "-H", "-n", NASTY, "--", NASTY + BYTES],
    ["submit", "-H", "-n", NASTY, "--", "true"],
]  # fmt: skip


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("words", OF_JOBS, ids=lambda words: " ".join(words[:2]))
def test_commands_of_the_queue(
    words: list[str], terminal: bool, jobs: JobCommands, show: Show
) -> None:
    """Tried: Escapes, line breaks, marks of direction and bytes that are not text in names,
    reasons and directories, in every command, on a terminal and in a pipe.
    Result: question marks; no name makes a row.
    """
    text = show(lambda: main(words, prog_name="grain"), terminal=terminal)
    assert text
    text = text.replace("\r\033[K", "")  # of the progress of `wait`
    if words != ["jobs", "--csv"]:  # a cell of several lines is quoted there
        check_rows(text, terminal=terminal)
    elif terminal:
        check(text, terminal=terminal)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("command", [name for name in COMMANDS if not name.startswith("-")])
def test_every_command_with_such_a_word(
    command: str, terminal: bool, alone: Path, show: Show
) -> None:
    """Tried: Escapes, line breaks, marks of direction and bytes that are not text in names,
    reasons and directories, in every command, on a terminal and in a pipe.
    Result: question marks; no name makes a row.
    """
    if command not in available():
        pytest.skip("its package is not installed")
    odd = NASTY + BYTES
    words = [word if word.startswith("-") else odd for word in COMMANDS[command]] or [odd]
    if command == "map":  # inputs pass to programs as they are
        words = ["--dry-run", "echo", f"{{{odd}}}", ":::", "x"]
    text = show(lambda: main([command, *words], prog_name="grain"), terminal=terminal)
    if command == "whatif":
        text = text.replace(f"\r{40 * ' '}\r", "")  # of its progress
    if terminal or command != "map":
        check(text, terminal=terminal)


def test_bytes_for_a_terminal_are_text_that_controls_nothing(show: Show) -> None:
    data = b"a\x1b[2J\xff\r\n"
    assert "a?[2J\ufffd\n" == show(lambda: write_data(data), terminal=True)
    assert os.fsdecode(data) == show(lambda: write_data(data), terminal=False)


def test_a_progress_line_moves_the_cursor(show: Show) -> None:
    assert "\rx" == show(lambda: plain(sys.stderr).write("\rx"), terminal=True)


def test_a_process_of_the_command_on_a_terminal(alone: Path) -> None:
    """Tried: Escapes, line breaks, marks of direction and bytes that are not text in names,
    reasons and directories, in every command, on a terminal and in a pipe.
    Result: question marks; no name makes a row.
    """
    near, far = pty.openpty()
    words = [sys.executable, "-m", "grain.cli", "ls", os.fsdecode(b"a\x1b]0;title\a\x9b")]
    done = subprocess.run(words, stdin=far, stdout=far, stderr=far, check=False)
    os.close(far)
    text = os.read(near, 65536)
    os.close(near)

    assert 0 != done.returncode
    assert b"title" in text
    assert not {*b"\x1b\a\x9b"} & {*text}
