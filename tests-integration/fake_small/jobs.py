"""The folders of jobs: a command submits, reads states and gives orders; shepherds do the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).parents[1]
NODE, CORES = "n1", 4


class Refused(Exception):
    """A command fails.

    Attributes:
        code: Its exit code.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Job:
    """A job as it was submitted.

    Attributes:
        system: Its batch system.
        argv: The command that runs its script.
        ends: The signals upon its cancellation, each with the seconds before it, and whether all
            processes get it or the first one alone.
        warning: The signal that warns it, and whether all processes get it.
        requeues: The exit status by which it is run again; None if there is none.
        errs: The exit status by which it is held in error.
    """

    system: str
    name: str
    argv: list[str]
    output: str
    cwd: str
    env: dict[str, str]
    ends: list[tuple[float, str, bool]]
    warning: tuple[str, bool] | None = None
    requeues: int | None = None
    errs: int | None = None
    append: bool = True
    extra: dict[str, str] = field(default_factory=dict)


def root() -> Path:
    """Return the folder of the fake."""
    return Path(os.environ["FAKE_SMALL"])


def submit(job: Job, script: str | None = None) -> int:
    """Submit a job; return its number."""
    number = 1
    while True:
        folder = root() / str(number)
        try:
            folder.mkdir()
            break
        except FileExistsError:
            number += 1
    if script is not None:
        path = folder / "script"
        path.write_text(script)
        path.chmod(0o700)
        job.argv = [*job.argv, str(path)]
    # Job ids that the environment has are the shepherd's business.
    job.env = {name: text.replace("{number}", str(number)) for name, text in job.env.items()}
    (folder / "job.json").write_text(json.dumps(asdict(job)))
    write(folder, "waiting")
    if (root() / "hold").exists():
        order(number, "hold")
    subprocess.Popen(
        [sys.executable, "-SEs", "-m", "fake_small.shepherd", str(folder)],
        cwd=HERE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "shepherd.log").open("w"),
        start_new_session=True,
    )
    return number


def write(folder: Path, state: str) -> None:
    """Write a job's state: waiting, held, error, running, ending or ended."""
    part = folder / "state.part"
    part.write_text(state)
    part.rename(folder / "state")


def read(number: str | int) -> tuple[Job, str] | None:
    """Return a job and its state; None if it is not known."""
    folder = root() / str(number)
    try:
        data = json.loads((folder / "job.json").read_text())
        return Job(**data), (folder / "state").read_text()
    except (OSError, ValueError):
        return None


def everything() -> dict[str, tuple[Job, str]]:
    """Return all jobs, by number."""
    numbers = sorted((p.name for p in root().iterdir() if p.name.isdecimal()), key=int)
    return {number: one for number in numbers if (one := read(number))}


def order(number: str | int, word: str) -> None:
    """Give an order to a job's shepherd: cancel, warn, hold, release, requeue, forget."""
    (root() / str(number) / f"order.{word}").touch()
