"""The mission that a call belongs to: the mission whose branch, leaf or block makes the call."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

import trio

from grain import GVAR
from grain.delayed.errors import NotInMission
from grain.delayed.missions.ending import in_ipython
from grain.worker.call import name_of, program_listener, runs_asyncio

if TYPE_CHECKING:
    from grain.delayed.missions.mission import Mission

# Context-local, so that missions of other threads and the runs on the local worker do not see it.
_current: ContextVar[Mission | None] = ContextVar("grain.delayed mission", default=None)

# The missions that asyncio code has opened in the trio run of this thread.
_opened_by_asyncio: trio.lowlevel.RunVar[tuple[Mission, ...]] = trio.lowlevel.RunVar(
    "grain.delayed missions of asyncio code", ()
)


def current_mission(fn: object) -> Mission:
    """Return the mission that a call of a delayed function belongs to.

    Raises:
        NotInMission: no mission runs here.
    """
    mission = _current.get()
    if mission is not None and mission.tasks.here and not mission.ended:
        return mission
    if (sole := _sole_mission_of_asyncio()) is not None:
        return sole
    if mission is not None:
        where = "after its mission had ended" if mission.ended else "in another thread"
        raise NotInMission(
            f"{name_of(fn)} was called {where}: call it in the trio program that its mission runs "
            "in, before the mission ends"
        )
    if GVAR.instance:
        raise NotInMission(
            f"{name_of(fn)} was called in a leaf: a function with resources runs on a worker, "
            "where delayed functions cannot be called. Call them in a branch: a delayed function "
            "without resources"
        )
    if in_ipython() and runs_asyncio():
        raise NotInMission(
            f"{name_of(fn)} was called outside of a mission: open one in this cell by "
            "`async with mission(Cores(2)):`, and indent the call, or one for several cells by "
            "`await AsyncExitStack().enter_async_context(mission(Cores(2)))`"
        )
    instead = ""
    if trio.lowlevel.in_trio_task():
        instead = ". Write run(main, local=Cores(2)) instead of trio.run(main)"
    elif runs_asyncio():
        instead = ". Write run(main, local=Cores(2)) instead of asyncio.run(main())"
    raise NotInMission(
        f"{name_of(fn)} was called outside of a mission: call it in a function that is given to "
        f"grain.delayed.run, or inside `async with grain.delayed.mission(...)`{instead}"
    )


def set_current(mission: Mission | None) -> Mission | None:
    """Let calls in this context belong to a mission, or to none; return the one before."""
    before = _current.get()
    _current.set(mission)
    program_listener.set(None if mission is None else mission.on_program)
    return before


def is_inside() -> bool:
    """Return True if the calling code belongs to a mission, or runs as a leaf of one."""
    return _current.get() is not None or bool(GVAR.instance)


def add_mission_of_asyncio(mission: Mission) -> None:
    """Register a mission that asyncio code has opened in the trio run of this thread."""
    running = [m for m in _opened_by_asyncio.get() if not m.ended]
    _opened_by_asyncio.set((*running, mission))


def _sole_mission_of_asyncio() -> Mission | None:
    """Return the mission of asyncio code that stands in no ``async with`` block.

    Each cell of a notebook is such code, with a context of its own: if exactly one mission is open
    in this loop, that one is meant.
    """
    if trio.lowlevel.in_trio_task() or not trio.lowlevel.in_trio_run():
        return None
    missions = [m for m in _opened_by_asyncio.get() if not m.ended]
    return missions[0] if len(missions) == 1 else None
