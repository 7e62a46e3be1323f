"""Tasks of a queue's mission lead to jobs, wherever a user reads their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.shell_completion import ShellComplete

from grain.cli import main
from grain.cli.queue.tickets import with_jobs
from grain.edge.mission_ids import lasting_id
from grain.edge.questions import FoundAnswer
from grain.facts.rows import Queue
from grain.queue.book import Book
from grain.queue.records import Begun
from grain_testkit.states import mission, state, worker

if TYPE_CHECKING:
    from grain.edge.questions import StateAnswer
    from grain_testkit.job_commands import JobCommands

FIRST = 7_000_000_001


@pytest.fixture
def dispatched(jobs: JobCommands) -> JobCommands:
    """A queue whose dispatcher has handed over job 1 and a task of array 2."""
    jobs.submit()
    jobs.submit("array", "1-3")
    book = Book.read(jobs.queue)
    book.tickets |= {(1, None, 2): FIRST + 9, (1, None, 1): FIRST, (2, 3, 1): FIRST + 1}
    book.write_view()
    return jobs


def shown(jobs: JobCommands, **more: Any) -> StateAnswer:
    """Return what a scheduler says that has the mission of the queue."""
    lasting = lasting_id("queue", jobs.queue.mission)
    return state(
        workers=[worker("w1", tasks=[f"queue@2:{FIRST}", "opt:1"])],
        missions=[mission("queue", id=lasting, label="queue@2", **more), mission("opt", id="ab")],
        queues=[
            Queue(
                request={}, interpreter="", mission="queue@2", priority=0, running=0, waiting=1,
                oldest=f"queue@2:{FIRST + 1}", why="", never="",
            )
        ],
    )  # fmt: skip


def test_lists_name_jobs_in_place_of_tasks_of_the_queue(dispatched: JobCommands) -> None:
    found = with_jobs(shown(dispatched))

    assert ["queue:1", "opt:1"] == found.workers[0].tasks
    assert ["queue:2_3"] == [one.oldest for one in found.queues]


def test_tasks_of_a_queue_without_a_view_keep_their_names(jobs: JobCommands) -> None:
    assert shown(jobs) == with_jobs(shown(jobs))


@pytest.mark.parametrize("name", ["queue", "night"])
def test_tasks_of_the_queue_of_another_user_keep_their_names(
    dispatched: JobCommands, name: str
) -> None:
    other = mission(name, id=lasting_id(name, "0123"), label="queue@2")
    answer = state(workers=shown(dispatched).workers, missions=[other])

    assert answer == with_jobs(answer)


def test_ls_and_why_name_jobs(dispatched: JobCommands, address: str, answering: Any) -> None:
    with answering(address, state=shown(dispatched)):
        listed = dispatched.done("ls", "--patience", "60")
        asked = dispatched.grain("why", "--patience", "60")

    assert "runs queue:1 opt:1" in listed
    assert "queue:2_3" in listed
    assert "waiting: queue:2_3; running: queue:1 opt:1" in asked.stderr


@pytest.mark.parametrize("word", [str(FIRST + 1), f"queue:{FIRST + 1}"])
def test_a_task_that_the_scheduler_has_is_a_job(dispatched: JobCommands, word: str) -> None:
    assert dispatched.done("why", word).startswith("task 2_3 waits\n")


def test_a_task_that_has_ended_is_a_job_by_its_receipt(jobs: JobCommands) -> None:
    jobs.submit("array", "1-3")
    begun = Begun(at=1.0, host="n17", worker="w1", ticket=FIRST)
    assert jobs.queue.begin(1, 2, 1, begun)
    jobs.end(1, 2, status=3)

    assert "task 1_2 has failed\n" in jobs.done("why", f"queue:{FIRST}")
    assert "1_2" in jobs.done("jobs", str(FIRST))
    assert f"there is no job {FIRST + 5}" in jobs.refused("why", f"queue:{FIRST + 5}")


def test_the_mission_of_a_queue_is_not_cancelled_as_a_mission(
    jobs: JobCommands, address: str, answering: Any
) -> None:
    found = mission("queue", id=lasting_id("queue", jobs.queue.mission))
    with answering(
        address, state=state(), find=FoundAnswer(found), cancel=FoundAnswer(found)
    ) as it:
        message = jobs.refused("cancel", "-y", "--patience", "60", "queue")

    assert "queue is a queue of jobs: `grain queue stop` ends its dispatcher" in message
    assert "cancel" not in [ask.about for ask in it.asked]


@pytest.mark.parametrize("command", ["jobs", "wait", "hold", "release", "resubmit"])
def test_numbers_of_jobs_are_completed(jobs: JobCommands, command: str) -> None:
    for _ in range(12):
        jobs.submit()
    shell = ShellComplete(main, {}, "grain", "_GRAIN_COMPLETE")

    assert ["12", "11", "10", "1"] == [one.value for one in shell.get_completions([command], "1")]
