"""A queue in a real directory: opening, submitting, asking, receipts."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as replaced

from grain.files.processes import start_time, this_process
from grain.queue.book import Book, read_tickets
from grain.queue.dispatchers import Dispatchers, fate_of, this_dispatcher
from grain.queue.errors import BadInput, CannotWrite, NoSuchJob, Uncertain, Unusable
from grain.queue.files import LocalDisk, WholeFiles
from grain.queue.folder import (
    Queue,
    is_unreadable,
    make_format,
    queue_folder,
    read_format,
)
from grain.queue.patterns import Facts
from grain.queue.records import (
    ArraySpec,
    Begun,
    Dependency,
    Ended,
    QueueFormat,
    UnmetRequest,
    Wish,
)
from grain_testkit.queue_disk import Host, Server
from grain_testkit.queue_world import make_job

BEGUN = Begun(at=1.0, host="h", worker="w")
ENDED = Ended(how="exit", at=2.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queues" / "queue"


@pytest.fixture
def queue(folder: Path) -> Queue:
    return Queue.open(folder, make=True)


class FailingDisk(LocalDisk):
    """A disk on which some operations fail."""

    def __init__(self, root: Path, errors: dict[str, int]) -> None:
        super().__init__(root)
        self._errors = errors

    def _fail(self, operation: str) -> None:
        if operation in self._errors:
            number = self._errors[operation]
            raise OSError(number, os.strerror(number))

    def create(self, name: str, content: bytes, mode: int = 0o600) -> None:
        self._fail("create")
        super().create(name, content, mode)

    def link(self, source: str, name: str) -> None:
        self._fail("link")
        super().link(source, name)


def failing(queue: Queue, **errors: int) -> Queue:
    files = WholeFiles(FailingDisk(queue.folder, errors))
    found = read_format(files, str(queue.folder))
    assert found is not None
    return Queue(files, found, queue.folder)


def test_a_queue_is_private_and_named_by_its_folder(queue: Queue, folder: Path) -> None:
    assert 0o700 == stat.S_IMODE(folder.stat().st_mode)
    assert "queue" == queue.name
    assert queue.mission == Queue.open(folder).mission


def test_queues_are_in_the_state_folder() -> None:
    assert Path("/s/grain/queues/big") == queue_folder("big", {"XDG_STATE_HOME": "/s"})


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "-x", "ü", "x" * 65])
def test_a_name_that_is_not_that_of_a_queue_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be the name of a queue"):
        queue_folder(name, {"XDG_STATE_HOME": "/s"})


def test_a_queue_that_is_not_there_is_not_made_by_reading(folder: Path) -> None:
    with pytest.raises(Unusable, match="grain submit makes it"):
        Queue.open(folder)
    assert not folder.exists()


def test_two_that_make_a_queue_agree_on_its_mission(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        missions = pool.map(lambda _: Queue.open(folder, make=True).mission, range(8))
    assert 1 == len(set(missions))


@pytest.mark.parametrize("version", [1, 3])
def test_a_queue_of_another_version_is_refused(queue: Queue, folder: Path, version: int) -> None:
    other = QueueFormat(version=version, mission="m")
    (folder / "format").write_bytes(msgspec.json.encode(other))

    with pytest.raises(Unusable, match=f"has version {version} of the format"):
        Queue.open(folder, make=True)


def test_a_folder_that_others_may_write_to_is_refused(queue: Queue, folder: Path) -> None:
    folder.chmod(0o777)

    with pytest.raises(Unusable, match="cannot be a queue: every user may write.*by --queue NAME"):
        Queue.open(folder)


def test_what_is_wrong_with_all_queues_is_not_mended_by_another_one(tmp_path: Path) -> None:
    (tmp_path / "home").touch()

    with pytest.raises(Unusable, match="Not a directory; repair that, or set XDG_STATE_HOME to"):
        Queue.open(tmp_path / "home" / "queues" / "night", make=True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_queue_for_which_there_is_no_room_says_what_any_file_of_it_would(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """So a command tells its user to make room, not to choose another directory."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("grain.queue.folder.private_folder", refuse)
    with pytest.raises(CannotWrite, match=f"{folder} cannot be made: {os.strerror(number)}") as got:
        Queue.open(folder, make=True)
    assert (number, True) == (got.value.errno, got.value.passing)


def test_a_file_system_without_hard_links_is_refused(queue: Queue) -> None:
    with pytest.raises(Unusable, match="no hard links"):
        failing(queue, link=errno.EPERM).submit(make_job("x"))


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "your quota is used up"),
        (errno.EROFS, "the file system is mounted read-only"),
        (errno.EACCES, "you may not write there"),
    ],
)
@pytest.mark.parametrize("operation", ["create", "link"])
def test_a_disk_that_fails_gives_no_number(
    queue: Queue, operation: str, number: int, reason: str
) -> None:
    with pytest.raises(CannotWrite, match=f"no number was given: {reason}"):
        failing(queue, **{operation: number}).submit(make_job("x"))
    assert 1 == queue.jobs.end()
    assert not os.listdir(queue.folder / "incoming")


def test_jobs_are_numbered_from_1_and_read_as_they_were_submitted(queue: Queue) -> None:
    jobs = [make_job(f"job {number}", retries=number) for number in range(3)]

    assert [1, 2, 3] == [queue.submit(job) for job in jobs]
    assert jobs == [job for _, job in queue.jobs_from(1)]
    with pytest.raises(NoSuchJob):
        queue.job(4)


def test_a_thousand_jobs_fill_a_bucket(folder: Path) -> None:
    server = Server()
    format_ = make_format(WholeFiles(Host(server)), "model")
    queue = Queue(WholeFiles(Host(server)), format_, folder)
    for _ in range(1001):
        number = queue.submit(make_job("x"))

    assert 1001 == number
    assert [0, 1] == Queue(WholeFiles(Host(server)), format_, folder).jobs.listed_buckets()
    assert 1002 == Queue(WholeFiles(Host(server)), format_, folder).jobs.end()


def test_a_long_script_and_standard_input_are_files_of_their_own(queue: Queue) -> None:
    script = "#!/bin/sh\n" + "true\n" * 20_000
    number = queue.submit(make_job("x", script=script), stdin=b"input")
    job = queue.job(number)

    assert "" == job.script
    path, stdin = queue.script(job), queue.stdin(job, Facts(number, None, "", "", ""))
    assert path is not None
    assert stdin is not None
    assert script == path.read_text()
    assert os.access(path, os.X_OK)
    assert b"input" == stdin.read_bytes()


def test_a_short_script_becomes_a_file_where_it_is_run(queue: Queue) -> None:
    job = queue.job(queue.submit(make_job("x", script="#!/bin/sh\ntrue\n")))
    path = queue.script(job)

    assert path is not None
    assert "#!/bin/sh\ntrue\n" == path.read_text()
    assert os.access(path, os.X_OK)
    assert path == queue.script(job)
    assert queue.script(make_job("x")) is None


def test_a_script_that_is_not_utf_8_stays_as_it_is(queue: Queue) -> None:
    raw = b"#!/bin/sh\necho \xff\n"
    text = raw.decode(errors="surrogateescape")
    path = queue.script(queue.job(queue.submit(make_job("x", script=text))))

    assert path is not None
    assert raw == path.read_bytes()


def test_a_variable_that_is_not_utf_8_stays_as_it_is(queue: Queue) -> None:
    environment = {"ODD": "\udcff", "\udcfe": "x", "PLAIN": "ü"}
    number = queue.submit(make_job("x", environment=environment))

    assert environment == queue.job(number).environment
    assert [(number, environment)] == [(n, one.environment) for n, one in queue.jobs_from(number)]


def test_a_text_that_is_not_utf_8_is_refused(queue: Queue) -> None:
    with pytest.raises(BadInput, match="is not UTF-8, as the words, files and"):
        queue.submit(make_job("\udcff"))


@pytest.mark.parametrize(
    "fields",
    [{"stdout": "a\0"}, {"stderr": "a\0"}, {"directory": "/a\0"}, {"command": ("x", "a\0")},
     {"environment": {"A": "a\0"}}, {"environment": {"a\0": ""}}],
)  # fmt: skip
def test_what_the_system_cannot_be_given_is_refused(queue: Queue, fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="has a null character, and no command"):
        queue.submit(msgspec.structs.replace(make_job("x"), **fields))
    assert not list(queue.jobs.follow(1))


def test_a_submitter_that_slept_for_days_does_not_say_that_no_job_is_there(folder: Path) -> None:
    class Asleep(LocalDisk):
        def link(self, source: str, name: str) -> None:
            super().link(source, name)
            self.remove(source)  # as a dispatcher does after a day
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    queue = Queue.open(folder, make=True)
    found = read_format(queue.files, "x")
    assert found is not None
    odd = Queue(WholeFiles(Asleep(folder)), found, folder)
    with pytest.raises(Uncertain, match="stopped for so long that it cannot tell"):
        odd.submit(make_job("x"))
    assert ["x"] == [job.name for _, job in queue.jobs_from(1)]


@pytest.mark.parametrize("number", [0, 2])
def test_a_job_cannot_wait_for_one_that_is_not_there(queue: Queue, number: int) -> None:
    queue.submit(make_job("x"))

    with pytest.raises(BadInput, match=f"there is no job {number}"):
        queue.submit(make_job("y", after=(Dependency(jobs=(number,)),)))
    assert 2 == queue.jobs.end()


def test_an_attempt_begins_once(queue: Queue) -> None:
    number = queue.submit(make_job("x"))

    assert queue.begin(number, None, 1, BEGUN)
    assert not queue.begin(number, None, 1, BEGUN)
    assert not queue.begin(number, None, 2, BEGUN)
    assert queue.end(number, None, 1, ENDED)
    assert not queue.end(number, None, 1, Ended(how="lost", at=3.0))
    assert queue.begin(number, None, 2, BEGUN)
    assert [(1, BEGUN, ENDED), (2, BEGUN, None)] == queue.attempts(number)


def test_a_job_that_was_not_submitted_does_not_begin(queue: Queue) -> None:
    with pytest.raises(NoSuchJob):
        queue.begin(7, None, 1, BEGUN)


def test_a_cancelled_attempt_never_begins_and_counts_as_ended(queue: Queue) -> None:
    number = queue.submit(make_job("x"))
    cancelled = Begun(at=1.0, host="h", cancelled="me")

    assert [(None, 1)] == queue.cancel_waiting(number, [(None, 1)], cancelled)
    assert [] == queue.cancel_waiting(number, [(None, 1)], cancelled)
    assert not queue.begin(number, None, 1, BEGUN)
    assert queue.begin(number, None, 2, BEGUN)


def test_an_attempt_after_a_cancelled_one_is_read(queue: Queue) -> None:
    number = queue.submit(make_job("x"))
    cancelled = Begun(at=1.0, host="h", cancelled="me")
    queue.cancel_waiting(number, [(None, 1)], cancelled)
    begun = Begun(at=2.0, host="h")
    assert queue.begin(number, None, 2, begun)

    assert [(1, cancelled, None), (2, begun, None)] == queue.attempts(number)


def test_more_tasks_are_cancelled_than_a_file_may_have_names(queue: Queue) -> None:
    class FewLinks(LocalDisk):
        def link(self, source: str, name: str) -> None:
            if (queue.folder / source).stat().st_nlink > 3:
                raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))
            super().link(source, name)

    number = queue.submit(make_job("x"))
    few = Queue(WholeFiles(FewLinks(queue.folder)), QueueFormat(version=1, mission="m"), Path())
    cancelled = Begun(at=1.0, host="h", cancelled="me")

    assert 10 == len(few.cancel_waiting(number, [(task, 1) for task in range(10)], cancelled))
    assert all(queue.begun(number, task, 1) == cancelled for task in range(10))


def test_a_wish_is_cut_at_the_last_job(queue: Queue) -> None:
    queue.submit(make_job("x"))

    assert 1 == queue.wish(Wish(what="hold", jobs=((1, 99),)))
    assert [(1, Wish(what="hold", jobs=((1, 1),)))] == list(queue.wishes_from(1))
    with pytest.raises(NoSuchJob):
        queue.wish(Wish(what="hold", jobs=((2, 9),)))


def test_the_last_dispatcher_is_in_charge(queue: Queue) -> None:
    dispatchers, me = Dispatchers(queue.files), this_dispatcher()
    assert dispatchers.last() is None
    assert 1 == dispatchers.take_charge(me)
    assert dispatchers.is_in_charge(1)
    assert 2 == dispatchers.take_charge(me)

    assert (2, me) == dispatchers.last()
    assert not dispatchers.is_in_charge(1)


def test_the_last_dispatcher_is_found_from_an_old_list() -> None:
    server, me = Server(), this_dispatcher()
    make_format(WholeFiles(Host(server)), "model")
    files, there = WholeFiles(Host(server, late=True)), Dispatchers(WholeFiles(Host(server)))
    there.take_charge(me)
    listed = files.disk.list("dispatchers")
    server.clock += 50.0
    for _ in range(2):
        there.take_charge(me)
    assert listed == files.disk.list("dispatchers")
    assert (3, me) == Dispatchers(files).last()


def test_the_number_of_a_dispatcher_is_not_given_twice(queue: Queue) -> None:
    dispatchers = Dispatchers(queue.files)
    numbers = [dispatchers.take_charge(this_dispatcher()) for _ in range(30)]

    assert list(range(1, 31)) == numbers
    # Hosts that see an old list go on from the files that are left.
    left = [int(name) for name in os.listdir(queue.folder / "dispatchers") if name.isdigit()]
    assert list(range(20, 31)) == sorted(left)


HERE = this_process()._replace(host="n1", machine="m")
MINE = Begun(
    at=1.0, host="n1", machine="m", boot=HERE.boot, space=HERE.space, pid=HERE.pid,
    pid_began=HERE.start,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "fate"),
    [
        ({}, "runs"),
        ({"host": "renamed"}, "runs"),
        ({"pid_began": HERE.start + 1}, "gone"),
        ({"space": HERE.space + 1}, "unknown"),
        ({"space": HERE.space + 1, "pid_began": HERE.start + 1}, "unknown"),
        ({"boot": "b"}, "rebooted"),
        ({"boot": "b", "space": HERE.space + 1}, "rebooted"),
        ({"boot": "b", "host": "n2"}, "unknown"),
        ({"boot": "b", "machine": "m2"}, "unknown"),
        ({"boot": "b", "machine": ""}, "unknown"),
        ({"boot": ""}, "unknown"),
        ({"pid_began": 0}, "unknown"),
    ],
)
def test_a_process_is_dead_only_if_that_is_known(changes: dict[str, Any], fate: str) -> None:
    assert fate == fate_of(replaced(MINE, **changes), HERE)


def test_hosts_without_a_machine_id_are_never_taken_for_one() -> None:
    other = replaced(MINE, machine="", boot="b")
    assert "unknown" == fate_of(other, HERE._replace(machine=""))


def test_a_process_that_cannot_see_itself_takes_no_other_for_dead() -> None:
    # As with a /proc of another namespace.
    gone = replaced(MINE, pid_began=HERE.start + 1)
    assert "unknown" == fate_of(gone, HERE._replace(start=HERE.start + 2))


def test_a_dispatcher_that_is_seen_from_here_lives_as_long_as_its_process(queue: Queue) -> None:
    dispatchers, me = Dispatchers(queue.files), this_dispatcher()
    assert dispatchers.alive() is None
    dispatchers.take_charge(me)
    assert (1, me, True) == dispatchers.alive()
    dispatchers.take_charge(replaced(me, pid_began=me.pid_began + 1))
    assert dispatchers.alive() is None


@pytest.mark.parametrize("changes", [{"boot": "b", "host": "n2"}, {"space": 1, "pid": 1}])
def test_another_dispatcher_lives_as_long_as_it_gives_signs(changes: dict[str, Any]) -> None:
    server = Server()
    files = WholeFiles(Host(server))
    make_format(files, "model")
    dispatchers, there = Dispatchers(files), replaced(this_dispatcher(), **changes)
    number = dispatchers.take_charge(there)

    server.clock += 299.0
    assert (number, there, False) == dispatchers.alive()
    dispatchers.give_sign(number)
    server.clock += 299.0
    assert (number, there, False) == dispatchers.alive()
    server.clock += 2.0
    assert dispatchers.alive() is None


def test_a_dispatcher_whose_file_cannot_be_read_is_one_of_an_unknown_host(queue: Queue) -> None:
    dispatchers, me = Dispatchers(queue.files), this_dispatcher()
    dispatchers.take_charge(me)
    (queue.folder / "dispatchers/2").write_bytes(b'{"host": "\xff"}')
    alive = dispatchers.alive()
    assert alive is not None
    assert (2, "an unknown host", False) == (alive.number, alive.dispatcher.host, alive.is_here)
    assert 3 == dispatchers.take_charge(me)


def test_a_dispatcher_on_another_host_that_said_farewell_is_gone(queue: Queue) -> None:
    dispatchers = Dispatchers(queue.files)
    there = replaced(this_dispatcher(), boot="b", host="n2")
    number = dispatchers.take_charge(there)
    assert (number, there, False) == dispatchers.alive()
    dispatchers.say_farewell(number)
    dispatchers.say_farewell(number)

    assert dispatchers.alive() is None


def test_a_dispatcher_is_missing_if_none_began_or_it_is_gone_without_a_farewell(
    queue: Queue,
) -> None:
    dispatchers = Dispatchers(queue.files)
    assert dispatchers.is_missing()
    dispatchers.take_charge(this_dispatcher())
    assert not dispatchers.is_missing()
    number = dispatchers.take_charge(replaced(this_dispatcher(), pid_began=1))
    assert dispatchers.is_missing()
    dispatchers.say_farewell(number)
    assert not dispatchers.is_missing()


def test_what_this_grain_cannot_read_hides_nothing_else(tmp_path: Path) -> None:
    queue = Queue.open(tmp_path / "queue", make=True)
    for _ in range(4):
        queue.submit(make_job("opt"))
    for _ in range(2):
        queue.wish(Wish(what="hold", jobs=((2, 2),)))
    files = {
        "jobs/0/1": b'{"name": "\xff"}',
        "wishes/0/1": b'{"what": "dance"}',
        "attempts/0/3.1.begun": b"",
        "attempts/0/4.1.begun": b'{"at": 1, "host": "h"}',
        "attempts/0/4.1.ended": b'{"how": "soon"}',
        "view": b'{"version": "\xff"}',
    }
    for name, content in files.items():
        (queue.folder / name).write_bytes(content)
    assert {} == read_tickets(queue)
    book = Book.read(queue)
    assert [book.standing(number, None, 0.0).state for number in (1, 2, 3, 4)] == [
        "PENDING",
        "PENDING",
        "RUNNING",
        "FAILED",
    ]
    assert book.standing(1, None, 0.0).reason == book.standing(2, None, 0.0).reason == "held"
    book.write_view()
    # As if the other Grain came back, or a newer one.
    job = make_job("opt", array=ArraySpec(ranges=((1, 3, 1),)))
    (queue.folder / "jobs/0/1").write_bytes(msgspec.json.encode(job))
    again = Book.read(queue)
    assert (again.entries[1].job.name, again.entries[1].counts.pending) == (job.name, 3)


def test_whoever_asks_for_the_dispatcher_loads_no_openssl(queue: Queue) -> None:
    # As squeue does, which tools call every second.
    Dispatchers(queue.files).take_charge(this_dispatcher())
    program = (
        "import sys; from pathlib import Path; from grain.queue.folder import Queue; "
        "from grain.queue.dispatchers import Dispatchers; "
        "queue = Queue.open(Path(sys.argv[1])); assert Dispatchers(queue.files).alive(); "
        "sys.exit('_hashlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, queue.folder], check=True)


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("gone", [[1], [2], [4], [1, 2], [3, 4], [1, 2, 3, 4, 5]])
def test_a_lost_file_hides_no_job_behind_it_and_its_number_is_not_given_again(
    gone: list[int], size: int, folder: Path
) -> None:
    server = Server()
    format_ = make_format(WholeFiles(Host(server)), "model", bucket=size)

    def opened() -> Queue:
        return Queue(WholeFiles(Host(server)), format_, folder)

    numbers = [opened().submit(make_job("a")) for _ in range(6)]
    for number in gone:
        Host(server).remove(f"jobs/{number // size}/{number}")

    # At first a later name may be seen before an earlier one, and then nothing is lost.
    for seconds in (0.0, 119.0):
        server.clock += seconds
        assert list(range(1, gone[0])) == [number for number, _ in opened().jobs_from(1)]
    server.clock += 2.0
    found = dict(opened().jobs_from(1))
    assert numbers == list(found)
    assert gone == [number for number, job in found.items() if is_unreadable(job)]
    assert 7 == opened().submit(make_job("a"))


def test_a_record_may_have_texts_that_are_not_utf_8(queue: Queue) -> None:
    queue.submit(make_job("a"))
    odd = "why \udcff"
    queue.wish(Wish(what="cancel", jobs=((1, 1),), by=odd, why=odd))
    assert queue.begin(1, None, 1, replaced(BEGUN, host=odd))
    assert queue.end(1, None, 1, replaced(ENDED, message=odd))

    [(_, wish)] = queue.wishes_from(1)
    [receipts] = queue.attempts(1)
    assert receipts.ended is not None
    texts = [wish.by, wish.why, receipts.begun.host, receipts.ended.message]
    assert ["why ?"] * 4 == texts


def test_a_dispatcher_that_is_stopped_counts_as_killed_until_it_goes_on(queue: Queue) -> None:
    dispatchers = Dispatchers(queue.files)
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        began = start_time(process.pid)
        dispatchers.take_charge(replaced(this_dispatcher(), pid=process.pid, pid_began=began))
        try:
            dispatchers.note_unmet(1, [UnmetRequest(request={"Cores": 9})])
            assert [UnmetRequest(request={"Cores": 9})] == dispatchers.unmet()
            os.kill(process.pid, signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            assert dispatchers.alive() is None
            assert dispatchers.is_missing()
            assert [] == dispatchers.unmet(), "a worker may have come since"
            assert dispatchers.alive(also_stopped=True) is not None
            os.kill(process.pid, signal.SIGCONT)
            os.waitpid(process.pid, os.WCONTINUED)
            assert dispatchers.alive() is not None
        finally:
            process.kill()
