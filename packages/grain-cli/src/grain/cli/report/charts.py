"""The geometry of the pictures: what the template draws as SVG, and what the script draws.

Pictures are stretched to the width of the window, and their text is not: so positions along time
are in percent, and paths in a unit of their own.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.report.figures import amount_ticks, log_ticks, time_ticks
from grain.cli.report.timeline.bars import RUNNING, VAIN, VALUE, alike, coarser
from grain.cli.verdict.texts import shortened
from grain.resource.figures import amount, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from grain.cli.report.collecting import WorkerTrack
    from grain.cli.report.figures import Ticks
    from grain.cli.report.timeline.bars import Bar, Timeline
    from grain.cli.report.timeline.series import Series
    from grain.facts.amounts import Histogram

COLOURS = 8
"""Functions that have a colour of their own; the others share one."""

_ROWS = 240  # of the map of workers
_STATIC_BARS = 2500  # of the timeline without a script
_STATIC_FAILURES = 1500  # above them
_STATIC_LANES = 600
_TABLE_ROWS = 24  # of the table behind a picture
_HEIGHT = 168  # of a picture over time
_NAME = 14  # characters of a worker's name beside a picture


class Curve(NamedTuple):
    """A curve over time.

    Attributes:
        style: the class of the style sheet: its colour, and whether the area below it is filled.
        path: the path, in seconds and percent of the height, the top being 0.
    """

    name: str
    style: str
    path: str
    means: list[float]


class TimeChart(NamedTuple):
    """Curves over time.

    Attributes:
        title: what it shows, as a sentence for those who do not see it.
        unit: that of the amounts, above their axis.
        curves: the curves, in the order in which they are drawn.
        span: seconds of the axis.
        height: pixels of the plot, without the labels of the axis of time.
        x: the ticks of time, in percent of the width, with labels.
        y: the ticks of amounts, in pixels from above, with labels.
        heads: the names of the columns of the table with the same figures.
    """

    title: str
    unit: str
    curves: list[Curve]
    span: float
    height: int
    x: list[tuple[float, str]]
    x_unit: str
    y: list[tuple[float, str]]
    heads: list[str]
    rows: list[list[str]]


def time_chart(
    title: str,
    unit: str,
    series: Iterable[tuple[str, str, Sequence[Series]]],
    seconds: float,
    *,
    whole: bool = False,
    stacked: bool = False,
    height: int = _HEIGHT,
) -> TimeChart:
    """Return curves over time.

    Args:
        series: of each curve the name, the style and the amounts, which are added up.
        whole: True if what is counted has no fractions.
        stacked: True if each curve stands on the one before.
    """
    given = list(series)
    # All in the same bins, so that they can stand in one table.
    width = max((one.width for _, _, parts in given for one in parts), default=1.0)
    for _, _, parts in given:
        for one in parts:
            one.widen(width)
    means = [_sums(one.means(seconds) for one in parts) for _, _, parts in given]
    tops = list(accumulate(means, lambda one, two: _sums([one, two]))) if stacked else means
    ticks = amount_ticks(max((max(one, default=0) for one in tops), default=0), whole=whole)
    top = ticks.at[-1]
    curves = [
        Curve(name, style, _path(drawn, width, seconds, top, filled="area" in style), values)
        for (name, style, _), values, drawn in zip(given, means, tops, strict=True)
    ]
    heads, rows = _table(curves, width, seconds)
    if stacked:
        curves.reverse()  # each hides the lower part of the one before
    x, x_unit = time_axis(seconds)
    return TimeChart(
        title=title,
        unit=unit,
        curves=curves,
        span=seconds,
        height=height,
        x=x,
        x_unit=x_unit,
        y=[
            (round(height * (1 - at / top), 1), label)
            for at, label in zip(ticks.at, ticks.labels, strict=True)
        ],
        heads=heads,
        rows=rows,
    )


def _sums(rows: Iterable[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*rows, strict=True)]


def time_axis(seconds: float) -> tuple[list[tuple[float, str]], str]:
    """Return the ticks of time in percent of the width, with labels; and the unit."""
    ticks = time_ticks(seconds)
    return _percent(ticks, seconds), ticks.unit


def _percent(ticks: Ticks, most: float) -> list[tuple[float, str]]:
    return [
        (round(100 * at / most, 2), label) for at, label in zip(ticks.at, ticks.labels, strict=True)
    ]


def _path(values: list[float], width: float, seconds: float, top: float, *, filled: bool) -> str:
    """Return steps from the left to the right; values that are equal make one step."""
    parts: list[str] = []
    last = ""
    for at, value in enumerate(values):
        y = f"{100 - 100 * value / top:.4g}"
        if y == last:
            continue
        x = f"{at * width:.6g}"
        parts.append(f"H{x}V{y}" if parts else f"M{x} {y}")
        last = y
    end = f"H{seconds:.6g}"
    if not parts:
        return ""
    return "".join(parts) + end + ("V100H0Z" if filled else "")


def _table(
    curves: Sequence[Curve], width: float, seconds: float
) -> tuple[list[str], list[list[str]]]:
    """Return the table of a picture, with a row for several bins."""
    bins = max((len(curve.means) for curve in curves), default=0)
    step = max(1, math.ceil(bins / _TABLE_ROWS))
    rows = []
    for at in range(0, bins, step):
        row = [f"{span(at * width)} to {span(min(seconds, (at + step) * width))}"]
        for curve in curves:
            part = curve.means[at : at + step]
            row.append(amount(float(f"{sum(part) / len(part):.3g}")) if part else "")
        rows.append(row)
    return ["time", *(curve.name for curve in curves)], rows


# ---- distributions


class Strip(NamedTuple):
    """A distribution in a small picture.

    Attributes:
        path: the area, in a box of 100 by 100.
        most: the number of runs in the highest bin.
        x: the ticks in percent of the width, with labels.
        marks: what was asked for, in percent of the width, with labels; some labels are empty.
    """

    title: str
    path: str
    most: int
    x: list[tuple[float, str]]
    marks: list[tuple[float, str]]


_STRIP_BINS = 48


def time_strip(title: str, histogram: Histogram, limit: float | None) -> Strip:
    """Return the distribution of spans of time, on a logarithmic axis."""
    least = max(histogram.least, 1e-3)
    most = max(histogram.most, limit or 0.0, least * 1.5) * 1.15
    least /= 1.15
    scale = math.log(most / least)

    def place(seconds: float) -> float:
        return min(max(math.log(max(seconds, least) / least) / scale, 0.0), 1.0)

    marks = [(round(100 * place(limit), 2), f"limit {span(limit)}")] if limit else []
    ticks = log_ticks(least, most)
    x = [(round(100 * place(at), 2), label) for at, label in zip(ticks[0], ticks[1], strict=True)]
    if not x:  # none of the usual spans lies between the runs
        ends = sorted({histogram.least, histogram.most})
        x = [(round(100 * place(at), 2), span(at)) for at in ends]
    hill, runs = _hill((place(at), count) for at, count in histogram.bins())
    return Strip(title, hill, runs, _thinned(x), marks)


def amount_strip(title: str, histogram: Histogram, asked: Sequence[float]) -> Strip:
    """Return the distribution of amounts, on an axis from 0 on."""
    ticks = amount_ticks(max(histogram.most, *asked, 1e-9) * 1.02)
    most = ticks.at[-1]
    # One label for all: theirs would touch each other.
    marks = [(round(100 * at / most, 2), "") for at in sorted(asked)]
    if marks:
        marks[-1] = (marks[-1][0], f"asked {', '.join(amount(at) for at in sorted(asked))}")
    hill, runs = _hill((at / most, count) for at, count in histogram.bins())
    return Strip(title, hill, runs, _percent(ticks, most), marks)


def _hill(points: Iterable[tuple[float, int]]) -> tuple[str, int]:
    """Return the outline of a histogram of points between 0 and 1, and its highest bin."""
    counts = [0] * _STRIP_BINS
    for at, count in points:
        counts[min(int(at * _STRIP_BINS), _STRIP_BINS - 1)] += count
    top = max(counts) or 1
    parts = ["M0 100"]
    for at, count in enumerate(counts):
        # A bin that is not empty can be seen.
        y = 100 - max(100 * count / top, 4) if count else 100
        parts.append(f"V{y:.3g}H{100 * (at + 1) / _STRIP_BINS:.4g}")
    return "".join([*parts, "V100Z"]), max(counts)


def _thinned(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Leave out ticks whose labels would touch that of the one before."""
    kept: list[tuple[float, str]] = []
    for at, label in ticks:
        if not kept or at - kept[-1][0] >= 28:
            kept.append((at, label))
    return kept


# ---- the map of workers


class WorkerMap(NamedTuple):
    """The busy share of each worker over time, as an image with a row for each.

    Attributes:
        height: its height in pixels.
        labels: the names of some workers, with the middle of their row in pixels.
        x: the ticks of time, in percent of the width, with labels.
        each: the number of workers in a row.
    """

    image: str
    height: int
    labels: list[tuple[float, str]]
    x: list[tuple[float, str]]
    x_unit: str
    each: int


_SHADES = 200


def worker_map(workers: Sequence[WorkerTrack], seconds: float) -> WorkerMap | None:
    """Return the map; None if no worker offers cores."""
    shown = [worker for worker in workers if worker.resources.get("Cores")]
    if not shown or seconds <= 0:
        return None
    width = max(max(one.cores.width, one.present.width) for one in shown)
    each = math.ceil(len(shown) / _ROWS)
    rows = [_row(shown[at : at + each], width, seconds) for at in range(0, len(shown), each)]
    pixels = max(2, min(18, 400 // len(rows)))
    labels = [
        (pixels * (at + 0.5), shortened(shown[at * each].name, _NAME)) for at in range(len(rows))
    ]
    x, x_unit = time_axis(seconds)
    return WorkerMap(
        image=_png(rows),
        height=pixels * len(rows),
        labels=labels[:: math.ceil(14 / pixels)],
        x=x,
        x_unit=x_unit,
        each=each,
    )


def _row(workers: Sequence[WorkerTrack], width: float, seconds: float) -> bytes:
    """Return the shades of some workers: 0 where none is there, 1 where all are idle."""
    for worker in workers:
        worker.cores.widen(width)
        worker.present.widen(width)
    count = workers[0].present.count(seconds)
    busy, offered = [0.0] * count, [0.0] * count
    for worker in workers:
        cores = worker.resources["Cores"]
        for at, area in enumerate(worker.cores.means(seconds)):
            busy[at] += area
        for at, area in enumerate(worker.present.means(seconds)):
            offered[at] += area * cores
    return bytes(
        1 + round((_SHADES - 1) * min(1.0, one / all_)) if all_ > 0 else 0
        for one, all_ in zip(busy, offered, strict=True)
    )


def _png(rows: Sequence[bytes]) -> str:
    """Return an image with a byte for each pixel, the index of a shade, as a URL.

    PNG, as RFC 2083 has it; one colour whose opacity grows with the shade, so that the image fits
    light and dark pages.
    """

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    colours = bytes((0, 0, 0)) + bytes((42, 120, 214)) * _SHADES
    opacity = bytes([0, *(30 + 225 * at // (_SHADES - 1) for at in range(_SHADES))])
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    png = b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"PLTE", colours),
            chunk(b"tRNS", opacity),
            chunk(b"IDAT", pixels),
            chunk(b"IEND", b""),
        ]
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


# ---- the timeline


class StaticTimeline(NamedTuple):
    """The timeline as it is printed, and shown without a script.

    Attributes:
        paths: the bars of each style, in seconds and lanes.
        each: of how many lanes it shows one.
        span: seconds of the axis.
        labels: the names of some workers, with the middle of their lanes in pixels.
        x: the ticks of time, in percent of the width, with labels.
    """

    paths: list[tuple[str, str]]
    lanes: int
    each: int
    thickness: float
    span: float
    height: int
    labels: list[tuple[float, str]]
    x: list[tuple[float, str]]
    x_unit: str


def style_of(function: int, state: int, colours: dict[int, int]) -> str:
    """Return the class of the style sheet for a bar."""
    if state in {VALUE, RUNNING}:
        return f"f{colours.get(function, COLOURS)}" + ("r" if state == RUNNING else "")
    return "vain"


def static_timeline(
    timeline: Timeline, seconds: float, colours: dict[int, int]
) -> StaticTimeline | None:
    """Return the timeline with few bars; None if it has none, or too many workers."""
    by_worker = timeline.rows()
    if not by_worker or len(by_worker) > _STATIC_LANES or seconds <= 0:
        return None
    each = math.ceil(sum(map(len, by_worker.values())) / _STATIC_LANES)
    if each > 1:
        by_worker = {name: rows[::each] for name, rows in by_worker.items()}
    groups = [group for rows in by_worker.values() for group in alike(rows)]
    # Failures become bars of their own, which lie above the others: one that is joined with runs
    # that went well would have all of them look failed.
    layers = [
        coarser(
            [[bar for bar in group[0] if (bar.state == VAIN) == vain] for group in groups],
            most,
            timeline.grain,
        )[0]
        for vain, most in ((False, _STATIC_BARS), (True, _STATIC_FAILURES))
    ]
    heights = [len(group) for group in groups]
    paths: dict[str, list[str]] = {}
    thinnest = seconds / 2000  # what is shorter would not be seen
    for bar, at, high in chain.from_iterable(_boxes(layer, heights) for layer in layers):
        style = style_of(bar.function, bar.state, colours)
        length = max(bar.end - bar.start, thinnest)
        if bar.state == VAIN:  # lines as thick as a lane, which the style sheet cuts to stripes
            lines = (f"M{bar.start:.6g} {lane + 0.5}h{length:.4g}" for lane in range(at, at + high))
            paths.setdefault(style, []).extend(lines)
            continue
        box = f"M{bar.start:.6g} {at + 0.08:.2f}h{length:.4g}v{high - 0.16:.6g}h-{length:.4g}z"
        paths.setdefault(style, []).append(box)
    count = sum(map(len, by_worker.values()))
    pixels = max(1.0, min(14, 480 / count))
    labels, at, free = [], 0, 0.0
    for name, rows in by_worker.items():
        middle = pixels * (at + len(rows) / 2)
        if middle - 6 >= free:
            labels.append((round(middle, 1), shortened(name, _NAME)))
            free = middle + 8
        at += len(rows)
    x, x_unit = time_axis(seconds)
    return StaticTimeline(
        paths=[(style, "".join(parts)) for style, parts in sorted(paths.items())],
        lanes=count,
        each=each,
        thickness=round(0.84 * pixels, 2),
        span=seconds,
        height=round(pixels * count),
        labels=labels,
        x=x,
        x_unit=x_unit,
    )


def _boxes(rows: Sequence[list[Bar]], lanes: Sequence[int]) -> Iterator[tuple[Bar, int, int]]:
    """Yield each bar with its first lane and the number of its lanes, which are neighbours.

    Args:
        rows: lanes that differ.
        lanes: how many neighbours have the bars of each.
    """
    above: dict[Bar, tuple[int, int]] = {}
    at = 0
    for row, high in zip(rows, lanes, strict=True):
        here = {}
        for bar in row:
            first, before = above.pop(bar, (at, 0))
            here[bar] = first, before + high
        yield from ((bar, *place) for bar, place in above.items())
        above, at = here, at + high
    yield from ((bar, *place) for bar, place in above.items())


_UNITS = 5_000_000  # at most, for the whole span


def timeline_data(
    timeline: Timeline, seconds: float, functions: list[str], most: int
) -> dict[str, Any]:
    """Return the bars of so many workers for the script.

    Each worker has its name and the bars of each lane; a bar stands only in the first of its lanes.
    Bars are whole numbers, each relative to the bar before. Each bar has: the time since the end of
    the bar before in its list, and its length, in units; 3 times the number of its function, plus
    its state; the number of its task, less that of the bar before; and in which other lanes it is,
    as the place of their distances in ``more``. ``several`` has the counts of bars of several runs,
    by their place.
    """
    unit = 0.001
    while seconds / unit > _UNITS:
        unit *= 10
    several: dict[int, int] = {}
    more: dict[tuple[int, ...], int] = {(): 0}
    place = 0
    workers = []
    for name, lanes in islice(timeline.rows().items(), most):
        firsts: dict[Bar, list[int]] = {}
        for lane, row in enumerate(lanes):
            for bar in row:
                firsts.setdefault(bar, []).append(lane)
        bars: list[list[int]] = [[] for _ in lanes]
        ends, tasks = [0] * len(lanes), [0] * len(lanes)  # of the bar before
        for bar, (lane, *rest) in firsts.items():
            start, end = max(ends[lane], round(bar.start / unit)), round(bar.end / unit)
            bars[lane] += (
                start - ends[lane],
                max(0, end - start),
                3 * bar.function + bar.state,
                bar.task - tasks[lane],
                more.setdefault(tuple(one - lane for one in rest), len(more)),
            )
            ends[lane], tasks[lane] = max(start, end), bar.task
            if bar.runs > 1:
                several[place] = bar.runs
            place += 1
        workers.append([name, bars])
    return {
        "unit": unit,
        "span": seconds,
        "grain": timeline.grain,
        "functions": functions,
        "workers": workers,
        "more": list(more),
        "several": several,
    }
