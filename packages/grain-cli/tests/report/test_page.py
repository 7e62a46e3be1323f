"""The page as text: everything stands in it, nothing of a user's is taken for markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.report.charts import time_strip
from grain.cli.report.collecting import collect
from grain.cli.report.figures import ALL_ROWS
from grain.cli.report.page import render
from grain.eventlog.causes import RunFailure
from grain.eventlog.schema import (
    LogEnded,
    LogStarted,
    Remark,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    WorkerLeft,
)
from grain.eventlog.usage import Usage
from grain.facts.amounts import Histogram
from grain_testkit.campaign import Campaign
from grain_testkit.event_logs import SyntheticMission
from grain_testkit.small_log import learned

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.eventlog.schema import AnyLine

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    "'\"&amp;\u2028\u202e\x00]]>{{7*7}}"
)
HEADER = LogStarted(time=1000.0, version=1, grain="1.0.0", id="i", name="opt")


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {"": ""}
        self._within: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self._within.append(f"{tag} {dict(attrs).get('id') or ''}".strip())

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        where = self._within[-1] if self._within else ""
        self.text[where] = self.text.get(where, "") + (data if where else f"{data} ")

    @property
    def words(self) -> str:
        """The text that is shown, with single spaces."""
        return " ".join(self.text[""].split())

    @property
    def data(self) -> Any:
        """The data of the script."""
        return json.loads(self.text["script data"])


def page(lines: Iterable[AnyLine], *, written: bool = False, notes: tuple[str, ...] = ()) -> Page:
    text = render(collect(lines), written=written, version="1.0.0", notes=list(notes))
    return Page(text)


@pytest.fixture(scope="module")
def mission() -> Page:
    return page(SyntheticMission(300, seed=4, workers=4, failing=0.08).lines())


def test_the_headline_and_the_tables_are_there_without_a_script(mission: Page) -> None:
    for words in (
        "screening done", "Makespan", "Core-hours", "Utilisation", "Wasted", "w080000-3",
        "its node does not answer any more", "exit 128: abnormal termination of xtb task",
        "Cores(4) & Memory(8) & WTime('2h')", "Critical path", "waiting for room",
        "host login1", "run by Grain 1.0.0 on Python 3.12.4", "Made by grain report of Grain 1.0.0",
    ):  # fmt: skip
        assert words in mission.words
    assert 8 <= len([tag for tag, _ in mission.tags if tag == "table"])
    pictures = [attributes for tag, attributes in mission.tags if attributes.get("role") == "img"]
    assert 10 <= len(pictures)
    assert all(one.get("aria-label") for one in pictures)


def test_a_page_loads_nothing_and_runs_only_its_own_script(mission: Page) -> None:
    for tag, attributes in mission.tags:
        assert not {"style", "onclick", "onload", "onerror"} & set(attributes), tag
        for name in ("src", "href"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/png;base64,")), (tag, value)
    [policy] = [
        attributes["content"] or ""
        for tag, attributes in mission.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(mission.text[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_nothing_of_a_user_is_taken_for_markup() -> None:
    one = page(
        [
            LogStarted(
                time=1000.0, version=1, grain=HOSTILE, id=HOSTILE,
                name=HOSTILE, command=(HOSTILE,), directory=HOSTILE, host=HOSTILE,
            ),
            WorkerJoined(
                time=1000.0, worker=HOSTILE, host=HOSTILE, job=HOSTILE,
                resources={"Cores": 4.0, HOSTILE: 2.0},
            ),
            TaskSubmitted(
                time=1001.0, task=1, function=HOSTILE, request={"Cores": 4.0, HOSTILE: 1.0},
                request_text=HOSTILE,
            ),
            TaskStarted(time=1002.0, task=1, worker=HOSTILE),
            RunEnded(
                time=1009.0, task=1, outcome="error", worker=HOSTILE, host=HOSTILE, started=1002.0,
                ended=1009.0, failure=RunFailure(HOSTILE, HOSTILE), call=HOSTILE,
                usage=Usage(user=1.0, peak_memory=1.0, measured_by="cgroup"),
            ),
            Remark(time=1010.0, text=HOSTILE),
            WorkerLeft(time=1011.0, worker=HOSTILE, why=HOSTILE),
            LogEnded(time=1012.0, status="failed", message=HOSTILE),
        ],
        notes=(HOSTILE,),
    )  # fmt: skip

    assert ["style", "script data", "script"] == [where for where in one.text if where]
    assert not [tag for tag, _ in one.tags if tag == "img"]
    assert not [name for _, attributes in one.tags for name in attributes if name.startswith("on")]
    shown = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&amp;???]]>{{7*7}}"
    assert 13 <= one.words.count(shown)
    assert [shown] == one.data["functions"]
    assert shown == one.data["workers"][0][0]


@pytest.mark.parametrize("count", [1, 250])
def test_a_cause_has_the_calls_that_failed_so_one_in_a_line(count: int) -> None:
    lines: list[AnyLine] = [HEADER]
    for task in range(1, count + 2):
        call = f"f('m{task}.xyz')" if task <= count else ""  # one is of an older Grain
        lines += [
            TaskSubmitted(time=1001.0, task=task, function="f"),
            RunEnded(
                time=1002.0, task=task, outcome="error", failure=RunFailure("ValueError"), call=call
            ),
        ]

    made = page([*lines, LogEnded(time=1003.0, status="failed")])

    shown, text = min(count, 200), made.words
    assert "\n".join(f"f('m{task}.xyz')" for task in range(1, shown + 1)) in made.text[""]
    assert f"{count} call{'s' if count > 1 else ''} failed so for good" in text
    more = "+50 more calls: grain report --all shows all. grain history --calls lists them, too."
    assert (more in text) == (count > 1)


def test_the_data_of_the_timeline_has_every_run() -> None:
    lines = list(SyntheticMission(200, seed=4, workers=3).lines())
    data = page(lines).data

    unit, bars = data["unit"], []
    lanes: dict[tuple[str, int], int] = {}
    for name, rows in data["workers"]:
        for row in rows:
            end = task = 0
            for gap, length, code, step, more in zip(*[iter(row)] * 5, strict=True):
                start, end, task = end + gap, end + gap + length, task + step
                function, state = divmod(code, 3)
                bars.append(
                    (name, task, data["functions"][function], state, start * unit, end * unit)
                )
                lanes[name, task] = 1 + len(data["more"][more])
    functions = {line.task: line.function for line in lines if isinstance(line, TaskSubmitted)}
    runs = [line for line in lines if isinstance(line, RunEnded)]
    assert sorted(
        (run.worker, run.task, functions[run.task], int(run.outcome != "value")) for run in runs
    ) == sorted(bar[:4] for bar in bars)
    began = lines[0].time
    ends = {(run.worker, run.task): (run.ended or run.time) - began for run in runs}
    assert all(abs(ends[bar[0], bar[1]] - bar[5]) <= 3 * unit for bar in bars)
    cores = {"conformers": 1, "optimise": 4, "frequencies": 8, "energy": 2}
    shown = {(run.worker, run.task): cores[functions[run.task]] for run in runs if run.usage}
    assert shown.items() <= lanes.items()


def test_a_mission_that_goes_on_says_what_runs_and_waits() -> None:
    lines: list[AnyLine] = [
        HEADER,
        WorkerJoined(time=1000.0, worker="w", resources={"Cores": 8.0}),
        TaskSubmitted(time=1000.0, task=1, function="f"),
        TaskSubmitted(time=1000.0, task=2, function="f"),
        TaskStarted(time=1010.0, task=1, worker="w"),
        Remark(time=1100.0, text="a sentence"),
    ]

    running = page(lines, written=True).words
    assert "opt running" in running
    assert "Running now: 1; waiting: 1." in running
    assert "So far 1 min 40 s" in running
    killed = page(lines).words
    assert "opt killed" in killed
    assert "The log has no last line: its process was killed, or the disk was full." in killed


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "No task was submitted up to the end of this log."),
        ([HEADER], "No task was submitted up to the end of this log."),
        ([HEADER, LogEnded(time=1000.0, status="done")], "opt done"),
        ([HEADER, LogEnded(time=1060.0, status="done", lost=7)],
         "7 lines of the log could not be written, as the disk was full"),
        ([HEADER, TaskSubmitted(time=1000.0, task=1, function="f")], "f 1 0 0 0"),
        ([HEADER, TaskSubmitted(time=1001.0, task=1, function=""),
          RunEnded(time=1001.0, task=1, outcome="value", started=1001.0, ended=1001.0)],
         "(unknown function)"),
        ([HEADER, RunEnded(time=1002.0, task=9, outcome="crashed", worker="w", started=1.0)],
         "(it has no message)"),
        ([HEADER, WorkerJoined(time=1000.0, worker="w"), LogEnded(time=9e12, status="done")],
         "an unknown time"),
    ],
)  # fmt: skip
def test_logs_with_next_to_nothing_in_them_have_a_page(lines: list[AnyLine], says: str) -> None:
    assert says in page(lines).words


def one_of_all(count: int) -> Iterable[AnyLine]:
    """Workers, each with a task of its own function, that fails by its own cause."""
    yield HEADER
    for at in range(1, count + 1):
        name = "".join(chr(97 + int(digit)) for digit in str(at))
        time = 1000.0 + at
        yield WorkerJoined(time=time, worker=name, resources={"Cores": 2.0})
        yield TaskSubmitted(time=time, task=at, function=name, request={"Cores": 2.0})
        yield TaskStarted(time=time, task=at, worker=name)
        yield RunEnded(
            time=time + 1, task=at, outcome="error", worker=name, failure=RunFailure("", name)
        )


def test_the_page_of_very_many_tasks_is_small_and_says_what_it_lacks() -> None:
    text = render(collect(one_of_all(5000)), written=False, version="1.0.0", notes=[])

    assert len(text.encode()) < 1_500_000
    for more in ("4,000 more workers", "4,800 more functions", "4,976 more functions"):
        assert f"+{more}: grain report --all shows all." in text
    assert "+481 more causes" in text
    assert "grain history --csv has the message of each run." in text


def test_every_cause_is_on_the_page_and_those_beyond_twenty_are_folded() -> None:
    made = page(one_of_all(70))

    words = made.words
    folded = words.index("+50 more causes")
    for at in range(1, 71):
        name = "".join(chr(97 + int(digit)) for digit in str(at))
        assert (words.index(f"after the start {name} {name}: 1") > folded) == (at > 20)
    assert "grain history --csv" not in words


def test_a_cause_names_all_its_workers() -> None:
    lines: list[AnyLine] = [HEADER]
    for task in range(1, 11):
        lines += [
            TaskSubmitted(time=1001.0, task=task, function="f"),
            RunEnded(
                time=1002.0, task=task, outcome="error", started=1001.0, worker=f"w{min(task, 8)}"
            ),
        ]

    words = page(lines).words
    assert "w8: 3, w1: 1, w2: 1 +5 more workers w3: 1, w4: 1, w5: 1, w6: 1, w7: 1" in words


def test_all_rows_are_shown_if_they_are_asked_for() -> None:
    made = render(
        collect(one_of_all(1100)), written=False, version="1.0.0", notes=[], rows=ALL_ROWS
    )

    assert "grain report --all" not in Page(made).words
    rows = made[made.index('<section id="workers">') : made.index('<section id="timeline">')]
    assert 1100 == rows.count('<th scope="row">')
    assert 1100 == len(Page(made).data["workers"])


def test_a_long_name_stands_on_the_page_as_a_whole_and_short_beside_pictures() -> None:
    long = "a" * 40 + "b" * 40
    made = page([
        HEADER,
        WorkerJoined(time=1000.0, worker=long, resources={"Cores": 1.0}),
        TaskSubmitted(time=1000.0, task=1, function=long),
        TaskStarted(time=1000.0, task=1, worker=long),
        RunEnded(time=1010.0, task=1, outcome="value", worker=long, started=1000.0, cpus=(0,)),
        TaskSubmitted(time=1010.0, task=2, function="g", after=(1,)),
    ])  # fmt: skip

    assert 5 <= made.words.count(long)
    for half in (6, 21, 18):  # beside a picture, in a legend, in the graph
        assert f"{'a' * half}…{'b' * half}" in made.words
    assert 2 == made.source.count(f"<title>{long}</title>")


def test_every_picture_over_time_has_units_at_both_axes(mission: Page) -> None:
    plots = re.findall(r'<svg class="drawn".*?</div>', mission.source, re.DOTALL)

    assert 6 == len(plots)  # cores, memory, the map of workers, runs, waiting, given
    for unit in ("cores", "GB", "tasks"):
        assert [plot for plot in plots if f'<text class="unit" x="0" y="11">{unit}</text>' in plot]
    assert all("minutes since the start</text>" in plot for plot in plots)
    assert 2 == mission.source.count('text-anchor="end">worker</text>')


def test_the_graph_has_the_functions_with_their_tasks_and_the_arrows_in_a_table() -> None:
    made = page(Campaign(63).lines())
    graph = made.source[made.source.index('<section id="graph">') :]
    graph = graph[: graph.index("</section>")]

    for style in ("wider", "narrower"):
        picture = graph[graph.index(f'<div class="graph {style}') :]
        picture = " ".join(Page(picture[: picture.index("</div>\n</div>")]).words.split())
        for words in ("prepare 63 tasks", "optimise 63 tasks, ", "energy ", "dock 6 tasks"):
            assert words in picture
    assert "optimise prepare 63" in Page(graph).words
    assert "Graph" in made.words


def test_arrows_that_are_not_drawn_are_in_the_table() -> None:
    names = [f"f{number}" for number in range(12)]
    lines: list[AnyLine] = [HEADER]
    for name in names * 2:
        task = len(lines)
        after = tuple(range(1, task))
        lines.append(
            TaskSubmitted(time=1000.0 + task, task=task, function=name, after=after)
        )  # fmt: skip

    made = page(lines)
    assert "+42 more arrows of fewer tasks: the table has them." in made.words
    assert 144 == made.source.count('</th><td><span class="name short">f')


def test_functions_that_do_not_come_after_each_other_have_no_graph() -> None:
    lines: list[AnyLine] = [HEADER, *(
        TaskSubmitted(time=1000.0 + task, task=task, function=name, after=after)
        for task, name, after in ((1, "f", ()), (2, "f", (1,)), (3, "g", ()))
    )]  # fmt: skip

    assert "Graph of functions" not in page(lines).words


def test_what_never_ran_has_one_sentence_and_no_figures_of_runs() -> None:
    words = page(Campaign(63).lines()).words

    assert 1 == words.count("6 tasks never ran: no worker had GPUs.")
    assert "dock (never ran) 6 " in words
    card = words[words.index("dock asked Cores(1) & Memory(4) & GPUs(1)") :]
    assert card.startswith(
        "dock asked Cores(1) & Memory(4) & GPUs(1) & WTime(3600) "
        "sufficed not known: none of its tasks ran"
    )


def test_the_makespan_is_that_of_what_ran() -> None:
    lines: list[AnyLine] = [
        HEADER,
        *(TaskSubmitted(time=1000.0, task=task, function="f") for task in (1, 2)),
        TaskStarted(time=1000.0, task=1, worker="w"),
        RunEnded(time=1060.0, task=1, outcome="value", worker="w", started=1000.0),
        RunEnded(time=4600.0, task=2, outcome="cancelled", attempt=0),
        LogEnded(time=4600.0, status="done"),
    ]

    words = page(lines).words
    assert "Makespan 1 min to the end of the last run; the mission ended 59 min later" in words


def test_runs_of_one_length_have_a_figure_below_them() -> None:
    strip = time_strip("", histogram(0.021, 0.024), None)
    assert ["0.021 s"] == [label for _, label in strip.x][:1]
    assert [] != time_strip("", histogram(0.02), None).x


def histogram(*seconds: float) -> Histogram:
    found = Histogram()
    for one in seconds:
        found.add(one)
    return found


def test_memory_that_was_learned_is_explained_and_its_maximum_is_not_called_too_much() -> None:
    got = page([HEADER, *learned()])
    assert (
        "opt asked for 2.4 GB: 2 of 3 runs needed no more (median 2, largest 5.5); 1 attempt had "
        "too little"
    ) in got.words
    assert "asked for 32 GB of memory" not in got.words
    assert ("code", {"class": "better"}) not in got.tags


def test_a_request_is_marked_as_too_large_only_where_it_kept_something_from_others() -> None:
    def marked(seconds: float, memory: float) -> bool:
        used = Usage(user=seconds, peak_memory=memory, measured_by="polling", programs=1)
        request = {"Cores": 1.0, "Memory": 2.0, "WTime": 3600.0}
        end = 1000.0 + seconds
        got = page([
            HEADER,
            TaskSubmitted(time=1000.0, task=1, function="f", request=request, request_text="R"),
            TaskStarted(time=1000.0, task=1, worker="w"),
            RunEnded(
                time=end, task=1, outcome="error" if seconds > 3590 else "value", worker="w",
                started=1000.0, ended=end, usage=used,
                failure=RunFailure("TooSlowError" if seconds > 3590 else ""),
            ),
        ])  # fmt: skip
        return ("code", {"class": "better"}) in got.tags

    assert [True, False, False, False] == [
        marked(60.0, 0.5), marked(60.0, 1.9), marked(60.0, 2.5), marked(3600.0, 1.9)
    ]  # fmt: skip
