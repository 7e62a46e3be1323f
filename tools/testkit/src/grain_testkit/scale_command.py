"""`grain scale` as a process, and a Slurm of shell scripts, for tests of both of its loops."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Put = Callable[[str, str], Path]


@contextmanager
def scaling(*words: str) -> Iterator[IO[str]]:
    """`grain scale --json`; its lines. It must end well when it is asked to."""
    code = "from grain.cli import main; main(prog_name='grain')"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "scale", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # A mistake must not make the test hang.
    watchdog = threading.Timer(300, process.kill)
    watchdog.start()
    assert process.stdout is not None
    try:
        yield process.stdout
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read().splitlines()
        assert json.loads(rest[-1])["what"].startswith("ending; workers and jobs stay")
        assert process.wait(120) == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        process.stdout.close()


def line(output: IO[str]) -> tuple[int, int, str]:
    """The next thing that happened."""
    report = json.loads(output.readline())
    return report["alive"], report["of"], report["what"]


def slurm(folder: Path, command: Put) -> None:
    """Jobs are numbered; which are listed says a file."""
    (folder / "grain.toml").write_text('system = "slurm"\n[worker]\nname = "w"\nlog_file = ""\n')
    command(
        "sbatch",
        f"cat > /dev/null; n=$(cat '{folder}/n' 2>/dev/null || echo 0); n=$((n+1)); echo $n > "
        f"'{folder}/n'; echo $n",
    )
    command("squeue", f"cat '{folder}/listed' 2>/dev/null || :")
