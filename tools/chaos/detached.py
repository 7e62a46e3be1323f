"""Detached missions: what their keepers have written about each of their starts."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import trio

from tools.chaos.books import BEGINS
from tools.chaos.judge import Ending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.chaos.schedule import MissionPlan


class Detached:
    """The detached missions of a run.

    Args:
        folder: where their starts have a folder each.

    Attributes:
        live: the names of missions that may still run, or are about to be resumed.
        resumed: as in `Evidence`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plans: dict[str, MissionPlan] = {}
        self._refused: list[MissionPlan] = []
        self.live: set[str] = set()
        self.resumed: list[tuple[str, int]] = []

    def begin(self, plan: MissionPlan) -> None:
        """Begin to have a mission, which is about to be started."""
        self._plans[plan.name] = plan
        self.live.add(plan.name)

    def refuse(self, plan: MissionPlan) -> None:
        """Note that the command which was to start a mission has failed."""
        self._refused.append(plan)

    def part(self, name: str) -> None:
        """Count a mission as over."""
        self.live.discard(name)

    async def ended(self, name: str) -> int:
        """Wait for the end of the last start of a mission; return its status, as of a process."""
        while True:
            starts = self._starts(name)
            if starts and (status := _read(starts[-1] / "end.json").get("status")) is not None:
                return int(status)
            await trio.sleep(0.1)

    def endings(self, lines: Sequence[Mapping[str, Any]]) -> list[Ending]:
        """Return the end of each start; that of a mission which could not be started is a failure.

        Args:
            lines: the books, by which processes and the names of starts belong together.
        """
        names = {
            (one["host"], one["pid"]): one["mission"] for one in lines if one["what"] == BEGINS
        }
        endings = [Ending(replace(plan, name=f"{plan.name}-0"), 1) for plan in self._refused]
        for mission, plan in self._plans.items():
            for start in self._starts(mission):
                process = _read(start / "process.json")
                name = names.get((process["host"], process["pid"]))
                # A mission that was killed before it began has nothing to show.
                if name is not None:
                    status = _read(start / "end.json").get("status")
                    endings.append(Ending(replace(plan, name=name), status))
        return endings

    def _starts(self, mission: str) -> list[Path]:
        """Return the folders of the starts of a mission whose program has begun, in their order."""
        found = [one for one in self._folder.glob(f"{mission}@*") if _read(one / "process.json")]
        return sorted(found, key=lambda one: int(one.name.rpartition("@")[2]))


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        data: dict[str, Any] = json.loads(file.read_text())
        return data
    return {}
