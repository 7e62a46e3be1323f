"""Scenarios that mostly wait, each on a cluster of its own: they go on beside the other tests.

A test whose scenario is one is marked with it, as ``@pytest.mark.aside(play=scenario)``, and gets
what it returned as the fixture ``seen``. All that were selected begin with the first test.
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
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pytest


@dataclass
class Aside:
    """Where a scenario plays.

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


@contextmanager
def begun(
    items: Sequence[pytest.Item], factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Any]]]:
    """The scenarios of tests, by the tests' ids; at the end they are waited for."""
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker("aside"))]
    starting = threading.Lock()
    with ThreadPoolExecutor(max(len(marked), 1)) as pool:
        yield {
            item.nodeid: pool.submit(
                mark.kwargs["play"], Aside(factory.mktemp("aside"), starting), *_parameters(item)
            )
            for item, mark in marked
        }


def _parameters(item: pytest.Item) -> list[Any]:
    return [*item.callspec.params.values()] if hasattr(item, "callspec") else []
