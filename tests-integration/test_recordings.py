"""The recordings of the landing page show what the programs print.

Numbers, hosts and the ends of lines differ from run to run; words and their order do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from tools.recording import MISSION, STATIC, cluster, text_of

from grain_testkit import report_picture

if TYPE_CHECKING:
    from pathlib import Path

AGAIN = "type `python tools/recording.py`, and commit the pictures"


def words(text: str) -> list[str]:
    return re.sub(r"\d+(\.\d+)*", "#", text).split()


def test_the_picture_of_a_cluster_shows_what_the_commands_print(tmp_path: Path) -> None:
    """The programs of its mission wait, so that the picture cannot come too late."""
    target = tmp_path / "cluster.svg"
    mission = MISSION.replace('["factor", str(n)]', '["sleep", "600"]')
    assert mission != MISSION
    cluster(tmp_path.resolve(), target, mission)
    assert words(text_of(STATIC / "cluster.svg")) == words(text_of(target)), AGAIN


@pytest.mark.parametrize("name", report_picture.FILES)
def test_the_pictures_of_a_report_are_those_of_the_page_that_is_made_now(name: str) -> None:
    made = report_picture.picture(report_picture.page(""), dark=report_picture.FILES[name])
    kept = (STATIC / name).read_text(encoding="utf-8")
    assert kept == made, AGAIN.replace("recording.py", "recording.py report")


def test_the_pictures_of_a_report_are_whole_and_load_nothing() -> None:
    """Code hosts show them as images: without scripts, and with nothing from elsewhere."""
    page = report_picture.page("")
    for dark in (False, True):
        picture = report_picture.picture(page, dark=dark)
        root = ElementTree.fromstring(picture)
        text = " ".join("".join(root.itertext()).split())
        for words in ("6 tasks never ran", "Makespan", "Timeline of runs", "optimise", "n04"):
            assert words in text
        assert "Queue and waiting" not in text
        names = {element.tag.partition("}")[2] for element in root.iter()}
        assert not names & {"script", "image", "img", "iframe", "link"}
        assert "url(" not in picture
        assert ("--page: #131816" in picture) == dark
        assert "prefers-color-scheme" not in picture
