"""Plain processes on a list of hosts, started by ssh.

All hosts are asked at once, by shell texts. An answer ends with a line of its own, so that one that
was cut off is recognised. A host that does not answer says nothing of its processes: they may be
alive, and keep their places and CPUs. Ids are those of `grain.cli.batch.systems.local`: host, pid,
and start in clock ticks since boot.
"""

from __future__ import annotations

import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from grain.cli.batch.answers import by_name, unreadable
from grain.cli.batch.base import JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import SECONDS, Commands
from grain.cli.batch.errors import BatchError, BatchUnreachable, BatchUnreadable, SubmissionUnknown
from grain.cli.batch.scripts.directives import plain_name
from grain.cli.batch.scripts.shell import own_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from grain.cli.batch.base import BatchJob

_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
COMMANDS = Commands(
    "ssh",
    ("ssh",),
    ("ssh", "-V"),
    remedies=(
        (
            "Permission denied",
            "Let ssh log in without a password: `ssh-copy-id HOST`, with a key of an agent.",
        ),
        ("Host key verification failed", "Log in once by hand, to accept the host's key."),
        ("Could not resolve hostname", "Correct `hosts` in the configuration."),
        ("taskset", "Install util-linux there."),
    ),
    silent=("Connection timed out", "Connection refused", "No route to host"),
    tried="OpenSSH 9.2",
    install="Install OpenSSH's client, or change `system` in the configuration.",
)

Answer = TypeVar("Answer")

LOOK = 15.0
"""Seconds that a host has for an answer; ssh waits 10 of them for the connection."""
TRY = 12.0
"""The same for a check of all hosts."""
HURRY = 3.0
"""The same while a user waits for a list of jobs."""

_AT_ONCE = 32  # connections
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
_LIST = (
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


def start(job: BatchJob, folder: str, place: SharedHost, taken: Collection[int]) -> str:
    """Return the text that starts a job's script as a process in a session of its own.

    Args:
        place: the host, whose CPUs its workers share equally unless `Script.cores` says more.
        taken: the CPUs of Grain's other workers on that host.
    """
    lines = own_file(job).splitlines()
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
            f"mkdir -p {shlex.quote(str(PurePath(job.log_file).parent))} || exit",
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
    _check_end(host, output)
    if not match:
        raise unreadable(f"ssh {host}", output)
    return StartedProcess(int(match[1]), match[2], tuple(map(int, match[3].split(","))))


def query(pids: Iterable[str]) -> str:
    """Return the text that prints the start of each process that is alive."""
    loop = f'for grain_pid in {" ".join(pids)}; do echo "$grain_pid `grain_start $grain_pid`"; done'
    return f"{_START}{loop}\necho {_END}\n"


def named(host: str, output: str) -> list[tuple[str, str]]:
    """Read the answer to `_LIST`: ids and names of the scripts that run."""
    _check_end(host, output)
    rows = re.findall(rf"^{_MARK} (\d+) (\d+) (\S+)$", output, re.MULTILINE)
    return [(f"{host}:{pid}:{start}", name) for pid, start, name in rows]


def states(host: str, output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read the answer to `query`."""
    _check_end(host, output)
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


def read_check(host: str, output: str, folder: str) -> None:
    """Read the answer to `check`.

    Raises:
        BatchError: workers could not start there.
    """
    _check_end(host, output)
    if "grain-nowhere" in output.splitlines():
        remedy = "Share it with that host, or start workers from a directory that all hosts have."
        raise BatchError(f"{folder} is not there", remedy=remedy)


def is_id(text: str) -> bool:
    """Return True for an id as it is recorded."""
    return re.fullmatch(r"[\w.@-]+:\d+:\d+", text, re.ASCII) is not None


def _check_end(host: str, output: str) -> None:
    """Refuse an answer that was cut off."""
    if _END not in output.splitlines():
        raise unreadable(f"ssh {host}", output)


class Ssh:
    """Processes of other hosts.

    Args:
        taken: the id and the CPU ids of each process that was started earlier.
        seconds: the time that a host has for an answer about its processes.
        note: called with a sentence for each host that does not answer, where others have room.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        taken: Iterable[tuple[str, tuple[int, ...]]] = (),
        seconds: float = LOOK,
        note: Callable[[str], object] | None = None,
    ) -> None:
        self._places = places(hosts)
        self._taken = list(taken)
        self._seconds = seconds
        self._note = note

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first process."""
        return own_file(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Start ``n`` processes, each where the fewest of its host's places are taken.

        All hosts are asked first, so that a host which does not answer costs its time once, and
        stops nothing where others have room.

        Raises:
            BatchUnreachable: there are not enough places, and a host does not answer.
            BatchError: there are not enough places, or a host refuses.
        """
        if job.extra_args:
            raise BatchError(
                "processes that ssh starts take no further options",
                " ".join(job.extra_args),
                "Leave them away; options of ssh belong into ~/.ssh/config.",
            )
        before = [one for one, _ in self._taken]
        answers = _everywhere(self._look, before, [place.host for place in self._places])
        states = _states(answers, before)
        alive = [(o, cpus) for o, cpus in self._taken if states[o].phase is not JobPhase.GONE]
        free = self._free_places([one for one, _ in alive])
        silent = {host: one for host, one in answers.items() if isinstance(one, BatchError)}
        reached = [place for place in free if place.host not in silent]
        if len(reached) < n:
            raise _too_few(len(reached), n, silent)
        for host, error in silent.items():
            if self._note is not None:
                self._note(f"no worker is started on {host}: {in_a_line(error)}")
        folder = os.fspath(Path.cwd())
        for member, place in zip(job.members(n), reached, strict=False):
            there = [cpus for one, cpus in alive if _host(one) == place.host]
            taken = {cpu for cpus in there for cpu in cpus}
            text = start(member, folder, place, taken)
            argv, title = [*_SSH, place.host, "sh", "-s"], f"ssh {place.host}"
            output = COMMANDS.submission(argv, [member], title=title, stdin=text)
            try:
                one = started(place.host, output)
            except BatchUnreadable as error:
                raise SubmissionUnknown(error.what, error.output, [member]) from None
            number = f"{place.host}:{one.pid}:{one.start}"
            alive.append((number, one.cpus))
            yield SubmittedJob(number, member.name, member.log_file, one.cpus)

    def _free_places(self, alive: Iterable[str]) -> list[SharedHost]:
        """Return a host for each free place, those first on which no other is taken."""
        used = [_host(one) for one in alive]
        ranked = [
            (number, order, place)
            for order, place in enumerate(self._places)
            for number in range(used.count(place.host), place.workers)
        ]
        return [place for _, _, place in sorted(ranked)]

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Ask all hosts at once; the processes of a host that does not answer are unknown."""
        return _states(_everywhere(self._look, ids), ids)

    def _look(self, host: str, there: list[str]) -> dict[str, JobState]:
        """Ask a host for its processes; there may be none."""
        output = _ask(host, query(one.rsplit(":", 2)[1] for one in there), self._seconds)
        return states(host, output, there)

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Ask all hosts at once for the shells that run the scripts of these names.

        Raises:
            BatchError: one of the names is not found, and a host does not answer.
        """
        hosts = sorted(place.host for place in self._places)
        answers = _everywhere(lambda host, _: named(host, _ask(host, _LIST)), (), hosts).values()
        listed = [pair for answer in answers if isinstance(answer, list) for pair in answer]
        jobs = by_name(listed, names, plain_name)
        silent = [answer for answer in answers if isinstance(answer, BatchError)]
        if silent and not all(jobs.values()):
            raise silent[0]
        return jobs

    def cancel(self, ids: Iterable[str]) -> None:
        """Send SIGTERM, upon which a worker ends its tasks and leaves."""
        answers = _everywhere(lambda host, there: _ask(host, cancel(there)), ids)
        if silent := [answer for answer in answers.values() if isinstance(answer, BatchError)]:
            raise silent[0]

    def check(self, folder: str) -> dict[str, BatchError | None]:
        """Ask each host of the configuration, all at once; return what is wrong with it."""

        def ask(host: str, _: list[str]) -> None:
            read_check(host, _ask(host, check(folder), self._seconds), folder)

        return _everywhere(ask, (), [place.host for place in self._places])


def _host(one: str) -> str:
    return one.rsplit(":", 2)[0]


def _everywhere(
    ask: Callable[[str, list[str]], Answer], ids: Iterable[str], hosts: Iterable[str] = ()
) -> dict[str, Answer | BatchError]:
    """Ask each host for its processes, all at once; return the answers, or errors, by host.

    Args:
        ask: called with a host and the ids of its processes, in threads.
        hosts: hosts that are asked although they may have none.
    """
    by_host: dict[str, list[str]] = {host: [] for host in hosts}
    for one in sorted(one for one in ids if is_id(one)):
        by_host.setdefault(_host(one), []).append(one)

    def answer(host: str) -> Answer | BatchError:
        try:
            return ask(host, by_host[host])
        except BatchError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(by_host, pool.map(answer, by_host), strict=True))


def _states(
    answers: Mapping[str, dict[str, JobState] | BatchError], ids: Iterable[str]
) -> dict[str, JobState]:
    """Return the states of processes, by the answers of their hosts."""
    states: dict[str, JobState] = {}
    for one in ids:
        answer = answers.get(_host(one), {})
        if isinstance(answer, BatchError):
            reason = f"no answer: {in_a_line(answer)}"
            states[one] = JobState(JobPhase.UNKNOWN, reason, _host(one))
        else:
            states[one] = answer.get(one, JobState(JobPhase.UNKNOWN))
    return states


def _too_few(free: int, n: int, silent: Mapping[str, BatchError]) -> BatchError:
    """Return the error for hosts that have too few places for so many workers."""
    places = "1 place" if free == 1 else f"{free} places"
    verb = "is" if free == 1 else "are"
    what = f"{places} on the hosts of the configuration {verb} free, too few for {n} workers"
    if not silent:
        return BatchError(what, remedy="Start fewer, end others, or add to `hosts`.")
    again = any(isinstance(error, BatchUnreachable) for error in silent.values())
    remedies = dict.fromkeys(error.remedy for error in silent.values() if error.remedy)
    return (BatchUnreachable if again else BatchError)(
        f"{what}; no answer from {', '.join(silent)}",
        "\n".join(f"{host}: {in_a_line(error)}" for host, error in silent.items()),
        " ".join(remedies) or "Start fewer, or take these hosts out of `hosts`.",
    )


def in_a_line(error: BatchError) -> str:
    """Return what a host, or ssh, says: the last line of it."""
    return (error.output.strip().splitlines() or [error.what])[-1]


def _ask(host: str, text: str, seconds: float = SECONDS) -> str:
    """Run a text by a host's shell; return its output.

    Raises:
        BatchUnreachable: it has not answered in time.
        BatchError: ssh, or the shell, failed.
    """
    done = COMMANDS.run([*_SSH, host, "sh", "-s"], stdin=text, seconds=seconds)
    if done.code:
        raise COMMANDS.refusal(f"ssh {host}", done)
    return done.out
