"""``python -m grain.cli.slurm NAME DIRECTORY [WORDS]``: a command that speaks Slurm, by its name.

The executable files of the directory that `grain slurm` prints run it so.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from grain.cli.queue import shell
from grain.cli.slurm.here import CommandFailed, Here, SlurmAnswer
from grain.cli.slurm_words.grammar import BadUse, error_status
from grain.cli.streams import announced, harmless_streams, open_missing, write_answer

if TYPE_CHECKING:
    from collections.abc import Callable

# The modules and the functions of commands that are not in one of their own name.
_ELSEWHERE = {
    "sacctmgr": ("sinfo", "sacctmgr"),
    "sshare": ("sinfo", "sshare"),
    "salloc": ("srun", "salloc"),
    "seff": ("sacct", "seff"),
    "sstat": ("sacct", "sstat"),
    **dict.fromkeys(("sattach", "sbcast", "sprio", "sreport"), ("sinfo", "unsupported")),
}
_OF_BAD_USE = {"sbatch": 255, "srun": 255, "salloc": 255}


def main(argv: list[str]) -> int:
    """Run a command, and return its exit status."""
    name, folder, *words = argv
    if name in ("scontrol", "scancel") and "SLURM_JOB_ID" in os.environ:
        # It may end the very job that calls it, which then reads its status.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open_missing()
    # Names and comments of jobs may have any bytes.
    with harmless_streams("surrogateescape"):
        return _run(Here(name, folder, shell.variables()), words)


def _run(here: Here, words: list[str]) -> int:
    try:
        found = answer(here, words)
    except KeyboardInterrupt:
        return 130
    status, said = found.status, found.err
    if said and not said.endswith("\n"):
        said += "\n"
    error = f"{here.command}: error: (Grain)"
    number = found.out.rpartition(" ")[2].strip() if here.command == "sbatch" else ""
    if number.isdecimal():
        write = partial(sys.stdout.write, found.out)
        status = status if announced(f"{error} job {number}", write) else 1
    elif found.out:
        written = write_answer(error, found.out)
        status = status or written or 0
    with suppress(OSError):
        sys.stderr.write(said)
        sys.stderr.flush()
    return status


def answer(here: Here, words: list[str]) -> SlurmAnswer:
    """Return the answer of a command; it raises nothing."""
    name = here.command
    try:
        where, function = _ELSEWHERE.get(name, (name, name))
        module = import_module(f"grain.cli.slurm.{where}")
        command: Callable[[list[str], Here], SlurmAnswer] = getattr(module, function)
        return command(words, here)
    except BadUse as error:
        return SlurmAnswer("", str(error), error.status or _OF_BAD_USE.get(name, 1))
    except CommandFailed as error:
        status = error.status
        if status == 1 and name in _OF_BAD_USE:
            status = error_status(here.environment)
        return SlurmAnswer("", str(error), status)
    except Exception as error:  # a traceback would be taken for an answer
        return SlurmAnswer("", f"{name}: error: (Grain) {type(error).__name__}: {error}", 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
