# ruff: noqa: E501 - a script is a line
"""Scripts on a real Slurm and on Grain's commands of the same names: the same output and end."""

from __future__ import annotations

import re
import shlex
import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio
from command_site import Site
from fake_batch.start import Missing, real
from scripts_of_slurm import scripts
from test_queue import Jobs
from test_speaking_slurm import Tool

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

HEAD = """\
#!/bin/bash
show() { for name; do echo "$name=${!name-unset}"; done; }
"""
DIFFERENT = {
    "| basename $0 | sed 's/^slurm_script$/script/'; echo $# \"$@\"": "$0 ends in the script's name",
    "-n 2 | srun -n1 --export=NONE sh -c 'echo ${OF_USER-unset}'": "PATH is always passed on",
    "-n 2 | srun -n2 -W 1 sh -c 'test $SLURM_PROCID = 0 && exit 0; sleep 20'; echo status $?": "the "
    "messages have fewer words",
    "-n 2 | srun -n2 -K sh -c 'test $SLURM_PROCID = 0 && exit 5; sleep 20'; echo status $?": "the messages have fewer words",
    "-n 2 | srun --mpi=nope true; echo status $?": "there are no files of plug-ins",
    "-n 2 | srun -n1 --cpu-bind=none nproc": "this Slurm binds nothing, and says so",
    "-t 0:01 --signal=B:USR1@1 | trap 'echo warned; exit 0' USR1; sleep 30 & wait": "Slurm rounds "
    "limits up to minutes",
}
"""Scripts whose ends differ, and why; docs/slurm.md says the same to users."""

_PATIENCE = 900.0
_AT_ONCE = 40  # `scontrol show job` knows a job for five minutes after its end


class ScriptEnd(NamedTuple):
    """The output and the end of a script, without what differs by machine."""

    output: str
    state: str
    exit_code: str


def ends(
    ask: Callable[..., subprocess.CompletedProcess[str]], folder: Path, node: str
) -> dict[str, ScriptEnd]:
    """Run all scripts in a directory, and return their ends by their lines.

    Args:
        ask: runs a command.
        folder: the directory.
        node: the pattern of the names of nodes.
    """
    (folder / "input.txt").write_text("from a file\n")
    found: dict[str, ScriptEnd] = {}
    left = scripts()
    ask = partial(ask, cwd=folder)
    while left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        numbers = {}
        for at, (options, script) in enumerate(some):
            place = folder / f"{len(found) + at}"
            place.mkdir()
            (place / "input.txt").write_text("from a file\n")
            (place / "job.sh").write_text(f"{HEAD}{script}\n")
            words = ["sbatch", "--parsable", "-o", f"{place}/out", *shlex.split(options)]
            if not {"-D", "--chdir=/tmp"} & set(words):
                words += ["-D", str(place)]
            done = ask(*words, f"{place}/job.sh", "a b", "c")
            numbers[options, script] = (place, done.stdout.strip(), done)
        deadline = time.monotonic() + _PATIENCE
        while ask("squeue", "-h").stdout.strip():
            assert time.monotonic() < deadline, ask("squeue").stdout
            time.sleep(0.5)
        for (options, script), (place, number, done) in numbers.items():
            line = f"{options} | {script}".strip()
            if not number:
                found[line] = ScriptEnd(done.stderr, "", str(done.returncode))
                continue
            shown = ask("scontrol", "-o", "show", "job", number).stdout
            output = (place / "out").read_text() if (place / "out").exists() else ""
            fields = dict(word.split("=", 1) for word in shown.split() if "=" in word)
            found[line] = ScriptEnd(
                _plain(output, number, str(place), node), fields.get("JobState", ""),
                fields.get("ExitCode", ""),
            )  # fmt: skip
    return found


def _plain(text: str, number: str, place: str, node: str) -> str:
    text = text.replace(place, "DIR").replace(str(Path(place).parent), "PARENT")
    text = text.replace(f"{number}.", "JOB.")
    text = re.sub(rf"\b{number}\b", "JOB", text)
    text = re.sub(rf"\b({node}|{re.escape(socket.gethostname())})\b", "NODE", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "TIME", text)
    # A step that follows another one waits now and then for what that one leaves.
    lines = [
        line
        for line in text.splitlines(keepends=True)
        if "(Grain)" not in line and not re.match("srun: (Job JOB s|S)tep creat", line)
    ]
    return "".join(line.replace("slurmstepd-NODE: error: ***", "error: ***")
                   .replace("slurmstepd: error: ***", "error: ***")
                   .replace("grain: error: ***", "error: ***") for line in lines)  # fmt: skip


@pytest.mark.nightly
async def test_scripts_end_as_under_slurm(tmp_path: Path) -> None:
    for name in ("real", "grain"):
        (tmp_path / name).mkdir()
    own = {"OF_USER": "mine", "OTHER": "one"}

    def with_slurm() -> dict[str, ScriptEnd]:
        # A job has all memory of its node, so each waits for one.
        with real("--nodes=8", "--cores=2", "--kill-wait=30") as slurm:
            slurm.env.update(own)
            return ends(slurm.run, tmp_path / "real", r"n[1-8]")

    try:
        expected = await trio.to_thread.run_sync(with_slurm)
    except Missing as missing:
        pytest.skip(str(missing))
    jobs = Jobs(Site(tmp_path / "grain"))
    jobs.site.environ.update(own)
    tool = Tool(jobs)
    await tool.start()
    with jobs.site.gnaw(), jobs.site.worker("w", Cores=2, Memory=4.2):
        found = await trio.to_thread.run_sync(ends, tool.done, jobs.site.folder, "localhost")
        await jobs.grain("queue", "stop")
    differ = {line: (expected[line], found[line]) for line in expected
              if expected[line] != found[line]}  # fmt: skip
    text = "\n".join(f"{line}\n  {one}\n  {other}" for line, (one, other) in differ.items())
    assert differ.keys() == DIFFERENT.keys(), text
