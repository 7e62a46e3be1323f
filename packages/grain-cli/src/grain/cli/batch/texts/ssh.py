"""Shell texts that `grain` runs on other hosts by ssh, and their answers. Pure.

Each answer ends with a line of its own, so that an answer that was cut off is recognised. Ids are
those of `grain.cli.batch.systems.local`: host, pid, and start in clock ticks since boot.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch.base import JobPhase, JobState
from grain.cli.batch.errors import BatchError, unreadable
from grain.cli.batch.scripts.directives import plain_name
from grain.cli.batch.scripts.shell import body

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from grain.cli.batch.base import BatchJob

_END = "grain-end"
_MARK = "grain-job-"
# The start of a process is the 22nd field of its line; the second one, in parentheses, may hold
# anything. A zombie has ended.
_START = """\
grain_start() {
    grain_stat=`sed 's/.*) //' "/proc/$1/stat" 2>/dev/null` || return 0
    set -- $grain_stat
    case "${1-Z}" in Z|X) ;; *) echo "${20}" ;; esac
}
"""
# `grain_free` has the CPUs that this user may have, less the CPUs that are taken.
_CPUS = """\
grain_all=`sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | tr ',' ' '`
grain_free=
grain_count=0
for grain_range in $grain_all; do
    grain_cpu=${grain_range%-*}
    while [ "$grain_cpu" -le "${grain_range#*-}" ]; do
        grain_count=$((grain_count + 1))
        case " $grain_taken " in
            *" $grain_cpu "*) ;;
            *) grain_free="$grain_free $grain_cpu" ;;
        esac
        grain_cpu=$((grain_cpu + 1))
    done
done
[ -n "$grain_cores" ] || grain_cores=$((grain_count / grain_places))
[ "$grain_cores" -gt 0 ] || grain_cores=1
set -- $grain_free
if [ "$#" -lt "$grain_cores" ]; then
    echo "grain-few $# $grain_cores"
    exit 0
fi
grain_cpus=$1
while [ "$grain_cores" -gt 1 ]; do
    shift
    grain_cpus=$grain_cpus,$1
    grain_cores=$((grain_cores - 1))
done
"""

# A script's own shell leads its session; the shells that it has forked have the same command line.
LIST = (
    _START
    + f"""\
for grain_file in `grep -la /{_MARK} /proc/[0-9]*/cmdline 2>/dev/null`; do
    grain_pid=${{grain_file#/proc/}}
    grain_pid=${{grain_pid%/cmdline}}
    set -- `sed 's/.*) //' "/proc/$grain_pid/stat" 2>/dev/null`
    [ "${{4-}}" = "$grain_pid" ] || continue
    grain_line=`tr '\\000' '\\n' <"$grain_file" 2>/dev/null | sed -n 's:.*/{_MARK}::p'`
    echo "{_MARK} $grain_pid `grain_start "$grain_pid"` ${{grain_line%.*}}"
done
echo {_END}
"""
)
"""Text that prints pid, start and name of each script that runs."""


class SharedHost(NamedTuple):
    """A host, and the number of workers that share it."""

    host: str
    workers: int


class StartedProcess(NamedTuple):
    """The answer to a start: pid and start of the process, and its CPUs."""

    pid: int
    start: str
    cpus: tuple[int, ...]


def places(hosts: Iterable[str]) -> list[SharedHost]:
    """Read the hosts of a configuration.

    >>> places(["n1", "me@n2:2"])
    [Place(host='n1', workers=1), Place(host='me@n2', workers=2)]
    """
    return [
        SharedHost(host, int(count or 1))
        for host, _, count in (text.partition(":") for text in hosts)
    ]


def script(job: BatchJob) -> str:
    """Return the script of one job."""
    return f'{job.script.shebang}\nrm -f -- "$0"\n\n{body(job)}'


def start(job: BatchJob, folder: str, place: SharedHost, taken: Collection[int]) -> str:
    """Return the text that starts a job's script as a process in a session of its own.

    Args:
        place: the host, whose CPUs its workers share equally unless `Script.cores` says more.
        taken: the CPUs of Grain's other workers on that host.
    """
    lines = script(job).splitlines()
    end = "GRAIN_SCRIPT_ENDS"
    while end in lines:
        end += "_HERE"
    log = shlex.quote(job.log_file or "/dev/null")
    path = f"${{TMPDIR:-/tmp}}/{_MARK}{plain_name(job.name)}.XXXXXX"
    return "\n".join(
        [
            "umask 077",
            _START,
            f"grain_taken={shlex.quote(' '.join(map(str, sorted(taken))))}",
            f"grain_cores={job.script.cores or ''}",
            f"grain_places={place.workers}",
            _CPUS,
            f"cd {shlex.quote(folder)} || exit",
            f"mkdir -p {shlex.quote(_parent(job.log_file))} || exit",
            f'grain_script=`mktemp "{path}"` || exit',
            f"cat >\"$grain_script\" <<'{end}' || exit",
            *lines,
            end,
            'chmod 700 "$grain_script" || exit',
            'taskset -c "$grain_cpus" setsid "$grain_script" </dev/null >>' + log + " 2>&1 &",
            'echo "grain-started $! `grain_start "$!"` $grain_cpus"',
            f"echo {_END}",
            "",
        ]
    )


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def free_words(count: int, where: str) -> str:
    """Return the words for so many CPUs that are free.

    >>> free_words(0, "n1"), free_words(1, "n1"), free_words(2, "n1")
    ('no CPU of n1 is free', '1 CPU of n1 is free', '2 CPUs of n1 are free')
    """
    if count < 2:
        return f"{count or 'no'} CPU of {where} is free"
    return f"{count} CPUs of {where} are free"


def started(host: str, output: str) -> StartedProcess:
    """Read the answer to `start`.

    Raises:
        BatchError: there are too few CPUs, or the answer is something else.
    """
    if few := re.search(r"^grain-few (\d+) (\d+)$", output, re.MULTILINE):
        raise BatchError(
            f"{free_words(int(few[1]), host)}, too few for a worker with {few[2]}",
            remedy="Start fewer, lower script.cores, or end the workers that have the others.",
        )
    match = re.search(r"^grain-started (\d+) (\d+) ([\d,]+)$", output, re.MULTILINE)
    if not match or not _complete(output):
        raise unreadable(f"ssh {host}", output)
    return StartedProcess(int(match[1]), match[2], tuple(map(int, match[3].split(","))))


def query(pids: Iterable[str]) -> str:
    """Return the text that prints the start of each process that is alive."""
    loop = f'for grain_pid in {" ".join(pids)}; do echo "$grain_pid `grain_start $grain_pid`"; done'
    return f"{_START}{loop}\necho {_END}\n"


def named(host: str, output: str) -> list[tuple[str, str]]:
    """Read the answer to `LIST`: ids and names of the scripts that run."""
    if not _complete(output):
        raise unreadable(f"ssh {host}", output)
    rows = re.findall(rf"^{_MARK} (\d+) (\d+) (\S+)$", output, re.MULTILINE)
    return [(f"{host}:{pid}:{start}", name) for pid, start, name in rows]


def states(host: str, output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read the answer to `query`."""
    if not _complete(output):
        raise unreadable(f"ssh {host}", output)
    pairs = [line.split() for line in output.splitlines() if re.fullmatch(r"\d+ \d+", line)]
    alive = {f"{host}:{pid}:{start}" for pid, start in pairs}
    return {
        one: JobState(JobPhase.RUNNING, node=host) if one in alive else JobState(JobPhase.GONE)
        for one in ids
    }


def cancel(ids: Iterable[str]) -> str:
    """Return the text that sends SIGTERM to processes, unless their pids are others' by now."""
    lines = []
    for one in ids:
        _, pid, start_time = one.rsplit(":", 2)
        lines.append(f'[ "`grain_start {pid}`" != {start_time} ] || kill -s TERM {pid}')
    return "\n".join([_START, *lines, f"echo {_END}", ""])


def check(folder: str) -> str:
    """Return the text that says whether workers could start in a directory."""
    return f"cd {shlex.quote(folder)} >/dev/null 2>&1 || echo grain-nowhere\necho {_END}\n"


def checked(host: str, output: str, folder: str) -> BatchError | None:
    """Read the answer to `check`; return what is wrong."""
    if not _complete(output):
        raise unreadable(f"ssh {host}", output)
    if "grain-nowhere" in output.splitlines():
        remedy = "Share it with that host, or start workers from a directory that all hosts have."
        return BatchError(f"{folder} is not there", remedy=remedy)
    return None


def is_id(text: str) -> bool:
    """Return True for an id as it is recorded."""
    return re.fullmatch(r"[\w.@-]+:\d+:\d+", text, re.ASCII) is not None


def _complete(output: str) -> bool:
    return _END in output.splitlines()
