"""Run tests many times under a load, and list the ones that were not green every time.

    python tools/repeat.py --runs 20 --busy 4 -- packages/grain-edge -n 2
    python tools/repeat.py --fresh --runs 10 --python 3.10 --python 3.13 --busy 0 --busy 4

Words after `--` are those of pytest, which runs in this checkout. With --fresh, each run has a new
clone of the last commit and a new home, and runs the second command of the README there. Several
values of --python and --busy are taken in turn: the first run has the first of each, and so on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

# Programs that only some tests need, which skip without them. --bare hides them.
OPTIONAL = [
    *("xtb", "mpirun", "mpiexec", "parallel", "tmux", "chromium", "nft", "ip", "bindfs", "unshare"),
    *("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct"),
    *("qsub", "qstat", "qdel", "qmaster", "systemd-analyze", "fusermount3", "nsenter", "setpriv"),
    "prometheus",
]

_BUSY = "while True: pass"
_DISK = """
import os, sys
with open(sys.argv[1], "wb") as file:
    while True:
        file.seek(0)
        file.write(bytes(1 << 22))
        os.fsync(file.fileno())
"""


@dataclass(frozen=True)
class Run:
    """One run: what it ran on, how it ended, and the tests that were not green in it."""

    number: int
    python: str
    busy: int
    status: int
    seconds: float
    passed: int
    red: dict[str, str] = field(default_factory=dict)
    """What pytest says of each test that failed, or "hung" for one that took very long."""


_RED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(\[.*?\])?(?: - (.*))?$", re.MULTILINE)
_SLOW = re.compile(r"^==== (\S+?)(\[.*?\])? has not ended after .*$", re.MULTILINE)
_PASSED = re.compile(r"\b(\d+) passed\b")


def read(output: str) -> tuple[int, dict[str, str]]:
    """Return how many tests passed, and what was said of each that was not green.

    Args:
        output: what one or several runs of pytest printed, colours included.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", output)
    red = {name + (case or ""): "slow" for name, case in _SLOW.findall(text)}
    red |= {name + (case or ""): message for name, case, message in _RED.findall(text)}
    return sum(map(int, _PASSED.findall(text))), red


def table(runs: list[Run]) -> str:
    """Return the runs, then the tests that were not green every time, as Markdown."""
    lines = ["| run | Python | busy | minutes | passed | status |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {run.number} | {run.python} | {run.busy} | {run.seconds / 60:.1f} | {run.passed} "
        f"| {run.status or 'green'} |"
        for run in runs
    ]
    red: dict[str, list[Run]] = {}
    for run in runs:
        for test in run.red:
            red.setdefault(test, []).append(run)
    if red:
        lines += ["", "| not green every time | in runs | what it said |", "|---|---|---|"]
    for test, where in sorted(red.items(), key=lambda item: (-len(item[1]), item[0])):
        said = where[0].red[test].replace("|", "\\|")
        lines.append(f"| {test} | {', '.join(str(run.number) for run in where)} | {said} |")
    return "\n".join(lines)


# ---- what a run has around it


@contextlib.contextmanager
def load(busy: int, disk: bool, folder: Path) -> Iterator[None]:
    """Keep the machine busy while the block runs: with processes, and with writes to the disk."""
    commands = [[sys.executable, "-c", _BUSY]] * busy
    if disk:
        commands += [[sys.executable, "-c", _DISK, str(folder / f"load{n}")] for n in range(2)]
    processes = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def interpreter(name: str) -> str:
    """Return the command of a Python: a path, or a version on PATH or in pyenv's folder."""
    if os.sep in name:
        return name
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    folders = [*map(str, sorted(pyenv.glob(f"versions/{name}*/bin"))), os.environ["PATH"]]
    found = shutil.which("python" + ".".join(name.split(".")[:2]), path=os.pathsep.join(folders))
    if found is None:
        raise SystemExit(f"there is no Python {name} on PATH and in {pyenv}; give its path")
    return found


def bare(folder: Path) -> str:
    """Return a PATH with links to all programs that there are, but not to optional ones."""
    folder.mkdir()
    for source in os.environ["PATH"].split(os.pathsep):
        for path in Path(source).glob("*"):
            if path.name not in OPTIONAL and not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
    return str(folder)


def fresh(folder: Path, python: str, *, link: bool) -> tuple[str, Path, dict[str, str]]:
    """Clone the last commit; return the README's command, where to run it, and its variables."""
    clone, home = folder / "grain", folder / "home"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    home.mkdir()
    if link:
        (folder / "link").symlink_to(clone)
        clone = folder / "link"
    setup = f"{python} -m venv .venv && .venv/bin/pip install -q 'nox[uv]' && .venv/bin/nox"
    # pyenv's Pythons stay where they are; everything else in a user's home is missing.
    pyenv = os.environ.get("PYENV_ROOT", str(Path("~/.pyenv").expanduser()))
    return setup, clone, {"HOME": str(home), "PYENV_ROOT": pyenv, "PWD": str(clone)}


# ---- the runs


def run_once(number: int, options: argparse.Namespace) -> Run:
    """Make what one run needs, run it, and write its output to a file of its own."""
    python = interpreter(options.python[(number - 1) % len(options.python)])
    busy = options.busy[(number - 1) % len(options.busy)]
    folder = Path(tempfile.mkdtemp(prefix="r-"))  # short, see `enough_for_sockets` of the testkit
    variables: dict[str, str] = {}
    place = ROOT
    command = [python, "-m", "pytest", *options.words]
    if options.fresh:
        line, place, variables = fresh(folder, python, link=options.link)
        command = ["bash", "-c", line]
    if options.space:
        (folder / "a b").mkdir()
        variables["TMPDIR"] = str(folder / "a b")
    if options.bare:
        variables["PATH"] = bare(folder / "bin")
    file = options.logs / f"run-{number}.log"
    begin = time.monotonic()
    with load(busy, options.disk, folder), file.open("w") as output:
        # What some environments set for Python hides mistakes, as in the order of outputs.
        given = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
        environment = {**given, **variables}
        status = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=place, env=environment
        ).returncode
    seconds = time.monotonic() - begin
    passed, red = read(file.read_text(errors="replace"))
    version = subprocess.run([python, "-V"], capture_output=True, text=True).stdout.split()[-1]
    shutil.rmtree(folder, ignore_errors=True)
    return Run(number, version, busy, status, seconds, passed, red)


def main() -> int:
    """Run what the command line names, print the table; return 1 if a run was not green."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="how many (10)")
    parser.add_argument("--python", action="append", help="a version or a path; may be repeated")
    parser.add_argument("--busy", type=int, action="append", help="busy processes beside it (0)")
    parser.add_argument("--disk", action="store_true", help="keep the disk busy, too")
    parser.add_argument("--fresh", action="store_true", help="the README's command in a new clone")
    parser.add_argument("--link", action="store_true", help="reach the clone by a symbolic link")
    parser.add_argument("--space", action="store_true", help="TMPDIR has a space in its path")
    parser.add_argument("--bare", action="store_true", help="hide the optional programs")
    parser.add_argument("--logs", type=Path, help="where outputs go (a new folder)")
    parser.add_argument("words", nargs="*", help="words of pytest")
    options = parser.parse_args()
    if options.link and not options.fresh:
        parser.error("--link is for --fresh: this checkout stays where it is")
    if options.fresh and options.words:
        parser.error("--fresh runs the README's command; words of pytest go without it")
    options.python = options.python or [sys.executable]
    options.busy = options.busy or [0]
    options.logs = options.logs or Path(tempfile.mkdtemp(prefix="grain-repeat-logs-"))
    options.logs.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for number in range(1, options.runs + 1):
        runs.append(run_once(number, options))
        print(f"run {number}: {'red' if runs[-1].status or runs[-1].red else 'green'}", flush=True)
    print(f"\n{table(runs)}\n\noutputs: {options.logs}")
    return 1 if any(run.status or run.red for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
