"""The graph behind delayed objects: sources that tasks fill in, and recorded operations.

An operation is recorded with the *nodes* of its operands, not with the delayed objects: a delayed
object may be assigned to later (``a[0] = 1`` gives it another node), which must not change what
was derived from it before.

Nothing here is recursive: ``s += f(i)`` in a loop makes a chain as long as the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import outcome
import trio

from grain.delayed.errors import NotInMission

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import ModuleType, TracebackType

    from grain.delayed.missions.mission import Mission


class Waiter(Protocol):
    """What is told when a task that it waits for has ended; it raises nothing."""

    def arrived(self, ended: outcome.Value[Any] | outcome.Error, /) -> None:
        """One more task has ended."""


class Source:
    """The outcome of one task, once it is known; the task is what calls it with the outcome."""

    __slots__ = ("awaited", "mission", "outcome", "traceback", "waiting")

    def __init__(self, mission: Mission) -> None:
        self.mission = mission
        self.outcome: outcome.Value[Any] | outcome.Error | None = None
        self.traceback: TracebackType | None = None
        # Whether an await of it has ended; if not, its failure is reported in the end. An await
        # that was given up, as by a timeout, has told nobody.
        self.awaited = False
        self.waiting: list[Waiter] | None = None

    def __call__(self, ended: outcome.Value[Any] | outcome.Error) -> None:
        self.outcome = ended
        if type(ended) is outcome.Error:
            self.traceback = ended.error.__traceback__
            if not self.awaited:
                self.mission.unseen[self] = None
        waiting, self.waiting = self.waiting, None
        for waiter in waiting or ():
            waiter.arrived(ended)

    @property
    def done(self) -> bool:
        return self.outcome is not None

    @property
    def value(self) -> Any:
        assert isinstance(self.outcome, outcome.Value)
        return self.outcome.value


class Operation:
    """A call of a function whose arguments may be nodes; its value, once it was computed."""

    __slots__ = ("args", "done", "function", "kwargs", "needs", "value")

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        needs: Sequence[Node],
    ) -> None:
        self.function: Callable[..., Any] | None = function
        self.args = args
        self.kwargs = kwargs
        self.needs = needs
        self.done = False
        self.value: Any = None

    def compute(self) -> None:
        """Compute the value; all needs are done."""
        assert self.function is not None
        args = tuple(_filled(arg) for arg in self.args)
        kwargs = {name: _filled(arg) for name, arg in self.kwargs.items()}
        self.value = self.function(*args, **kwargs)
        self.done = True
        # What it was computed from may be large.
        self.function, self.args, self.kwargs, self.needs = None, (), {}, ()


class Constant:
    """A value that is there from the beginning."""

    __slots__ = ("value",)

    done = True

    def __init__(self, value: Any) -> None:
        self.value = value


Node = Source | Operation | Constant


class Gathering:
    """Waits for several sources: until all are there, or the first that failed."""

    __slots__ = ("event", "missing", "sources")

    def __init__(self, sources: Sequence[Source]) -> None:
        self.event = event_here()
        self.sources = sources
        self.missing = len(sources)
        for source in sources:
            if source.waiting is None:
                source.waiting = [self]
            else:
                source.waiting.append(self)

    def arrived(self, ended: outcome.Value[Any] | outcome.Error) -> None:
        self.missing -= 1
        if not self.missing or type(ended) is outcome.Error:
            self.event.set()

    async def wait(self) -> None:
        try:
            await self.event.wait()
        finally:
            if self.missing:  # or a task that is awaited again and again would keep them all
                for source in self.sources:
                    if source.waiting is not None:
                        source.waiting.remove(self)


def sources_of(roots: Iterable[Node]) -> list[Source]:
    """The tasks from which the nodes are still to be computed, in the order of their calls."""
    found: dict[Source, None] = {}
    seen: set[Node] = set()
    stack = list(roots)[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, Source):
            found[node] = None
        elif isinstance(node, Operation) and not node.done and node not in seen:
            seen.add(node)
            stack.extend(reversed(node.needs))
    return list(found)


async def gather(roots: Sequence[Node]) -> list[Any]:
    """The values of some nodes.

    Raises:
        Exception: what the first task that failed raised, at once; the others go on.
        NotInMission: a task belongs to a mission that this trio task cannot wait for.
    """
    sources = sources_of(roots)
    missing = [source for source in sources if source.outcome is None]
    failed = any(type(source.outcome) is outcome.Error for source in sources)
    if missing and not failed:
        for source in missing:
            check_here(source)
        await Gathering(missing).wait()
    else:
        await checkpoint()
    for source in sources:
        source.awaited = True
        source.mission.unseen.pop(source, None)
    for source in sources:
        if type(source.outcome) is outcome.Error:
            # With its first traceback, or each await would make it longer.
            raise source.outcome.error.with_traceback(source.traceback)
    return [evaluated(root) for root in roots]


def check_here(source: Source) -> None:
    """A task can only be waited for in the trio program that its mission runs in."""
    if not source.mission.here:
        raise NotInMission(
            "this delayed object belongs to a mission of another thread or trio program; "
            "await it there"
        )


def evaluated(root: Node) -> Any:
    """The value of a node whose sources all have one."""
    stack = [root]
    while stack:
        node = stack[-1]
        if isinstance(node, Operation) and not node.done:
            missing = [need for need in node.needs if not need.done]
            if missing:
                stack.extend(reversed(missing))  # as Python does: from left to right
                continue
            node.compute()
        stack.pop()
    return root.value


def _filled(arg: Any) -> Any:
    """An argument with each node replaced by its value."""
    if isinstance(arg, Source | Operation | Constant):
        return arg.value
    if type(arg) is Nested:
        return arg.filled()
    return arg


class Nested:
    """A list, tuple, dict or slice among the arguments that has nodes in it."""

    __slots__ = ("items", "kind")

    def __init__(self, kind: type, items: list[Any]) -> None:
        self.kind = kind
        self.items = items

    def filled(self) -> Any:
        items = [_filled(item) for item in self.items]
        if self.kind is slice:
            return slice(*items)
        if self.kind is dict:
            return dict(zip(items[::2], items[1::2], strict=True))
        return self.kind(items)


def event_here() -> trio.Event | asyncio.Event:
    """An event that this code can wait for, be it trio's or asyncio's, and a mission's task set.

    Raises:
        NotInMission: in an asyncio loop without a mission.
    """
    if trio.lowlevel.in_trio_task():
        return trio.Event()
    event: asyncio.Event = _host().event_here()
    return event


async def checkpoint() -> None:
    """Let others run, of trio's or of asyncio's."""
    if trio.lowlevel.in_trio_task():
        await trio.lowlevel.checkpoint()
    else:
        await _host().checkpoint()


def _host() -> ModuleType:
    """What asyncio code waits with. Imported where it is used: few programs need it."""
    from grain.delayed.missions import asyncio_guest

    return asyncio_guest
