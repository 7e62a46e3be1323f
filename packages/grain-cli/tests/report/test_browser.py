"""The page in a browser: it is drawn, it can be used by keys, and the console is silent."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from grain.cli.report.collecting import collect
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
)
from grain_testkit.browser import Browser, browser, chromium
from grain_testkit.event_logs import SyntheticMission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grain.eventlog.schema import AnyLine

PATH = chromium()

pytestmark = pytest.mark.skipif(PATH is None, reason="no Chromium here: apt-get install chromium")

# The colours on the canvas, by the number of pixels that have them.
COLOURS = """
(() => {
  const canvas = document.getElementById("canvas");
  // Read from a copy: Chromium complains of a canvas that is read more than once.
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  const data = context.getImageData(0, 0, canvas.width, canvas.height).data;
  const counts = {};
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255) {
      const colour = `${data[at]},${data[at + 1]},${data[at + 2]}`;
      counts[colour] = (counts[colour] || 0) + 1;
    }
  }
  return counts;
})()
"""
PICKED = 'document.getElementById("picked").textContent'
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    assert PATH is not None
    with browser(PATH) as one:
        yield one


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    report = collect(SyntheticMission(600, seed=2, workers=3, failing=0.1).lines())
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render(report, written=False, version="1.0.0", notes=[]), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [(1280, 900), (420, 800)])
def test_the_page_is_drawn_at_any_size_without_a_complaint(
    window: Browser, file: Path, size: tuple[int, int], dark: bool
) -> None:
    window.open(file, width=size[0], height=size[1], dark=dark)
    window.evaluate(SETTLED)

    colours = window.evaluate(COLOURS)
    # The four functions, and what was in vain.
    painted = ["22,118,230", "231,127,24", "41,170,135", "220,89,88"]
    if not dark:
        painted = ["86,135,209", "231,149,48", "52,151,109", "179,22,9"]
    assert all(colours.get(colour, 0) > 50 for colour in painted), colours
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert window.evaluate(wide), "the page is wider than the window"
    heights = "[...document.querySelectorAll('svg path')].filter((one) => one.checkVisibility())"
    assert window.evaluate(f"{heights}.every((one) => one.getBoundingClientRect().width > 0)")
    assert window.evaluate("[...document.images].every((one) => one.complete)")
    assert [] == window.complaints


def test_the_timeline_is_moved_and_read_by_keys(window: Browser, file: Path) -> None:
    window.open(file)
    window.evaluate('document.getElementById("canvas").focus()')
    window.evaluate(SETTLED)
    whole = window.evaluate(COLOURS)
    for key in ("+", "+", "ArrowRight", "n"):
        window.press(key)
    window.evaluate(SETTLED)

    first = window.evaluate(PICKED)
    assert first.startswith("Task ")
    assert " on w080000-" in first
    assert whole != window.evaluate(COLOURS)
    window.press("n")
    second = window.evaluate(PICKED)
    assert first != second
    window.press("p")
    assert first == window.evaluate(PICKED)
    window.press("0")
    window.evaluate(SETTLED)
    assert [] == window.complaints


def test_a_task_is_found_by_its_number(window: Browser, file: Path) -> None:
    window.open(file)
    window.evaluate(
        'const find = document.getElementById("find"); find.value = "123";'
        'find.dispatchEvent(new Event("change"))'
    )

    assert window.evaluate(PICKED).startswith("Task 123, ")
    window.evaluate('find.value = "99999"; find.dispatchEvent(new Event("change"))')
    assert "No bar of a single run is that of task 99999." == window.evaluate(PICKED)
    assert [] == window.complaints


def test_failures_are_striped_and_the_rest_can_be_hidden(window: Browser, file: Path) -> None:
    window.open(file)
    window.evaluate(SETTLED)
    whole = window.evaluate(COLOURS)
    window.evaluate('const only = document.getElementById("only"); only.click()')
    window.evaluate(SETTLED)

    failed, one, gap = "179,22,9", "86,135,209", "255,255,255"
    alone = window.evaluate(COLOURS)
    assert whole[one] > 1000 > alone.get(one, 0)
    assert min(whole[failed], alone[failed]) > 50
    assert whole.get(gap, 0) > 20, "no stripes"
    window.evaluate('document.getElementById("canvas").focus()')
    for _ in range(3):
        window.press("n")
        assert "ended without a value" in window.evaluate(PICKED)
    assert [] == window.complaints


def long_names() -> Iterator[AnyLine]:
    """Names of 90 characters and a message of 600, each in one word."""
    worker = "a-node-" + "n" * 83
    yield LogStarted(
        time=1000.0, version=1, grain="1.0.0", id="i" * 90, name="m" * 90,
        command=("c" * 300,), directory="/" + "d" * 300, host=worker,
    )  # fmt: skip
    for at in range(3):
        resources = {"Cores": 2.0, "L" * 60: 3.0}
        name = f"{worker}{at}"
        yield WorkerJoined(time=1000.0, worker=name, host=name, job="j" * 60, resources=resources)
    for task in range(1, 40):
        time, worker_of = 1000.0 + task, f"{worker}{task % 3}"
        yield TaskSubmitted(
            time=time, task=task, function=f"{'f' * 90}{task % 12}", request={"Cores": 1.0},
            request_text="R" * 90, after=(task - 1,) if task > 1 else (),
        )  # fmt: skip
        yield TaskStarted(time=time, task=task, worker=worker_of)
        yield RunEnded(
            time=time + 0.9, task=task, outcome="error", worker=worker_of, started=time,
            ended=time + 0.9, cpus=(task % 2,), call="y" * 160,
            failure=RunFailure("E" * 80, "x" * 600),
        )  # fmt: skip
    yield Remark(time=1050.0, text="r" * 300)
    yield LogEnded(time=1051.0, status="failed", message="z" * 300)


# Names that do not fit, and labels of pictures of which a part cannot be seen.
CUT = """
(() => {
  const shown = (what) =>
    [...document.querySelectorAll(what)].filter((one) => one.checkVisibility());
  const texts = ".name, .part, h1, h3, pre, dd, li, .facts span, .legend span, .function";
  const left = (one) => one.getBoundingClientRect().left;
  return [
    ...shown(texts).filter((one) => getComputedStyle(one).display !== "inline"
      && one.scrollWidth > one.clientWidth + 1),
    ...shown(".labels text").filter((one) => left(one) < left(one.ownerSVGElement) - 1),
  ].map((one) => one.outerHTML);
})()
"""
# Pairs of things in one table or picture of which one covers the other.
COVERED = """
(() => {
  const covered = [];
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  for (const [within, what] of [
    ["tbody tr", "td, th"], [".tiles", ".tile"], [".labels", "text"], [".graph", ".box"],
    ["figcaption", "b, .legend"], [".legend", "span"],
  ]) {
    for (const each of document.querySelectorAll(within)) {
      const list = [...each.querySelectorAll(what)].filter((one) => one.checkVisibility());
      list.forEach((one, at) => list.slice(at + 1).forEach((two) => {
        if (!one.contains(two) && overlap(one.getBoundingClientRect(), two.getBoundingClientRect()))
          covered.push(`${one.outerHTML} ${two.outerHTML}`);
      }));
    }
  }
  return covered;
})()
"""
# Of each section with a picture: its id; whether heading and picture are in one block that no page
# breaks, and its height.
KEPT = """
[...document.querySelectorAll("section")]
  .filter((one) => one.querySelector("h2") && one.querySelector("figure, .graph, .static"))
  .map((one) => {
    const block = one.querySelector("h2").closest(".together");
    if (!block) return [one.id, false, 0];
    const pictures = [...block.querySelectorAll("svg")].filter((two) => two.checkVisibility());
    const kept = getComputedStyle(block).breakInside === "avoid" && pictures.length > 0;
    return [one.id, kept, block.getBoundingClientRect().height];
  })
"""
WIDE = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.mark.parametrize("width", [1400, 500])
def test_long_names_neither_widen_the_page_nor_cover_anything(
    window: Browser, tmp_path: Path, width: int
) -> None:
    path = tmp_path / "long.html"
    path.write_text(
        render(collect(long_names()), written=False, version="1.0.0", notes=[]), encoding="utf-8"
    )
    window.open(path, width=width)
    window.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    window.evaluate(SETTLED)

    assert window.evaluate(WIDE)
    assert [] == window.evaluate(CUT)
    assert [] == window.evaluate(COVERED)
    assert [] == window.complaints
    # The script draws the timeline; without it, and on paper, there is the other one.
    window.evaluate("document.querySelector('.static').hidden = false")
    assert [] == window.evaluate(CUT)


def test_in_a_narrow_window_names_of_rows_stay_and_causes_are_blocks(
    window: Browser, file: Path
) -> None:
    window.open(file, width=500)
    table = "document.querySelector('#functions .wide')"
    window.evaluate(f"{table}.scrollLeft = 200")
    moved = window.evaluate(
        f"[{table}.scrollLeft, {table}.querySelector('tbody th').getBoundingClientRect().left"
        f" - {table}.getBoundingClientRect().left]"
    )
    assert [200, 0] == moved
    causes = "document.querySelector('#failures .wide')"
    assert window.evaluate(f"{causes}.scrollWidth <= {causes}.clientWidth")
    shown = "[...document.querySelectorAll('.graph')].map((one) => one.checkVisibility())"
    assert [False, True] == window.evaluate(shown)
    window.open(file, width=1400)
    assert [True, False] == window.evaluate(shown)


def test_of_more_workers_than_have_room_it_says_which_are_seen(
    window: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "many.html"
    lines = SyntheticMission(800, seed=2, workers=40).lines()
    path.write_text(
        render(collect(lines), written=False, version="1.0.0", notes=[]), encoding="utf-8"
    )
    window.open(path)
    window.evaluate(SETTLED)

    text = 'document.getElementById("range").textContent'
    assert "Workers 1 to 11 of 36: the arrows up and down show the others." == window.evaluate(text)
    window.evaluate("document.querySelector('[data-do=down]').click()")
    window.evaluate(SETTLED)
    assert window.evaluate(text).startswith("Workers 3 to 14 of 36: ")


# The labels of the axis, each with its left and its right edge, from a redrawn canvas.
LABELS = """
(() => {
  const plain = CanvasRenderingContext2D.prototype.fillText;
  const found = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
    const width = this.measureText(text).width;
    const left = x - { right: width, center: width / 2, left: 0 }[this.textAlign];
    if (this.textBaseline === "top") found.push([text, y, left, left + width]);
    return plain.call(this, text, x, y, ...more);
  };
  document.querySelector("[data-do=all]").click();
  return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    CanvasRenderingContext2D.prototype.fillText = plain;
    done(found);
  })));
})()
"""


def test_the_labels_of_the_time_do_not_touch_each_other(window: Browser, tmp_path: Path) -> None:
    path = tmp_path / "brief.html"
    lines: list[AnyLine] = [
        LogStarted(time=1000.0, version=1, grain="1.0.0", python="3.12.4", id="brief", name="brief")
    ]
    for task, at in enumerate((1000.0, 1140.0), 1):
        lines += [
            TaskSubmitted(time=at, task=task, function="f", request={"Cores": 1}),
            TaskStarted(time=at, task=task, worker="n1"),
            RunEnded(
                time=at + 60, task=task, outcome="value", worker="n1", started=at, ended=at + 60
            ),
        ]
    path.write_text(
        render(collect(lines), written=False, version="1.0.0", notes=[]), encoding="utf-8"
    )
    window.open(path, width=1400)
    window.evaluate(SETTLED)

    labels = window.evaluate(LABELS)
    assert "0:00:00" in [label[0] for label in labels]
    row = next(y for text, y, *_ in labels if text == "worker")
    edges = sorted((left, right) for _, y, left, right in labels if y == row)
    assert all(one[1] < two[0] for one, two in pairwise(edges)), labels


PAPER = 186 * 96 / 25.4, 269 * 96 / 25.4
"""The width and the height of a page of A4 within its margins, in pixels."""


def test_a_heading_is_printed_on_the_page_of_its_picture(window: Browser, file: Path) -> None:
    window.open(file, width=int(PAPER[0]), printed=True)
    sections = window.evaluate(KEPT)

    names = ["utilisation", "workers", "timeline", "queue", "graph", "requests", "path"]
    assert names == [name for name, _, _ in sections]
    for name, kept, height in sections:
        assert kept == (name != "requests"), name  # there, each function is a block
        assert height < PAPER[1], name
    assert window.evaluate(WIDE)


def test_without_scripts_the_timeline_is_there_as_a_picture(file: Path) -> None:
    assert PATH is not None
    with browser(PATH) as window:
        window.without_scripts()
        window.open(file)

        shown = "document.querySelector('{}').checkVisibility()"
        assert window.evaluate(shown.format(".static svg path.bar"))
        assert not window.evaluate(shown.format(".interactive"))
        assert window.evaluate(shown.format(".tiles"))
        assert [] == window.complaints
