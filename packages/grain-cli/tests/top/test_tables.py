"""The tables of an answer, and their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from grain.cli.top.tables.grid import (
    Gauge,
    RowOrder,
    Table,
    arranged,
    next_column,
)
from grain.cli.top.tables.overview import tables
from grain.cli.top.tables.tasks import Use, busy_text, failures_table, memory_text, use_of
from grain.cli.top.tables.verdict import totals
from grain.edge.questions import ProgramsAnswer, ProgramState
from grain.facts.amounts import AskedAmounts
from grain.facts.rows import Run
from grain_testkit.overviews import (
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
    from collections.abc import Mapping

    from grain.edge.questions import MissionOutlook, OverviewAnswer
    from grain.facts.rows import Function, Worker


def made(
    answer: OverviewAnswer, name: str, uses: Mapping[tuple[str, int], Use] | None = None
) -> Table:
    return tables(answer, uses or {})[name]


def column(table: Table, head: str) -> list[str | Gauge]:
    at = [column.name for column in table.columns].index(head)
    return [row.cells[at] for row in table.rows]


def test_workers_have_a_bar_for_each_kind_of_resource_and_the_time_left() -> None:
    table = made(overview(workers=2), "workers")

    assert ["01:00:00", "02:00:00"] == column(table, "LEFT")
    assert [Gauge(1.0, "16/16", 3.6 / 16)] * 2 == column(table, "CORES")
    assert Gauge(0.5, "30/59.5", 0.0) == column(table, "MEMORY")[0]
    assert Gauge(0.0, "0/2", 0.0) == column(table, "GPUS")[0]
    assert ["3.6"] * 2 == column(table, "COMPUTING")


def test_a_worker_whose_use_is_unknown_has_only_given_cores() -> None:
    table = made(_with(worker(0, 4, computing=None)), "workers")

    assert [Gauge(1.0, "16/16", 0.0)] == column(table, "CORES")
    assert ["-"] == column(table, "COMPUTING")


def test_a_kind_without_a_class_on_the_schedulers_host_has_no_bar() -> None:
    one = worker(0, total={"Streams": 3}, used={"Streams": None})
    table = made(_with(one), "workers")

    assert [Gauge(None, "?/3")] == column(table, "STREAMS")


def _with(one: Worker) -> OverviewAnswer:
    return replace(overview(), workers=[one])


def test_workers_are_in_the_order_of_their_numbers() -> None:
    names = column(made(overview(workers=12), "workers"), "NAME")

    assert "w093015-2" == names[2]
    assert "w093015-11" == names[-1]


def test_a_worker_without_an_end_has_no_time_left_to_show() -> None:
    assert ["-"] == column(made(_with(worker(0, ends=None)), "workers"), "LEFT")


def test_workers_of_several_clusters_have_a_column_for_it() -> None:
    workers = [worker(n, cluster=f"c{n}\x1b") for n in range(2)]

    assert ["c0?", "c1?"] == column(
        made(replace(overview(), workers=workers), "workers"), "CLUSTER"
    )
    table = made(replace(overview(), workers=workers[:1]), "workers")
    assert "CLUSTER" not in [column.name for column in table.columns]


def test_the_title_counts_workers_by_state_and_those_to_be_looked_at() -> None:
    answer = overview(worker_states={"serving": 2, "away": 1}, more_workers=7)

    assert "WORKERS  2 serving, 1 away, 7 to be looked at" == made(answer, "workers").title


def test_a_mission_has_a_rate_and_what_it_says_itself_of_its_progress() -> None:
    table = made(replace(overview(), missions=[mission(0, 12)]), "missions")

    assert ["1.2/s"] == column(table, "RATE")
    assert ["00:55:33"] == column(table, "LEFT")
    assert [Gauge(1200 / 5200, "23 %")] == column(table, "PROGRESS")
    assert ["3988"] == column(table, "WAITS")


@pytest.mark.parametrize(
    ("said", "left", "progress"),
    [
        (outlook(total=0, whole=False), "00:55:33 so far", Gauge(None, "-")),
        (outlook(least=True), ">00:55:33", Gauge(1200 / 5200, "23 %")),
        (outlook(total=0, left=0.2, least=True, whole=False), "-", Gauge(None, "-")),
        (outlook(left=None, total=600), "-", Gauge(1.0, "100 %")),
        (None, "-", Gauge(None, "-")),
    ],
)
def test_the_share_of_an_unknown_whole_is_not_shown_and_a_time_as_what_it_is(
    said: MissionOutlook | None, left: str, progress: Gauge
) -> None:
    table = made(replace(overview(), missions=[mission(0, 12, outlook=said)]), "missions")

    assert ([left], [progress]) == (column(table, "LEFT"), column(table, "PROGRESS"))


def test_a_mission_whose_running_tasks_are_not_counted_says_so() -> None:
    table = made(replace(overview(), missions=[mission(0, running=None)]), "missions")

    assert (["?"], ["<4000"]) == (column(table, "RUNS"), column(table, "WAITS"))


@pytest.mark.parametrize(
    ("more", "state"),
    [({"connected": False}, "away"), ({"paused": True}, "paused"), ({}, "connected")],
)
def test_a_mission_has_a_state(more: dict[str, Any], state: str) -> None:
    table = made(replace(overview(), missions=[mission(0, **more)]), "missions")

    assert [state] == column(table, "STATE")


def test_running_tasks_are_named_as_commands_take_them_the_longest_first() -> None:
    table = made(overview(workers=1, runs=3), "running")

    assert ["opt:3", "screen:2", "opt:1"] == column(table, "TASK")
    assert ["00:03:00", "00:02:00", "00:01:00"] == column(table, "TIME")
    about = table.rows[0].about
    assert about is not None
    assert ("mission0", 3, "opt:3") == (about.mission, about.task, about.name)


def test_a_running_task_shows_what_it_uses() -> None:
    a, b = ProgramState("xtb a.xyz", 10.0, 5.0, 0.25), ProgramState("xtb b.xyz", 70.0, 210.0, 1.5)
    use = use_of(ProgramsAnswer([a, b]))
    table = made(overview(workers=1, runs=1), "running", {("mission0", 1): use})

    assert ["00:01:10 xtb b.xyz and 1 more"] == column(table, "PROGRAM")
    assert (["3.5"], ["1.75 GB"]) == (column(table, "CPU"), column(table, "MEMORY"))
    assert Use(0, 0.0, "") == use_of(ProgramsAnswer([]))


def test_a_running_task_shows_the_cores_that_it_has_kept_busy_since_the_last_look() -> None:
    before = use_of(ProgramsAnswer([ProgramState("xtb", 100.0, 400.0, 1.0)]))

    assert 4.0 == before.busy
    assert 0.5 == use_of(ProgramsAnswer([ProgramState("xtb", 104.0, 402.0, 1.0)]), before).busy
    other = use_of(ProgramsAnswer([ProgramState("orca", 2.0, 6.0, 12.0)]), before)
    assert (3.0, "12 GB") == (other.busy, memory_text(other))
    again = use_of(ProgramsAnswer([ProgramState("xtb", 2.0, 6.0, 1.0)]), before)
    assert 3.0 == again.busy


def test_a_program_that_cannot_be_looked_at_has_no_figures() -> None:
    x = ProgramState("x", 4.0, 4.0, 0.5)
    use = use_of(ProgramsAnswer([ProgramState("sudo", 10.0, None, None)]))
    table = made(overview(workers=1, runs=2), "running", {("mission0", 1): use})

    assert ["", "-"] == column(table, "CPU")
    assert ["", "-"] == column(table, "MEMORY")
    assert (["1.0"], ["0.50 GB"]) == (
        [busy_text(use_of(ProgramsAnswer([x, ProgramState("sudo", 10.0, None, None)])))],
        [memory_text(use_of(ProgramsAnswer([x, ProgramState("sudo", 1.0, None, None)])))],
    )


def test_a_run_of_a_mission_that_has_left_is_shown_without_a_name() -> None:
    table = made(replace(overview(workers=1, runs=1), missions=[]), "running")

    assert (["mission mission0:1"], None) == (column(table, "TASK"), table.rows[0].about)


def test_the_title_says_how_many_run_and_how_many_are_listed() -> None:
    answer = overview(workers=1, runs=2)
    answer = replace(answer, tasks=replace(answer.tasks, running=64))

    table = made(answer, "running")
    assert ("RUNNING  64", 62) == (table.title, table.more)


def test_what_waits_has_the_reason() -> None:
    table = made(overview(), "waiting")

    assert ["3000", "1500", "1000"] == column(table, "TASKS")
    assert "opt:500" == column(table, "OLDEST")[0]
    run = Run(mission="mission0", task=500, name="opt:500", state="waiting")
    assert run == table.rows[0].about
    assert "not enough Cores free on any of the 3 workers" == column(table, "WHY")[0]


def test_alternatives_and_gangs_stand_as_users_write_them_and_too_few_workers_stand_out() -> None:
    too_few = "4 workers are needed at once, and 2 here would do"
    requests = ["GPUs(1) | Cores(16)", "Either(GPUs(1), Cores(16), prefer=60)", "4 * Cores(16)"]
    queues = [queue(k, asked=request) for k, request in enumerate(requests)]
    answer = replace(
        overview(), queues=[*queues[:2], replace(queues[2], why=too_few, lack="members")]
    )
    table = made(answer, "waiting")

    assert requests == column(table, "ASKS FOR")
    assert ["", "", "warn"] == [row.style for row in table.rows]
    assert too_few == column(table, "WHY")[2]


def test_tasks_that_wait_for_something_else_are_in_the_title() -> None:
    tasks = replace(overview().tasks, awaiting_report=2, suspect=1)
    table = made(overview(more_queues=4, tasks=tasks), "waiting")

    assert ("WAITING  5500, 2 awaiting report, 1 suspect", 4) == (table.title, table.more)


def test_a_request_that_fits_nowhere_stands_out() -> None:
    answer = replace(overview(), queues=[queue(0, lack="room")])

    assert ["warn"] == [row.style for row in made(answer, "waiting").rows]


def test_the_last_failure_is_the_first() -> None:
    crashed = failure(9, state="crashed", message="SIGKILL")
    table = made(replace(overview(), failures=[failure(0), crashed]), "failures")

    assert ["opt:49", "opt:40"] == column(table, "TASK")
    assert ["given up after crashes: SIGKILL", "it raised an exception"] == column(table, "HOW")


def test_a_failure_that_is_tried_again_is_none_for_good() -> None:
    tasks = replace(overview().tasks, failed=1, retried=2)
    again = failure(1, error="ValueError", message="no", again=True)
    table = made(replace(overview(), tasks=tasks, failures=[failure(0), again]), "failures")

    assert "FAILURES  1, and 2 that were tried again; the last 2 here" == table.title
    assert ["ValueError: no", "it raised an exception"] == column(table, "HOW")
    assert ["1", "-"] == column(table, "AGAIN")
    assert ["warn", "bad"] == [row.style for row in table.rows]
    assert ["0", "1"] == column(made(overview(), "missions"), "RETRIED")


def test_failures_of_one_cause_are_one_row_with_the_line_that_says_why_first() -> None:
    def scf(n: int, cycles: int = 250, code: int = 128) -> Run:
        what = failed(f"xtb m{n}.xyz", code, f"SCF did not converge in {cycles} cycles")
        return failure(n, failure=what)

    one = [scf(0), scf(1), failure(2, state="crashed", message="SIGKILL")]
    table = made(replace(overview(), failures=one), "failures")
    assert ["exit 128: SCF did not converge in 250 cycles", "given up after crashes: SIGKILL"] == (
        column(table, "HOW")
    )
    assert (["2", "1"], ["opt:41", "opt:42"]) == (column(table, "RUNS"), column(table, "TASK"))
    assert [None, "opt:42"] == [row.about and row.about.name for row in table.rows]

    varied = [scf(0, 100), scf(1, 200), scf(2, code=3), failure(3, function="energy")]
    table = made(replace(overview(), failures=varied), "failures")
    assert ["2", "1", "1"] == column(table, "RUNS")
    assert "exit 128: SCF did not converge in … cycles" == column(table, "HOW")[0]


def test_the_failures_of_one_cause_can_be_listed_one_by_one() -> None:
    failures = [failure(n, error="OSError", message="disk") for n in range(2)] + [failure(5)]
    answer = replace(overview(), failures=failures)
    key = made(answer, "failures").rows[0].key
    table = failures_table(answer, key)

    assert ["opt:41", "opt:40"] == column(table, "TASK")
    assert "FAILURES  2 failures of one cause; Escape shows all" == table.title
    assert made(answer, "failures") == failures_table(answer, "a cause that has left")


# ---- functions


def functions(*rows: Function, missions: int = 1, **more: Any) -> Table:
    said = outlook(functions=rows, **more)
    seen = [mission(number, outlook=said) for number in range(missions)]
    return made(replace(overview(), missions=seen), "functions")


def test_a_function_has_its_counts_its_median_time_and_what_it_uses_of_what_it_asks_for() -> None:
    table = functions(
        function("prepare", running=0, waiting=0), function(failed=2, seconds=amounts(9, 75.0))
    )

    assert ["prepare", "optimise"] == column(table, "FUNCTION")
    assert (["1200"] * 2, ["0", "6"]) == (column(table, "DONE"), column(table, "RUNS"))
    assert (["0", "3994"], ["0", "2"]) == (column(table, "WAITS"), column(table, "FAILED"))
    assert ["5 s", "00:01:15"] == column(table, "MEDIAN")
    assert ["3.6 of 4"] * 2 == column(table, "COMPUTING")
    assert [Gauge(0.75, "1.5/2 GB")] * 2 == column(table, "MEMORY")
    assert ["dim", "warn"] == [row.style for row in table.rows]


def test_of_a_function_that_was_not_measured_nothing_is_said() -> None:
    none, cores = amounts(0), {"Cores": 4.0}
    odd = function(
        seconds=none, memory=none, busy=none, asked={"Memory": AskedAmounts(1, 0.0, 2.0)}
    )
    table = functions(odd, function(memory=none, request=cores), function(request=cores))

    assert "-" == column(table, "MEDIAN")[0]
    assert ["-", "3.6 of 4", "3.6 of 4"] == column(table, "COMPUTING")
    texts = ["?/2 GB", "-", "1.5 GB"]
    assert [Gauge(None, text) for text in texts] == column(table, "MEMORY")


def test_of_a_function_of_which_some_runs_were_not_measured_nothing_is_said() -> None:
    table = functions(function(busy=amounts(1199, 3.6)), function(memory=amounts(1199, 1.5)))

    assert ["- of 4", "3.6 of 4"] == column(table, "COMPUTING")
    assert [Gauge(0.75, "1.5/2 GB"), Gauge(None, "?/2 GB")] == column(table, "MEMORY")


def test_functions_have_the_name_of_their_mission_where_there_are_several() -> None:
    assert ["opt", "screen"] == column(functions(function(), missions=2), "MISSION")
    assert "MISSION" not in [one.name for one in functions(function()).columns]
    assert 14 == functions(function(), missions=2, more_functions=7).more
    table = functions(function("opt"), missions=2)
    found = arranged(table, RowOrder(words="screen:"))
    assert ["screen"] == [row.cells[1] for row in found]


def test_without_functions_it_is_said_when_missions_tell_of_them() -> None:
    silent = replace(overview(), missions=[mission(0, outlook=None)])

    assert "missions that show their progress" in made(silent, "functions").nothing
    assert "none is here" == made(replace(silent, missions=[]), "functions").nothing


# ---- many workers


def test_more_than_twenty_workers_are_drawn_in_small_too() -> None:
    workers = [worker(n, 1, computing=n * 16 / 21) for n in range(20)]
    odd = worker(20, state="away"), worker(21, state="draining"), worker(22, 1, computing=None)
    table = made(replace(overview(), workers=[*workers[1:], workers[0], *odd]), "workers")

    assert [0, 1, 1, 2, 2, 2] == [tile.level for tile in table.tiles[:6]]
    assert [("a", "bad"), ("d", "warn"), ("?", "")] == [
        (tile.letter, tile.style) for tile in table.tiles[20:]
    ]
    assert "cores computing, of all of a worker; a away; d draining" == table.legend
    assert () == made(overview(workers=20), "workers").tiles


def test_where_nothing_is_measured_the_tiles_are_of_given_cores() -> None:
    workers = [worker(n, 2, computing=None) for n in range(21)]
    table = made(replace(overview(), workers=workers), "workers")

    assert ({4}, "cores given, of all of a worker") == (
        {tile.level for tile in table.tiles},
        table.legend,
    )


def test_without_workers_a_sentence_says_what_to_type() -> None:
    none = overview(workers=0, missions=1)
    idle = replace(none, tasks=replace(none.tasks, waiting=0))

    assert "5,500 tasks wait, and no worker is here. Type `grain up` in any shell." == (
        made(none, "workers").invitation
    )
    assert "No worker is here. Type `grain up` in any shell to start some." == (
        made(idle, "workers").invitation
    )
    assert "" == made(replace(none, more_workers=3), "workers").invitation
    assert "" == made(overview(), "workers").invitation


def test_names_cannot_control_the_terminal() -> None:
    answer = replace(
        _with(worker(0, 1, label="w\x1b[2J", host="n\u202e1")),
        missions=[mission(0, label="o\npt", outlook=outlook(functions=(function("f\x1b[2J"),)))],
        queues=[queue(0, asked="Cores(1)\x07", why="\x9b31m")],
        failures=[failure(0, function="\x1b]0;x\x07", error="\r")],
    )
    cells = [
        cell.text if isinstance(cell, Gauge) else cell
        for table in tables(answer, {}).values()
        for row in table.rows
        for cell in row.cells
    ]

    assert "w?[2J" in cells
    assert all(cell.isprintable() for cell in cells)


# ---- order


def names(table: Table, order: RowOrder) -> list[str]:
    return [str(row.cells[0]) for row in arranged(table, order)]


def test_rows_are_sorted_by_numbers_from_the_largest_and_by_words_from_a() -> None:
    table = made(overview(workers=3), "workers")

    assert [f"w093015-{n}" for n in (2, 1, 0)] == names(table, RowOrder("LEFT"))
    assert [f"w093015-{n}" for n in (0, 1, 2)] == names(table, RowOrder("HOST"))
    assert [f"w093015-{n}" for n in (2, 1, 0)] == names(table, RowOrder("HOST", reverse=True))
    assert [f"w093015-{n}" for n in (2, 1, 0)] == names(table, RowOrder(reverse=True))


def test_rows_that_lack_a_value_are_sorted_with_the_others() -> None:
    """As missions of which the scheduler does not count what runs."""
    missions = [mission(0, running=None), mission(1, running=3), mission(2, running=0)]
    table = made(replace(overview(), missions=missions), "missions")
    for column in table.columns:
        assert 3 == len(names(table, RowOrder(column.name)))
    ranked = names(table, RowOrder("RUNS"))
    assert [table.rows[at].cells[0] for at in (1, 2, 0)] == ranked


def test_a_sort_by_a_column_that_is_not_there_changes_nothing() -> None:
    table = made(overview(workers=3), "workers")

    assert list(table.rows) == arranged(table, RowOrder("STREAMS"))


def test_rows_are_left_out_that_lack_a_word() -> None:
    table = made(overview(workers=3), "workers")

    assert ["w093015-1"] == names(table, RowOrder(words="N18 serving"))
    assert [] == names(table, RowOrder(words="n18 away"))


def test_the_order_goes_through_the_columns_and_back_to_the_tables_own() -> None:
    table = made(overview(), "failures")
    order, heads = RowOrder(), []
    for _ in range(len(table.columns) + 1):
        order = next_column(table, order)
        heads.append(order.column)

    assert [*(column.name for column in table.columns), ""] == heads


def test_the_totals_begin_with_the_cores() -> None:
    answer = overview(workers=3)

    others = ["12 running, 5500 waiting", "3600 done, 3 failed", "3.6/s"]
    assert ["48 of 48 cores given, 11 computing", *others] == totals(answer)
    unknown = replace(answer, computing=None)
    assert ["48 of 48 cores given", *others] == totals(unknown)
