"""The line on the progress of a mission that `grain attach` follows."""

from __future__ import annotations

import io

import pytest

from grain.cli.missions.progress import ProgressLine, progress_text
from grain.cli.top.link import Seen
from grain_testkit.overviews import mission, overview

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "100")
    return Terminal()


def test_the_line_has_counts_rate_and_estimate_as_far_as_there_is_room() -> None:
    counts = mission(1, 6)

    assert (
        "37 %, 2400 done, 3 failed, 6 running, 3994 waiting, 2/s, 00:33:20 left"
    ) == progress_text(counts, 2.0, 79)
    assert "37 %, 2400 done, 3 failed" == progress_text(counts, 2.0, 30)
    assert "0 %, 0 done, 0 running, 0 waiting" == progress_text(
        mission(0, 0, done=0, left=0), 0.0, 79
    )
    assert "23 %, away from its scheduler, 1200 done, 4000 running or waiting" == progress_text(
        mission(0, None, connected=False), 0.0, 79
    )


def test_the_line_is_that_of_the_mission_and_makes_room_for_output(terminal: Terminal) -> None:
    line = ProgressLine(None, lambda: "mission1", terminal)
    line.show()
    assert "" == terminal.getvalue()

    line.on_seen(Seen(overview()))
    line.show()
    assert terminal.getvalue().startswith(f"{CLEAR}37 %, 2400 done, 3 failed, ")

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
    """Nobody is asked, at an address where nobody is."""
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
