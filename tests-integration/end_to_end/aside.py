"""Scenarios that mostly wait, each on a cluster of its own: they go on beside the other tests.

A test whose scenario is one is marked with it, as ``@pytest.mark.aside(play=scenario)``, and gets
what it returned as the fixture ``seen``. All of a file begin with the file's first test: no process
of pytest-xdist plays those of a file that is another's.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from end_to_end.place import Place
from fake_batch.start import fake

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pytest
    from typing_extensions import Self


@dataclass
class Aside:
    """The place of one scenario that runs beside the others.

    Attributes:
        folder: Its own.
        starting: Held while missions and workers start, which takes the time of the processor:
            one scenario after the other, so that no short walltime is over before it matters.
    """

    folder: Path
    starting: threading.Lock = field(repr=False)

    @contextmanager
    def place(self, system: str, *options: str, pace: float = 1.0) -> Iterator[Place]:
        """A user of a fake batch system of its own; nothing of them is left at the end."""
        with fake(system, self.folder / system, *options, pace=pace) as batch:
            place = Place(batch, self.folder / "place")
            try:
                yield place
            finally:
                place.close()


class Asides:
    """The scenarios of tests that have begun; at the end of the block they are waited for.

    Args:
        factory: Makes their folders.
    """

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._starting = threading.Lock()
        self._pool = ThreadPoolExecutor(16)  # more than there are
        self._begun: dict[str, Future[Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def begin(self, items: Iterable[pytest.Item]) -> None:
        """Begin those of these tests that have not begun."""
        for item in items:
            mark = item.get_closest_marker("aside")
            if mark and item.nodeid not in self._begun:
                aside = Aside(self._factory.mktemp("aside"), self._starting)
                self._begun[item.nodeid] = self._pool.submit(
                    mark.kwargs["play"], aside, *_parameters(item)
                )

    def result(self, item: pytest.Item) -> Any:
        """Wait for a test's scenario; what it has returned."""
        return self._begun[item.nodeid].result()


def _parameters(item: pytest.Item) -> list[Any]:
    return [*item.callspec.params.values()] if hasattr(item, "callspec") else []
