"""The moves of a hub's tasks between states: as its comment has them, and as they happen."""

from __future__ import annotations

import importlib
import re
import sys
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.head import hub
from grain.head.hub.state import TaskRecord

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

HUB = Path(hub.__file__).parent
CLASSES = {
    "Waiting": "tasks.waiting", "Quarantine": "tasks.quarantine", "Runs": "tasks.runs",
    "Outcomes": "tasks.outcomes", "Gangs": "tasks.gangs", "Missions": "missions",
}  # fmt: skip


def table() -> dict[str, set[tuple[str, str]]]:
    """Return what each function in the comment moves a task from, and to; "-" is no record."""
    moves: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for line in (HUB / "__init__.py").read_text().partition("# from  ")[2].splitlines()[1:]:
        before, after, by = re.split(r" {2,}", line.removeprefix("# ").strip())
        for name in by.split(", "):
            moves[name].add((before, after))
    return moves


@contextmanager
def observed() -> Iterator[set[tuple[str, str, str]]]:
    """Collect the moves in a block, with the innermost function of the table that makes each."""
    codes: dict[CodeType, str] = {}
    for name in table():
        part, method = name.split(".")
        module = importlib.import_module(f"grain.head.hub.{CLASSES[part]}")
        codes[getattr(getattr(module, part), method).__code__] = name
    moves: set[tuple[str, str, str]] = set()
    stack: list[tuple[Any, str]] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        name = codes.get(frame.f_code)
        if name is None or event not in ("call", "return"):
            return
        if event == "call":
            task = frame.f_locals.get("task") or getattr(
                frame.f_locals.get("scheduled"), "record", None
            )
            stack.append((task, _state(task)))
            return
        task, before = stack.pop()
        after = _state(task)
        if before != after:
            moves.add((name, before, after))
            # Those around this function have not made that move.
            stack[:] = [(other, after if other is task else its) for other, its in stack]

    sys.setprofile(look)
    try:
        yield moves
    finally:
        sys.setprofile(None)


def _state(task: object) -> str:
    if not isinstance(task, TaskRecord) or task.mission.tasks.get(task.number) is not task:
        return "-"
    return task.state.value
