"""A dispatcher on another host, or with another address: whoever submits or asks looks after it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from grain.cli import main
from grain.cli.hq.__main__ import main as hq
from grain.cli.jobs import dispatcher
from grain.cli.jobs.client import QueueClient
from grain.cli.jobs.dispatcher import watch
from grain.cli.slurm.__main__ import answer
from grain.cli.slurm.here import Here
from grain.files.processes import start_time
from grain.queue.book import Book
from grain.queue.dispatchers import QUIET_AFTER, SIGN_EVERY, Dispatchers, this_dispatcher
from grain.queue.files import LocalDisk, WholeFiles
from grain.queue.folder import Queue, make_format
from grain_testkit.queue_disk import Host, Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain_testkit.job_commands import JobCommands

ELSEWHERE: dict[str, Any] = {"host": "login2", "boot": "b", "pid": 1}


class Hosts:
    """A dispatcher on one host, and a process that watches it on another one.

    The clocks of the server and of the watching host begin anywhere.

    Attributes:
        started: True if another dispatcher was started.
    """

    def __init__(self) -> None:
        self.server = Server()
        self.there = Dispatchers(WholeFiles(Host(self.server)))
        files = WholeFiles(Host(self.server))
        self.queue = Queue(files, make_format(files, "model"), Path("model"))
        self.number = self.there.take_charge(replace(this_dispatcher(), **ELSEWHERE))
        self.here = Dispatchers(files)
        self.clock = 7.0
        self.started = False
        self.happens: Callable[[], object] = lambda: None

    def start(self) -> None:
        self.started = True

    def sleep(self, seconds: float) -> None:
        assert self.clock < 2000.0, "it watches without end"
        self.server.clock += seconds
        self.clock += seconds
        self.happens()

    def watch(self) -> float:
        """Watch the dispatcher as a command does that relies on it; return for how long."""
        began = self.clock
        self.here.ask_for_sign(self.number)
        watch(self.queue, self.start, clock=lambda: self.clock, sleep=self.sleep)
        return self.clock - began

    def give_signs(self, since: float) -> Callable[[], None]:
        """Return what gives a sign every `SIGN_EVERY` seconds, the last one so many ago."""
        last = self.clock - since

        def give() -> None:
            nonlocal last
            if self.clock >= last + SIGN_EVERY:
                last = self.clock
                self.there.give_sign(self.number)

        return give


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@pytest.mark.parametrize("ago", [0.0, 10.0, 29.0])
def test_a_dispatcher_that_lives_is_watched_until_its_next_sign(hosts: Hosts, ago: float) -> None:
    hosts.server.clock += ago
    hosts.happens = hosts.give_signs(ago)
    assert SIGN_EVERY - ago <= hosts.watch() <= SIGN_EVERY - ago + 2.0
    assert not hosts.started


@pytest.mark.parametrize("ago", [0.0, 40.0, 99.0])
def test_one_that_was_killed_on_its_host_is_replaced_by_whoever_relied_on_it(
    hosts: Hosts, ago: float
) -> None:
    hosts.server.clock += ago
    assert hosts.watch() <= QUIET_AFTER - ago + 4.0
    assert hosts.started


@pytest.mark.parametrize("jump", [-86400.0, 86400.0])
def test_a_clock_of_the_server_that_jumps_leaves_no_job_behind(hosts: Hosts, jump: float) -> None:
    jumps = iter([jump])

    def happens() -> None:
        hosts.server.clock += next(jumps, 0.0)

    hosts.happens = happens
    assert hosts.watch() <= QUIET_AFTER + 4.0
    assert hosts.started


def test_whoever_asks_later_is_watched_for_by_the_same_process(hosts: Hosts) -> None:
    give = hosts.give_signs(0.0)
    asked = False

    def happens() -> None:
        nonlocal asked
        give()
        if not asked and hosts.clock > 35.0:
            asked = True  # just before the watching process has looked
            hosts.here.ask_for_sign(hosts.number)

    hosts.happens = happens
    assert hosts.watch() > SIGN_EVERY
    assert asked
    assert not hosts.started


def test_one_that_gives_signs_while_very_many_ask_is_not_replaced(hosts: Hosts) -> None:
    give = hosts.give_signs(0.0)

    def happens() -> None:
        give()
        if hosts.clock < 1000.0:
            hosts.here.ask_for_sign(hosts.number)

    hosts.happens = happens
    assert hosts.watch() > 900.0
    assert not hosts.started


def test_one_that_a_user_has_stopped_meanwhile_stays_so(hosts: Hosts) -> None:
    hosts.happens = lambda: hosts.there.say_farewell(hosts.number)
    assert 2.0 == hosts.watch()
    assert not hosts.started


def test_a_file_that_cannot_be_read_for_a_moment_is_read_again(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Dispatchers, "alive", broken)
        hosts.happens = patch.undo
        hosts.watch()
    assert hosts.started


@pytest.mark.parametrize("how", ["submit", "sbatch"])
def test_a_submission_rouses_the_dispatcher_of_this_host(idle: JobCommands, how: str) -> None:
    roused: list[int] = []
    before = signal.signal(signal.SIGCONT, lambda number, _: roused.append(number))
    try:
        Dispatchers(idle.queue.files).take_charge(this_dispatcher())
        if how == "submit":
            idle.done("submit", "--", "true")
        else:
            answer(Here("sbatch"), ["--wrap=true"])
        guard = time.monotonic() + 60  # the kernel may deliver a signal a moment later
        while not roused and time.monotonic() < guard:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGCONT, before)
    assert [signal.SIGCONT] == roused


class Watched:
    """A queue whose dispatcher runs on another host, and the commands that were given."""

    def __init__(self, jobs: JobCommands, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs = jobs
        self.dispatchers = Dispatchers(jobs.queue.files)
        self.number = self.dispatchers.take_charge(replace(this_dispatcher(), **ELSEWHERE))
        self.begun: list[list[str]] = []
        locks = jobs.home / "locks"
        locks.mkdir()
        monkeypatch.setattr(dispatcher, "_LOCKS", str(locks))
        monkeypatch.delenv("GRAIN_JOB_ID", raising=False)

        def begin(words: list[str], **more: Any) -> subprocess.Popen[bytes]:
            if "grain.cli.jobs.dispatcher" in words:
                self.begun.append(words)
            return popen(words, **more)

        popen = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", begin)

    def is_watched(self) -> bool:
        """Return True if a process of this host watches."""
        fd = dispatcher._lock_of(self.jobs.queue)
        if fd is not None:
            os.close(fd)
        return fd is None

    def until_unwatched(self) -> None:
        """Give signs until no process watches."""
        while self.is_watched():
            self.dispatchers.give_sign(self.number)
            time.sleep(0.01)


@pytest.fixture
def watched(idle: JobCommands, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(idle, monkeypatch)


def test_commands_have_one_process_that_watches(watched: Watched) -> None:
    assert not watched.is_watched()
    assert "job 1\n" == watched.jobs.done("submit", "--", "true")
    assert watched.is_watched()
    assert not watched.dispatchers.has_answered(watched.number)
    watched.jobs.done("submit", "--", "true")
    watched.jobs.done("jobs")
    assert [["grain.cli.jobs.dispatcher", str(watched.jobs.queue.folder), ""]] == [
        words[-4:-1] for words in watched.begun
    ]
    watched.until_unwatched()
    watched.jobs.done("jobs")
    assert 2 == len(watched.begun)
    watched.until_unwatched()


def test_without_a_place_for_locks_it_is_watched_all_the_same(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "_LOCKS", "/dev/null")
    assert -1 == dispatcher._lock_of(watched.jobs.queue)


def test_another_user_cannot_keep_it_from_being_watched(watched: Watched) -> None:
    if os.getuid():
        pytest.skip("only root can have a file belong to another user")
    fd = dispatcher._lock_of(watched.jobs.queue)
    assert fd is not None
    os.fchown(fd, 12345, -1)
    assert -1 == dispatcher._lock_of(watched.jobs.queue)
    os.close(fd)


ASKERS: dict[str, Callable[[JobCommands], object]] = {
    "submit": lambda jobs: jobs.done("submit", "--", "true"),
    "release": lambda jobs: jobs.done("release", "1"),
    "jobs": lambda jobs: jobs.done("jobs"),
    "jobs --json": lambda jobs: jobs.done("jobs", "--json"),
    "why": lambda jobs: jobs.done("why", "1"),
    "squeue": lambda _: answer(Here("squeue"), []),
    "sacct": lambda _: answer(Here("sacct"), []),
    "scontrol": lambda _: answer(Here("scontrol"), ["show", "job", "1"]),
    "sbatch": lambda _: answer(Here("sbatch"), ["--wrap=true"]),
    "hq job list": lambda _: hq(["job", "list"]),
    "hq job info": lambda _: hq(["--output-mode=json", "job", "info", "1"]),
    "client": lambda _: QueueClient.open().wake(),
}


@pytest.fixture(params=ASKERS)
def ask(request: pytest.FixtureRequest) -> tuple[str, Callable[[JobCommands], object]]:
    return request.param, ASKERS[request.param]


def test_whoever_submits_or_asks_has_a_dispatcher_of_another_host_watched(
    idle: JobCommands,
    monkeypatch: pytest.MonkeyPatch,
    ask: tuple[str, Callable[[JobCommands], object]],
) -> None:
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)
    idle.submit()
    Dispatchers(idle.queue.files).take_charge(replace(this_dispatcher(), **ELSEWHERE))
    watched: list[str] = []
    monkeypatch.setattr(dispatcher, "watch_over", lambda queue, *_: watched.append(queue.name))
    ask[1](idle)
    assert watched == ["queue"]


def test_whoever_submits_or_asks_starts_a_dispatcher_if_the_last_one_was_killed(
    idle: JobCommands,
    monkeypatch: pytest.MonkeyPatch,
    ask: tuple[str, Callable[[JobCommands], object]],
) -> None:
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)
    idle.submit()
    dispatchers = Dispatchers(idle.queue.files)
    number = dispatchers.take_charge(replace(this_dispatcher(), pid_began=1))
    started: list[str] = []
    monkeypatch.setattr(dispatcher, "_start", lambda queue, _: started.append(queue.name))
    ask[1](idle)
    assert started == ["queue"]

    # Of one that was stopped, only who wants something new starts the next one.
    dispatchers.say_farewell(number)
    ask[1](idle)
    wants = ask[0] in ("submit", "release", "sbatch", "client")
    assert started == ["queue"] * (2 if wants else 1)


def test_one_that_is_stopped_is_replaced_and_a_user_ends_it_all_the_same(
    idle: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)
    idle.submit()
    started: list[str] = []
    monkeypatch.setattr(dispatcher, "_start", lambda queue, _: started.append(queue.name))
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        me = replace(this_dispatcher(), pid=process.pid, pid_began=start_time(process.pid))
        Dispatchers(idle.queue.files).take_charge(me)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert "no dispatcher was left: one starts now" in idle.done("jobs")
        assert started == ["queue"]

        assert "the dispatcher has stopped; jobs that run go on\n" == idle.done("queue", "stop")
        assert process.wait() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("pid_began", "farewell", "revived", "words"),
    [(0, False, True, "UP"), (1, False, True, "UP"), (1, False, False, "DOWN"),
     (1, True, True, "DOWN")],
)  # fmt: skip
def test_a_ping_says_whether_jobs_are_taken(
    idle: JobCommands,
    monkeypatch: pytest.MonkeyPatch,
    pid_began: int,
    farewell: bool,
    revived: bool,
    words: str,
) -> None:
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)
    me = this_dispatcher()
    dispatchers = Dispatchers(idle.queue.files)

    def start(*_: object) -> None:
        if not revived:
            raise OSError(errno.ENOSPC, "No space left on device")
        dispatchers.take_charge(me)

    monkeypatch.setattr(dispatcher, "_start", start)
    assert "is UP" in answer(Here("scontrol"), ["ping"]).out, "the first submission starts one"
    number = dispatchers.take_charge(replace(me, pid_began=pid_began or me.pid_began))
    if farewell:
        dispatchers.say_farewell(number)
    found = answer(Here("scontrol"), ["ping"])
    assert f" is {words}\n" in found.out
    assert (words == "DOWN") == bool(found.status)


@pytest.mark.parametrize("how", ["jobs", "squeue"])
def test_a_list_without_jobs_that_wait_starts_nothing(
    idle: JobCommands, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    idle.submit()
    idle.end(1)
    Dispatchers(idle.queue.files).take_charge(replace(this_dispatcher(), pid_began=1))
    monkeypatch.setattr(dispatcher, "_start", lambda *_: pytest.fail("no job waits"))
    ASKERS[how](idle)


def test_a_job_asks_for_others_without_starting_anything(
    idle: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.submit()
    Dispatchers(idle.queue.files).take_charge(replace(this_dispatcher(), pid_began=1))
    monkeypatch.setenv("GRAIN_JOB_ID", "1")
    monkeypatch.setattr(dispatcher, "_start", lambda *_: pytest.fail("it would end with the job"))
    idle.done("jobs")


def test_a_killed_dispatcher_that_is_stopped_is_not_started_again(
    idle: JobCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle.submit()
    Dispatchers(idle.queue.files).take_charge(replace(this_dispatcher(), pid_began=1))
    assert "no dispatcher runs\n" == idle.done("queue", "stop")
    monkeypatch.setattr(dispatcher, "_start", lambda *_: pytest.fail("a user has stopped it"))
    idle.done("jobs")


@pytest.mark.parametrize(
    ("silence", "stop", "status"),
    [
        (
            12, "it runs on login2: give this command there (its last sign of life came 12 s ago)",
            "the dispatcher runs on login2, with a sign of life 12 s ago",
        ),
        (
            70, "it ran on login2, and has given no sign of life for 1 min 10 s: ",
            "the dispatcher ran on login2, without a sign of life for 1 min 10 s",
        ),
    ],
)  # fmt: skip
def test_a_dispatcher_of_another_host_is_shown_by_its_signs(
    idle: JobCommands, silence: float, stop: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = Dispatchers(idle.queue.files).take_charge(replace(this_dispatcher(), **ELSEWHERE))
    # Seconds pass until a command looks on a busy machine, and are shown.
    monkeypatch.setattr(
        LocalDisk, "age", lambda _, name: {f"dispatchers/{number}.alive": silence}[name]
    )
    for words, text in (("stop", stop), ("status", status)):
        assert text in CliRunner().invoke(main, ["queue", words]).output


def test_a_dispatcher_with_another_address_is_named_with_what_to_do(
    idle: JobCommands, address: str
) -> None:
    other = "tcp://127.0.0.1:4747"
    mine = replace(this_dispatcher(), address=other)
    Dispatchers(idle.queue.files).take_charge(mine)
    idle.submit()
    said = (
        f"the dispatcher of queue queue serves workers at {other}, and this configuration has "
        f"{address}: have it serve these by `grain queue stop` and `grain queue start`, or give "
        "them a queue of their own by `--queue NAME`"
    )
    assert f"job 2 waits: {said}\n" == idle.grain("submit", "--", "true").stderr
    for words in (("jobs",), ("queue", "status"), ("why", "1")):
        assert said in idle.done(*words).splitlines(), words
    assert said == QueueClient.open().wake()
    # Which its scheduler has: the one at this address knows nothing of it.
    book = Book.read(idle.queue)
    book.tickets[1, None, 1] = 7
    book.write_view()
    assert ["job 1 (opt) waits", said] == idle.done("why", "1").splitlines()

    Dispatchers(idle.queue.files).take_charge(replace(mine, address=address))
    assert "job 3\n" == idle.grain("submit", "--", "true").output
    for words in (("jobs",), ("queue", "status"), ("why", "1")):
        assert other not in idle.done(*words), words


def test_the_command_that_is_named_has_the_queue_and_the_configuration(
    idle: JobCommands, address: str
) -> None:
    there = this_dispatcher(address="tcp://127.0.0.1:4747")
    Dispatchers(Queue.open(idle.queue.folder.parent / "night", make=True).files).take_charge(there)
    config = str(idle.home / "grain.toml")
    text = idle.grain("-c", config, "submit", "--queue", "night", "--", "true").stderr
    assert f"has {address}: " in text
    assert "`grain queue stop --queue night`" in text
    assert f"`grain queue start --queue night -c {config}`" in text
