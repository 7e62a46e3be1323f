"""The processes of a run, by their roles; all of them carry a mark in their environment."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tools.chaos.job import DAEMON

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "GRAIN_CHAOS"
"""The variable that all processes of a run have: its directory."""

OWNER = "GRAIN_CHAOS_OWNER"
"""The variable with the name of the worker or mission by which a process was started."""

ROOT = Path(__file__).parents[2]
"""The checkout: programs of a run import this package from there."""

_NAMES = {
    "grain-subreaper": "subreaper",
    "grain-forkserv": "fork server",
    "grain-supervise": "supervisor",
}


@dataclass(frozen=True)
class Marked:
    """A living process of a run.

    Attributes:
        process: the process; signals reach no other one that has its pid later.
        role: "gnaw", "agent", "runner", "mission", "subreaper", "fork server", "supervisor",
            "program", "daemon", "bridge" (its server), "command" (a command of Grain's that a user
            types, or the keeper of a detached mission) or "other".
        owner: the name of the worker or mission that it belongs to.
        task: mission and task of a program; of the program below a supervisor.
    """

    process: psutil.Process
    role: str
    owner: str
    task: tuple[str, int] | None = None

    def __str__(self) -> str:
        return f"{self.role} of {self.owner or 'nobody'}, pid {self.process.pid}"


def make_home(folder: Path) -> None:
    """Make the directories that `environment` names, and one in which a user works."""
    for name in ("home", "work", "tmp"):
        (folder / name).mkdir()


def environment(folder: Path, owner: str) -> dict[str, str]:
    """Return the environment of a run's processes: that of a user with nothing set up.

    Args:
        folder: of the run.
        owner: as in `Marked`.
    """
    others = ("GRAIN_", "XDG_", "PYTHON", "SLURM_", "PBS_")
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(others)},
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}/tmp",
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "GRAIN_CPU_LOCKS": "",  # cores are numbers only here
        MARK: str(folder),
        OWNER: owner,
    }


def marked(folder: str) -> list[Marked]:
    """Return the processes of the run in a directory, in the order of role, owner and pid."""
    result = [one for process in psutil.process_iter() for one in _judge(process, folder)]
    return sorted(result, key=lambda one: (one.role, one.owner, one.process.pid))


def _judge(process: psutil.Process, folder: str) -> Iterator[Marked]:
    try:
        with process.oneshot():
            words = process.cmdline()
            if not words or process.status() == psutil.STATUS_ZOMBIE:
                return
            if words[0] == f"{DAEMON}:{folder}/books":
                yield Marked(process, "daemon", "")
                return
            environ = process.environ()
            if environ.get(MARK) != folder:
                return
            role = role_of(process.name(), words)
            task = task_of(words)
            if role == "supervisor":
                task = program_below(process)
            owner = "" if role == "gnaw" else environ.get(OWNER, "")
            if role != "doorway":
                yield Marked(process, role, owner, task)
    except psutil.Error:
        return


def program_below(supervisor: psutil.Process) -> tuple[str, int] | None:
    """Return the task whose program runs below a supervisor at this moment, if there is one."""
    with suppress(psutil.Error):
        return next(filter(None, (task_of(one.cmdline()) for one in supervisor.children())), None)
    return None


def role_of(name: str, words: list[str]) -> str:
    """Return the role of a process.

    Args:
        name: the name that the kernel shows.
        words: its command line.
    """
    if name in {"nsenter", "setpriv"}:
        return "doorway"  # into the namespaces of a host; it is not part of Grain
    if name in _NAMES:
        return _NAMES[name]
    line = " ".join(words)
    for pattern, role in (
        # Before it has its name; the words behind are those of what it is to start.
        (r"/guards/main\.py ", "guard"),
        (r" grain\.head( |$)", "gnaw"),
        (r" grain\.cli bridge serve ", "bridge"),
        (r" grain\.dispatcher ", "dispatcher"),
        # Before the mission, whose words follow.
        (r" grain\.cli(\.missions\.keeper)? ", "command"),
        (r" grain\.worker\.runner\.main ", "runner"),
        (r" grain\.worker( |$)|/grain-worker( |$)|^grain-worker", "agent"),
        (r"/chaos/mission\.py ", "mission"),
        (r"/chaos/job\.py ", "program"),
    ):
        if re.search(pattern, line):
            return role
    return "other"


def task_of(words: list[str]) -> tuple[str, int] | None:
    """Return the mission and the task of a program's command line, as `job` has it."""
    for place, word in enumerate(words):
        if word.endswith("/chaos/job.py") and len(words) > place + 3:
            return words[place + 2], int(words[place + 3])
    return None
