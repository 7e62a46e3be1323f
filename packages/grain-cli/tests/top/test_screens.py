"""The screens of `grain top`, drawn without a terminal."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from textual.color import Color
from textual.widgets import Input

from grain.cli.batch import JobRecord, JobRecords
from grain.cli.top.app import Arrived, Top
from grain.cli.top.details import TaskScreen, WorkerScreen
from grain.cli.top.link import Seen
from grain.cli.top.pane import Pane
from grain.cli.top.plain import text
from grain.cli.top.prompts import KEYS, Confirm, Help
from grain.cli.top.tables.picture import ASCII
from grain.cli.top.tables.verdict import verdict
from grain.edge.questions import (
    CallAnswer,
    FoundAnswer,
    ProgramsAnswer,
    ProgramState,
    RunsAnswer,
    WhyAnswer,
)
from grain.facts.rows import Run, Worker
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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from grain.edge.questions import Ask


class Answers:
    """The link to a scheduler that gives prepared answers, and records the questions."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[Ask] = []

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def put(self, question: Ask, form: Any, done: Callable[[Any], object]) -> None:
        assert form is not None
        self.asked.append(question)
        if question.about in self.answers:
            done(self.answers[question.about])


def shown(app: Top) -> list[str]:
    """Return the lines of the screen."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


async def until_shown(app: Top, pilot: Pilot[Any], words: str) -> str:
    """Wait until some words are on the screen, for what comes from a thread; return its text."""
    end = time.monotonic() + 120
    while words not in (text := "\n".join(line.rstrip() for line in shown(app))):
        assert time.monotonic() < end, text
        await pilot.pause(0.05)
    return text


async def until_hidden(app: Top, pilot: Pilot[Any], words: str) -> None:
    """Wait until some words are no longer on the screen."""
    end = time.monotonic() + 120
    while words in (text := "\n".join(shown(app))):
        assert time.monotonic() < end, text
        await pilot.pause(0.05)


def use(
    play: Callable[[Top, Pilot[Any]], Awaitable[None]],
    *seen: Seen,
    size: tuple[int, int] = (80, 24),
    **answers: Any,
) -> Answers:
    """Let a user run the program; return the questions and answers."""
    given = Answers(**answers)

    async def run() -> None:
        app = Top("unix:///tmp/grain")
        app.link = given  # type: ignore[assignment]
        async with app.run_test(size=size) as pilot:
            for one in seen or (Seen(overview()),):
                app.post_message(Arrived(one))
            await pilot.pause()
            await pilot.pause()
            await play(app, pilot)

    asyncio.run(run())
    return given


def picture(*seen: Seen, size: tuple[int, int] = (80, 24), keys: tuple[str, ...] = ()) -> list[str]:
    """Return the lines of the screen after some keys."""
    lines: list[str] = []

    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press(*keys)
        await pilot.pause()
        lines.extend(line.rstrip() for line in shown(app))

    use(look, *seen, size=size)
    return lines


def titles(lines: list[str]) -> list[str]:
    return [
        line.split()[0]
        for line in lines
        if line.startswith(("MISS", "FUNCTIONS", "WORK", "RUNNING", "WAITING", "FAILURES"))
    ]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 24)])
def test_every_table_is_on_the_screen_within_its_width(size: tuple[int, int]) -> None:
    lines = picture(size=size)

    assert ["MISSIONS", "FUNCTIONS", "WORKERS", "RUNNING", "WAITING", "FAILURES"] == titles(lines)
    assert all(len(line) <= size[0] for line in lines)
    assert any("w093015-0" in line for line in lines)
    assert lines[0].startswith("grain top")
    assert "48 of 48" in lines[0] or size[0] == 40
    assert lines[-1].startswith("q quit")


def test_a_large_screen_has_bars_for_all_kinds() -> None:
    lines = picture(size=(120, 40))
    [head] = [line for line in lines if "CORES" in line]
    [row] = [line for line in lines if line.startswith("w093015-0")]

    assert head.split()[-4:] == ["CORES", "COMPUTING", "MEMORY", "GPUS"]
    assert "███▒▒▒▒▒▒▒▒▒ 16/16        3.6  ▒▒▒▒▒▒░░░░░░ 30/59.5  ░░░░░░░░░░░░ 0/2" in row


@pytest.mark.parametrize("size", [(10, 3), (1, 1), (20, 5), (300, 100)])
def test_no_size_is_an_error(size: tuple[int, int]) -> None:
    assert picture(size=size)


def test_a_thousand_workers_scroll() -> None:
    many = Seen(overview(workers=1000, runs=1))
    lines = picture(many, keys=("3", "end"))

    assert any(line.startswith("w093015-999") for line in lines)
    assert not any(line.startswith("w093015-0 ") for line in lines)


def test_the_cursor_stays_on_its_row_when_others_come() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "down", "down")
        pane = app.query_one("#workers", Pane)
        assert pane.row is not None
        assert "w093015-2" == pane.row.cells[0]
        workers = [worker(0, id="new", label="a"), *overview().workers]
        app.post_message(Arrived(Seen(replace(overview(), workers=workers))))
        await pilot.pause()
        await pilot.pause()
        assert "w093015-2" == pane.row.cells[0]

    use(look)


def test_names_are_drawn_as_they_are_without_markup_and_escape_codes() -> None:
    odd = worker(0, label="[red]x[/red]\x1b[31m", host="[@click=app.quit]n[/]")
    lines = picture(Seen(replace(overview(), workers=[odd])), size=(200, 40))

    assert any("[red]x[/red]?[31m" in line for line in lines)
    assert any("[@click=app.quit]n[/]" in line for line in lines)


def test_the_screen_of_a_worker_draws_no_escape_code_of_its_name(alone: Path) -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "enter")
        text = await until_shown(app, pilot, "no log of w?]0;x?")
        assert "\x1b" not in text

    odd = replace(worker(0), name="w\x1b]0;x\x07")
    use(look, Seen(replace(overview(), workers=[odd])))


def test_a_question_about_an_odd_name_is_drawn_as_it_is() -> None:
    odd = worker(0, label="[red]x[/")
    lines = picture(Seen(replace(overview(), workers=[odd])), keys=("3", "d"))

    assert any("Drain worker [red]x[/?" in line for line in lines)


def test_without_colours_the_styles_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def look(app: Top, _: Pilot[Any]) -> None:
        strips = app.screen._compositor.render_strips()
        for strip in strips:
            for line_filter in app._filters:
                if line_filter.enabled:
                    strip = strip.apply_filter(line_filter, Color(0, 0, 0))
            assert not any(
                segment.style and segment.style.color and not segment.style.color.is_default
                for segment in strip
            )

    use(look, Seen(replace(overview(), workers=[worker(0, state="away")])))


def test_a_lost_scheduler_is_named_and_the_picture_stays() -> None:
    lines = picture(Seen(overview()), Seen(None, "no scheduler answers at unix:///tmp/grain"))

    assert "no scheduler answers at unix:///tmp/grain; looking again" == lines[1]
    assert any("w093015-0" in line for line in lines)


def test_troubles_of_the_scheduler_are_on_the_second_line() -> None:
    lines = picture(Seen(overview(troubles=["the disk is full"])))

    assert "the disk is full" == lines[1]


def test_workers_that_were_lost_lately_are_in_the_verdict_and_among_the_workers() -> None:
    def lost(name: str, before: float, tasks: int) -> Worker:
        at = AT - before
        return Worker(name=name, host="n", heard=at - 60, at=at, lost_runs=tasks)

    answer = overview(
        failures=0, lost=[lost("n00", 3600, 4), lost("n01", 90, 0), lost("n\x1b2", 30, 2)]
    )
    many = overview(failures=0, lost=[lost(f"n{number}", 9 - number, 1) for number in range(5)])

    def when(before: float) -> str:
        return moment(AT - before, AT)

    first = f"n?2 was lost at {when(30)}: 2 of its tasks had to start again."
    lines = picture(Seen(answer), keys=("v",))
    assert f"v {first}" == lines[1]
    assert f"Note: {first}" in text(answer, 120, ASCII).splitlines()
    rows = [line.split() for line in lines if "lost" in line[:30] and "was" not in line]
    assert [["n?2", "n", "lost"], ["n01", "n", "lost"]] == [row[:3] for row in rows]
    [found] = verdict(many)
    assert (
        "5 workers were lost (n4, n3, n2 and 2 others): 5 of their tasks had to start again."
        == found.text
    )


def test_each_sentence_of_the_verdict_has_a_key_that_leads_to_its_row() -> None:
    gpus = queue(2, asked="GPUs(9)", request={"GPUs": 9}, lack="room")
    lost = Worker(name="n02", host="n", heard=AT - 100, at=AT - 90, lost_runs=2)
    answer = replace(overview(lost=[lost]), queues=[queue(0), queue(1), gpus])

    async def look(app: Top, pilot: Pilot[Any]) -> None:
        lines = shown(app)
        assert ["v", "b", "n"] == [line.split()[0] for line in lines[1:4]]
        for key, name, cells in (
            ("v", "waiting", "GPUs(9)"),
            ("b", "failures", "it raised an exception"),
            ("n", "workers", "lost"),
        ):
            await pilot.press(key)
            pane = app.query_one(f"#{name}", Pane)
            assert pane.has_focus
            assert pane.row is not None
            assert cells in pane.row.cells

    use(look, Seen(answer))


def test_a_key_of_a_sentence_shows_a_row_that_a_filter_has_left_out() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("6", "slash", *"zzz", "enter", "v")
        pane = app.query_one("#failures", Pane)
        assert pane.has_focus
        assert pane.row is not None
        await pilot.press("b")  # there is no second sentence

    use(look)


@pytest.mark.parametrize(("height", "lines"), [(18, 1), (24, 3), (40, 4)])
def test_a_low_screen_has_one_sentence_and_a_high_one_whole_sentences(
    height: int, lines: int
) -> None:
    gpus = queue(0, asked="GPUs(9)", request={"GPUs": 9}, lack="room")
    row = function(busy=amounts(1200, 1.0))
    missions = [mission(0, outlook=outlook(functions=(row,)))]
    answer = replace(overview(), queues=[gpus], missions=missions)
    got = picture(Seen(answer), size=(80, height))

    at = next(n for n, line in enumerate(got) if line.startswith(("cores given", "MISSIONS")))
    assert lines == at - 1
    if height == 40:
        assert "at once." in got[4]


def test_a_high_screen_has_all_sentences_though_one_takes_two_lines() -> None:
    gpus = queue(0, asked="GPUs(9)", request={"GPUs": 9}, lack="room")
    lost = Worker(name="n02", host="n", heard=AT - 100, at=AT - 90, lost_runs=2)
    failures = [failure(n, error="ValueError", message="too many cycles " * 5) for n in (1, 2)]
    answer = replace(overview(lost=[lost]), queues=[gpus], failures=failures)
    got = picture(Seen(answer), size=(80, 40), keys=("5",))

    at = next(n for n, line in enumerate(got) if line.startswith("cores given"))
    assert ["v", "b", "n"] == [line[0] for line in got[1:at] if line[1] == " " and line[0] != " "]
    assert 4 == at - 1


def test_a_failure_that_is_opened_lists_those_of_its_cause_until_escape() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("6", "enter")
        pane = app.query_one("#failures", Pane)
        assert ["opt:42", "opt:41", "opt:40"] == [row.cells[1] for row in pane.rows]
        await pilot.press("escape")
        assert ["3"] == [row.cells[0] for row in pane.rows]
        await pilot.press("enter", "enter")
        assert isinstance(app.screen, TaskScreen)

    use(look)


def test_rows_that_are_not_seen_are_counted_in_the_title() -> None:
    lines = picture(Seen(overview(workers=30, runs=1, more_queues=4)))

    [workers] = [line for line in lines if line.startswith("WORKERS")]
    rows = [line for line in lines if line.startswith("w093015-")]
    assert workers.endswith(f"+{30 - len(rows)} more")
    [waiting] = [line for line in lines if line.startswith("WAITING")]
    assert waiting.endswith("+6 more")


def test_many_workers_are_drawn_in_small_above_the_rows_or_in_their_place() -> None:
    many = Seen(overview(workers=60, runs=1))
    tiles = "▁" * 60

    assert tiles in [line.strip() for line in picture(many)]
    lines = picture(many, size=(120, 40), keys=("3",))
    at = lines.index(tiles)
    assert "(cores computing, of all of a worker)" in lines[at - 1]
    assert lines[at + 1].startswith("NAME")
    filtered = picture(many, size=(120, 40), keys=("3", "slash", "n", "1", "8", "enter"))
    assert tiles not in filtered


def test_a_row_below_the_small_ones_can_be_clicked() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        pane = app.query_one("#workers", Pane)
        await pilot.click(pane, offset=(2, pane.heads + 1))
        assert 1 == pane.cursor

    use(look, Seen(overview(workers=60, runs=1)), size=(120, 40))


def test_without_workers_one_sentence_in_the_middle_says_what_to_type() -> None:
    lines = picture(Seen(overview(workers=0, failures=0)), size=(80, 24))

    [at] = [at for at, line in enumerate(lines) if "Type `grain up`" in line]
    assert 8 <= at <= 16
    line = lines[at]
    left = len(line) - len(line.lstrip())
    assert abs(left - (80 - left - len(line.strip()))) <= 1
    assert any(
        "Type `grain up`" in line for line in text(overview(workers=0), 80, ASCII).splitlines()
    )


def test_the_functions_have_the_focus_at_first_where_there_are_any() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        assert app.query_one("#functions", Pane).has_focus
        await pilot.press("4")
        app.post_message(Arrived(Seen(overview())))
        await pilot.pause()
        await pilot.pause()
        assert app.query_one("#running", Pane).has_focus

    use(look)

    async def silent(app: Top, _: Pilot[Any]) -> None:
        assert app.query_one("#workers", Pane).has_focus

    use(silent, Seen(replace(overview(), missions=[mission(0, outlook=None)])))


def test_keys_choose_a_table_and_sort_it() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("6", "s")
        pane = app.query_one("#failures", Pane)
        assert pane.has_focus
        assert "RUNS" == pane.order.column
        await pilot.press("r")
        assert pane.order.reverse
        await pilot.press("tab")
        assert not pane.has_focus

    use(look)


def test_words_leave_out_other_rows_until_escape() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "slash", *"n18")
        pane = app.query_one("#workers", Pane)
        assert ["w093015-1"] == [row.cells[0] for row in pane.rows]
        assert isinstance(app.focused, Input)
        await pilot.press("enter")
        assert pane.has_focus
        assert "[1 with 'n18'; Escape shows all]" in "".join(shown(app))
        await pilot.press("escape")
        assert 3 == len(pane.rows)

    use(look)


def test_escape_ends_the_typing_of_words() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "slash", "q", "escape")
        pane = app.query_one("#workers", Pane)
        assert pane.has_focus
        assert 3 == len(pane.rows)

    use(look)


def test_a_mission_that_is_opened_shows_only_its_tasks() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("1", "down", "enter")
        pane = app.query_one("#running", Pane)
        assert pane.rows
        assert all(str(row.cells[0]).startswith("screen:") for row in pane.rows)
        assert [] == app.query_one("#waiting", Pane).rows

    use(look)


def test_help_lists_the_keys_and_any_key_closes_it() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")
        assert isinstance(app.screen, Help)
        text = "\n".join(shown(app))
        assert all(what in text for _, what in KEYS)
        await pilot.press("q")
        assert not isinstance(app.screen, Help)

    use(look)


def test_a_worker_is_drained_after_a_yes() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "down", "d")
        assert isinstance(app.screen, Confirm)
        await pilot.press("n", "d", "x", "y")
        await pilot.pause()
        assert "worker w093015-1 leaves when 4 tasks ended" == shown(app)[1].rstrip()

    given = use(look, drain=[Worker(name="w", label="w", host="n", state="serving", running=4)])
    assert ["id1"] == [ask.pattern for ask in given.asked if ask.about == "drain"]
    assert not any(ask.at_once for ask in given.asked)


def test_a_task_is_cancelled_after_a_yes() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("5", "c", "escape", "c", "enter", "c", "y")
        await pilot.pause()
        assert "task opt:500 is cancelled; it waited" == shown(app)[1].rstrip()

    given = use(look, cancel=FoundAnswer(None, state="waiting"))
    asked = [(ask.mission, ask.task) for ask in given.asked if ask.about == "cancel"]
    assert [("mission0", 500)] == asked


def test_why_a_task_cannot_be_cancelled_is_shown() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "c", "y")
        await pilot.pause()
        assert "task 12 of opt has ended\x1b".replace("\x1b", "?") == shown(app)[1].rstrip()

    use(look, cancel=FoundAnswer(None, "task 12 of opt has ended\x1b"))


@pytest.mark.parametrize(
    ("keys", "words"), [(("c",), "choose a running"), (("1", "d"), "d drains")]
)
def test_a_key_that_fits_no_row_says_what_it_is_for(keys: tuple[str, ...], words: str) -> None:
    assert words in picture(keys=keys)[1]


FACTS = WhyAnswer(
    12,
    "running",
    ["on w093015-2 with Cores(4)"],
    "optimise",
    worker="w093015-2",
    host="n19",
    began=0.0,
    seconds=720.0,
)


def submitted(folder: Path, name: str, log: str) -> None:
    """Record a job with a log."""
    (folder / f"{name}.log").write_text(log)
    records = JobRecords(folder / "state/grain/jobs")
    record = JobRecord(name, "slurm", name, f"{folder}/{name}.log", "edge:///x", "", 1.0)
    records.add(records.new_file(), record)


def test_the_facts_of_a_task_stay_above_a_long_log(alone: Path) -> None:
    """In half of the screen at most; what does not fit there is found by scrolling."""
    submitted(alone, "w", "".join(f"opt:12 (mission0) optimise | cycle {n}\n" for n in range(100)))
    reasons = [f"w{n}: not now" for n in range(30)]

    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "enter")
        await until_shown(app, pilot, "cycle 99")
        lines = [line.rstrip() for line in shown(app)]
        assert ["TASK opt:12", "task opt:12 is running"] == [lines[0], lines[1][:22]]
        assert "opt:12 (mission0) optimise | cycle 99" == lines[-2]
        assert 11 == sum("cycle" in line for line in lines)
        await pilot.press("home")
        lines = [line.rstrip() for line in shown(app)]
        assert "task opt:12 is running" == lines[1][:22]
        assert any("not now" in line for line in lines[12:])

    use(look, Seen(overview(missions=1)), why=replace(FACTS, reasons=reasons))


def test_a_task_that_is_opened_has_its_facts_and_its_lines_of_all_workers(alone: Path) -> None:
    submitted(
        alone,
        "w",
        "hello\nopt:12 (mission0) optimise | SCF \x1b[2Jcycle 1\nopt:121 (mission0) other\n"
        "of opt:12 none\n",
    )
    submitted(alone, "earlier", "opt:12 (mission0) optimise | begun elsewhere\n")

    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "enter")
        text = await until_shown(app, pilot, "begun elsewhere")
        assert isinstance(app.screen, TaskScreen)
        assert "TASK opt:12" in text
        assert "it calls optimise('caffeine.xyz')" in text
        assert "it has run for 2 s, with 7.5 s of CPU time and 1.25 GB of memory now" in text
        assert "opt:12 (mission0) optimise | SCF ?[2Jcycle 1" in text
        assert "opt:12 (mission0) optimise | begun elsewhere" in text
        assert "opt:121" not in text
        assert "none" not in text
        assert "hello" not in text
        with (alone / "w.log").open("a") as log:
            log.write("opt:12 (mission0) optimise | SCF cycle 2\n")
        text = await until_shown(app, pilot, "SCF cycle 2")
        assert 1 == text.count("SCF cycle 2")
        await pilot.press("escape")
        assert not isinstance(app.screen, TaskScreen)

    use(
        look,
        Seen(overview(missions=1)),
        why=FACTS,
        arguments=CallAnswer("optimise('caffeine.xyz')"),
        programs=ProgramsAnswer([ProgramState("xtb caffeine.xyz", 2.0, 7.5, 1.25)]),
    )


def test_a_task_that_the_scheduler_has_forgotten_keeps_what_was_known(alone: Path) -> None:
    left = WhyAnswer(12, "unknown", ["no mission opt is here"])

    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "enter")
        await until_shown(app, pilot, "it calls optimise('caffeine.xyz')")
        app.link.answers |= {"why": left, "arguments": CallAnswer("")}  # type: ignore[attr-defined]
        text = await until_shown(app, pilot, "does not know task opt:12 any more; this is what")
        assert "task opt:12 is running" in text
        assert "it calls optimise('caffeine.xyz')" in text
        assert "no mission opt is here" in text
        assert "`grain why opt:12` reads the log of its mission" in text
        app.link.answers["why"] = FACTS  # type: ignore[attr-defined]
        await until_hidden(app, pilot, "any more")

    arguments = CallAnswer("optimise('caffeine.xyz')")
    use(look, Seen(overview(missions=1)), size=(100, 24), why=FACTS, arguments=arguments)


def test_a_task_that_was_forgotten_before_it_is_opened_says_so(alone: Path) -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "enter")
        text = await until_shown(app, pilot, "the scheduler does not know task opt:12 any more")
        assert "this is what it knew" not in text
        assert "is unknown" not in text

    use(look, Seen(overview(missions=1)), why=WhyAnswer(12, "unknown", ["it has left"]))


def test_a_task_that_has_printed_nothing_has_the_end_of_its_workers_log(alone: Path) -> None:
    submitted(alone, "w093015-2", "hello\nopt:121 other\n")

    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "enter")
        text = await until_shown(app, pilot, "hello")
        assert "no line of opt:12: none in the output of the 1 job" in text
        assert "w093015-2.log, the last lines" in text

    # The path of the log is long.
    use(look, Seen(overview(missions=1)), size=(300, 24), why=FACTS)


def test_a_worker_that_is_opened_has_all_its_runs(alone: Path) -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "enter")
        text = await until_shown(app, pilot, "no log of")
        assert isinstance(app.screen, WorkerScreen)
        assert "WORKER w093015-0" in text
        assert "RUNNING  70 " in text
        assert "+69 more" in text
        assert "opt:77" in text
        assert "no log of w093015-0 was written" in text

    run = Run(mission="mission0", task=77, function="optimise", started=0.0, asked="Cores(4)")
    use(look, runs=RunsAnswer([run], more=69, at=60.0))


def test_the_programs_of_tasks_that_are_seen_are_asked_for_and_no_others() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("4")
        app.post_message(Arrived(Seen(overview(workers=100, runs=1))))
        await pilot.pause()
        await pilot.pause()
        app.post_message(Arrived(Seen(overview(workers=100, runs=1))))
        await pilot.pause()
        await pilot.pause()
        assert "2 s xtb a.xyz" in "\n".join(shown(app))

    programs = ProgramsAnswer([ProgramState("xtb a.xyz", 2.0, 7.8, 1.25)])
    given = use(look, programs=programs, size=(120, 24))
    asked = [(ask.mission, ask.task) for ask in given.asked if ask.about == "programs"]
    assert 0 < len(asked) <= 40
    assert len(asked) == len(set(asked))


def test_a_picture_that_is_paused_does_not_change() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("p")
        app.post_message(Arrived(Seen(overview(workers=1))))
        await pilot.pause()
        await pilot.pause()
        assert "paused; p goes on" == shown(app)[1].rstrip()
        assert 3 == len(app.query_one("#workers", Pane).rows)

    use(look)


def test_q_ends_it() -> None:
    async def look(app: Top, pilot: Pilot[Any]) -> None:
        await pilot.press("q")
        await pilot.pause()
        assert 0 == app.return_value

    use(look)
