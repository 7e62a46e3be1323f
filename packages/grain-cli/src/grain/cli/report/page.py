"""The page: a `Report` in words and pictures, as one HTML file.

Names and messages come from users' programs. The templates escape whatever they are given; control
characters and marks that turn the direction of writing are replaced; and the page's policy lets a
browser run the one script whose digest it names, and load nothing.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from grain.cli.report import charts
from grain.cli.report.figures import (
    USUAL_ROWS,
    hours,
    left_out,
    plus,
    share,
)
from grain.cli.report.graph import graph, summed
from grain.cli.report.sufficient import sufficient
from grain.cli.report.tables import FUNCTIONS, GRAPH, NAMELESS, WAITS, WORKERS, waits_of
from grain.cli.report.verdict import reasons_of_never, verdict
from grain.cli.show import clean
from grain.cli.verdict.texts import shortened
from grain.facts.rows import OTHER_CAUSES
from grain.resource.figures import amount, counted, span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.report.collecting import Report
    from grain.cli.report.critical_path import PathStep
    from grain.cli.report.figures import Rows
    from grain.cli.report.verdict import Finding
    from grain.facts.rows import Cause, Function

_CAUSES = 20  # that are not folded
_WORKERS_OF_A_CAUSE = 3  # likewise

_PER_ROW, _PER_ROW_NARROW = 5, 2  # boxes of the graph
_BOX_NAME = 38  # characters in a box
_LEGEND_NAME = 44

_LATE = 0.01  # of the whole: what comes after the last run is worth a remark if it is more


def render(
    report: Report,
    *,
    written: bool,
    version: str,
    notes: list[str],
    rows: Rows = USUAL_ROWS,
    again: int = 0,
) -> str:
    """Return the page.

    Args:
        written: True if the log may still grow.
        version: the version of Grain that makes the page.
        notes: sentences about the log itself, such as lines that were torn.
        again: seconds after which the browser loads the page again; 0 for never.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("grain.cli.report"),
        autoescape=True,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    style, script = _source(environment, "style.css"), _source(environment, "script.js")
    live = _source(environment, "live.js") if again else Markup("")
    view = _View(report, rows, written=written, version=version)
    return environment.get_template("page.html.jinja").render(
        policy=_policy(style, script, live),
        style=style,
        script=script,
        live=live,
        again=again,
        version=version,
        **view.values(notes),
    )


def _plain(value: Any) -> Any:
    """Return what a template is given, without characters that would change how it is read."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value, keep="\n\t")
    return value


def _source(environment: jinja2.Environment, name: str) -> Markup:
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])  # noqa: S704 - our own file


def _policy(style: str, *scripts: str) -> str:
    """Return a policy by which the page's own style and scripts are in force, and nothing else."""

    def digest(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    digests = " ".join(f"'{digest(script)}'" for script in scripts if script)
    return (
        f"default-src 'none'; style-src '{digest(style)}'; script-src {digests}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


class _View:
    """The values of the template, section by section."""

    def __init__(self, report: Report, rows: Rows, *, written: bool, version: str) -> None:
        self._report = report
        self._rows = rows
        self._written = written
        self._version = version
        # The functions that took most of the time have colours of their own.
        ranked = sorted(self._functions(), key=lambda one: -one.core_seconds)
        numbers = {name: number for number, name in enumerate(report.functions)}
        self._ranked = ranked
        self._colours = {
            numbers[one.name]: colour
            for colour, one in enumerate(islice(ranked, charts.COLOURS))
            if one.name in numbers
        }
        self._styles = {
            report.functions[number]: f"f{colour}" for number, colour in self._colours.items()
        }

    def values(self, notes: list[str]) -> dict[str, Any]:
        """Return everything."""
        report = self._report
        name = report.header.name if report.header is not None else ""
        timeline = self._timeline()
        remarks = [*self._remarks(), *({"when": "", "text": one} for one in notes)]
        path = self._path()
        pictures = list(self._charts())
        graphs = self._graphs()
        failures = [self._failure(one) for one in self._causes()]
        tasks = bool(report.totals.functions)
        sections = [
            ("utilisation", "Utilisation", bool(pictures)),
            ("workers", "Workers", bool(report.workers)),
            ("timeline", "Timeline", timeline is not None),
            ("queue", "Queue", tasks and report.span > 0),
            ("graph", "Graph", bool(graphs)),
            ("functions", "Functions", tasks),
            ("requests", "Requests", tasks),
            ("failures", "Failures", tasks),
            ("path", "Critical path", path is not None),
            ("remarks", "Remarks", bool(remarks)),
        ]
        there = {id_ for id_, _, is_there in sections if is_there}
        findings = [one for one in self._verdict(notes) if one.section in there]
        return {
            "name": name or "(no name)",
            "verdict": findings,
            "state": self._state(),
            "facts": list(self._facts()),
            "command": " ".join(report.header.command) if report.header is not None else "",
            "sections": [{"id": id_, "title": title} for id_, title, _ in sections if id_ in there],
            "tiles": list(self._tiles()),
            "sentences": list(self._sentences({one.text for one in findings})),
            "charts": pictures,
            "workers": report.workers[: self._rows.workers],
            "worker_columns": WORKERS,
            "more_workers": left_out(len(report.workers), self._rows.workers, "worker"),
            "map": charts.worker_map(report.workers, report.span),
            "timeline": timeline,
            "timeline_note": self._timeline_note(),
            "static": charts.static_timeline(report.timeline, report.span, self._colours),
            "legend": list(self._legend()),
            "queue": list(self._queue()) if tasks and report.span > 0 else None,
            "waits": [row for one in self._listed() for row in waits_of(one)],
            "wait_columns": WAITS,
            "graphs": graphs,
            "graph_note": self._graph_note(graphs),
            "graph_table": self._graph_table(),
            "graph_columns": GRAPH,
            "functions": [(one, self._styles.get(one.name, "")) for one in self._listed()],
            "function_columns": FUNCTIONS,
            "more_functions": left_out(len(self._ranked), self._rows.functions, "function"),
            "requests": [self._request(one) for one in self._ranked[: self._rows.cards]],
            "requests_note": self._requests_note(),
            "failures": failures[:_CAUSES] if tasks else None,
            "folded_failures": failures[_CAUSES:],
            "folded_title": plus(len(failures) - _CAUSES, "cause"),
            "failures_note": self._failures_note(),
            "path": path,
            "remarks": remarks,
            "footer": self._footer(),
        }

    def _functions(self) -> list[Function]:
        return list(self._report.totals.functions.values())

    def _listed(self) -> list[Function]:
        """Return the functions that have a row in the tables."""
        return self._ranked[: self._rows.functions]

    # ---- the headline

    @property
    def _running(self) -> bool:
        return self._written and self._report.end is None

    def _verdict(self, notes: list[str]) -> list[Finding]:
        end = self._report.end
        whole = not notes and (end is None or not end.lost)
        return verdict(self._report, running=self._running, whole=whole)

    def _state(self) -> dict[str, str]:
        end = self._report.end
        if end is not None:
            style = {"done": "good", "failed": "bad", "interrupted": "bad"}[end.status]
            return {"word": end.status, "style": style, "message": end.message}
        if self._written:
            return {"word": "running", "style": "live", "message": ""}
        text = "The log has no last line: its process was killed, or the disk was full."
        return {"word": "killed", "style": "bad", "message": text}

    def _facts(self) -> Iterator[str]:
        report, header = self._report, self._report.header
        if header is None:
            return
        shift = report.clock_change
        yield f"{_moment(header.time + shift)} to {_moment(header.time + shift + report.span)}"
        if header.host:
            yield f"host {header.host}"
        if header.directory:
            yield header.directory
        python = f" on Python {header.python}" if header.python else ""
        yield f"run by Grain {header.grain}{python}"
        yield f"log {header.id}"

    def _tiles(self) -> Iterator[dict[str, str]]:
        report, totals = self._report, self._report.totals
        yield self._length(running=self._running)
        ended = totals.done + totals.failed + totals.cancelled
        cancelled = f", {totals.cancelled:,} cancelled" if totals.cancelled else ""
        left = f", {totals.tasks - ended:,} open" if totals.tasks > ended else ""
        cached = f", {totals.cached:,} from the cache" if totals.cached else ""
        text = f"of {totals.tasks:,}{cached}{cancelled}{left}"
        yield _tile("Tasks done", f"{totals.done:,}", text)
        yield _tile(
            "Failed",
            f"{totals.failed:,}",
            "tasks, after all attempts"
            if totals.failed
            else "every failure was made up for"
            if totals.causes
            else "no run has failed",
            style="bad" if totals.failed else "",
        )
        lost = "no run was lost with a worker"
        if totals.lost:
            lost = f"{counted(totals.lost, 'run')} lost with a worker"
        yield _tile(
            "Retried", f"{totals.retried:,}", lost, unit="run" if totals.retried == 1 else "runs"
        )
        yield _tile("Core-hours", hours(totals.core_seconds), "requested by runs, while they ran")
        wasted = totals.wasted_core_seconds
        note = f"{share(wasted, totals.core_seconds)} of them: runs without a value"
        yield _tile("Wasted", hours(wasted), note, unit="core-hours")
        if report.offered:
            figure, _, unit = share(totals.core_seconds, report.offered).rpartition(" ")
            note = f"of {hours(report.offered)} core-hours that workers offered"
            yield _tile("Utilisation", figure or unit, note, unit=unit if figure else "")
        if totals.cpu_seconds:
            figure, _, unit = share(totals.cpu_seconds, totals.core_seconds).rpartition(" ")
            note = f"{hours(totals.cpu_seconds)} CPU-hours of the cores asked for"
            yield _tile("CPU use", figure or unit, note, unit=unit if figure else "")

    def _length(self, *, running: bool) -> dict[str, str]:
        report = self._report
        if running:
            return _tile("So far", span(report.span), "since its start")
        rest = report.span - report.last_run
        if report.never_ran and report.last_run and rest > _LATE * report.span:
            note = f"to the end of the last run; the mission ended {span(rest)} later"
            return _tile("Makespan", span(report.last_run), note)
        return _tile("Makespan", span(report.span), "from first to last")

    def _sentences(self, said: set[str]) -> Iterator[str]:
        report = self._report
        for reason in reasons_of_never(report, running=self._running):
            if (sentence := f"{reason}.") not in said:
                yield sentence
        if not report.totals.functions:
            yield "No task was submitted up to the end of this log."
        elif self._running:
            yield (
                f"Running now: {report.queue.now[1]:,}; waiting: {report.queue.now[0]:,}. The "
                "mission goes on, and this page shows its log up to now."
            )

    # ---- pictures

    def _charts(self) -> Iterator[charts.TimeChart]:
        report = self._report
        if report.span <= 0:
            return
        for kind, usage in report.usage.items():
            unit = {"Cores": "cores", "Memory": "GB"}.get(kind, kind)
            series = [
                ("offered by workers", "area offered", [usage.offered]),
                ("asked for by runs", "area asked", [usage.asked]),
            ]
            if usage.used.area:
                name = "computing" if kind == "Cores" else "peaks of their use"
                series.append((name, "line used", [usage.used]))
            yield charts.time_chart(f"{kind} over time", unit, series, report.span)

    def _queue(self) -> Iterator[charts.TimeChart]:
        queue, span_ = self._report.queue, self._report.span
        for title, own, others, height in (
            (f"Waiting tasks; {queue.most:,} at most", queue.waiting, queue.others[0], 132),
            ("Tasks that were given to a worker", queue.running, queue.others[1], 88),
        ):
            apart = [name for name in self._styles if name in own and own[name].series.area]
            rest = [stairs.series for name, stairs in own.items() if name not in self._styles]
            rest = [series for series in (*rest, others.series) if series.area]
            series = [
                (_in_legend(name), f"area {self._styles[name]}", [own[name].series])
                for name in apart
            ]
            if rest or not series:
                # None: the axes are drawn all the same.
                name = "other functions" if series else "functions"
                series.append((name, f"area f{charts.COLOURS}", rest or [others.series]))
            yield charts.time_chart(
                title, "tasks", series, span_, whole=True, stacked=True, height=height
            )

    # ---- the graph of functions

    def _graphs(self) -> list[dict[str, Any]]:
        """Return the picture for wide windows, and that for narrow ones."""
        report = self._report
        totals = [report.totals.functions.get(name) for name in report.functions]
        tasks = [0 if one is None else one.tasks for one in totals]
        shown, edges = summed(tasks, report.edges)
        boxes = [self._box(totals[one], report.functions[one]) for one in shown]
        if len(totals) > len(shown):
            rest = [one for at, one in enumerate(totals) if at not in set(shown)]
            count = sum(0 if one is None else one.tasks for one in rest)
            failed = sum(0 if one is None else one.failed for one in rest)
            name = f"{len(rest):,} other functions"
            boxes.append(
                {"name": name, "full": name, "style": f"f{charts.COLOURS}",
                 "tasks": counted(count, "task"), "failed": f"{failed:,}" if failed else ""}
            )  # fmt: skip
        pictures = []
        for style, per_row in (("wider", _PER_ROW), ("narrower", _PER_ROW_NARROW)):
            drawn = graph(len(boxes), edges, per_row)
            if drawn is not None:
                pictures.append({"style": style, "drawn": drawn, "boxes": boxes})
        return pictures

    def _box(self, one: Function | None, name: str) -> dict[str, str]:
        return {
            "name": shortened(clean(name) or NAMELESS, _BOX_NAME),
            "full": name or NAMELESS,
            "style": self._styles.get(name, f"f{charts.COLOURS}"),
            "tasks": counted(0 if one is None else one.tasks, "task"),
            "failed": f"{one.failed:,}" if one is not None and one.failed else "",
        }

    def _graph_table(self) -> list[tuple[str, str, int]]:
        names = self._report.functions
        found = sorted(self._report.edges.items(), key=lambda one: -one[1])
        return [
            (names[one], names[two], tasks) for (one, two), tasks in found[: self._rows.functions]
        ]

    def _graph_note(self, pictures: list[dict[str, Any]]) -> str:
        text = (
            "The number on an arrow counts the tasks that were submitted after a task of the "
            "function where the arrow begins had ended. Further attempts at a task do not count."
        )
        if any(one == two for one, two in self._report.edges):
            text += (
                " The number after \u21ba counts those that came after one of their own function."
            )
        if any(one.brief for one in self._functions()):
            text += " Brief tasks that the log only counts have no arrows."
        if pictures and (not_drawn := pictures[0]["drawn"].not_drawn):
            text += f" {plus(not_drawn, 'arrow')} of fewer tasks: the table has them."
        if more := left_out(len(self._report.edges), self._rows.functions, "arrow"):
            text += f" The table lacks some: {more}"
        return text

    def _timeline(self) -> dict[str, Any] | None:
        report = self._report
        if not report.timeline.lanes or report.span <= 0:
            return None
        names = [clean(name) or NAMELESS for name in report.functions]
        data = charts.timeline_data(report.timeline, report.span, names, self._rows.workers)
        data["colours"] = self._colours
        data["others"] = charts.COLOURS
        for worker in data["workers"]:
            worker[0] = clean(worker[0])
        return data

    def _timeline_note(self) -> str:
        timeline = self._report.timeline
        lanes = (
            "A row is a CPU of a worker: a run on two CPUs is two rows high. Where the log does "
            "not say which CPUs a run had, or when exactly it was, it stands where there was room."
        )
        parts = [lanes]
        if timeline.joined:
            parts.append(
                f"Runs that followed each other within {span(timeline.grain)} are one bar where "
                "there were too many to show each."
            )
        if timeline.hidden:
            parts.append(
                f"{counted(timeline.hidden, 'run')} more that no worker has reported may not have "
                "begun, as no CPU was free for them: they are not shown."
            )
        if more := left_out(len(timeline.lanes), self._rows.workers, "worker"):
            parts.append(more)
        return " ".join(parts)

    def _legend(self) -> Iterator[dict[str, str]]:
        totals = self._report.totals.functions
        for number_, colour in self._colours.items():
            name = self._report.functions[number_]
            if name not in totals or not totals[name].never_ran.count or totals[name].runs:
                yield {"style": f"f{colour}", "name": _in_legend(name)}
        if len(self._report.functions) > len(self._colours):
            yield {"style": f"f{charts.COLOURS}", "name": "other functions"}
        yield {"style": "vain", "name": "ended without a value"}

    # ---- tables

    def _request(self, one: Function) -> dict[str, Any]:
        name = one.name or NAMELESS
        enough = sufficient(one)
        requests = sorted(one.requests.items(), key=lambda item: -item[1])
        (most, _), *others = requests or [("", 0)]
        time_strip = memory_strip = None
        if one.seconds.count:
            limit = one.asked["WTime"].most if "WTime" in one.asked else None
            title = (
                f"Times of {one.seconds.count:,} runs of {name}: the median is "
                f"{span(one.seconds.quantile(0.5))}, the longest {span(one.seconds.most)}"
            )
            time_strip = charts.time_strip(title, one.seconds, limit)
        if one.memory.count:
            asked = one.asked.get("Memory")
            amounts = sorted({asked.usual, asked.most}) if asked is not None else []
            title = (
                f"Peaks of memory of {one.memory.count:,} runs of {name}: the largest is "
                f"{amount(one.memory.most)} GB"
            )
            memory_strip = charts.amount_strip(title, one.memory, amounts)
        return {
            "name": name,
            "style": self._styles.get(one.name, ""),
            "asked": most or "nothing",
            "others": f"and {counted(len(others), 'other request')}" if others else "",
            "enough": enough.text or ("nothing" if one.runs else ""),
            "why_not": "" if one.runs else self._why_not(one),
            "too_much": bool(enough.less),
            "remarks": [*enough.less, *enough.more],
            "learned": one.explained,
            "time": time_strip,
            "memory": memory_strip,
        }

    def _why_not(self, one: Function) -> str:
        if one.cached == one.tasks:
            return "not known: all results are from the cache"
        if one.never_ran.count and self._report.end is not None:
            return "not known: none of its tasks ran"
        return "not known: no run of it has ended"

    def _requests_note(self) -> str:
        more = left_out(len(self._ranked), self._rows.cards, "function")
        return (
            "What sufficed is the smallest request with which no run would have lacked anything: "
            "the largest peak of memory that was measured, rounded up to two digits; the cores "
            "that were busy in the mean of the busiest run; the longest run. Add the margin that "
            f"other inputs need. {more}"
        )

    def _causes(self) -> list[Cause]:
        return sorted(self._report.totals.causes, key=lambda one: (-one.final, -one.runs))

    def _failure(self, one: Cause) -> dict[str, Any]:
        first = one.first
        calls = [failed.call for failed in one.calls.values() if failed.call]
        by_number = sorted(one.workers.items(), key=lambda item: -item[1])
        workers = [f"{name or 'no worker'}: {count:,}" for name, count in by_number]
        shown = workers[:_WORKERS_OF_A_CAUSE]
        folded = workers[_WORKERS_OF_A_CAUSE : self._rows.details]
        where = f" on {first.worker}" if first.worker else ""
        after = f", {span(max(0.0, self._since_start(first.ended)))} after the start"
        return {
            "runs": f"{one.runs:,}",
            "final": f"{one.final:,}",
            "function": first.function or NAMELESS,
            # Of a program, how it ended and why; of an exception, its class: the rest is beside.
            "cause": one.kind if one.how.startswith(f"{one.kind}: ") else one.how,
            "first": f"task {first.task}{where}{after}",
            "message": first.failure.message or "(it has no message)",
            "workers": shown,
            "folded_workers": folded,
            "folded_workers_title": plus(len(workers) - len(shown), "worker"),
            "more_workers": left_out(len(workers), self._rows.details, "worker"),
            "calls": "\n".join(map(clean, calls[: self._rows.details])),
            "calls_count": f"{counted(len(calls), 'call')} failed so for good",
            "more_calls": left_out(len(calls), self._rows.details, "call"),
        }

    def _failures_note(self) -> str:
        if all(cause.kind != OTHER_CAUSES for cause in self._report.totals.causes):
            return ""
        return (
            "There are very many causes: all beyond the first are counted together, as other "
            "causes. grain history --csv has the message of each run."
        )

    def _since_start(self, moment: float) -> float:
        header = self._report.header
        return 0.0 if header is None else min(moment - header.time, self._report.span)

    # ---- the critical path

    def _path(self) -> dict[str, Any] | None:
        report = self._report
        steps = report.steps
        if not steps or report.span <= 0:
            return None
        ran = sum(one.ended - one.started for one in steps)
        waited = sum(one.started - one.submitted for one in steps)
        own = max(0.0, report.span - ran - waited)
        shares = []
        at = 0.0
        for style, name, seconds in (
            ("runs", "runs", ran),
            ("waits", "waiting for room", waited),
            ("own", "the mission's own time", own),
        ):
            width = 100 * max(0.0, seconds) / report.span
            shares.append(
                {
                    "style": style,
                    "name": name,
                    "at": f"{at:.2f}",
                    "width": f"{width:.2f}",
                    "figure": f"{span(seconds)} ({share(seconds, report.span)})",
                }
            )
            at += width
        sentence = (
            f"{len(steps):,} tasks, each submitted after the one before had ended, led to the "
            "end: the mission could not have ended sooner unless one of them had, or had waited "
            "less."
        )
        if len(steps) == 1:
            sentence = "The task that ended last was submitted after no other."
        return {
            "sentence": sentence,
            "shares": shares,
            "shares_text": "; ".join(f"{one['name']} {one['figure']}" for one in shares),
            "steps": list(self._steps(steps)),
            "more": left_out(len(steps), self._rows.steps, "step"),
        }

    def _steps(self, steps: list[PathStep]) -> Iterator[dict[str, str]]:
        """Yield the longest steps in their order, and a line for those left out between them."""
        chosen = sorted(range(len(steps)), key=lambda at: steps[at].after - steps[at].ended)
        kept = sorted(chosen[: self._rows.steps])
        last = -1
        for at in kept:
            if at > last + 1:
                yield {"gap": plus(at - last - 1, "shorter step")}
            yield self._step(steps[at])
            last = at
        if last < len(steps) - 1:
            yield {"gap": plus(len(steps) - 1 - last, "shorter step")}

    def _step(self, step: PathStep) -> dict[str, str]:
        whole = self._report.span

        def percent(seconds: float) -> str:
            return f"{100 * seconds / whole:.2f}"

        return {
            "gap": "",
            "task": str(step.task),
            "function": self._report.functions[step.function] or NAMELESS,
            "submitted": span(step.submitted),
            "own": span(max(0.0, step.submitted - step.after)),
            "waited": span(step.started - step.submitted),
            "ran": span(step.ended - step.started),
            "at": percent(step.submitted),
            "wait_width": percent(max(0.0, step.started - step.submitted)),
            "run_at": percent(step.started),
            "run_width": f"{max(0.3, 100 * (step.ended - step.started) / whole):.2f}",
        }

    # ---- the end

    def _remarks(self) -> Iterator[dict[str, str]]:
        report = self._report
        for when, text in report.remarks:
            yield {"when": f"after {span(when)}", "text": text}
        if report.more_remarks:
            yield {"when": "", "text": f"{report.more_remarks:,} more remarks are in the log"}
        if brief := sum(one.brief for one in report.totals.functions.values()):
            yield {
                "when": "",
                "text": f"{brief:,} brief tasks are counted in the log and not listed: the "
                "figures have them, with their means, and the timeline and the path do not",
            }
        if report.end is not None and report.end.lost:
            yield {
                "when": "",
                "text": f"{report.end.lost:,} lines of the log could not be written, as the disk "
                "was full: the figures here lack what they say",
            }

    def _footer(self) -> str:
        moment = self._report.header.time if self._report.header is not None else 0.0
        end = _moment(moment + self._report.clock_change + self._report.span)
        made = f"Made by grain report of Grain {self._version}"
        return f"{made} from the event log up to {end}. This page loads nothing."


def _tile(name: str, figure: str, note: str, *, unit: str = "", style: str = "") -> dict[str, str]:
    return {"name": name, "figure": figure, "note": note, "unit": unit, "style": style}


def _in_legend(name: str) -> str:
    return shortened(clean(name) or NAMELESS, _LEGEND_NAME)


def _moment(at: float) -> str:
    """Format Unix seconds as local time with the name of its zone."""
    if not math.isfinite(at) or not 0 <= at < 1e11:
        return "an unknown time"
    return time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(at))
