"""`Supply`: the account of one worker's resources, all of them and the free ones."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from typing import TYPE_CHECKING

from grain.resource.base import Gang, gives, join, joined, take
from grain.resource.errors import Infeasible
from grain.resource.identities import Cores, GPUs, Identities

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from grain.resource.base import Resource


class Fit(enum.Enum):
    """The answer of a supply to a request."""

    NOW = "now"
    NOT_NOW = "not now"  # enough is there, but part of it is in use
    NEVER = "never"  # not enough is there even when nothing is in use


def check_offer(resource: Resource) -> None:
    """Check that a worker can offer a resource.

    Raises:
        ValueError: it is a request, for a part of a core, for all of a worker, or for several.
    """
    if isinstance(resource, Gang):
        raise ValueError(  # noqa: TRY004 - a resource, though none that a worker has
            f"{resource.ask()} is what a task asks for; a worker offers what it has itself, as in "
            f"{resource.member.ask()}"
        )
    for part in resource.parts().values():
        if isinstance(part, Cores | GPUs) and (part.is_all or part.share < 1):
            noun = part._noun
            raise ValueError(
                f"{part.ask()} is what a task asks for; a worker offers whole {noun}s, as in "
                f"{type(part).__name__}(4)"
            )


class Supply:
    """The account of one worker: what it has in all, and what of it is free.

    Args:
        total: what the worker has. It is copied; time limits in it begin to count down.

    Attributes:
        total: what the worker has; not to be changed.
        free: what of it is not handed out.
    """

    __slots__ = ("_implied", "_kinds", "_knows_near", "_levels", "_own", "free", "total")

    def __init__(self, total: Resource) -> None:
        self.total = total._supplied()
        # Copied from the copy, so that both count down to the same end.
        self.free = self.total._supplied()
        # The parts of `free`, which change but are never replaced.
        self._own = dict(self.free.parts())
        self._kinds = tuple(self._own)
        # Bound once: to look up a method of a resource costs as much as a short one takes.
        self._levels = [part._level for part in self._own.values()]
        self._implied = any(part._implied is not None for part in self._own.values())

        gpus = self._own.get("GPUs")
        self._knows_near = isinstance(gpus, GPUs) and gpus.knows_near and "Cores" in self._own

    def fit(self, request: Resource) -> Fit:
        """Return whether the request can be met now, later, or never."""
        if self.free.request(request):
            return Fit.NOW
        return Fit.NOT_NOW if self.total.request(request) else Fit.NEVER

    def alloc(self, request: Resource) -> Resource:
        """Take the request out of what is free.

        Returns:
            The allocation, to be given back whole.

        Raises:
            Insufficient: not now.
            Infeasible: never.
        """
        # The hot path of a scheduler, which asks for what fits, and most often for one kind.
        own = None if self._implied else self._own.get(request._kind)
        if own is not None and own._request(request):
            return own._alloc(request)
        wanted = self.free._wanted(request) if self._implied else request.parts()
        if gives(self._own, wanted):
            if self._knows_near and "Cores" in wanted and "GPUs" in wanted:
                return self._take_near(wanted)
            return take(self._own, wanted)
        if self.total.request(request):
            raise self.free._refusal(request)
        raise Infeasible(self.why_never(request))

    def alloc_whole(self, request: Resource) -> Resource:
        """Take the request out of what is free, with a whole core or GPU for each part of one.

        An account of what will be free uses it. A part does not move, so parts that would fit on
        one device may hold two: only what is whole can be counted on.

        Raises:
            Insufficient, Infeasible: as `alloc`.
        """
        parts = (request,) if isinstance(request, Identities) else request.parts().values()
        for one in parts:
            if isinstance(one, Identities) and one._more is not None and one.share < 1:
                whole = join(
                    part.whole() if isinstance(part, Identities) else part for part in parts
                )
                return self.alloc(whole if self.free.request(whole) else request)
        return self.alloc(request)

    @contextmanager
    def without(self, gpus: int) -> Iterator[None]:
        """Take some GPUs, which are given as a mask, out of what is free within the block."""
        taken = self.take_out(gpus)
        try:
            yield
        finally:
            if taken is not None:
                self.dealloc(taken)

    def take_out(self, gpus: int) -> GPUs | None:
        """Take some GPUs, which are given as a mask, out of what is free; return what was free."""
        own = self._own.get("GPUs")
        if not isinstance(own, GPUs):
            return None
        taken = own.among(gpus)
        own._reclaim(taken)
        return taken

    def given(self, kind: type[Identities]) -> tuple[float, float]:
        """Return how many cores or GPUs are handed out, and how many there are; parts count."""
        free, total = self.free.get(kind), self.total.get(kind)
        if not isinstance(free, kind) or not isinstance(total, kind):
            return 0, 0
        return total.amount - free.amount, total.amount

    def dealloc(self, allocation: Resource) -> None:
        """Give back an allocation.

        Raises:
            ValueError: it is not an allocation of this supply, or was given back already.
        """
        own = self._own.get(allocation._kind)
        if own is not None:
            own._dealloc(allocation)
        else:
            self.free.dealloc(allocation)

    def reclaim(self, allocation: Resource) -> None:
        """Take out exactly what a supply of the same worker has handed out.

        A scheduler that takes over a worker from another rebuilds the account with it.

        Raises:
            ValueError: it is not a part of what is free; nothing was changed.
        """
        parts = allocation.parts()
        for kind, part in parts.items():
            if kind not in self._own and not part._unlimited_if_absent:
                raise ValueError(f"{part!r} is not part of {self.total!r}")
        taken = []
        try:
            for kind, own in self._own.items():
                if kind in parts:
                    own._reclaim(parts[kind])
                    taken.append((own, parts[kind]))
        except ValueError:
            for own, part in taken:
                own._dealloc(part)
            raise

    def level(self) -> Hashable:
        """Return a key: supplies of equal keys answer requests alike, but for time limits."""
        return (self._kinds, *[level() for level in self._levels])

    def slack(self, request: Resource) -> float:
        """Return how loosely the request fits what is free; the least is the tightest fit.

        A kind that the request does not ask for counts as wholly left over, so that a task without
        GPUs prefers a worker without them.
        """
        return sum(self.slacks(request).values())

    def slacks(self, request: Resource) -> dict[str, float]:
        """Return by kind how loosely the request fits; `slack` is the sum."""
        want = request.parts()
        return {
            kind: part._slack(want[kind]) if kind in want else min(part._stat()[0], 1)
            for kind, part in self.free.parts().items()
        }

    def slack_of(self, part: Resource) -> float:
        """Return how loosely a request for one kind, of which there is enough, fits."""
        return self.free.parts()[part._kind]._slack(part)

    def idle(self) -> bool:
        """Return True if nothing is handed out."""
        return self.free == self.total

    def why_never(self, request: Resource) -> str:
        """Return the reason why a request gets the answer *never*."""
        have = self.total.parts()
        for kind, part in request.parts().items():
            own = have.get(kind)
            if own is None and not part._unlimited_if_absent:
                return f"it has no {kind} at all"
            if own is not None and not own._request(part):
                return f"it has {own!r}, asked for {part.ask()}"
        return "its parts together cannot meet it"

    def _take_near(self, wanted: Mapping[str, Resource]) -> Resource:
        """Take the parts of a request that the supply `gives`, with the cores near the GPUs."""
        cores, gpus, asked_cores, asked_gpus = (
            parts[kind] for parts in (self._own, wanted) for kind in ("Cores", "GPUs")
        )
        assert isinstance(cores, Cores)
        assert isinstance(gpus, GPUs)
        assert isinstance(asked_cores, Cores)
        assert isinstance(asked_gpus, GPUs)
        got_cores, got_gpus = gpus.with_cores(cores, asked_cores, asked_gpus)
        got: dict[str, Resource] = {"Cores": got_cores, "GPUs": got_gpus}
        rest = {kind: part for kind, part in wanted.items() if kind not in got}
        taken = {**take(self._own, rest).parts(), **got}
        cores._reclaim(got_cores)
        gpus._reclaim(got_gpus)
        return joined({kind: taken[kind] for kind in wanted})

    def __repr__(self) -> str:
        return f"<Supply of {self.total!r}, free {self.free!r}>"
