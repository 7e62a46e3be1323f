"""The pictures of the landing page and of README.md: real runs, as SVG with text in it.

    python tools/recording.py           # writes docs/_static/{demo,cluster,report-*}.svg
    python tools/recording.py report    # writes only those of the report

What is typed is below, what is printed is what the programs print. Directories and the host's name
are replaced, as they are of no interest to a reader. Tests compare the words of both recordings
with what the programs print now, and the pictures of the report with those that are made now.

README.md shows the pictures of the report by a path within the repository, as code hosts need it:
so they are files of the repository, though the site has its own, which docs/extensions makes.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from grain_testkit import report_picture

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "docs/_static"
HOME = "/home/me/run"

CONFIG = """
system = "local"
[script]
cores = 1
memory = 1
walltime = "01:00:00"
[head.gnaw]
idle_timeout = "00:00:05"
"""

PATIENT = "--patience 30"  # a busy machine may keep the scheduler from answering at once

MISSION = """
from grain.delayed import delayed, each, run
from grain.resource import Cores, Memory
from grain.worker.external import run_external

@delayed
async def factor(n):
    return (await run_external(["factor", str(n)])).stdout_text

async def main():
    request = Cores(1) & Memory(0.4)
    await each((factor @ request)(2**p - 1) for p in (137, 149, 193, 199, 211))

run(main, name="mersenne")
"""

# Readable on a light page and on a dark one.
THEME = TerminalTheme(
    (24, 30, 28),
    (214, 224, 219),
    [(60, 70, 66), (240, 113, 120), (92, 200, 161), (255, 203, 107),
     (130, 170, 255), (199, 146, 234), (137, 221, 255), (214, 224, 219)],
)  # fmt: skip


class Session:
    """A session in one terminal: the commands typed and their output."""

    def __init__(self, directory: Path, width: int) -> None:
        self._directory = directory
        self._width = width
        own = ("GRAIN_", "XDG_")
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(own)},
            "HOME": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": str(width),
        }
        self._lines: list[Text] = []

    def type(self, command: str) -> None:
        """Show a command."""
        if self._lines:
            self._lines.append(Text())
        self._lines.append(Text.assemble(("$ ", "green"), (command, "bold")))

    def run(self, command: str, real: str = "", until: str = "") -> None:
        """Run a command to its end, and show what it prints on both streams.

        Args:
            command: the command.
            real: the command to run in its place.
            until: run it again until it prints this.
        """
        self.type(command)
        while until not in (printed := self.ask(real or command)):
            time.sleep(0.5)
        for line in self._anonymous(printed).splitlines():
            self._lines.append(Text(line))

    def ask(self, command: str) -> str:
        """Return what a command prints on both streams."""
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"],
            cwd=self._directory,
            env=self._env,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout

    @contextlib.contextmanager
    def background(self, command: str) -> Iterator[None]:
        """Show a command that runs meanwhile; in the end it is interrupted."""
        self.type(f"{command} &")
        quiet = subprocess.DEVNULL
        words = ["bash", "-c", f"exec {command}"]
        with subprocess.Popen(
            words, cwd=self._directory, env=self._env, stdout=quiet, stderr=quiet
        ) as program:
            try:
                yield
            finally:
                program.send_signal(signal.SIGINT)

    def save(self, path: Path, title: str) -> None:
        """Write the picture."""
        console = Console(
            record=True, width=self._width, file=io.StringIO(), color_system="truecolor"
        )
        for line in self._lines:
            console.print(line, soft_wrap=True, highlight=False)
        svg = console.export_svg(title=title, theme=THEME, unique_id=path.stem)
        # A font that would be loaded from elsewhere; each reader's own does as well.
        svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
        svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
        path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")

    def _anonymous(self, printed: str) -> str:
        printed = printed.replace(str(self._directory), HOME)
        return re.sub(rf"\b{re.escape(socket.gethostname())}\b *", self._host, printed)

    @staticmethod
    def _host(name: re.Match[str]) -> str:
        """Return the name of a host, as wide as it was where a table goes on."""
        wide = len(name[0])
        return "n17".ljust(wide) if name[0].endswith(" ") else "n17"


def demo(directory: Path) -> None:
    """Record the session on one machine."""
    session = Session(directory, 92)
    session.run(
        "python docs/examples/factor.py 2>/dev/null | tail -n 12",
        f"python {ROOT}/docs/examples/factor.py 2>/dev/null | tail -n 12",
    )
    session.save(STATIC / "demo.svg", "every core, and each program on its own")


def cluster(directory: Path, target: Path = STATIC / "cluster.svg", mission: str = MISSION) -> None:
    """Record workers, as on a cluster, with more tasks than capacity.

    Args:
        directory: an empty one, to run in.
        target: the picture.
        mission: the program that is run.
    """
    (directory / "grain.toml").write_text(CONFIG)
    (directory / "scan.py").write_text(mission)
    session = Session(directory, 122)
    session.run("grain up -n 2")
    with session.background("python scan.py"):
        try:
            while _running(session) < 2:
                time.sleep(0.5)
            session.run("grain ls", f"grain ls {PATIENT}")
            # The mission has two seconds to name the call.
            why = f"grain why {PATIENT} mersenne:3"
            session.run("grain why mersenne:3", why, until="it calls ")
        finally:
            # Before the mission ends, and the scheduler soon after it.
            session.ask(f"grain drain {PATIENT} -f '*'")
    session.save(target, "what runs, what waits, and why")


def report() -> None:
    """Make the pictures of the report of a campaign, light and dark."""
    page = report_picture.page("")  # the pictures lack the line that has the version
    for name, dark in report_picture.FILES.items():
        picture = report_picture.picture(page, dark=dark)
        (STATIC / name).write_text(picture, encoding="utf-8")


def text_of(picture: Path) -> str:
    """Return what a picture shows, line by line."""
    svg = picture.read_text(encoding="utf-8")
    lines: dict[float, str] = {}
    terminal = svg.partition('-matrix">')[2]
    for place, part in re.findall(r'<text [^>]*\by="([\d.]+)"[^>]*>(.*?)</text>', terminal):
        lines[float(place)] = lines.get(float(place), "") + html.unescape(part)
    return "".join(f"{lines[at]}\n" for at in sorted(lines)).replace("\xa0", " ")


def _running(session: Session) -> int:
    """Return the number of running tasks; zero while no scheduler answers yet."""
    try:
        queues = json.loads(session.ask(f"grain ls {PATIENT} --json"))["queues"]
    except (subprocess.CalledProcessError, json.JSONDecodeError):
        return 0
    return sum(int(queue["running"]) for queue in queues)


if __name__ == "__main__":
    STATIC.mkdir(exist_ok=True)
    report()
    for record in () if sys.argv[1:] == ["report"] else (demo, cluster):
        with tempfile.TemporaryDirectory() as folder:
            record(Path(folder))
