"""Commands in surroundings that are broken: no traceback, whatever is missing, closed or full."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from grain.cli.app import OWN
from grain.cli.plugin import report_errors
from grain.cli.streams import file_trouble, sentence
from grain_testkit.every_command import COMMANDS, available
from grain_testkit.local_processes import processes_with

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLURM = "system = 'slurm'\n[head]\ncmd = 'true'\n"


def test_every_command_is_tried() -> None:
    assert {*OWN, "--help", "--version", "cache", "map", "whatif"} <= {*COMMANDS}


class Place:
    """What is broken: by the shell, in the environment, by the configuration.

    Attributes:
        early: whether it has to be broken before Python starts.
    """

    def __init__(
        self, redirections: str = "", *, config: str = SLURM, gone: bool = False, **env: str | None
    ) -> None:
        self.redirections = redirections
        self.config = config
        self.gone = gone
        self.env = env
        self.early = bool(redirections) or "PYTHONUTF8" in env


# What even root may not write to.
READ_ONLY = "/proc"
PLACES = {
    "a read-only home, no place for sockets": Place(
        HOME=READ_ONLY, XDG_STATE_HOME=None, XDG_RUNTIME_DIR="/nowhere", TMPDIR="/nowhere"
    ),
    "no home": Place(HOME=None, XDG_STATE_HOME=None),
    "a relative home": Place(HOME="x", XDG_STATE_HOME=None),
    "a closed stdout": Place(">&-"),
    "a closed stderr and stdin": Place("<&- 2>&-"),
    "nothing open": Place("<&- >&- 2>&-"),
    "a full stdout": Place(">/dev/full"),
    "a full stderr": Place("2>/dev/full"),
    "a reader that has gone": Place("| true"),
    "an ASCII terminal": Place(PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="xx_YY.ASCII"),
    "a configuration that is missing": Place(GRAIN_CONFIG="/nowhere/grain.toml"),
    "a configuration that cannot be read": Place(GRAIN_CONFIG="/proc/self/mem"),
    "a configuration that is wrong": Place(config="wrong"),
    "a current directory that is gone": Place(gone=True),
}


# It forks for each command, since to start Python for each takes ten times as long. A child ends as
# the process of a command does, with what Python does at its exit.
PROGRAM = """
import json, os, pwd, sys
import grain.cli.query, grain.config, grain.edge.public, trio
from grain.cli import main

# Without $HOME, commands look here for the home, which is not to be the real one.
home, account = os.environ["TRIED_HOME"], pwd.getpwuid(os.getuid())
pwd.getpwuid = lambda uid: pwd.struct_passwd((*account[:5], home, account[6]))
with open(os.environ["TRIED"]) as file:
    tried = json.load(file)
children = {}
for folder, (command, words, gone, env) in tried.items():
    child = os.fork()
    if not child:
        os.chdir(folder)
        for name, value in env.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        if gone:
            os.mkdir("gone"), os.chdir("gone"), os.rmdir("../gone")
        # As the interpreter decodes its own command line.
        sys.argv[1:] = [command, *(os.fsdecode(word.encode()) for word in words)]
        main(prog_name="grain")
        sys.exit("it came back")
    children[folder] = child
codes = {folder: os.waitpid(child, 0)[1] >> 8 for folder, child in children.items()}
with open(os.environ["TRIED"], "w") as file:
    json.dump(codes, file)
os._exit(0)
"""


EARLY = [place for place, there in PLACES.items() if there.early]


@pytest.mark.parametrize(
    "places",
    [*([place] for place in EARLY), [place for place in PLACES if place not in EARLY]],
    ids=[*EARLY, "the others"],
)
def test_a_broken_place_never_ends_in_a_traceback(places: list[str], alone: Path) -> None:
    """Each place has a result, an error and some of the commands; each command has a place."""
    result_and_error = {name: COMMANDS[name] for name in ("--version", "resume")}
    tried = {}
    for place in places:
        share = dict([*available().items()][[*PLACES].index(place) :: len(PLACES)])
        tried[place] = {**result_and_error, **share}
    try_commands(tried, alone)


@pytest.mark.nightly
@pytest.mark.parametrize("place", PLACES)
def test_no_command_in_a_broken_place_ends_in_a_traceback(place: str, alone: Path) -> None:
    try_commands({place: available()}, alone)


def try_commands(tried: dict[str, dict[str, list[str]]], alone: Path) -> None:
    """See that each command prints a result or a sentence; the exit code says which.

    Args:
        tried: the commands and their words, by place. One place is broken before Python starts;
            several, of which none has to be, when a command has been forked.
        alone: a directory.
    """
    [before] = map(PLACES.get, tried) if len(tried) == 1 else [Place()]
    assert before is not None
    folders = {}
    for number, (place, commands) in enumerate(tried.items()):
        there = PLACES[place]
        for command, words in commands.items():
            folder = alone / f"place{number}" / command
            folder.mkdir(parents=True)
            (folder / "grain.toml").write_text(there.config)
            folders[str(folder)] = command, words, there.gone, there.env
    list_of_commands = alone / "tried.json"
    list_of_commands.write_text(json.dumps(folders))
    home = alone / "home"
    home.mkdir()
    env = {
        **os.environ,
        "PATH": str(alone / "bin"),
        "HOME": str(home),
        "TRIED": str(list_of_commands),
        "TRIED_HOME": str(home),
        **before.env,
    }

    done = subprocess.run(
        ["/bin/bash", "-c", f'{sys.executable} -c "$0" {before.redirections}', PROGRAM],
        env={name: value for name, value in env.items() if value is not None},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False,
    )  # fmt: skip

    for pid in processes_with(f"TRIED={list_of_commands}"):  # such as a dispatcher
        os.kill(pid, signal.SIGTERM)

    printed = (done.stdout + done.stderr).decode(errors="replace")
    for word in ("Traceback", "Exception ignored", "defect", "Fatal Python error", "it came back"):
        assert word not in printed, printed
    codes = json.loads(list_of_commands.read_text())
    assert folders.keys() == codes.keys()
    assert {*codes.values()} <= {0, 1, 2, 255}


@pytest.fixture
def error() -> Iterator[ValueError]:
    try:
        raise ValueError("not\x1b[2J this")
    except ValueError as raised:
        yield raised


def test_an_unforeseen_error_says_where_it_was_raised(error: ValueError) -> None:
    """In one line, without what controls the terminal; the traceback can be had."""
    line = sentence(error)

    assert line.startswith("Error: ValueError: not?[2J this (test_streams.py:")
    assert line.endswith("). This is a defect of Grain; GRAIN_TRACEBACK=full shows more")


@pytest.mark.parametrize(("wanted", "traceback"), [("", False), ("full", True)])
def test_a_defect_is_a_sentence_unless_its_traceback_is_wanted(
    wanted: str, traceback: bool
) -> None:
    code = (
        "import sys; from grain.cli import main; import click\n"
        "@main.command()\ndef fail(): raise ZeroDivisionError('here')\n"
        "sys.argv[1:] = ['fail']; main()"
    )
    env = {**os.environ, "GRAIN_TRACEBACK": wanted}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )

    assert 1 == done.returncode
    assert traceback == ("Traceback" in done.stderr)
    assert ("Error: ZeroDivisionError: here (<string>:3). This is" in done.stderr) != traceback


@pytest.mark.parametrize(
    ("number", "file", "says"),
    [
        (
            errno.EROFS,
            "{}/grain/started",
            "; set XDG_STATE_HOME to a directory that you may write to",
        ),
        (errno.EPERM, "{}/grain", "; set XDG_STATE_HOME to a directory that you may write to"),
        (errno.EACCES, "{}/elsewhere", ""),
        (
            errno.ENOSPC,
            "{}/grain/started",
            "; make room there, or set XDG_STATE_HOME to a directory on another disk",
        ),
        (errno.EDQUOT, "{}/elsewhere", "; make room there"),
    ],
)
def test_an_error_where_grain_keeps_its_files_says_how_to_keep_them_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, file: str, says: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path, words = file.format(tmp_path), os.strerror(number)
    error = OSError(number, words, path)

    assert f"{path}: {words}{says}" == file_trouble(error)
    assert f"Error: {path}: {words}{says}" == sentence(error)
    with pytest.raises(click.ClickException) as caught, report_errors():
        raise error
    assert f"{path}: {words}{says}" == caught.value.message
