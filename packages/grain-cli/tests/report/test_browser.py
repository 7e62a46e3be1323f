"""The page in a browser: it is drawn, it can be used by keys, and the console is silent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.cli.report.collecting import collect
from grain.cli.report.page import render
from grain_testkit.browser import Browser, browser, chromium
from grain_testkit.event_logs import SyntheticMission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
