"""The campaign of `tools/campaign`: a small one by real processes, and what is measured of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tools.campaign.live import Look, Site, run_campaign
from tools.campaign.measures import Estimated, estimated, replayed
from tools.campaign.mission import MissionPlan

from grain.eventlog.reader import read
from grain.eventlog.schema import RunEnded, TaskStarted, TaskSubmitted

if TYPE_CHECKING:
    from pathlib import Path

    from grain.eventlog.schema import AnyLine


def test_a_small_campaign_has_failures_of_six_kinds_second_attempts_and_tasks_that_fit_nowhere(
    tmp_path: Path,
) -> None:
    plan = MissionPlan(str(tmp_path / "run"), 24, gpu_tasks=2, at_once=100, scale=0.01, stated=True)

    log, looks = run_campaign(plan, Site(workers=2, joins=0.0))

    lines = list(read(log))
    ended = [line for line in lines if isinstance(line, RunEnded)]
    failures = [line.failure for line in ended if line.outcome == "error"]
    failed = Counter((one.error, one.pattern) for one in failures)
    assert 6 == len(failed), failed
    assert {2, 4} == set(failed.values())  # what took too long was tried again
    assert 2 == sum(line.outcome == "cancelled" for line in ended)
    assert sum(isinstance(line, TaskSubmitted) and line.retry_of > 0 for line in lines) >= 2
    found = replayed(lines)
    assert [2] == list(found.never_ran.values())
    assert 0 < found.makespan
    assert all(look.whole for look in looks)


def ran(task: int, submitted: float, began: float, ended: float) -> list[AnyLine]:
    return [
        TaskSubmitted(time=submitted, task=task, function="f"),
        TaskStarted(time=began, task=task, worker="w"),
        RunEnded(
            time=ended, task=task, outcome="value", worker="w", attempt=1, started=began,
            ended=ended,
        ),
    ]  # fmt: skip


def test_an_estimate_is_compared_with_the_end_of_what_it_spoke_of() -> None:
    """Of all calls, or of those that had been submitted."""
    lines = [*ran(1, 0.0, 0.0, 60.0), *ran(2, 55.0, 60.0, 100.0)]

    so_far = [Look(20.0, 50.0, least=False, whole=False), Look(70.0, 20.0, least=True, whole=False)]
    of_all = [Look(20.0, 50.0, least=False, whole=True)]

    assert [
        Estimated(0.25, whole=False, least=False, said=45.0, came=35.0),
        Estimated(0.5, whole=False, least=False, said=20.0, came=10.0),
        Estimated(0.75, whole=False, least=True, said=15.0, came=25.0),
    ] == estimated(lines, so_far)
    assert [75.0, 50.0, 25.0] == [one.came for one in estimated(lines, of_all)]
    assert pytest.approx(-0.4) == estimated(lines, of_all)[0].error
