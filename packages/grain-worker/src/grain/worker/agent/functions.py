"""The functions of a worker, as bytes: kept once per agent, sent once to each runner. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.worker.messages import (
    Cancel,
    DefineFunction,
    EndOfWorker,
    ForgetFunctions,
    Inspect,
    MemberOpen,
    StartRun,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from grain.edge.messages import Message, Payload

    Order = tuple[StartRun | Cancel | ForgetFunctions | Inspect | MemberOpen | EndOfWorker, Payload]
    """An order of a session to a runner; the payload of a run is its arguments."""


class FunctionStore:
    """The functions that a head has sent to a worker, by digest, the oldest first."""

    def __init__(self) -> None:
        self._payloads: dict[bytes, Payload] = {}

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._payloads)

    def get(self, digest: bytes) -> Payload:
        """Return a function; None if it never came or was forgotten."""
        return self._payloads.get(digest)

    def define(self, digest: bytes, function: Payload) -> None:
        """Keep a function until `forget`."""
        self._payloads[digest] = function

    def forget(self, digests: Iterable[bytes]) -> None:
        """Drop functions that no run will call again."""
        for digest in digests:
            self._payloads.pop(digest, None)

    def forget_oldest(self, most: int, in_use: Collection[bytes]) -> None:
        """Drop the oldest functions until there are at most so many, but none that is in use."""
        surplus = len(self._payloads) - most
        if surplus > 0:
            idle = [digest for digest in self._payloads if digest not in in_use]
            self.forget(idle[:surplus])

    def feed(self) -> FunctionFeed:
        """Return the feed of a new runner, which has no functions yet."""
        return FunctionFeed(self)


class FunctionFeed:
    """The record of the functions that one runner has, which completes the orders for it."""

    def __init__(self, store: FunctionStore) -> None:
        self._store = store
        self._sent: set[bytes] = set()

    def complete(self, orders: Sequence[Order]) -> Sequence[tuple[Message, Payload]]:
        """Return orders for the runner, each function ahead of the first run that calls it."""
        batch: list[tuple[Message, Payload]] = []
        for order in orders:
            message = order[0]
            if isinstance(message, StartRun):
                digest = message.function
                if digest not in self._sent:
                    function = self._store.get(digest)
                    # Without the function, the runner fails only this run, and says why.
                    if function is not None:
                        self._sent.add(digest)
                        batch.append((DefineFunction(digest), function))
            elif isinstance(message, ForgetFunctions):
                self._sent.difference_update(message.digests)
            batch.append(order)
        return batch
