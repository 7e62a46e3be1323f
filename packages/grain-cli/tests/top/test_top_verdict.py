"""The verdict of `grain top`: each rule says its sentence, and leads to the row that shows why."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from grain.cli.top.tables.overview import tables
from grain.cli.top.tables.picture import ASCII, UNICODE
from grain.cli.top.tables.trend import Trend
from grain.cli.top.tables.verdict import line_text, sums, verdict
from grain.facts.rows import Worker
from grain.resource.figures import moment
from grain_testkit.overviews import (
    AT,
    amounts,
    failure,
    function,
    mission,
    outlook,
    overview,
    queue,
    worker,
)
from grain_testkit.small_log import failed

if TYPE_CHECKING:
    from grain.edge.questions import OverviewAnswer
    from grain.facts.rows import Function, Queue, Run


def unfit(number: int, asked: dict[str, Any], **more: Any) -> Queue:
    """Return waiting tasks for which no worker here has enough."""
    return queue(number, request=asked, lack="room", **more)


def said(answer: OverviewAnswer) -> list[str]:
    """Return the sentences; each leads to a row that is there."""
    found = verdict(answer)
    shown = tables(answer, {})
    assert all(one.key in {row.key for row in shown[one.pane].rows} for one in found)
    return [one.text for one in found]


def calm(**more: Any) -> OverviewAnswer:
    """Return an answer of which there is nothing to say."""
    return overview(**{"failures": 0, **more})


def of_functions(*rows: Function, **more: Any) -> OverviewAnswer:
    return replace(calm(**more), missions=[mission(0, outlook=outlook(functions=rows))])


def waiting(*queues: Queue, **more: Any) -> OverviewAnswer:
    return replace(calm(**more), queues=list(queues))


def scf(number: int) -> Run:
    what = failed(f"xtb m{number}.xyz", 128, f"SCF did not converge in {number} cycles")
    return failure(number, failure=what)


def test_where_all_is_well_nothing_is_said() -> None:
    assert [] == said(calm())
    assert [] == said(calm(workers=0, missions=1))


def test_tasks_that_no_worker_has_room_for_are_named_with_what_is_lacking() -> None:
    gpus = unfit(0, {"Cores": 1, "GPUs": 3}, waiting=6)
    licence = unfit(1, {"Cores": 1, "Licence": "orca"}, waiting=2)

    assert ["6 tasks cannot start: no worker has 3 GPUs."] == said(waiting(gpus))
    assert ["2 tasks cannot start: no worker has Licence."] == said(waiting(licence))
    [first] = said(waiting(licence, gpus, queue(2)))
    assert first.startswith("6 tasks")


def test_as_long_as_some_workers_were_not_looked_at_no_task_is_said_to_fit_nowhere() -> None:
    gpus = unfit(0, {"GPUs": 3})

    assert [] == said(waiting(gpus, more_workers=1))
    assert [] == said(waiting(unfit(0, {"Cores": 1})))


def test_gangs_for_which_there_are_too_few_workers_are_named() -> None:
    too_few = "4 workers are needed at once, and 2 here would do"
    gangs = queue(0, waiting=6, why=too_few, lack="members")

    assert [f"6 tasks cannot start: {too_few}."] == said(waiting(gangs))
    assert [] == said(waiting(replace(gangs, lack="")))


def test_alike_failures_are_counted_with_the_line_that_says_why() -> None:
    failures = [scf(n) for n in range(6)] + [
        failure(n, error="OSError", message="disk") for n in (7, 8)
    ]
    answer = replace(calm(), failures=failures)

    how = "exit 128: SCF did not converge in … cycles."
    assert [f"6 of 8 failed tasks are alike, in optimise: {how}"] == said(answer)
    more = replace(answer, tasks=replace(answer.tasks, failed=95))
    assert said(more)[0].startswith("6 of the last 8 failed tasks")


def test_failures_that_were_tried_again_count_only_where_there_are_no_others() -> None:
    again = [failure(n, error="TooSlowError", message="slow", again=True) for n in range(20)]
    final = [scf(30), scf(30)]

    [first] = said(replace(calm(), failures=[*again, *final]))
    assert first.startswith("All 2 failed tasks are alike, in optimise: exit 128: SCF did not")
    assert ["All 20 failed runs are alike, in optimise: TooSlowError: slow."] == said(
        replace(calm(), failures=again)
    )


def test_a_function_that_asks_for_too_many_cores_is_named() -> None:
    idle = function(busy=amounts(1200, 0.97, 1.02))

    assert [
        (
            "optimise asks for 4 cores, and its programs keep 1 busy on average at most: with "
            "Cores(1), 4 times as many have room at once."
        )
    ] == said(of_functions(idle))
    assert [] == said(of_functions(function()))
    one_unknown = replace(idle, busy_cores=amounts(1199, 0.97, 1.02))
    assert [] == said(of_functions(one_unknown))
    assert [] == said(of_functions(replace(idle, requests={"": 2})))  # not all asked for that
    assert [] == said(of_functions(idle, workers=0))


def test_a_worker_that_was_lost_with_tasks_is_named_for_ten_minutes() -> None:
    def lost(name: str, before: float, tasks: int) -> Worker:
        return Worker(name=name, host="n", heard=AT - before - 60, at=AT - before, lost_runs=tasks)

    when = moment(AT - 90, AT)
    answer = calm(lost=[lost("n00", 700, 4), lost("n02", 90, 2), lost("n03", 10, 0)])
    assert [f"n02 was lost at {when}: 2 of its tasks had to start again."] == said(answer)


def test_there_are_three_sentences_at_most_and_the_gravest_come_first() -> None:
    lost = Worker(name="n02", host="n", heard=AT - 100, at=AT - 90, lost_runs=2)
    rows = (function(busy=amounts(1200, 1.0)),)
    queues = [unfit(0, {"GPUs": 9})]
    found = verdict(replace(of_functions(*rows, lost=[lost]), queues=queues, failures=[scf(1)]))

    assert ["waiting", "failures", "functions"] == [one.pane for one in found]


def test_names_in_a_sentence_cannot_control_the_terminal() -> None:
    odd = failure(0, function="f\x1b[2J", error="\x9b31m")
    idle = function("f\x1b[2J", busy=amounts(1200, 1.0))
    queues = [unfit(0, {"A\u202e": 1})]
    texts = said(replace(of_functions(idle), queues=queues, failures=[odd]))

    assert 3 == len(texts)
    assert all(text.isprintable() for text in texts)


# ---- sums


def test_the_sums_are_of_all_workers_cores_lately_first() -> None:
    answer = calm(workers=3)
    trend = Trend()
    for at, given in ((0.0, 0), (15.0, 24), (46.0, 48)):
        trend.look(replace(answer, at=AT + at, cores=(given, 48), computing=given / 4))

    assert [
        "cores given ·▄ █  computing ·▁ ▂",
        "89 of 178 GB of memory given",
        "0 of 6 GPUs given",
    ] == sums(answer, trend, UNICODE)
    assert "cores given .4 8  computing .1 2" == sums(answer, trend, ASCII)[0]


def test_a_part_of_a_gpu_that_is_only_rounded_is_a_whole_one() -> None:
    three = worker(0, total={"Cores": 4, "GPUs": [0, 1, 2]}, used={"Cores": 0.0, "GPUs": 0.6667})
    parts = sums(replace(calm(), workers=[three]), Trend(), UNICODE)

    assert ["2 of 3 GPUs given"] == parts


def test_a_trend_is_of_five_minutes_at_most_and_begins_anew_if_the_clock_goes_back() -> None:
    trend = Trend()
    for second in range(0, 4000, 5):
        trend.look(replace(calm(), at=AT + second, computing=None))
    given, computing = trend.shares()
    assert (20, {1.0}, {None}) == (len(given), set(given), set(computing))
    assert len(pickle.dumps(trend)) < 2500
    trend.look(replace(calm(), at=AT - 5000))

    assert 1 == len(trend.shares()[0])


def test_without_workers_there_is_no_trend() -> None:
    trend = Trend()
    answer = calm(workers=0, cores=(0, 0))
    trend.look(answer)

    assert [] == sums(answer, trend, UNICODE)
    assert "█·" == line_text([3.0, -1.0], UNICODE)
