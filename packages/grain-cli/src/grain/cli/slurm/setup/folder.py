"""The directory of the commands: small executable files, which run this installation of Grain."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import grain
from grain.cli.batch.system_commands import MARK
from grain.eventlog.names import state_folder
from grain.files.trust import private_folder
from grain.files.whole import write_script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMMANDS = (
    "sbatch", "squeue", "scancel", "sacct", "srun", "scontrol", "sinfo", "sacctmgr", "sshare",
    "salloc", "sstat", "sattach", "sbcast", "sprio", "sreport", "seff",
)  # fmt: skip
"""The names of the commands."""

# Tools ask every second, and a job may have thousands of steps. So a command enters the package
# without its __init__, which takes longer than most that it imports; and msgspec, for which that is
# the same, does without typing_extensions. Nor is there garbage to look for. Where packages are is
# written down, so that Python does not look for them (-S).
_ENTER = (
    'sys.modules["typing_extensions"] = None',
    "gc.set_threshold(200_000)",
    'grain = sys.modules["grain"] = type(sys)("grain")',
    f"grain.__path__ = {list(grain.__path__)!a}",
    'grain.__getattr__ = lambda name: getattr(importlib.import_module("grain._gvar"), name)',
)
# Others need what msgspec does without: trio on Python 3.10 has a library that imports it.
_AND_MSGSPEC = ("import msgspec", 'del sys.modules["typing_extensions"]')
# Python would take down all modules at its end, which takes as long as to start without any.
# What a command could not write it has said by then.
_END = (
    "try:",
    "    sys.stdout.flush()",
    "    sys.stderr.flush()",
    "except OSError:",
    "    pass",
    "os._exit(status)",
)
_OF_A_STEP = (
    'if "GRAIN_STEPS" in os.environ:',
    "    from grain.cli.slurm.in_job.step import main",
    "    status = main(sys.argv[1:])",
    *(f"    {line}" for line in _END),
)
_LONGEST = 127  # bytes of a first line, in Linux before 5.1


def commands_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the directory, ``$XDG_STATE_HOME/grain/slurm``; it may not be there."""
    return state_folder(env) / "slurm"


def make_commands(folder: Path, env: Mapping[str, str] = os.environ) -> None:
    """Make the directory and the commands in it; those that are there are replaced.

    Args:
        folder: the directory.
        env: where ``XDG_STATE_HOME`` says in which directory the queue is.

    Raises:
        OSError: they cannot be written, or another user could exchange them.
    """
    private_folder(folder)
    for name in COMMANDS:
        text = script(
            "grain.cli.slurm.__main__",
            [name, str(folder)],
            env.get("XDG_STATE_HOME", ""),
            first=_OF_A_STEP if name == "srun" else (),
        )
        write_script(folder / name, text)
    (folder / MARK).touch(mode=0o600)


def script(
    module: str, words: Sequence[str] = (), state_home: str = "", first: Sequence[str] = ()
) -> str:
    """Return the text of a command.

    It is not a script for sh, which would drop exported functions of bash, and variables with names
    that it does not allow. Like `python_command` it searches no module in a directory.

    Args:
        module: the module whose function ``main`` gets the words, and returns the exit status.
        words: the first arguments.
        state_home: the value of ``XDG_STATE_HOME``, which some tools (Toil) take from ``sbatch``,
            but not from ``squeue``, so that these would not see the same queue.
        first: lines of Python that go before all that.
    """
    lines = [f"#!{sys.executable} -S"]
    if len(os.fsencode(lines[0])) > _LONGEST or any(map(str.isspace, sys.executable)):
        # The kernel takes no such path. Bash leaves variables as they are, and for Python its line
        # is a string.
        shell = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"
        lines = [f"#!{shell}", f"'''exec' {shlex.quote(sys.executable)} -S \"$0\" \"$@\"", "' '''"]
    lines += [
        "import sys",
        'if not getattr(sys.flags, "safe_path", False):',
        "    del sys.path[0]",
        f"sys.path += [one for one in {_searched()!a} if one not in sys.path]",
        "import gc, importlib, os",
        *_ENTER,
        *first,
        *_AND_MSGSPEC,
    ]
    if state_home:
        lines.append(
            f'os.environ["XDG_STATE_HOME"] = os.environ.get("XDG_STATE_HOME") or {state_home!a}'
        )
    lines.append(f"from {module} import main")
    lines += [f"status = main({list(words)!a} + sys.argv[1:])", *_END]
    return "".join(f"{line}\n" for line in lines)


def _searched() -> list[str]:
    """Return where this process looks for modules, but for the directory of its own program."""
    own = 0 if getattr(sys.flags, "safe_path", False) else 1
    return [one for one in sys.path[own:] if Path(one).is_absolute()]
