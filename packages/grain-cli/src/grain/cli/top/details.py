"""A worker or a task on a screen of its own, with its log as it grows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from textual.screen import Screen
from textual.widget import Widget

from grain.cli.query import explanation_of
from grain.cli.show import clean, explanation_facts, explanation_state, folded
from grain.cli.top.log import LogTail, WorkerLog
from grain.cli.top.pane import Pane, Scrolling, strip
from grain.cli.top.tables.tasks import runs_table
from grain.edge.questions import Ask, CallAnswer, ProgramsAnswer, RunsAnswer, WhyAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.strip import Strip

    from grain.cli.query import Explanation
    from grain.cli.top.link import Link
    from grain.cli.top.tables.picture import Marks
    from grain.edge.questions import OverviewAnswer
    from grain.facts.rows import Run

_LOOK = 1.0  # seconds between two looks at a task, and at a log


class Page(Scrolling):
    """Lines of text, folded to the width of the screen; at its end it stays at its end.

    The first lines may stay at the top while the others scroll below, in half of the height at
    most: what does not fit there scrolls with the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self._given: list[tuple[str, str]] = []
        self._folded: list[tuple[str, str]] = []
        self._first = 0
        self._follows = True
        # The number of lines that stay at the top: of the given lines, and of the folded ones.
        self._staying_given = self._staying = 0

    def put(self, lines: list[tuple[str, str]], staying: int = 0) -> None:
        """Show lines, each with its style; so many of them stay at the top."""
        self._given = lines
        self._staying_given = staying
        self._fold()

    def on_resize(self) -> None:
        """Fold the lines again."""
        self._fold()

    def _fold(self) -> None:
        cells = max(self.size.width, 10)
        parts = [
            [(part, style) for part in (folded(line, cells) if len(line) > cells else [line])]
            or [("", style)]
            for line, style in self._given
        ]
        self._folded = [part for line in parts for part in line]
        staying = sum(map(len, parts[: self._staying_given]))
        self._staying = min(staying, self.size.height // 2)
        if self._follows:
            self._first = self._last
        self._first = max(min(self._first, self._last), 0)
        self.refresh()

    @property
    def _last(self) -> int:
        return max(len(self._folded) - self.size.height, 0)

    def action_move(self, by: int) -> None:
        """Scroll."""
        self._first = max(min(self._first + by, self._last), 0)
        self._follows = self._first == self._last
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        at = y if y < self._staying else self._first + y
        text, style = self._folded[at] if at < len(self._folded) else ("", "")
        return strip(text, style, self.size.width)


class TextLine(Widget):
    """A line of text, or several."""

    def __init__(self, text: str = "", style: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.lines = [(text, style)]

    def put(self, *lines: tuple[str, str]) -> None:
        """Show other lines, each with its style; the widget is as high as these."""
        self.lines = list(lines)
        self.styles.height = len(lines)
        self.display = bool(lines)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        text, style = self.lines[y] if y < len(self.lines) else ("", "")
        return strip(text, style, self.size.width)


class _Details(Screen[None]):
    """A screen that asks again and again, and reads a log meanwhile."""

    def __init__(self, link: Link, worker: str) -> None:
        super().__init__()
        self._link = link
        self._log = WorkerLog(worker) if worker else None
        self._reading = threading.Lock()

    def on_mount(self) -> None:
        """Begin to look."""
        self._look()
        self.set_interval(_LOOK, self._look)

    def _look(self) -> None:
        self._ask()
        # A file system that hangs must not hold up the screen.
        self.run_worker(self._read, thread=True, group="log")
        self._draw()

    def _read(self) -> None:
        # In a thread of its own, one at a time: the next look reads what this one leaves out.
        if self._reading.acquire(blocking=False):
            try:
                self._read_logs()
            finally:
                self._reading.release()
            self.app.call_later(self._draw)

    def _read_logs(self) -> None:
        if self._log is not None:
            self._log.read()

    def _ask(self) -> None:
        raise NotImplementedError

    def _draw(self) -> None:
        raise NotImplementedError


class TaskScreen(_Details):
    """A task: its state and the reasons, its call and its programs, and what it has printed.

    As long as that is nothing, the last lines of its worker's log are there.
    """

    def __init__(self, link: Link, task: Run) -> None:
        super().__init__(link, task.worker)
        self.about = task
        self._why: WhyAnswer | None = None
        self._call: CallAnswer | None = None
        self._programs: ProgramsAnswer | None = None
        self._lost: WhyAnswer | None = None  # the answer of a scheduler that knows it no more
        self._output = LogTail(task.name, task.task, task.mission)

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        yield TextLine(f"TASK {self.about.name}", "focus")
        yield Page()
        yield TextLine("Escape back   c cancel   arrows scroll", "dim")

    def _ask(self) -> None:
        task = self.about.mission, self.about.task
        self._link.put(Ask("why", *task), WhyAnswer, self._take)
        self._link.put(Ask("arguments", *task), CallAnswer, self._take)
        self._link.put(Ask("programs", *task), ProgramsAnswer, self._take)

    def _take(self, answer: WhyAnswer | CallAnswer | ProgramsAnswer) -> None:
        # In the thread of the link.
        self.app.call_later(self._on_answer, answer)

    def _on_answer(self, answer: WhyAnswer | CallAnswer | ProgramsAnswer) -> None:
        match answer:
            case WhyAnswer(state="unknown"):
                self._lost = answer
            case WhyAnswer():
                self._why, self._lost = answer, None
                if self._log is None and answer.worker:
                    self._log = WorkerLog(answer.worker)
            case CallAnswer():
                # Its mission has the call, and may have left.
                self._call = answer if answer.call or self._call is None else self._call
            case ProgramsAnswer():
                self._programs = answer
        self._draw()

    def _read_logs(self) -> None:
        self._output.read()
        if not self._output.lines:
            super()._read_logs()

    def _draw(self) -> None:
        if self.is_attached:
            why, known = self._why, (self._call, self._programs)
            explanation = None if why is None else explanation_of(why, *known)
            lost = None if self._lost is None else self._lost.reasons
            facts, log = task_lines(self.about.name, explanation, self._output, self._log, lost)
            self.query_one(Page).put([*facts, *log], len(facts))


class WorkerScreen(_Details):
    """A worker: what runs on it, and its log."""

    def __init__(self, link: Link, worker: str, label: str, name: str, by: Marks) -> None:
        super().__init__(link, name)
        self.worker = worker
        self.label = label
        self._by = by
        # The last overview, for the names of missions.
        self.answer: OverviewAnswer | None = None

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        yield TextLine(f"WORKER {clean(self.label)}", "focus")
        yield Pane("runs", self._by)
        yield Page()
        yield TextLine("Escape back   Enter open a task   d drain   Tab to the log", "dim")

    def _ask(self) -> None:
        self._link.put(Ask("runs", pattern=self.worker), RunsAnswer, self._take)

    def _take(self, answer: RunsAnswer) -> None:
        self.app.call_later(self._on_answer, answer)

    def _on_answer(self, answer: RunsAnswer) -> None:
        if self.answer is None:
            return
        runs = [(self.label, run) for run in answer.runs]
        count = len(runs) + answer.more
        table = runs_table(runs, self.answer.missions, answer.at, count, {})
        self.query_one(Pane).show(table)

    def _draw(self) -> None:
        if self.is_attached:
            self.query_one(Page).put(log_lines(self._log))


def task_lines(
    name: str,
    explanation: Explanation | None,
    output: LogTail,
    log: WorkerLog | None,
    lost: Sequence[str] | None = None,
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the lines about a task, and those of its log, each with its style.

    Args:
        explanation: what the scheduler has answered; None if it has not.
        lost: the reasons for which it knows the task no more; None if it does.
    """
    lines: list[tuple[str, str]] = []
    if explanation is not None:
        lines.append((f"task {name} {explanation_state(explanation)}", "title"))
        facts = explanation_facts(explanation, explanation.call, explanation.programs)
        lines += [(f"  {clean(line)}", "") for line in [*facts, *explanation.reasons]]
    elif lost is None:
        return [("looking ...", "dim")], []
    if lost is not None:
        before = "; this is what it knew before" if lines else ""
        lines.append((f"the scheduler does not know task {name} any more{before}", "warn"))
        lines += [(f"  {clean(line)}", "") for line in lost]
        lines.append((f"  `grain why {name}` reads the log of its mission", ""))
    lines += [(f"  {clean(line)}", "") for line in output.facts]
    lines.append(("", ""))
    if output.lines:
        return lines, [(f"LOG of {name}", "head"), *((line, "") for line in output.lines)]
    problem = (output.problem, "dim")
    return lines, [problem, *(() if log is None or log.path is None else log_lines(log))]


def log_lines(log: WorkerLog | None) -> list[tuple[str, str]]:
    """Return the lines of a worker's log."""
    if log is None or log.path is None:
        return [(log.problem if log is not None else "", "dim")]
    title = f"LOG  {clean(log.path)}, the last lines"
    rest = [(line, "") for line in list(log.lines)]
    return [(title, "head"), *rest, *([(log.problem, "dim")] if log.problem else [])]
