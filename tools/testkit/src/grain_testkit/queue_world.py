"""Processes of a queue on hosts that fail, and the laws of ``docs/queue-files.md`` as checks.

Submitters, workers, dispatchers and users are plain functions, which run one after the other, or in
turns that a seed decides: each operation on a file is a turn.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable  # noqa: TC003 - of SCENARIOS
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from grain.queue import packing
from grain.queue.book import Book
from grain.queue.errors import CannotWrite, NoSuchJob, NotSynced, QueueError, Uncertain
from grain.queue.files import WholeFiles
from grain.queue.folder import Queue, make_format, parse_receipt, read_format
from grain.queue.records import UNREADABLE, Begun, Ended, Job, Wish
from grain_testkit.queue_disk import Faults, Host, Killed, Node, Server

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from grain.queue.book import Entry
    from grain.queue.records import How
    from grain.queue.states import Run, StateCounts

SMALL_BUCKET = 5

NAP = (0.0, 0.0, 1.0, 20.0, 70.0, 4000.0, 200_000.0)
"""Seconds that a process may sleep between two operations."""


class Broken(AssertionError):
    """A law does not hold."""


class Kit:
    """The product, or the product with a mistake."""

    host: type[Host] = Host
    files: type[WholeFiles] = WholeFiles
    queue: type[Queue] = Queue

    def keep_house(self, book: Book) -> None:
        packing.keep_house(book)

    def dispatcher(self, world: World, queue: Queue) -> Dispatcher:
        """Return a new dispatcher; errors as of `Book.read` and of a disk."""
        return BookDispatcher(world, queue)


class Dispatcher(Protocol):
    """A dispatcher of a queue in a world."""

    def look(self) -> None:
        """Do all that is to be done now, and offer what may begin; errors as of a disk."""


class World:
    """A file server, the processes on its hosts, and what they have promised.

    Attributes:
        faults: the number of faults so far.
    """

    def __init__(self, kit: Kit | None = None, server: Server | None = None) -> None:
        self.kit = kit or Kit()
        self.server = server or Server()
        self.offers: list[tuple[int, int | None, int]] = []
        self.printed: dict[int, str] = {}
        self.refused: set[str] = set()
        self.started: dict[tuple[int, int | None, int], tuple[str, str]] = {}
        self.ended: dict[tuple[int, int | None, int], Ended] = {}
        self.cancelled: set[tuple[int, int | None, int]] = set()
        self.finals: dict[tuple[int, int | None, int], str] = {}
        self.asked_again: set[tuple[int, int | None, int]] = set()
        self.dead_workers: set[str] = set()
        self.faults = 0
        self._tokens = 0
        if not self.server.nodes[0].entries:
            make_format(WholeFiles(Host(self.server)), "model", SMALL_BUCKET)

    def queue(self, host: Host) -> Queue:
        files = self.kit.files(host)
        found = read_format(files, "model")
        assert found is not None
        return self.kit.queue(files, found, Path("model"))

    def host(self, faults: Faults | None = None, *, late: bool = False) -> Host:
        return self.kit.host(self.server, faults, late=late)

    # The processes.

    def submit(self, host: Host, times: int = 1, **options: Any) -> None:
        queue = self.queue(host)
        for _ in range(times):
            self._tokens += 1
            token = f"job {self._tokens}"
            try:
                number = queue.submit(make_job(token, **options))
            except (NotSynced, Uncertain):
                continue  # it may exist or not
            except CannotWrite:
                self.refused.add(token)
                continue
            if self.printed.setdefault(number, token) != token:
                raise Broken(f"{number} was given twice: law 1")

    def work(self, host: Host, name: str, chance: random.Random, rounds: int = 4) -> None:
        try:
            queue = self.queue(host)
            for _ in range(rounds):
                if self.offers:
                    self._run(queue, name, chance.choice(self.offers), chance)
                else:
                    queue.jobs.end()
        except Killed:
            self.dead_workers.add(name)
            raise

    def _run(
        self, queue: Queue, name: str, key: tuple[int, int | None, int], chance: random.Random
    ) -> None:
        try:
            token = queue.job(key[0]).name
            if not queue.begin(*key, Begun(at=1.0, host="h", worker=name)):
                with suppress(ValueError):
                    self.offers.remove(key)
                return
        except NotSynced:
            self._end(queue, key, Ended(how="returned", at=2.0))
            return
        except (CannotWrite, NoSuchJob):
            return
        if key in self.started:
            raise Broken(f"{key} began twice: law 2")
        if key in self.cancelled:
            raise Broken(f"{key} began, though its cancellation was final: law 4")
        self.started[key] = (token, name)
        truth = self.truth()
        number, task, attempt = key
        if attempt > 1 and not _has_ended(truth, number, task, attempt - 1):
            raise Broken(f"{key} began before the attempt before had ended: law 3")
        ways: tuple[How, ...] = ("exit", "exit", "exit", "returned")
        how = chance.choice(ways)
        status = chance.choice((0, 0, 1)) if how == "exit" else 0
        self._end(queue, key, Ended(how=how, at=2.0, status=status))

    def _end(self, queue: Queue, key: tuple[int, int | None, int], ended: Ended) -> None:
        while True:
            try:
                if queue.end(*key, ended):
                    self._has_ended(key, ended)
                return
            except CannotWrite:
                continue

    def _has_ended(self, key: tuple[int, int | None, int], ended: Ended) -> None:
        if key in self.ended:
            raise Broken(f"{key} ended twice: law 4")
        self.ended[key] = ended

    def dispatch(self, host: Host, rounds: int = 3) -> None:
        with suppress(CannotWrite, OSError):
            dispatcher = self.dispatcher(host)
            for _ in range(rounds):
                with suppress(CannotWrite, OSError):
                    dispatcher.look()

    def dispatcher(self, host: Host) -> Dispatcher:
        return self.kit.dispatcher(self, self.queue(host))

    def end_lost(self, queue: Queue, key: tuple[int, int | None, int]) -> None:
        """Note that an attempt is lost."""
        lost = Ended(how="lost", at=3.0)
        if queue.end(*key, lost):
            self._has_ended(key, lost)

    def note_final(self, book: Book, number: int) -> None:
        entry = book.entries[number]
        for task in entry.task_numbers():
            standing = entry.standing(task, self.server.clock)
            state, attempt = standing.state, standing.attempt
            if state not in ("PENDING", "RUNNING"):
                before = self.finals.setdefault((number, task, attempt), state)
                if before != state:
                    raise Broken(f"{number} was {before} and is {state}: law 4")

    def cancel(self, host: Host, number: int, task: int | None = None, attempt: int = 1) -> None:
        queue = self.queue(host)
        with suppress(CannotWrite, NoSuchJob):
            queue.wish(Wish(what="cancel", jobs=((number, number),), by="me"))
            made = queue.cancel_waiting(
                number, [(task, attempt)], Begun(at=1.0, host="h", cancelled="me")
            )
            for of, which in made:
                if (number, of, which) in self.started:
                    raise Broken(f"{number} was cancelled while it ran: law 4")
                self.cancelled.add((number, of, which))

    def again(self, host: Host, number: int) -> None:
        """Have a job run once more that has ended, as ``grain resubmit`` does."""
        queue = self.queue(host)
        book = Book(queue)
        with suppress(QueueError):
            book.refresh()
            entry = book.entries.get(number)
            if entry is None or not entry.is_final:
                return
            attempt = entry.standing(None, self.server.clock).attempt + 1
            queue.wish(Wish(what="again", jobs=((number, number),), attempt=attempt, by="me"))
            self.asked_again.add((number, None, attempt))

    def give_up(self, host: Host) -> None:
        """Take all that runs for lost, as a user may say."""
        queue = self.queue(host)
        with suppress(CannotWrite):
            book = Book(queue)
            book.refresh()
            for entry, task, run in list(running(book)):
                key = (entry.number, task, run.attempt)
                lost = Ended(how="lost", at=4.0, by="me")
                if queue.end(*key, lost):
                    self._has_ended(key, lost)

    def crash(self, seed: int) -> None:
        """Have the file server and all hosts crash."""
        self.dead_workers |= {name for _, name in self.started.values()}
        self.server.crash(random.Random(seed))

    # The laws.

    def truth(self) -> Queue:
        files = WholeFiles(Host(self.server))
        found = read_format(files, "model")
        if found is None:
            raise Broken("the format is gone")
        return Queue(files, found, Path("model"))

    def check(self) -> Book:
        """Check all laws on what the file server has now.

        Raises:
            Broken: one does not hold.
        """
        truth = self.truth()
        try:
            book = Book(truth)
            book.refresh()
            jobs = {number: job.name for number, job in truth.jobs_from(1)}
            last = max([*self.printed, *jobs], default=0)
        except (*UNREADABLE, QueueError) as error:
            raise Broken(f"a file is not whole: law 6: {error}") from error
        for number, token in self.printed.items():
            if jobs.get(number) != token:
                raise Broken(f"{number} has vanished: law 1 ({jobs.get(number)!r}, not {token!r})")
        if sorted(jobs) != list(range(1, last + 1)):
            raise Broken("the numbers have a gap")
        names = [name for name in jobs.values() if not name.startswith("old")]
        if len(names) != len(set(names)):
            raise Broken("a job has two numbers")
        if self.refused & set(names):
            raise Broken("a job that was refused is there")
        self._check_receipts(truth, jobs)
        for key, state in self.finals.items():
            number, task, attempt = key
            if number not in book.entries:
                continue
            entry = book.entries[number]
            now = entry.standing(task, 0.0)
            asked = any(wish.what == "again" and wish.attempt > attempt for wish in entry.wishes)
            if now.state != state if now.attempt == attempt else not asked:
                raise Broken(f"{key} was {state}, and is not: law 4")
        return book

    def _check_receipts(self, truth: Queue, jobs: dict[int, str]) -> None:
        for bucket in {truth.buckets.of(number) for number in jobs} | {0}:
            for name in truth.receipt_names(bucket):
                self._check_receipt(truth, jobs, name)
        for key, (_, worker) in self.started.items():
            begun = truth.begun(*key)
            if begun is None or begun.worker != worker:
                raise Broken(f"{key} has run, and has no receipt: law 2")
        for key, ended in self.ended.items():
            if truth.ended(*key) != ended:
                raise Broken(f"the end of {key} has changed: law 4")
        for key in self.cancelled:
            begun = truth.begun(*key)
            if begun is None or not begun.cancelled:
                raise Broken(f"the cancellation of {key} has vanished: law 4")

    def _check_receipt(self, truth: Queue, jobs: dict[int, str], name: str) -> None:
        receipt = parse_receipt(name)
        assert receipt is not None
        number, task, attempt, is_end = receipt
        if number not in jobs:
            raise Broken(f"{name} is for a job that is not there")
        if jobs[number] == "old":
            return
        ended = truth.ended(number, task, attempt)
        if truth.begun(number, task, attempt) is None:
            raise Broken(f"{name} has no begin")
        if attempt > 1 and not _has_ended(truth, number, task, attempt - 1):
            raise Broken(f"{name}, and the attempt before has no end: law 3")
        ran = self.started.get((number, task, attempt), ("", ""))[0] == jobs[number]
        if is_end and ended is not None and ended.how == "exit" and not ran:
            raise Broken(f"{name} is the end of what has not run: law 5")

    def finish(self) -> None:
        """Let processes without faults run to the end, and check all laws.

        Raises:
            Broken: one does not hold.
        """
        self.server.clock += 100.0
        self.check()
        self.submit(Host(self.server))
        chance = random.Random(1)
        # One that lives on: the next one would make good what it forgets.
        self.offers.clear()
        dispatcher = self.dispatcher(Host(self.server))
        self._finish_cancelled(dispatcher)
        for _ in range(60):
            self.server.clock += 100.0
            self.offers.clear()
            dispatcher.look()
            self.work(Host(self.server), "last", chance, 2 * len(self.offers))
            if not self.check().open_entries():
                break
        book = self.check()
        waiting = [entry.number for entry in book.open_entries()]
        waiting += [
            number
            for number in self.printed
            if number not in book.entries and not _is_final(book.counts(number))
        ]
        if waiting:
            raise Broken(f"jobs {waiting} never end: law 5")
        truth = self.truth()
        for key in self.asked_again:
            if truth.begun(*key) is None:
                raise Broken(f"{key} was asked for, and never begins: law 5")

    def _finish_cancelled(self, dispatcher: Dispatcher) -> None:
        """Let a dispatcher end what is cancelled, without workers."""
        for _ in range(4):  # what its looks find dead is lost after a minute, and cancelled then
            self.server.clock += 100.0
            dispatcher.look()
        for entry in self.check().open_entries():
            for task in entry.task_numbers():
                standing = entry.standing(task, 0.0)
                if standing.reason == "cancel":
                    raise Broken(
                        f"{entry.number} is cancelled, and does not end without workers: law 5"
                    )


def _is_final(counts: StateCounts | None) -> bool:
    return counts is not None and counts.is_final


def _has_ended(queue: Queue, number: int, task: int | None, attempt: int) -> bool:
    begun = queue.begun(number, task, attempt)
    return begun is not None and (
        bool(begun.cancelled) or queue.ended(number, task, attempt) is not None
    )


class BookDispatcher:
    """The least that a dispatcher does."""

    def __init__(self, world: World, queue: Queue) -> None:
        self._world = world
        self._queue = queue
        self._book = Book(queue)

    def look(self) -> None:
        world, book = self._world, self._book
        book.refresh(safe=True)
        for entry in book.entries.values():
            world.note_final(book, entry.number)
        for entry, task, attempt in unwanted(book):
            begun = Begun(at=1.0, host="h", cancelled="me")
            self._queue.cancel_waiting(entry.number, [(task, attempt)], begun)
        for entry, task, attempt in ready(book, world.server.clock):
            world.offers.append((entry.number, task, attempt))
        for entry, task, run in list(running(book)):
            if run.worker in world.dead_workers:
                world.end_lost(self._queue, (entry.number, task, run.attempt))
        world.kit.keep_house(book)
        book.write_view()


def unwanted(book: Book) -> Iterator[tuple[Entry, int | None, int]]:
    """Yield the tasks that wait and are cancelled, with the attempts that never begin."""
    for entry in book.open_entries():
        for task in entry.task_numbers():
            standing = entry.standing(task, 0.0)
            if standing.reason == "cancel":
                yield entry, task, standing.attempt


def ready(
    book: Book, now: float, taken: Collection[tuple[int, int | None, int]] = ()
) -> Iterator[tuple[Entry, int | None, int]]:
    """Yield the tasks that may begin, with their attempts.

    Args:
        taken: attempts that were handed out before. They are not yielded, but count among those of
            an array that run.
    """
    for entry in book.open_entries():
        out = [one for one in taken if one[0] == entry.number]
        begun = sum(len(entry.runs.get(task, ())) >= attempt for _, task, attempt in out)
        count = entry.running + len(out) - begun
        for task in entry.task_numbers():
            met = book.dependency(entry, task)
            standing = entry.standing(task, now, met, count)
            attempt = standing.attempt
            may = standing.state == "PENDING" and not standing.reason
            if may and (entry.number, task, attempt) not in out:
                count += 1
                yield entry, task, attempt


def running(book: Book) -> Iterator[tuple[Entry, int | None, Run]]:
    """Yield the tasks that run."""
    for entry in book.open_entries():
        for task, runs in entry.runs.items():
            if runs and not runs[-1].how:
                yield entry, task, runs[-1]


def make_job(name: str, **options: Any) -> Job:
    """Return a job of a command that does nothing."""
    return Job(name=name, at=1.0, host="h", user="me", directory="/", command=("true",), **options)


def full_bucket(missing: int) -> Server:
    """Return a server whose queue has a bucket less some jobs, all of which ended long ago."""
    server = Server()
    make_format(WholeFiles(Host(server)), "model", SMALL_BUCKET)
    host = Host(server)
    for kind in ("jobs", "attempts"):
        host.make_folder(f"live/{kind}-0")
        host.point(f"../live/{kind}-0", f"{kind}/0")
    files = {
        "jobs": msgspec.json.encode(make_job("old")),
        "begun": msgspec.json.encode(Begun(at=1.0, host="h", worker="w")),
        "ended": msgspec.json.encode(Ended(how="exit", at=2.0)),
    }
    nodes = {
        kind: server.add(Node("file", server.clock, content=content, synced=True))
        for kind, content in files.items()
    }
    root = server.nodes[0].entries
    live = server.nodes[root["live"]].entries
    for number in range(1, SMALL_BUCKET - missing):
        server.nodes[live["jobs-0"]].entries[str(number)] = nodes["jobs"]
        for kind in ("begun", "ended"):
            server.nodes[live["attempts-0"]].entries[f"{number}.1.{kind}"] = nodes[kind]
    for node in server.nodes.values():
        node.durable = dict(node.entries)
    return server


class OneFault(Faults):
    """One fault at a given operation of all hosts together.

    Attributes:
        operations: the operations so far, each with its host and the name of the file.
        hit: True if the fault has taken place.
    """

    def __init__(self, at: int = -1, kind: str = "") -> None:
        self.operations: list[tuple[Host, str, str]] = []
        self.hit = False
        self._at = at
        self._kind = kind

    def before(self, host: Host, operation: str, name: str) -> None:
        self.operations.append((host, operation, name))
        if len(self.operations) - 1 != self._at:
            return
        if self._kind == "kill before":
            self.hit = True
            raise Killed
        if self._kind in _WRITE_ERRORS:
            self.hit = True
            raise OSError(_WRITE_ERRORS[self._kind], os.strerror(_WRITE_ERRORS[self._kind]))

    def after(self, host: Host, operation: str, name: str) -> None:
        if len(self.operations) - 1 != self._at:
            return
        if self._kind.startswith("kill after"):
            self.hit = True
            raise Killed
        if self._kind == "lost reply":
            self.hit = True
            raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
        if self._kind == "made, but an error":
            self.hit = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))


_READS = frozenset({"same", "read", "noted", "exists", "list", "is_file", "age"})
_WRITES = frozenset({"create", "link", "mkdir", "symlink", "sync", "rename", "touch"})
_WRITE_ERRORS = {"full": errno.ENOSPC, "quota": errno.EDQUOT}

_KILLS = ("kill before", "kill after", "kill after, crash later")
"""After a kill, the file server may crash as well."""


def faults_at(operations: Sequence[tuple[Host, str, str]], at: int) -> list[str]:
    """Return the faults that one of several operations may have.

    A kill at an operation that changes nothing leaves what one just after the host's operation
    before has left.
    """
    host, operation, _ = operations[at]
    kinds: list[str] = []
    if operation not in _READS or not at or operations[at - 1][0] is not host:
        kinds += _KILLS
    if operation in _WRITES:
        kinds += _WRITE_ERRORS
    if operation == "link":
        kinds.append("lost reply")
    if operation in ("link", "sync"):
        kinds.append("made, but an error")
    return kinds


def every_fault(
    scenario: Callable[[World, Faults], None],
    kit: Kit | None = None,
    server: Callable[[], Server] | None = None,
    crashes: int = 3,
) -> int:
    """Run a scenario with each fault at each of its operations; return the number of faults.

    Args:
        scenario: runs processes whose hosts have the faults; see `each`.
        kit: the product.
        server: makes the file server; by default an empty one.
        crashes: for each kill, so many crashes of the file server, by different seeds.

    Raises:
        Broken: a law does not hold; the note says where.
    """
    counted = OneFault()
    world = World(kit, server() if server else None)
    scenario(world, counted)
    world.finish()
    injected = 0
    for at, (_, operation, name) in enumerate(counted.operations):
        for kind in faults_at(counted.operations, at):
            for seed in range(crashes + 1 if kind.startswith("kill") else 1):
                fault = OneFault(at, kind)
                world = World(kit, server() if server else None)
                try:
                    if not seed:
                        scenario(world, fault)
                    elif kind.endswith("later"):
                        scenario(world, fault)
                        world.crash(seed)
                    else:  # the whole site goes down at that moment
                        scenario(world, _AllDie(fault))
                        world.crash(seed)
                    if not fault.hit:
                        continue
                    injected += 1
                    world.finish()
                except (Broken, QueueError) as broken:
                    where = f"{kind} at {at}: {operation} {name}, seed {seed}"
                    raise Broken(f"{broken} ({where})") from broken
    return injected


class Meanwhile(Faults):
    """Something that happens elsewhere just before an operation."""

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self._actions = actions

    def before(self, host: Host, operation: str, name: str) -> None:
        if operation in ("link", "rename"):
            for end in list(self._actions):
                if name.endswith(end):
                    self._actions.pop(end)()


class Together(Faults):
    """Several faults at once."""

    def __init__(self, *faults: Faults) -> None:
        self._faults = faults

    def before(self, host: Host, operation: str, name: str) -> None:
        for fault in self._faults:
            fault.before(host, operation, name)

    def after(self, host: Host, operation: str, name: str) -> None:
        for fault in self._faults:
            fault.after(host, operation, name)


class _AllDie(Faults):
    """All processes are killed with the first one."""

    def __init__(self, fault: OneFault) -> None:
        self._fault = fault
        self._dead = False

    def before(self, host: Host, operation: str, name: str) -> None:
        if self._dead:
            raise Killed
        try:
            self._fault.before(host, operation, name)
        except Killed:
            self._dead = True
            raise

    def after(self, host: Host, operation: str, name: str) -> None:
        try:
            self._fault.after(host, operation, name)
        except Killed:
            self._dead = True
            raise


def each(*processes: Callable[[], None]) -> None:
    """Run processes one after the other; one that is killed does not end the others."""
    for process in processes:
        with suppress(Killed):
            process()


class Turns:
    """Processes in threads that take turns, as a seed decides.

    Attributes:
        injected: the number of faults.
    """

    def __init__(self, world: World, chance: random.Random, danger: float) -> None:
        self._world = world
        self._chance = chance
        self._danger = danger
        self._back = threading.Semaphore(0)
        self._error: BaseException | None = None
        self.injected = 0

    def run(self, processes: Iterable[Callable[[Faults], None]]) -> None:
        """Run processes to their end, or until one finds that a law is broken.

        Raises:
            Broken: a law does not hold.
        """
        live = [_Thread(self, process) for process in processes]
        for thread in live:
            thread.start()
        current = self._chance.choice(live)
        while live:
            if current not in live or self._chance.random() < 0.4:
                current = self._chance.choice(live)
            current.turn.release()
            self._back.acquire()
            if current.done:
                current.join()
                live.remove(current)
        if self._error is not None:
            raise self._error


class _Thread(threading.Thread, Faults):
    def __init__(self, turns: Turns, process: Callable[[Faults], None]) -> None:
        super().__init__(daemon=True)
        self.turn = threading.Semaphore(0)
        self.done = False
        self._turns = turns
        self._process = process

    def run(self) -> None:
        self.turn.acquire()
        try:
            if self._turns._error is None:
                self._process(self)
        except Killed:
            pass
        except BaseException as error:
            self._turns._error = self._turns._error or error
        finally:
            self.done = True
            self._turns._back.release()

    def before(self, host: Host, operation: str, name: str) -> None:
        turns = self._turns
        turns._back.release()
        self.turn.acquire()
        if turns._error is not None:
            raise Killed
        if turns._chance.random() < 0.1:
            turns._world.server.clock += turns._chance.choice(NAP)
        if turns._chance.random() < turns._danger:
            turns.injected += 1
            kind = turns._chance.choice(("kill", "full", "full"))
            if kind == "kill":
                raise Killed
            if operation in _WRITES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def after(self, host: Host, operation: str, name: str) -> None:
        turns = self._turns
        if turns._chance.random() < turns._danger:
            turns.injected += 1
            kind = turns._chance.choice(("kill", "lost reply", "error"))
            if kind == "kill":
                raise Killed
            if kind == "lost reply" and operation == "link":
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
            if kind == "error" and operation in ("link", "sync"):
                raise OSError(errno.EIO, os.strerror(errno.EIO))


def one_day(world: World, faults: Faults) -> None:
    """Two jobs: one that runs and is retried, one that is cancelled."""
    each(
        lambda: world.submit(world.host(faults), retries=1),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(faults), "one", random.Random(1), 1),
        lambda: world.submit(world.host(faults)),
        lambda: world.cancel(world.host(faults), 2),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(faults), "two", random.Random(2), 2),
    )


def one_job(world: World, faults: Faults) -> None:
    """One job, which is handed back and runs again."""
    each(
        lambda: world.submit(world.host(faults), retries=3),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(faults), "one", _always("returned"), 1),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(faults), "two", _always("exit"), 3),
    )


def run_again(world: World, faults: Faults) -> None:
    """One job, which ends and is asked for again by two users."""
    each(
        lambda: world.submit(world.host(faults)),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(faults), "one", _always("exit"), 1),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.again(world.host(faults), 1),
        lambda: world.again(world.host(faults), 1),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(faults), "two", _always("exit"), 1),
    )


def cancelled_while_it_runs(world: World, faults: Faults) -> None:
    """One job, which is cancelled just before it fails, or its worker dies; it has retries left."""
    late = Together(Meanwhile({".1.ended": lambda: world.cancel(world.host(faults), 1)}), faults)
    each(
        lambda: world.submit(world.host(faults), retries=3),
        lambda: world.dispatch(world.host(faults), 1),
        lambda: world.work(world.host(late), "one", _always("exit", 1), 1),
        lambda: world.dispatch(world.host(faults), 2),
        lambda: world.work(world.host(faults), "two", _always("exit"), 1),
    )


def next_bucket(world: World, faults: Faults) -> None:
    """Three submitters, at the end of a bucket."""
    each(*[lambda: world.submit(world.host(faults))] * 3)


def old_bucket(world: World, faults: Faults) -> None:
    """A full bucket, which is packed and cleared by two dispatchers."""
    world.submit(Host(world.server), 3)
    world.dispatch(Host(world.server), 1)
    world.work(Host(world.server), "one", _always("exit"), 5)
    world.dispatch(Host(world.server), 1)

    def later(seconds: float) -> None:
        world.server.clock += seconds
        world.dispatch(world.host(faults), 1)

    each(*[lambda s=s: later(s) for s in (2e5, 10.0, 4e3, 4e3)])


def slow_submitter(kit: Kit) -> None:
    """Pack and clear a bucket while a submitter sleeps that has just looked into it.

    Raises:
        Broken: a law does not hold.
    """
    world = World(kit, full_bucket(2))

    def fill() -> None:
        world.submit(Host(world.server), 2)
        world.dispatch(Host(world.server), 1)
        world.work(Host(world.server), "one", _always("exit"), 5)
        world.dispatch(Host(world.server), 1)
        world.server.clock += 2e5

    # It finds 3 taken, and is about to try 4.
    faults = Meanwhile(
        {"jobs/0/3": fill, "jobs/0/4": lambda: world.dispatch(Host(world.server), 1)}
    )
    try:
        number = world.queue(world.host(faults, late=True)).submit(make_job("slow"))
    except CannotWrite:
        return  # its file in incoming went first, which is safe as well
    if world.printed.setdefault(number, "slow") != "slow":
        raise Broken(f"{number} was given twice: law 1")
    world.finish()


def given_up(kit: Kit) -> None:
    """Have a user take a job for lost just before its worker ends it.

    Raises:
        Broken: a law does not hold.
    """
    world = World(kit)
    world.submit(Host(world.server))
    world.dispatch(Host(world.server), 1)
    faults = Meanwhile({".ended": lambda: world.give_up(Host(world.server))})
    world.work(world.host(faults), "one", _always("exit"), 1)
    world.finish()


class _Always(random.Random):
    """A chance that is none: offers come in turn, and runs end in one way."""

    ends: tuple[str, int] = ("", 0)

    def choice(self, seq: Any) -> Any:
        if isinstance(seq, list):
            return seq[0]
        return next((end for end in self.ends if end in seq), seq[0])


def _always(how: str, status: int = 0) -> _Always:
    """Return a chance by which runs end so; Python 3.10 takes only a seed to make one."""
    chance = _Always(0)
    chance.ends = (how, status)
    return chance


def empty() -> Server:
    """Return a file server without a queue."""
    return Server()


def nearly_full() -> Server:
    """Return a file server whose bucket has two numbers left."""
    return full_bucket(2)


SCENARIOS: dict[str, tuple[Callable[[World, Faults], None], Callable[[], Server]]] = {
    "one day": (one_day, empty),
    "one job": (one_job, empty),
    "run again": (run_again, empty),
    "cancelled while it runs": (cancelled_while_it_runs, empty),
    "next bucket": (next_bucket, nearly_full),
    "old bucket": (old_bucket, nearly_full),
}
"""The scenarios for `every_fault`, with their file servers."""


def random_world(
    seed: int,
    kit: Kit | None = None,
    server: Callable[[], Server] | None = None,
    danger: float = 0.01,
) -> int:
    """Run two submitters, dispatchers and workers and a user, with faults; return their number.

    Args:
        seed: decides all.
        kit: the product.
        server: makes the file server; by default an empty one.
        danger: the chance of a fault at each operation.

    Raises:
        Broken: a law does not hold; the note says the seed.
    """
    chance = random.Random(seed)
    world = World(kit, server() if server else None)
    turns = Turns(world, chance, danger)
    late = bool(chance.randrange(4))
    first = 1 if server is None else SMALL_BUCKET - 2

    def on(faults: Faults) -> Host:
        return world.host(faults, late=late)

    try:
        turns.run(
            [
                lambda faults: world.submit(on(faults), 3, retries=1),
                lambda faults: world.submit(on(faults), 2),
                lambda faults: world.dispatch(on(faults), 4),
                lambda faults: world.dispatch(on(faults), 3),
                lambda faults: world.work(on(faults), "one", random.Random(seed + 1), 6),
                lambda faults: world.work(on(faults), "two", random.Random(seed + 2), 6),
                lambda faults: world.cancel(on(faults), first + 1),
                lambda faults: world.again(on(faults), first),
                lambda faults: world.give_up(on(faults)),
            ]
        )
        if chance.random() < 0.3:
            turns.injected += 1
            world.crash(seed)
        # A worker that has gone home is known to be dead.
        world.dead_workers |= {"one", "two"}
        world.finish()
    except (Broken, QueueError) as broken:
        raise Broken(f"{broken} (seed {seed})") from broken
    return turns.injected
