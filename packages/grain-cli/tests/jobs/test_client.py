"""`QueueClient`: the queue for programs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.jobs.client import QueueClient, UnfitJobs, ending
from grain.edge.mission_ids import lasting_id
from grain.queue.book import Book
from grain.queue.errors import QueueError
from grain.queue.records import Dependency
from grain_testkit.states import mission, queue, state

if TYPE_CHECKING:
    from grain_testkit.job_commands import JobCommands


@pytest.fixture
def client(jobs: JobCommands) -> QueueClient:
    return QueueClient.open()


def state_of(jobs: JobCommands, number: int) -> str:
    return Book.read(jobs.queue).standing(number, None, 0.0).state


def test_a_job_has_what_this_process_has(
    jobs: JobCommands, client: QueueClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLOUR", "red")
    monkeypatch.setenv("PWD", "/elsewhere")
    number = client.submit("opt", command=("xtb", "mol"), request={"Cores": 2}, retries=1)

    job = jobs.queue.job(number)
    assert (job.name, job.command, job.request) == ("opt", ("xtb", "mol"), {"Cores": 2})
    assert job.retries == 1
    assert job.directory == str(jobs.home)
    assert job.environment["COLOUR"] == "red"
    assert "PWD" not in job.environment
    assert job.host == socket.gethostname()


def test_a_queue_is_made_if_it_is_not_there(jobs: JobCommands) -> None:
    client = QueueClient.open("other")
    assert client.name == "other"
    assert client.submit("opt", command=("true",)) == 1
    with pytest.raises(QueueError, match="name of a queue"):
        QueueClient.open("no/queue")


def test_jobs_that_have_ended_are_told_with_their_ends(
    jobs: JobCommands, client: QueueClient
) -> None:
    for _ in range(4):
        client.submit("opt", command=("true",))
    jobs.begin(2)
    jobs.end(3)
    jobs.end(4, status=3)

    found = client.ended(range(1, 5))
    assert list(found) == [3, 4]
    assert (ending(found[3]), ending(found[4])) == ("is done", "has failed: exit status 3")
    jobs.end(2, how="memory")
    assert ending(client.ended([1, 2])[2]) == "has failed: its memory was not enough"


def test_a_job_that_never_begins_is_told_from_one_that_waits(
    jobs: JobCommands, client: QueueClient
) -> None:
    client.submit("a", command=("true",))
    client.submit("b", command=("true",), after=(Dependency(jobs=(1,)),))
    assert {} == client.ended([1, 2])
    assert {} == client.blocked([1, 2])
    jobs.end(1, status=1)
    assert [1] == list(client.ended([1, 2]))
    assert [2] == list(client.blocked([1, 2]))
    assert "job 2 (b) never begins: job 1 did not succeed; " in client.blocked([2])[2]


def test_a_job_is_looked_at_at_once(jobs: JobCommands, client: QueueClient) -> None:
    number = client.submit("opt", command=("true",))
    client.ended([])
    assert client.standing(number).state == "PENDING"
    jobs.begin(number)
    assert client.standing(number).state == "RUNNING"


def test_jobs_of_a_directory_that_have_not_ended(jobs: JobCommands, client: QueueClient) -> None:
    here, elsewhere = str(jobs.home), "/elsewhere"
    client.submit("a", command=("true",))
    client.submit("b", command=("true",), directory=elsewhere)
    client.submit("c", command=("true",))
    jobs.end(1)
    assert [(number, job.name) for number, job in client.unfinished(here)] == [(3, "c")]
    assert [number for number, _ in client.unfinished(elsewhere)] == [2]


def test_cancelling_ends_what_runs_unless_it_is_to_go_on(
    jobs: JobCommands, client: QueueClient
) -> None:
    for _ in range(5):
        client.submit("opt", command=("true",))
    jobs.begin(1)
    jobs.begin(2)
    jobs.end(3)

    assert client.cancel([1, 3, 4], "enough", running=False) == [4]
    assert [state_of(jobs, number) for number in (1, 3, 4)] == ["RUNNING", "COMPLETED", "CANCELLED"]
    assert not client.is_to_end(1)
    assert ending(client.ended([4])[4]).endswith(", enough")

    assert client.cancel([2, 3, 4, 5], "enough") == [5]
    assert client.is_to_end(2)
    assert [state_of(jobs, number) for number in (2, 5)] == ["RUNNING", "CANCELLED"]
    assert client.cancel([3, 4]) == []


def test_the_files_of_what_a_job_prints(jobs: JobCommands, client: QueueClient) -> None:
    number = client.submit("opt", command=("true",), stdout="logs/%x-%j.log")
    assert client.outputs(number) == [jobs.home / "logs/opt-1.log"]


def test_it_says_why_no_dispatcher_can_be_started(idle: JobCommands) -> None:
    assert QueueClient.open().wake().startswith("no dispatcher could be started")


def test_with_a_dispatcher_there_is_nothing_to_say(client: QueueClient) -> None:
    assert client.wake() == ""


def test_jobs_that_fit_no_worker_are_named_by_the_scheduler(
    jobs: JobCommands, address: str, answering: Any
) -> None:
    client = QueueClient.open()
    client.submit("large", command=("true",), request={"Cores": 64}, timeout=60.0)
    client.submit("small", command=("true",))
    client.ended([])
    book = Book.read(jobs.queue)
    book.tickets = {(1, None, 1): 1_000_000_001, (2, None, 1): 1_000_000_002}
    book.write_view()
    mine = mission("queue", id=lasting_id("queue", jobs.queue.mission))
    answer = state(
        missions=[mine, mission("opt")],
        queues=[
            queue({"Cores": 64}, mission="queue", oldest="queue:1000000001", never="w: 2 Cores"),
            queue({"Cores": 1}, mission="queue", oldest="queue:1000000002"),
            queue({"Cores": 64}, mission="opt", oldest="opt:7", never="w: 2 Cores"),
        ],
    )
    with answering(address, state=answer):
        assert client.unfit() == [UnfitJobs(1, {"Cores": 64}, 60.0, "w: 2 Cores")]


def test_without_a_scheduler_no_job_is_said_to_fit_no_worker(
    jobs: JobCommands, address: str
) -> None:
    assert QueueClient.open().unfit() == []
