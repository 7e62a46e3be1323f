"""Plain processes on a list of hosts, started by ssh.

All hosts are asked at once. A host that does not answer says nothing of its processes: they may be
alive, and keep their places and CPUs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from grain.cli.batch.base import JobPhase, JobState, SubmittedJob, by_name
from grain.cli.batch.command import Complaints, Profile, refusal, run, submission
from grain.cli.batch.errors import BatchError, BatchUnreadable, SubmissionUnknown
from grain.cli.batch.scripts.directives import plain_name
from grain.cli.batch.texts import ssh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


class Ssh:
    """Processes of other hosts.

    Args:
        hosts: The hosts, as the configuration has them.
        taken: The id and the CPU ids of each process that was started earlier.
    """

    def __init__(
        self, hosts: Sequence[str], taken: Iterable[tuple[str, tuple[int, ...]]] = ()
    ) -> None:
        self._places = ssh.places(hosts)
        self._taken = list(taken)

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first process."""
        return ssh.script(job.members(n)[0])

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Start ``n`` processes, each where the fewest of its host's places are taken.

        Raises:
            BatchError: There are not enough places, or a host refuses.
        """
        if job.extra_args:
            raise BatchError(
                "processes that ssh starts take no further options",
                " ".join(job.extra_args),
                "Leave them away; options of ssh belong into ~/.ssh/config.",
            )
        states = self.states(one for one, _ in self._taken)
        alive = [(o, cpus) for o, cpus in self._taken if states[o].phase is not JobPhase.GONE]
        free = self._free_places([one for one, _ in alive])
        if len(free) < n:
            raise BatchError(
                f"{len(free)} places on the hosts of the configuration are free, too few for {n} "
                "workers",
                remedy="Start fewer, end others, or add to `hosts`.",
            )
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

    def _free_places(self, alive: Iterable[str]) -> list[ssh.Place]:
        """Return a host for each free place, those first on which no other is taken."""
        used = [_host(one) for one in alive]
        ranked = [
            (number, order, place)
            for order, place in enumerate(self._places)
            for number in range(used.count(place.host), place.workers)
        ]
        return [place for _, _, place in sorted(ranked)]

    def states(self, ids: Iterable[str]) -> dict[str, JobState]:
        """Ask all hosts at once; processes of one that does not answer are unknown."""
        asked = list(ids)

        def ask(host: str, there: list[str]) -> dict[str, JobState]:
            try:
                output = _ask(host, ssh.query(one.rsplit(":", 2)[1] for one in there))
                return ssh.states(host, output, there)
            except BatchError as error:
                state = JobState(JobPhase.UNKNOWN, f"no answer: {error.what}", host)
                return dict.fromkeys(there, state)

        answers = _everywhere(ask, asked)
        states = {one: state for answer in answers for one, state in answer.items()}
        return {one: states.get(one, JobState(JobPhase.UNKNOWN)) for one in asked}

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Ask all hosts at once for the shells that run the scripts of these names.

        Raises:
            BatchError: One of the names is not found, and a host does not answer.
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


def _host(one: str) -> str:
    return one.rsplit(":", 2)[0]


def _everywhere(ask: Callable[[str, list[str]], Answer], ids: Iterable[str]) -> list[Answer]:
    """Ask each host for its processes, all at once; return the answers."""
    processes = sorted(one for one in ids if ssh.is_id(one))
    by_host = {host: list(there) for host, there in groupby(processes, _host)}
    if not by_host:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(by_host))) as pool:
        return list(pool.map(ask, by_host, by_host.values()))


def _ask(host: str, text: str) -> str:
    """Run a text by a host's shell; return its output.

    Raises:
        BatchError: ssh, or the shell, failed.
    """
    done = run([*_SSH, host, "sh", "-s"], _WORDS, stdin=text)
    if done.code:
        raise refusal(f"ssh {host}", done, _WORDS)
    return done.out
