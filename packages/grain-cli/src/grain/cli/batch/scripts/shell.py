r"""The part of a job script that the shell runs, the same for all batch systems. Pure.

Its promises, in the order of its lines:

0. Only its owner may read its output. A job that is started again after its node was lost (Slurm)
   has a name and an output of its own, as what it had started before may still live.
1. The set-up counts against the walltime: ``$grain_left`` is the time that remains after it.
2. The clean-up commands run however the script ends, short of SIGKILL: they are the EXIT trap. A
   command that fails does not keep the next from running.
3. The main command runs in the background, as a shell runs its traps only between commands. The
   script forwards USR1 to it, and TERM, INT and USR2 as TERM: Grid Engine and LSF begin the end of
   a job with these. A signal during the set-up keeps it from being started. Both send them to every
   process, so the main command begins with INT and USR2 ignored; and with USR1 ignored, too, if the
   job asks for no warning, as USR1 would end it.
4. The script ends when the main command has ended, with the same exit status: a signal interrupts
   `wait`, which the script then repeats. A status by which batch systems mean to run the job again
   becomes 1.

The script is POSIX shell, not bash, and works if the set-up says ``set -e`` or ``set -u``. It
substitutes commands by backquotes: bash 5.2 loses a signal whose trap runs in the midst of a
``$(...)``, and says "unexpected EOF while looking for matching `)'".
"""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING

from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.directives import refuse_gpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.cli.batch.base import BatchJob

_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")

_PRIVATE = """\
# Only its owner may read the output. No redirection here: dash makes it in the shell itself.
for grain_fd in 1 2; do
    [ ! -f "/proc/$$/fd/$grain_fd" ] || chmod go-rwx "/proc/self/fd/$grain_fd" || :
done"""

_FORWARD = """\
grain_main=
grain_signal=
grain_forward() {
    grain_again=yes
    if [ -z "$grain_main" ]; then
        grain_signal=$1
    else
        kill -s "$1" "$grain_main" 2>/dev/null || :
    fi
}
trap 'grain_forward USR1' USR1
trap 'grain_forward TERM' TERM INT USR2"""

_EARLY_SIGNAL = """\
if [ -n "$grain_signal" ]; then
    echo "grain: SIG$grain_signal came during the set-up; $grain_name is not started" >&2
    exit 1
fi"""

_LATE = """\
if [ "$grain_left" -le 0 ]; then
    echo "grain: the set-up took all of the walltime; $grain_name is not started" >&2
    exit 1
fi"""

_WAIT = """\
grain_main=$!
[ -z "$grain_signal" ] || kill -s "$grain_signal" "$grain_main" 2>/dev/null || :

# A signal interrupts `wait`, which is then repeated; 127 means that all was collected already.
grain_status=127
grain_again=yes
while [ "$grain_again" = yes ]; do
    grain_again=no
    wait "$grain_main" && grain_got=0 || grain_got=$?
    [ "$grain_got" = 127 ] || grain_status=$grain_got
done
grain_main=

# For 99, Grid Engine would run the job again, for 100, hold it; LSF has a list of its own.
case " 99 100 ${LSB_EXIT_REQUEUE-} " in
    *[" ("]"$grain_status"[" )"]*) grain_status=1 ;;
esac
exit "$grain_status\""""


def interpreter(shebang: str) -> str:
    """Return the path of the shell that a first line names.

    Raises:
        BatchError: the line names no shell that understands the script.
    """
    words = shebang.removeprefix("#!").split()
    if words and PurePath(words[0]).name == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        words = [f"/bin/{names[0]}"] if names else []
    if not words or PurePath(words[0]).name not in _SHELLS:
        raise BatchError(
            f"script.shebang: {shebang!r} names no shell that can run the script",
            remedy=f"Name one of {', '.join(_SHELLS)}, as in '#!/bin/bash'.",
        )
    return words[0]


def own_file(job: BatchJob) -> str:
    """Return the script of a process that is not a job, which removes its own file.

    The shell has the file open, so it may do so at once.

    Raises:
        BatchError: the job is of a shape with GPUs, for which no batch system is asked.
    """
    refuse_gpus(
        job,
        "no batch system gives them to plain processes",
        "Leave gpus out: workers find the GPUs of their host. Or set what each offers in res "
        "of the shape, as in res = {GPUs = 2}.",
    )
    return f'{job.script.shebang}\nrm -f -- "$0"\n\n{body(job)}'


def body(job: BatchJob, index: str = "", folder: str = "", restarts: str = "") -> str:
    """Return the script without its first line and without directives.

    Args:
        index: the variable that holds a task's index in its array; empty without arrays.
        folder: shell text of the working directory; empty for the batch system's choice.
        restarts: the variable that counts how often the job was started again; empty if none does.
    """
    interpreter(job.script.shebang)
    name = shlex.quote(job.name) + (f'-"${index}"' if index else "")
    setup = job.script.setup
    timed = job.time_left is not None
    left = f"grain_left=$(({job.time_left} + grain_began - `date +%s`))"
    ignored = "INT USR1 USR2" if job.warning is None else "INT USR2"
    paragraphs = [
        [
            *(f"# {note}" for note in job.notes),
            *(["grain_began=`date +%s`"] if timed else []),
            f"grain_name={name}",
            # As the batch system writes it, if it fills nothing in.
            *([f"grain_log={shlex.quote(job.log_file)}"] if job.script.nodes > 1 else []),
            *([f"grain_own={shlex.quote(job.path)}", "PATH=$grain_own:$PATH"] if job.path else []),
            *([f"cd {folder} || exit"] if folder else []),
        ],
        _name_of_restart(job, restarts) if restarts else [],
        [_PRIVATE],
        _clean_up(job.script.cleanup),
        [_FORWARD],
        ["# Set-up, from script.setup_cleanup.", *setup] if setup else [],
        _CHOSEN_WORKER if job.path else [],
        _environment(job.env),
        [_EARLY_SIGNAL, *([left, _LATE] if timed else [])],
        [f"(trap '' {ignored}; exec {job.main}) &", _WAIT],
    ]
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"


# A node's PATH may have another one, of a module or an older environment.
_CHOSEN_WORKER = [
    "# That of the grain which submitted this, unless the set-up has put another before it.",
    'grain_worker=`command -v grain-worker` || grain_worker="$grain_own/grain-worker"',
    "# Tasks find other programs as the set-up has it.",
    'case $PATH in *"$grain_own":*)',
    '    PATH=${PATH%%"$grain_own":*}${PATH#*"$grain_own":}:$grain_own ;;',
    "esac",
]


def _name_of_restart(job: BatchJob, restarts: str) -> list[str]:
    """Return the lines that give a job which was started again a name and an output of its own."""
    suffix = shlex.quote(PurePath(job.log_file).suffix)
    # A redirection that fails would end the shell, so it is tried in another one.
    redirect = [
        '    grain_log=`readlink "/proc/$$/fd/1"`',
        f"    grain_log=${{grain_log%{suffix}}}-r${restarts}{suffix}",
        '    if [ -f "/proc/$$/fd/1" ] && (umask 077 && : >>"$grain_log") 2>/dev/null; then',
        '        exec >>"$grain_log" 2>&1',
        "    fi",
    ]
    return [
        "# The processes of the job's earlier start may still live, for instance on a lost node.",
        f'if [ "${{{restarts}:-0}}" != 0 ]; then',
        f"    grain_name=$grain_name-r${restarts}",
        *(redirect if job.log_file else []),
        "fi",
    ]


def _clean_up(commands: Sequence[str]) -> list[str]:
    if not commands:
        return []
    return [
        "# Clean-up, from script.setup_cleanup: what was deferred last comes first.",
        "grain_clean_up() {",
        "set +eu",
        # The user's lines are not indented: they may hold texts that go on over several lines.
        *commands,
        "}",
        "trap grain_clean_up EXIT",
    ]


def _environment(variables: Sequence[tuple[str, str]]) -> list[str]:
    # In the script and not on the command line, which every user of the node can read.
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables]
    return ["# Environment, from worker.env.", *lines] if lines else []
