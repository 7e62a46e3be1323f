"""Plain processes on a list of hosts, started by ssh.

All hosts are asked at once. A host that does not answer says nothing of its processes: they may be
alive, and keep their places and CPUs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob, by_name
from grain.cli.batch.command import SECONDS, Complaints, Profile, refusal, run, submission
from grain.cli.batch.errors import BatchError, BatchUnreachable, BatchUnreadable, SubmissionUnknown
from grain.cli.batch.scripts.directives import plain_name
from grain.cli.batch.texts import ssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from grain.cli.batch.base import BatchJob

_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_WORDS = Complaints(
    (
        (
            "Permission denied",
            "Let ssh log in without a password: `ssh-copy-id HOST`, with a key of an agent.",
        ),
        ("Host key verification failed", "Log in once by hand, to accept the host's key."),
        ("Could not resolve hostname", "Correct `hosts` in the configuration."),
        ("taskset", "Install util-linux there."),
    ),
    ("Connection timed out", "Connection refused", "No route to host"),
    "Install OpenSSH's client, or change `system` in the configuration.",
)
PROFILE = Profile("ssh", ("ssh",), ("ssh", "-V"), _WORDS, tried="OpenSSH 9.2")
Answer = TypeVar("Answer")
_AT_ONCE = 32  # connections
LOOK = 15.0
"""Seconds that a host has for an answer; ssh waits 10 of them for the connection."""
TRY = 12.0
"""The same for a check of all hosts."""
HURRY = 3.0
"""The same while a user waits for a list of jobs."""


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
        self._places = ssh.places(hosts)
        self._taken = list(taken)
        self._seconds = seconds
        self._note = note

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first process."""
        return ssh.script(job.members(n)[0])

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
                self._note(f"no worker is started on {host}: {_in_a_line(error)}")
        free = reached
        folder = os.fspath(Path.cwd())
        for member, place in zip(job.members(n), free, strict=False):
            there = [cpus for one, cpus in alive if _host(one) == place.host]
            taken = {cpu for cpus in there for cpu in cpus}
            text = ssh.start(member, folder, place, taken)
            argv, title = [*_SSH, place.host, "sh", "-s"], f"ssh {place.host}"
            output = submission(argv, _WORDS, [member], title=title, stdin=text)
            try:
                one = ssh.started(place.host, output)
            except BatchUnreadable as error:
                raise SubmissionUnknown(error.what, error.output, [member]) from None
            number = f"{place.host}:{one.pid}:{one.start}"
            alive.append((number, one.cpus))
            yield SubmittedJob(number, member.name, member.log_file, one.cpus)

    def _free_places(self, alive: Iterable[str]) -> list[ssh.SharedHost]:
        """Return a host for each free place, those first on which no other is taken."""
        used = [_host(one) for one in alive]
        ranked = [
            (number, order, place)
            for order, place in enumerate(self._places)
            for number in range(used.count(place.host), place.workers)
        ]
        return [place for _, _, place in sorted(ranked)]

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Ask all hosts at once; the processes of a host that does not answer are unknown."""
        asked = list(ids)
        return _states(_everywhere(self._look, asked), asked)

    def _look(self, host: str, there: list[str]) -> dict[str, JobState] | BatchError:
        """Ask a host for its processes; there may be none."""
        try:
            output = _ask(host, ssh.query(one.rsplit(":", 2)[1] for one in there), self._seconds)
            return ssh.states(host, output, there)
        except BatchError as error:
            return error

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Ask all hosts at once for the shells that run the scripts of these names.

        Raises:
            BatchError: one of the names is not found, and a host does not answer.
        """
        asked = list(names)
        hosts = sorted({place.host for place in self._places})

        def ask(host: str) -> list[tuple[str, str]] | BatchError:
            try:
                return ssh.named(host, _ask(host, ssh.LIST))
            except BatchError as error:
                return error

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            answers = list(pool.map(ask, hosts))
        listed = [pair for answer in answers if isinstance(answer, list) for pair in answer]
        jobs = by_name(listed, asked, plain_name)
        silent = [answer for answer in answers if isinstance(answer, BatchError)]
        if silent and not all(jobs.values()):
            raise silent[0]
        return jobs

    def cancel(self, ids: Iterable[str]) -> None:
        """Send SIGTERM, upon which a worker ends its tasks and leaves."""
        _everywhere(lambda host, there: _ask(host, ssh.cancel(there)), ids)

    def check(self, folder: str) -> dict[str, BatchError | None]:
        """Ask each host of the configuration, all at once; return what is wrong with it."""

        def ask(host: str, _: list[str]) -> BatchError | None:
            try:
                return ssh.checked(host, _ask(host, ssh.check(folder), self._seconds), folder)
            except BatchError as error:
                return error

        return _everywhere(ask, (), [place.host for place in self._places])


def _host(one: str) -> str:
    return one.rsplit(":", 2)[0]


def _everywhere(
    ask: Callable[[str, list[str]], Answer], ids: Iterable[str], hosts: Iterable[str] = ()
) -> dict[str, Answer]:
    """Ask each host for its processes, all at once; return the answers by host.

    Args:
        ask: called with a host and the ids of its processes, in threads.
        hosts: hosts that are asked although they may have none.
    """
    by_host: dict[str, list[str]] = {host: [] for host in hosts}
    for one in sorted(one for one in ids if ssh.is_id(one)):
        by_host.setdefault(_host(one), []).append(one)
    if not by_host:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(by_host))) as pool:
        return dict(zip(by_host, pool.map(ask, by_host, by_host.values()), strict=True))


def _states(
    answers: Mapping[str, dict[str, JobState] | BatchError], ids: Iterable[str]
) -> dict[str, JobState]:
    """Return the states of processes, by the answers of their hosts."""
    states: dict[str, JobState] = {}
    for one in ids:
        answer = answers.get(_host(one), {})
        if isinstance(answer, BatchError):
            reason = f"no answer: {_in_a_line(answer)}"
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
        "\n".join(f"{host}: {_in_a_line(error)}" for host, error in silent.items()),
        " ".join(remedies) or "Start fewer, or take these hosts out of `hosts`.",
    )


def _in_a_line(error: BatchError) -> str:
    """Return what a host, or ssh, says: the last line of it."""
    return (error.output.strip().splitlines() or [error.what])[-1]


def _ask(host: str, text: str, seconds: float = SECONDS) -> str:
    """Run a text by a host's shell; return its output.

    Raises:
        BatchUnreachable: it has not answered in time.
        BatchError: ssh, or the shell, failed.
    """
    done = run([*_SSH, host, "sh", "-s"], _WORDS, stdin=text, seconds=seconds)
    if done.code:
        raise refusal(f"ssh {host}", done, _WORDS)
    return done.out
