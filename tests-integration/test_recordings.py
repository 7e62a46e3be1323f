"""The recordings of the landing page show what the programs print.

Numbers, hosts and the ends of lines differ from run to run; words and their order do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tools.recording import MISSION, STATIC, cluster, text_of

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
