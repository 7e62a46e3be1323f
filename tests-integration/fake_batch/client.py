"""The client side that all commands of a fake batch system share: ``client.py SYSTEM NAME ...``.

A command is a process of its own each time, so this imports as little as it can.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# What a command says, and how long it took to say so (seconds), when no controller answers.
SLURM_DEAF = "{name}: error: Unable to contact slurm controller (connect failure)"
PBS_DEAF = "Connection refused\n{name}: cannot connect to server pbs (errno=15010)"
DEAF_SECONDS = {"slurm": 9.0, "pbs": 0.0}


def main(system: str, name: str, argv: list[str]) -> int:
    """Hand the command line to the controller, print its answer, return its exit code."""
    if "FAKE_BATCH" not in os.environ:
        print(f"{name}: this is a fake, and FAKE_BATCH is not set", file=sys.stderr)
        return 1
    try:
        out, err, code = ask(name, argv, Path.cwd(), dict(os.environ), sys.stdin.read)
    except OSError:
        return _deaf(system, name)
    sys.stdout.write(out)
    sys.stderr.write(err)
    return code


def ask(
    name: str, argv: list[str], cwd: Path, env: dict[str, str], stdin: Callable[[], str]
) -> tuple[str, str, int]:
    """Ask the controller once; return both outputs of the command, and its exit code.

    Args:
        name: The command's.
        argv: Its arguments.
        cwd: Its working directory.
        env: Its environment, which names the controller's folder.
        stdin: Reads its standard input, if it does that.

    Raises:
        OSError: The controller does not answer.
    """
    text = stdin() if _reads_stdin(name, argv, cwd) else ""
    asked = {"command": name, "argv": argv, "cwd": str(cwd), "env": env, "stdin": text}
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(120)
        channel.connect(f"{env['FAKE_BATCH']}/socket")
        channel.sendall(json.dumps(asked).encode())
        channel.shutdown(socket.SHUT_WR)
        with channel.makefile("rb") as answer:
            reply = json.load(answer)
            return reply["out"], reply["err"], reply["code"]


def _reads_stdin(name: str, argv: list[str], cwd: Path) -> bool:
    if name not in {"sbatch", "qsub"} or {"--version", "--wrap"} & set(argv):
        return False
    # A script's name is an argument that is not an option's value: as good as any guess, a file.
    return not any((cwd / word).is_file() for word in argv if not word.startswith("-"))


def _deaf(system: str, name: str) -> int:
    time.sleep(float(os.environ.get("FAKE_BATCH_DEAF", DEAF_SECONDS.get(system, 0.0))))
    if system == "pbs":
        print(PBS_DEAF.format(name=name), file=sys.stderr)
        return 255
    texts = {
        "squeue": "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sinfo": "slurm_load_partitions: Unable to contact slurm controller (connect failure)",
        "sbatch": "sbatch: error: Batch job submission failed: "
        "Unable to contact slurm controller (connect failure)",
    }
    print(texts.get(name, SLURM_DEAF.format(name=name)), file=sys.stderr)
    return 8 if name == "scancel" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
