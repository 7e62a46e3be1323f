"""The application: its main screen, its keys, and a terminal that is left as it was."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.app import App
from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input

from grain.cli.show import clean, folded
from grain.cli.streams import plain
from grain.cli.top.details import TaskScreen, TextLine, WorkerScreen
from grain.cli.top.link import Link, Seen
from grain.cli.top.pane import Pane
from grain.cli.top.prompts import Confirm, Help
from grain.cli.top.tables.grid import next_column
from grain.cli.top.tables.overview import PANES, functions_table, tables
from grain.cli.top.tables.picture import UNICODE, Marks, cut, fitted, heights, marks
from grain.cli.top.tables.tasks import Use, use_of
from grain.cli.top.tables.trend import Trend
from grain.cli.top.tables.verdict import LiveFinding, sums, totals, verdict
from grain.edge.questions import Ask, FoundAnswer, OverviewAnswer, ProgramsAnswer
from grain.facts.rows import Worker
from grain.files.processes import user_and_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult

    from grain.cli.top.tables.grid import TableRow
    from grain.facts.rows import Run

_Form = TypeVar("_Form")

_KEYS = ("v", "b", "n")  # that lead to the evidence of each sentence
_LOW, _HIGH = 20, 34  # lines: a lower screen has one sentence, and a higher one folds them
_USES = 40  # tasks whose programs are asked for
_USE_SECONDS = 3.0  # seconds between two such questions about one task
_HINTS = (
    *("q quit", "? help", "Tab table", "v why", "Enter open", "/ filter", "s sort"),
    *("c cancel", "d drain", "r reverse", "p pause"),
)


_WORKERS = PANES.index("workers")  # the pane that has the focus at first


class Arrived(Message):
    """A look at the scheduler has come back."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen


class Top(App[int]):
    """`grain top`.

    Args:
        seconds: between two looks.
        patience: seconds to look for the scheduler.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; overflow: hidden; }
    Pane { height: 1; }
    TextLine { height: 1; }
    Page { height: 1fr; }
    WorkerScreen Pane { height: 1fr; }
    Input { height: 1; border: none; padding: 0; display: none; background: ansi_default; }
    Input:focus { border: none; }
    ModalScreen { align: center middle; background: ansi_default 0%; }
    .prompt { max-width: 100%; max-height: 100%; padding: 0 1; border: ascii ansi_default;
              background: ansi_default; color: ansi_default; }
    """
    BINDINGS: ClassVar = [
        Binding("q,ctrl+c", "quit", priority=False),
        Binding("question_mark,h", "help"),
        Binding("s", "sort"),
        Binding("r", "reverse"),
        Binding("slash", "words"),
        Binding("escape", "close"),
        Binding("d", "drain"),
        Binding("c", "cancel"),
        Binding("p", "pause"),
        *(Binding(key, f"evidence({at})") for at, key in enumerate(_KEYS)),
        *(Binding(str(at + 1), f"pane('{name}')") for at, name in enumerate(PANES)),
    ]

    def __init__(
        self,
        address: str,
        *,
        seconds: float = 1.0,
        patience: float = 2.0,
        by: Marks = UNICODE,
    ) -> None:
        super().__init__(ansi_color=True)
        self.link = Link(address, self._take, seconds=seconds, patience=patience)
        self._address = address
        self._by = by
        self._trend = Trend()
        self._answer: OverviewAnswer | None = None
        self._findings: list[LiveFinding] = []
        self._cause = ""  # whose failures are listed one by one
        self._problem = ""
        self._note = ""
        self._paused = False
        # What tasks use, and when that was asked, by the mission's id and the task's number.
        self._uses: dict[tuple[str, int], Use] = {}
        self._asked: dict[tuple[str, int], float] = {}
        self._filtered = ""  # the pane that words are typed for

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield TextLine(id="totals")
        yield TextLine(id="notes")
        yield TextLine(id="sums")
        for name in PANES:
            yield Pane(name, self._by)
        yield TextLine(style="dim", id="hints")
        yield Input(id="words", placeholder="words that a row is to have")

    def on_load(self) -> None:
        """Heed signals, before the screen is taken: the terminal is left as it was."""
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(one, self.exit, 128 + one)

    def on_mount(self) -> None:
        """Begin to look."""
        self.query_one("#workers", Pane).focus()
        self._draw()
        self.link.start()

    def on_unmount(self) -> None:
        """End the connection."""
        self.link.stop()

    # ---- what arrives

    def _take(self, seen: Seen) -> None:
        # In the thread of the link.
        self.post_message(Arrived(seen))

    def on_arrived(self, message: Arrived) -> None:
        """Show what has arrived; a picture stays when the scheduler is lost."""
        seen = message.seen
        self._problem = seen.problem
        if seen.answer is not None:
            self._trend.look(seen.answer)
            if not self._paused:
                first, self._answer = self._answer is None, seen.answer
                self._findings = verdict(seen.answer)
                if first and functions_table(seen.answer).rows:
                    self.query_one("#functions", Pane).focus()
        self._draw()
        self._ask_uses()

    def _draw(self) -> None:
        main = self.screen_stack[0]
        main.query_one("#totals", TextLine).put((self._title(), "title"))
        main.query_one("#notes", TextLine).put(*self._notes())
        main.query_one("#sums", TextLine).put(*self._sums())
        main.query_one("#hints", TextLine).put((fitted(_HINTS, self.size.width), "dim"))
        if self._answer is None:
            return
        shown = tables(self._answer, self._uses, self._cause)
        for name, table in shown.items():
            main.query_one(f"#{name}", Pane).show(table)
        for screen in self.screen_stack:
            if isinstance(screen, WorkerScreen):
                screen.answer = self._answer
        self._lay_out()

    def _title(self) -> str:
        at = time.strftime("%H:%M:%S")
        if self._answer is None:
            return f"grain top  {at}"
        parts = [f"grain top  {at}", *totals(self._answer)]
        return fitted(parts, self.size.width)

    def _notes(self) -> list[tuple[str, str]]:
        """Return the lines below the first one, each with its style."""
        lines = [note for note in [self._note_line()] if note is not None]
        # Counted as sentences: that one takes two lines hides none of the others.
        most = (1 if self.size.height < _LOW else len(_KEYS)) - len(lines)
        for key, finding in zip(_KEYS[:most], self._findings, strict=False):
            lines += self._sentence(f"{key} {finding.text}")
        return lines

    def _sentence(self, text: str) -> list[tuple[str, str]]:
        """Return the lines of a sentence of the verdict."""
        cells = self.size.width
        if self.size.height < _HIGH:
            return [(cut(text, cells, self._by.cut), "title")]
        return [(line, "title") for line in folded(text, max(cells, 10))]

    def _note_line(self) -> tuple[str, str] | None:
        """Return what goes before the verdict, and its style."""
        if self._problem:
            return f"{clean(self._problem)}; looking again", "bad"
        if self._note:
            return self._note, "warn"
        if self._paused:
            return "paused; p goes on", "warn"
        if self._answer is None:
            return f"looking for the scheduler at {clean(self._address)} ...", "dim"
        if self._answer.troubles:
            return "; ".join(map(clean, self._answer.troubles)), "bad"
        return None

    def _sums(self) -> list[tuple[str, str]]:
        """Return the line with the sums of resources; none on a low screen."""
        if self._answer is None or self.size.height < _LOW:
            return []
        parts = sums(self._answer, self._trend, self._by)
        return [(fitted(parts, self.size.width), "")] if parts else []

    def _lay_out(self) -> None:
        """Give each pane its lines."""
        panes = self._panes
        focus = next((at for at, pane in enumerate(panes) if pane.has_focus), _WORKERS)
        room = self.size.height - sum(
            len(line.lines) for line in self.screen_stack[0].query(TextLine) if line.display
        )
        for pane, lines in zip(
            panes, heights(room, [pane.wanted for pane in panes], focus), strict=True
        ):
            pane.styles.height = lines
            pane.display = lines > 0

    @property
    def _panes(self) -> list[Pane]:
        main = self.screen_stack[0]
        return [main.query_one(f"#{name}", Pane) for name in PANES]

    def on_resize(self) -> None:
        """Give each pane its lines again."""
        self.call_after_refresh(self._draw)

    def on_descendant_focus(self) -> None:
        """Give the pane in focus more lines."""
        if self._answer is not None:
            self._lay_out()

    # ---- what tasks use

    def _ask_uses(self) -> None:
        """Ask for the programs of the tasks that are seen, each every few seconds."""
        if len(self.screen_stack) > 1 or self._paused:
            return
        running = self.screen_stack[0].query_one("#running", Pane)
        tasks = [row.about for row in running.seen if row.about is not None][:_USES]
        seen = {(task.mission, task.task) for task in tasks}
        self._uses = {key: use for key, use in self._uses.items() if key in seen}
        self._asked = {key: at for key, at in self._asked.items() if key in seen}
        now = time.monotonic()
        for key in seen:
            if now - self._asked.get(key, -_USE_SECONDS) < _USE_SECONDS:
                continue
            self._asked[key] = now

            def done(answer: ProgramsAnswer, key: tuple[str, int] = key) -> None:
                self.call_later(self._on_use, key, answer)

            self.link.put(Ask("programs", mission=key[0], task=key[1]), ProgramsAnswer, done)

    def _on_use(self, key: tuple[str, int], answer: ProgramsAnswer) -> None:
        self._uses[key] = use_of(answer, self._uses.get(key))

    # ---- keys

    @property
    def _pane(self) -> Pane | None:
        """The pane in focus."""
        return self.focused if isinstance(self.focused, Pane) else None

    async def action_quit(self) -> None:
        """End."""
        self.exit(0)

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())

    def action_pane(self, name: str) -> None:
        """Give a pane the focus."""
        if len(self.screen_stack) == 1:
            self.query_one(f"#{name}", Pane).focus()

    def action_evidence(self, at: int) -> None:
        """Go to the row that shows why a sentence of the verdict is so."""
        if len(self.screen_stack) > 1 or at >= len(self._findings):
            return
        finding = self._findings[at]
        self._cause = ""
        pane = self.query_one(f"#{finding.pane}", Pane)
        if pane.order.words:
            self._filter(pane, "")
        self._draw()
        pane.focus()
        pane.find(finding.key)

    def action_sort(self) -> None:
        """Sort by the next column."""
        if self._pane is not None:
            self._pane.sort(next_column(self._pane.table, self._pane.order))

    def action_reverse(self) -> None:
        """Turn the order round."""
        if self._pane is not None:
            order = self._pane.order
            self._pane.sort(order._replace(reverse=not order.reverse))

    def action_pause(self) -> None:
        """Keep the picture as it is, or go on."""
        self._paused = not self._paused
        self._draw()

    def action_words(self) -> None:
        """Let the user type words that rows are to have."""
        if self._pane is None or len(self.screen_stack) > 1:
            return
        self._filtered = self._pane.id or ""
        words = self.query_one("#words", Input)
        words.value = self._pane.order.words
        self.query_one("#hints").display = False
        words.display = True
        words.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the rows that have the words."""
        if event.input.display:
            self._filter(self.query_one(f"#{self._filtered}", Pane), event.value)

    def on_input_submitted(self) -> None:
        """Go back to the rows."""
        self._end_words()

    def _filter(self, pane: Pane, words: str) -> None:
        pane.sort(pane.order._replace(words=words))
        self._lay_out()

    def _end_words(self) -> None:
        self.query_one("#words").display = False
        self.query_one("#hints").display = True
        self.query_one(f"#{self._filtered}").focus()

    def action_close(self) -> None:
        """Close a screen; or show all rows again."""
        self._note = ""
        if len(self.screen_stack) > 1:
            self.pop_screen()
        elif isinstance(self.focused, Input):
            self._filter(self.query_one(f"#{self._filtered}", Pane), "")
            self._end_words()
        elif self._cause:
            self._list_cause("")
        else:
            for pane in self._panes:
                self._filter(pane, "")
        self._draw()

    def _list_cause(self, cause: str) -> None:
        """List the failures of one cause one by one, or all by cause."""
        pane = self.query_one("#failures", Pane)
        before, self._cause = self._cause, cause
        pane.cursor = 0
        self._draw()
        pane.find(before)

    def on_pane_opened(self, message: Pane.Opened) -> None:
        """Open a worker or a task; for a mission, show only its tasks."""
        name, row = message.pane.id, message.row
        if name == "missions":
            label = row.cells[0]
            for pane in self._panes:
                if pane.id not in ("missions", "workers"):
                    self._filter(pane, f"{label}:")
        elif name == "workers":
            self._open_worker(row)
        elif name == "failures" and row.about is None:
            self._list_cause(row.key)
        elif row.about is not None:
            self.push_screen(TaskScreen(self.link, row.about))

    def _open_worker(self, row: TableRow) -> None:
        assert self._answer is not None
        one = next((one for one in self._answer.workers if one.id == row.key), None)
        if one is not None:
            screen = WorkerScreen(self.link, one.id, one.label, one.name, self._by)
            screen.answer = self._answer
            self.push_screen(screen)

    # ---- what changes something

    def action_drain(self) -> None:
        """Ask whether a worker is to leave."""
        screen, pane = self.screen, self._pane
        if isinstance(screen, WorkerScreen):
            worker, label = screen.worker, clean(screen.label)
        elif pane is not None and pane.id == "workers" and pane.row is not None:
            worker, label = pane.row.key, str(pane.row.cells[0])
        else:
            self._put_note("d drains a worker: choose one in the table of workers")
            return
        text = f"Drain worker {label}?\nIt takes no more tasks, and leaves when those it has end."
        question = Ask("drain", pattern=worker)
        self._confirm(text, question, list[Worker], lambda answer: _drained(answer, label))

    def action_cancel(self) -> None:
        """Ask whether a task is to end."""
        screen, pane = self.screen, self._pane
        task: Run | None = None
        if isinstance(screen, TaskScreen):
            task = screen.about
        elif pane is not None and pane.row is not None and pane.id != "failures":
            task = pane.row.about
        if task is None:
            self._put_note("c cancels a task: choose a running or a waiting one")
            return
        name = task.name
        text = f"Cancel task {name}?\nWhat awaits it gets an exception."
        question = Ask("cancel", mission=task.mission, task=task.task, by=user_and_host())
        self._confirm(text, question, FoundAnswer, lambda answer: _cancelled(answer, name))

    def _confirm(
        self, text: str, question: Ask, form: type[_Form], words: Callable[[_Form], str]
    ) -> None:
        def answered(answer: _Form) -> None:
            self.call_later(self._put_note, words(answer))

        def chosen(yes: bool | None) -> None:
            if yes:
                self.link.put(question, form, answered)

        self.push_screen(Confirm(text), chosen)

    def _put_note(self, note: str) -> None:
        self._note = clean(note)
        self._draw()


def _drained(answer: list[Worker], label: str) -> str:
    if not answer:
        return f"worker {label} is not here any more"
    running = answer[0].running
    when = f"when {running} task{'' if running == 1 else 's'} ended" if running else "now"
    return f"worker {label} leaves {when}"


def _cancelled(answer: FoundAnswer, name: str) -> str:
    if answer.error:
        return answer.error
    was = "ran, and its programs end" if answer.state == "running" else "waited"
    return f"task {name} is cancelled; it {was}"


def show(address: str, *, seconds: float, patience: float) -> int:
    """Show the view until the user ends it; return the exit code.

    Raises:
        NoScheduler: there is none at the start.
    """
    from grain.cli.query import PATIENCE, ask_at

    # Before the screen is taken: without a scheduler the sentence is all there is to be seen.
    ask_at(address, Ask("overview"), OverviewAnswer, patience=max(patience, PATIENCE))
    by = marks(plain(sys.stdout).encoding or "ascii")
    app = Top(address, seconds=seconds, patience=max(patience, PATIENCE), by=by)
    code = app.run()
    return code if code is not None else app.return_code or 0
