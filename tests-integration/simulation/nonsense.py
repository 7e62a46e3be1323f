"""Messages that make no sense, and odd ones that are to have no effect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grain.head.messages import (
    AckTasks,
    CancelTask,
    Crash,
    Crashed,
    RegisterMission,
    Request,
    Resolved,
    Retract,
    Retracted,
    Started,
    Submit,
    Unschedulable,
)
from grain.worker.messages import (
    AckRuns,
    ArrivedCount,
    BlockingCode,
    DefineFunction,
    ForgetFunctions,
    Inventory,
    InventoryRun,
    LoopBlocked,
    Recall,
    RegisterWorker,
    Revoke,
    RunEnded,
    TasksPrinted,
)

if TYPE_CHECKING:
    from random import Random

    from grain.edge.messages import Message
    from simulation.wire import Mail

NOBODY = "nobody"
"""The id of a mission and of a worker that there is not."""

_LATER = 10**9  # no task has so large a number, and no run


def _run(**fields: object) -> Inventory:
    values: dict[str, object] = {"mission": NOBODY, "task": 1, "attempt": (0, 1)}
    values |= {"res": {"Cores": 1}, "elapsed": 1.0, **fields}
    return Inventory((InventoryRun(**values),))  # type: ignore[arg-type]


class Nonsense:
    """The nonsense of a world.

    Attributes:
        refusable: the messages that a hub may refuse, by their ``id``.
        refused: those of them that it has to refuse in any state.
        of_lanes: True for odd messages about lanes, too.
    """

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._kept: list[Message] = []
        self.refusable: set[int] = set()
        self.refused: set[int] = set()
        self.of_lanes = False

    def of_mission(self) -> Mail:
        """Return nonsense as from a mission."""
        crash = Crash((1, 1), "w", "how", 0.0)
        code = DefineFunction(b"d" * 100)
        return self._one_of(
            (
                RegisterMission("", "nobody"),
                RegisterMission("x" * 1000, "nobody"),
                RegisterMission(NOBODY, "nobody", connection=-1),
                Submit(0, 0, b"f"),
                Submit(_LATER, 0, b"f", crashes=(crash,) * 100),
                Request(0, {}, interpreter="x" * 1000),
                code,
            ),
            (
                Submit(_LATER, _LATER, b"no such function"),
                Request(_LATER, {"Memory": -5}),
                Request(_LATER, {"Memory": math.nan}),
            ),
        )

    def of_worker(self, epoch: int) -> Mail:
        """Return nonsense as from a worker, to the head of an epoch."""
        total = {"Cores": 1}
        code = BlockingCode("f", "where", "line", math.inf, "instead")
        return self._one_of(
            (
                RegisterWorker("", "nobody", "host", total),
                RegisterWorker(NOBODY, "x" * 1000, "host", total),
                RegisterWorker(NOBODY, "nobody", "host", total, connection=0),
                _run(elapsed=math.nan),
                _run(left=1e300),
                _run(task=-1),
                RunEnded(NOBODY, 1, (0, 1), "crashed", "x" * 10_000),
                LoopBlocked(NOBODY, 1, code),
                TasksPrinted(NOBODY, "x" * 20_000),
            ),
            (
                RegisterWorker(NOBODY, "nobody", "host", {"Memory": -5}),
                RegisterWorker(NOBODY, "nobody", "host", {"Memory": math.nan}),
                _run(attempt=(epoch, _LATER)),
                _run(res={"Cores": 1000}),
                _run(res={"Memory": math.inf}),
            ),
        )

    def _one_of(self, always: tuple[Message, ...], often: tuple[Message, ...]) -> Mail:
        message = self._chance.choice((*always, *often))
        self._kept.append(message)
        self.refusable.add(id(message))
        if any(message is one for one in always):
            self.refused.add(id(message))
        return [(message, b"")]

    def odd(self, *, mission: bool) -> Mail:
        """Return messages to a mission or a worker that are to have no effect."""
        if mission:
            messages: tuple[Message, ...] = (
                Resolved(_LATER, "value"),
                Retracted(_LATER),
                Started(NOBODY, (_LATER,)),
                Crashed(_LATER, Crash((1, 1), "w", "how", 0.0)),
                CancelTask(_LATER, "nobody"),
                Unschedulable(_LATER, "it makes no sense"),
            )
        else:
            messages = (
                Revoke((0, _LATER)),
                AckRuns(((0, _LATER),)),
                ForgetFunctions((b"no such function",)),
            )
            if self.of_lanes:
                messages += (Recall((0, _LATER)),)
        return [(self._chance.choice(messages), b"")]

    def odd_to_head(self, *, mission: bool) -> Mail:
        """Return messages of a mission or a worker that are to have no effect."""
        messages: tuple[Message, ...] = (Retract((_LATER,)), AckTasks((_LATER,)))
        if self.of_lanes:
            messages += (Submit(_LATER, 0, b"f", late=-1),)  # as one that has come before
        if not mission:
            ended = RunEnded(NOBODY, 1, (0, 1), "value")
            messages = (ended, ArrivedCount(-1), ArrivedCount(0))
        return [(self._chance.choice(messages), b"")]
