"""The client side that all commands of a fake batch system share."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

# What a command says, and how long it took to say so (seconds), when nobody answers.
SLURM_DEAF = "{name}: error: Unable to contact slurm controller (connect failure)"
PBS_DEAF = "Connection refused\n{name}: cannot connect to server pbs (errno=15010)"
DEAF_SECONDS = {"fake_slurm": 9.0, "fake_pbs": 0.0}


def main() -> int:
    """Hand the command line to the controller, print its answer, return its exit code."""
    program = Path(sys.argv[0])
    folder = os.environ.get("FAKE_BATCH")
    if folder is None:
        print(f"{program.name}: this is a fake, and FAKE_BATCH is not set", file=sys.stderr)
        return 1
    asked = {
        "command": program.name,
        "argv": sys.argv[1:],
        "cwd": str(Path.cwd()),
        "env": dict(os.environ),
        "stdin": sys.stdin.read() if _reads_stdin(program.name, sys.argv[1:]) else "",
    }
    try:
        answer = ask(Path(folder), asked)
    except OSError:
        return _deaf(program)
    sys.stdout.write(answer["out"])
    sys.stderr.write(answer["err"])
    return int(answer["code"])


def ask(folder: Path, asked: dict[str, object]) -> dict[str, str]:
    """One question, one answer.

    Raises:
        OSError: The controller does not answer.
    """
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(120)
        channel.connect(str(folder / "socket"))
        channel.sendall(json.dumps(asked).encode())
        channel.shutdown(socket.SHUT_WR)
        with channel.makefile("rb") as answer:
            reply: dict[str, str] = json.load(answer)
            return reply


def _reads_stdin(name: str, argv: list[str]) -> bool:
    if name not in {"sbatch", "qsub"} or {"--version", "--wrap"} & set(argv):
        return False
    # A script's name is an argument that is no option's value: as good as any guess, a file.
    return not any(Path(word).is_file() for word in argv if not word.startswith("-"))


def _deaf(program: Path) -> int:
    system = program.parent.name
    time.sleep(float(os.environ.get("FAKE_BATCH_DEAF", DEAF_SECONDS.get(system, 0.0))))
    if system == "fake_pbs":
        print(PBS_DEAF.format(name=program.name), file=sys.stderr)
        return 255
    texts = {
        "squeue": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sinfo": "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
        "sbatch": "sbatch: error: Batch job submission failed: "
        "Unable to contact slurm controller (connect failure)",
    }
    print(texts.get(program.name, SLURM_DEAF.format(name=program.name)), file=sys.stderr)
    return 8 if program.name == "scancel" else 1
