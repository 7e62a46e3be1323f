"""What tests of a file use one after the other, as its start is dear."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import trio

from grain.edge import dial
from grain.edge.questions import CODEC, Ask, StateAnswer, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from grain_testkit.programs import Process

T = TypeVar("T")


class Kept(Generic[T]):
    """A thing that is made for the first test, and made again if a test has left it broken.

    So a test that fails is the only one that does, and tests may run alone and in any order.

    Args:
        make: makes it; it ends with the block.
        is_whole: returns True if it is as it was made.
    """

    def __init__(
        self, make: Callable[[], AbstractContextManager[T]], is_whole: Callable[[T], bool]
    ) -> None:
        self._make = make
        self._is_whole = is_whole
        self._ends = ExitStack()
        self._kept: list[T] = []

    def get(self) -> T:
        """Return it, for a test."""
        if self._kept and not self._is_whole(self._kept[0]):
            self.close()
        if not self._kept:
            self._kept.append(self._ends.enter_context(self._make()))
        return self._kept[0]

    def close(self) -> None:
        """End it."""
        self._kept.clear()
        self._ends.close()


class Served:
    """A scheduler and its workers, for missions of several tests.

    Args:
        address: of the scheduler.
        processes: these.
    """

    def __init__(self, address: str, processes: list[Process]) -> None:
        self.address = address
        self._processes = processes

    @property
    def is_whole(self) -> bool:
        """True if all live, and nothing of a mission is there."""
        return all(one.poll() is None for one in self._processes) and trio.run(self._is_idle)

    async def _is_idle(self) -> bool:
        # A mission ends a moment before the scheduler knows; one that a test has left does not.
        with trio.move_on_after(20):
            async with dial(self.address, role="cli", codec=CODEC, patience=20) as peer:
                while True:
                    await peer.channel.send([(Ask("state"), None)])
                    [(_, payload)] = await peer.channel.receive()
                    state = unpack(payload, StateAnswer)
                    if not state.missions and all(one.free == one.total for one in state.workers):
                        return True
                    await trio.sleep(0.05)
        return False


@contextmanager
def served(
    folder: Path, *starts: Callable[[str], AbstractContextManager[Process]]
) -> Iterator[Served]:
    """Start processes at one address, in a folder of their own; they end with the block."""
    address = f"edge://{folder}/meeting"
    with ExitStack() as ends:
        yield Served(address, [ends.enter_context(start(address)) for start in starts])
