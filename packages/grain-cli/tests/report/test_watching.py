"""`grain report --watch`: the page of a mission that runs, made again until it ends."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from grain.cli import main
from grain.cli.plugins import installed_version
from grain.cli.report.collecting import collect
from grain.cli.report.figures import USUAL_ROWS
from grain.cli.report.page import render
from grain.cli.report.watching import EVERY, PageOfNow
from grain.eventlog.reader import read
from grain.eventlog.schema import LogEnded, encode
from grain_testkit.browser import browser, chromium
from grain_testkit.event_logs import SyntheticMission, write_log
from grain_testkit.small_log import HEADER, body, write

if TYPE_CHECKING:
    from pathlib import Path


def test_pages_of_a_log_that_grows_are_those_of_the_whole_log(tmp_path: Path) -> None:
    lines = list(SyntheticMission(300, seed=3, workers=3, ended=None).lines())
    folder = write_log(tmp_path / "log", lines[:5]).parent
    page = PageOfNow(folder, USUAL_ROWS, cpu=lambda: 0.0)
    for most in (5, 90, 400, len(lines)):
        write_log(folder, lines[:most])
        made = page.make(lambda _: [])

    whole = render(
        collect(read(folder)),
        written=True, version=installed_version(), notes=[], again=int(EVERY),
    )  # fmt: skip
    assert whole == made


def test_a_page_that_is_slow_to_make_is_made_less_often(tmp_path: Path) -> None:
    """It takes one percent of a core at most."""
    folder = write_log(tmp_path / "log", SyntheticMission(9, ended=None).lines()).parent
    spent = iter((0.0, 0.01, 0.01, 0.31, 0.31, 0.32))
    page = PageOfNow(folder, USUAL_ROWS, cpu=lambda: next(spent))

    pages = [page.make(lambda _: []) for _ in range(3)]

    seconds = [match for one in pages for match in re.findall(r'data-again="(\d+)"', one)]
    assert ["5", "5", "30"] == seconds
    assert 5 == page.again


def test_the_page_is_written_until_the_mission_ends(alone: Path) -> None:
    mission = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = time.time()
    folder = write(replace(HEADER, host="", pid=mission.pid, time=began), body())

    def end() -> None:
        while not (alone / "report-opt.html").exists():
            time.sleep(0.01)
        live.append((alone / "report-opt.html").read_text())
        with (folder / "events.jsonl").open("ab") as log:
            log.write(encode(LogEnded(time=began + 900, status="done", message="")))
        mission.communicate(b"\n")

    live: list[str] = []
    thread = threading.Thread(target=end)
    thread.start()
    done = CliRunner().invoke(main, ["report", "--watch", "opt"], catch_exceptions=False)
    thread.join()

    assert 0 == done.exit_code, done.output
    first, last = done.stdout.splitlines()
    assert "report-opt.html: open it in a browser; it is written until opt ends" == first
    assert last.startswith("report-opt.html: 2 of 4 tasks done, 1 failed")
    assert 'data-again="5"' in live[0]
    ended = (alone / "report-opt.html").read_text()
    assert "data-again" not in ended
    assert 'http-equiv="refresh"' not in ended


@pytest.mark.parametrize("words", [("-o", "-"), ("--trace", "opt.json")])
def test_what_cannot_be_written_again_is_refused(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, ["report", "--watch", *words])

    assert (2, True) == (done.exit_code, "name its file with -o" in done.stderr)


@pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_a_browser_loads_it_again_and_keeps_its_place(tmp_path: Path) -> None:
    """Scrolled, zoomed, with a table unfolded; and what the reader marks stays until then."""
    file = tmp_path / "report.html"
    lines = list(SyntheticMission(600, seed=2, workers=3, failing=0.1, ended=None).lines())

    def put(most: int) -> None:
        text = render(
            collect(islice(lines, most)), written=True, version=str(most), notes=[], again=3
        )
        part = tmp_path / "part"
        part.write_text(text, encoding="utf-8")
        part.replace(file)

    # The page, once its load is over; and the reader's place. If the browser scrolls there before
    # the script has filled what is above, it keeps what is seen, a line of text away from the 700.
    now = (
        "[performance.getEntriesByType('navigation')[0].loadEventEnd > 0 && "
        "document.querySelector('meta[name=generator]').content, "
        "Math.abs(scrollY - 700) < 50, "
        "[...document.querySelectorAll('details')].findIndex((one) => one.open), "
        "document.activeElement.id, Boolean((history.state || {}).part)]"
    )
    go_there = """(() => {
      document.querySelector("[data-do=in]").click();
      document.querySelectorAll("details")[1].open = true;
      document.getElementById("canvas").focus({ preventScroll: true });
      scrollTo(0, 700);
      return true;
    })()"""
    path = chromium()
    assert path is not None
    put(1000)
    with browser(path) as window:

        def evaluate(expression: str) -> Any:
            """Return the value of an expression, in the next page if one is loaded just now."""
            while True:
                with suppress(AssertionError):
                    return window.evaluate(expression)
                time.sleep(0.01)

        window.open(file)
        assert evaluate(go_there)
        for most in (1100, len(lines)):  # twice: the place that was restored is kept as well
            put(most)
            expected = [f"Grain {most}", True, 1, "canvas", True]
            guard = time.monotonic() + 100.0
            while (seen := evaluate(now)) != expected and time.monotonic() < guard:
                time.sleep(0.01)
            assert expected == seen
        assert [] == window.complaints
