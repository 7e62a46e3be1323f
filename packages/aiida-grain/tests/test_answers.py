"""Answers of Grain's commands, which the tests run: what AiiDA has of them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("aiida")

from aiida.engine import CalcJob
from aiida.schedulers import SchedulerParsingError
from aiida.schedulers.datastructures import JobState

from aiida_grain.answers import NOT_FINISHED, STATES, exit_code, job_id, job_infos
from grain.cli.queue.rows import NEVER, WORDS
from grain.queue.records import Dependency

if TYPE_CHECKING:
    from grain_testkit.job_commands import JobCommands


def states(jobs: JobCommands, *words: str) -> dict[str, JobState]:
    return {one.job_id: one.job_state for one in job_infos(jobs.done("jobs", "--json", *words))}


def test_each_state_of_a_job_has_one_of_aiida() -> None:
    assert {NEVER, *WORDS.values()} == STATES.keys()


def test_the_id_of_a_job_has_its_queue(jobs: JobCommands) -> None:
    submitted = jobs.grain("submit", "--json", "--queue", "night", "true")
    assert "night:1" == job_id(submitted.stdout)


def test_jobs_wait_run_and_end(jobs: JobCommands) -> None:
    for name in ("waits", "runs", "done", "fails"):
        jobs.submit(name)
    jobs.begin(2)
    jobs.end(3)
    jobs.end(4, status=3)

    assert {
        "queue:1": JobState.QUEUED,
        "queue:2": JobState.RUNNING,
        "queue:3": JobState.DONE,
        "queue:4": JobState.DONE,
    } == states(jobs)


def test_a_job_that_waits_for_more_than_a_worker_is_held(jobs: JobCommands) -> None:
    jobs.end(jobs.submit("bad"), status=1)
    jobs.submit("held", held=True)
    jobs.submit("after", after=(Dependency(jobs=(2,)),))
    jobs.submit("never", after=(Dependency(jobs=(1,)),))
    jobs.submit("later", not_before=time.time() + 3600)

    assert [JobState.DONE, *[JobState.QUEUED_HELD] * 4] == list(states(jobs).values())


def test_a_job_that_runs_again_waits(jobs: JobCommands) -> None:
    jobs.end(jobs.submit(retries=1), status=1)

    [info] = job_infos(jobs.done("jobs", "--json"))
    assert (JobState.QUEUED, None) == (info.job_state, info.dispatch_time)


def test_all_that_is_known_of_a_job(jobs: JobCommands) -> None:
    jobs.submit("opt", request={"Cores": 2, "Memory": 4}, timeout=60.0)
    jobs.end(1, status=3, at=time.time())

    [info] = job_infos(jobs.done("jobs", "--json"))
    assert ("opt", "ann", "queue") == (info.title, info.job_owner, info.queue_name)
    assert (2, 1, 60, 90, 3) == (
        info.num_cpus,
        info.num_machines,
        info.requested_wallclock_time_seconds,
        info.wallclock_time_seconds,
        info.exit_status,
    )
    assert ["n17"] == [machine.name for machine in info.allocated_machines]
    assert info.dispatch_time < info.finish_time
    assert "queue:1" in json.dumps(info.get_dict())


def test_a_job_on_several_machines_has_the_cores_of_all(jobs: JobCommands) -> None:
    jobs.begin(jobs.submit(request={"Gang": {"count": 2, "of": {"Cores": 8}}}), others=("n18",))

    [info] = job_infos(jobs.done("jobs", "--json"))
    assert (2, 16) == (info.num_machines, info.num_cpus)
    assert ["n17", "n18"] == [machine.name for machine in info.allocated_machines]


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ({"how": "memory"}, "ERROR_SCHEDULER_OUT_OF_MEMORY"),
        ({"how": "timeout"}, "ERROR_SCHEDULER_OUT_OF_WALLTIME"),
        ({"how": "lost"}, "ERROR_SCHEDULER_NODE_FAILURE"),
        ({"how": "returned"}, "ERROR_SCHEDULER_NODE_FAILURE"),
    ],
)
def test_ends_for_which_aiida_has_an_exit_code(
    jobs: JobCommands, how: dict[str, Any], name: str
) -> None:
    jobs.end(jobs.submit(requeue=False), **how)

    assert getattr(CalcJob.exit_codes, name) == exit_code(jobs.done("jobs", "--json", "queue:1"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"how": "signal", "signal": 15}, "The job was killed by signal 15."),
        (
            {"how": "start", "status": 127, "message": "/x: No such file or directory"},
            "The job was not started: /x: No such file or directory.",
        ),
        ({"how": "cancelled", "by": "ann", "message": "wrong"}, "The job was cancelled: wrong."),
    ],
)
def test_a_script_that_did_not_come_to_its_end(
    jobs: JobCommands, how: dict[str, Any], message: str
) -> None:
    jobs.end(jobs.submit(), **how)

    found = exit_code(jobs.done("jobs", "--json", "1"))
    assert found is not None
    assert (NOT_FINISHED, message) == (found.status, found.message)


@pytest.mark.parametrize("status", [0, 3])
def test_the_exit_status_of_a_script_is_left_to_the_parser(jobs: JobCommands, status: int) -> None:
    jobs.end(jobs.submit(), status=status)

    assert exit_code(jobs.done("jobs", "--json", "1")) is None


@pytest.mark.parametrize("cores", ["all", 0.5])
def test_a_request_may_have_no_number_of_cores(jobs: JobCommands, cores: object) -> None:
    jobs.submit(request={"Cores": cores})

    [info] = job_infos(jobs.done("jobs", "--json"))
    assert info.num_cpus is None


def test_a_job_that_was_cancelled_before_it_began(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.done("cancel", "--reason", "AiiDA", "queue:1")

    answer = jobs.done("jobs", "--json", "1")
    assert [JobState.DONE] == [one.job_state for one in job_infos(answer)]
    found = exit_code(answer)
    assert found is not None
    assert "The job was cancelled: AiiDA." == found.message


def test_several_lists_follow_each_other(jobs: JobCommands) -> None:
    jobs.submit()
    jobs.done("submit", "--queue", "night", "true")

    answer = jobs.done("jobs", "--json", "night:1") + jobs.done("jobs", "--json", "queue:1")
    assert ["night:1", "queue:1"] == [one.job_id for one in job_infos(answer)]


def test_an_answer_that_is_not_whole_is_an_error(jobs: JobCommands) -> None:
    """AiiDA would take the jobs that are missing for done."""
    jobs.submit()
    jobs.submit()
    whole = jobs.done("jobs", "--json")
    for cut in (1, 20, len(whole) // 2, len(whole) - 2):
        with pytest.raises(SchedulerParsingError, match="not all of it"):
            job_infos(whole[:cut])
    for text in ("", "{}", "[1]", "[{}]", '"x"'):
        with pytest.raises(SchedulerParsingError):
            job_infos(text)
    with pytest.raises(SchedulerParsingError, match="does not say which job"):
        job_id("{}")


def test_an_empty_list_is_an_answer(jobs: JobCommands) -> None:
    assert [] == job_infos(jobs.done("jobs", "--json"))


def test_a_state_of_a_newer_grain_is_undetermined(jobs: JobCommands) -> None:
    jobs.submit()
    [one] = json.loads(jobs.done("jobs", "--json"))
    [info] = job_infos(json.dumps([{**one, "state": "frozen"}]))
    assert JobState.UNDETERMINED == info.job_state
