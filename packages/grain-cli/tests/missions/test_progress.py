"""The line on the progress of a mission that `grain attach` follows."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from grain.cli.missions.progress import ProgressLine, progress_text
from grain.cli.top.link import Seen
from grain_testkit.overviews import mission, outlook, overview

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def test_the_line_has_counts_rate_and_estimate_as_far_as_there_is_room() -> None:
    counts = mission(1, 6, rate=2.0)

    assert (
        "23 % of 5200, 2400 done, 3 failed, 6 running, 3994 waiting, 2/s, left: about 55 min 33 s"
    ) == progress_text(counts, 99)
    assert "23 % of 5200, 2400 done" == progress_text(counts, 30)
    assert "0 done, 0 running, 0 waiting" == progress_text(
        mission(0, 0, done=0, left=0, outlook=None, rate=0.0), 79
    )
    assert "away from its scheduler, 1200 done, 4000 running or waiting" == progress_text(
        mission(0, None, connected=False, outlook=None, rate=0.0), 79
    )


def test_a_time_and_a_share_are_shown_as_what_the_mission_says_they_are() -> None:
    said = outlook(total=0, whole=False, least=True)
    counts = mission(0, 6, outlook=said, rate=0.0)

    assert (
        "1200 done, 6 running, 3994 waiting, submitted so far: at least 55 min 33 s"
        == progress_text(counts, 99)
    )
    hardly = mission(0, 6, outlook=replace(said, left=0.2), rate=0.0)
    assert progress_text(hardly, 99).endswith("3994 waiting")


def test_the_line_is_that_of_the_mission_and_makes_room_for_output(terminal: Terminal) -> None:
    line = ProgressLine(None, lambda: "mission1", terminal)
    line.show()
    assert "" == terminal.getvalue()

    line.on_seen(Seen(overview()))
    line.show()
    assert terminal.getvalue().startswith(f"{CLEAR}23 % of 5200, 2400 done, 3 failed, ")

    line.hide()
    line.hide()
    assert 2 == terminal.getvalue().count(CLEAR)
    line.close()


def test_without_the_mission_or_its_scheduler_there_is_no_line(terminal: Terminal) -> None:
    ids = iter([None, "mission0"])
    line = ProgressLine(None, lambda: next(ids), terminal)

    line.on_seen(Seen(overview()))
    line.show()
    assert "" == terminal.getvalue()
    line.show()
    line.on_seen(Seen(None, "the scheduler is gone"))
    line.show()

    assert terminal.getvalue().endswith(CLEAR)
    line.close()


@pytest.mark.parametrize("term", ["dumb", ""])
def test_what_cannot_be_drawn_on_has_no_line(
    term: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No scheduler is asked, at an address without one."""
    monkeypatch.setenv("TERM", term)
    line = ProgressLine("unix:///nowhere/at/all", lambda: "mission0", terminal)
    line.show()
    line.close()

    assert "" == terminal.getvalue()


def test_a_program_without_standard_error_has_no_line() -> None:
    line = ProgressLine("unix:///nowhere/at/all", lambda: "mission0", None)
    line.on_seen(Seen(overview()))
    line.show()
    line.close()
