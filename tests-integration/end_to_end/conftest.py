"""A cluster for the tests of this folder, and users on it who leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from end_to_end.aside import Asides
from end_to_end.place import NODES, Place
from fake_batch.start import Batch, Missing, fake, real

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Seconds, as usual: long enough for a worker that ends to hand back its runs, also where
# it gets no processor for some of them.
KILL_WAIT = 30


@pytest.fixture(scope="session")
def asides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asides]:
    """The scenarios that go on beside the tests; see `end_to_end.aside`."""
    with Asides(tmp_path_factory) as running:
        yield running


@pytest.fixture(autouse=True)
def begun(request: pytest.FixtureRequest, asides: Asides) -> None:
    """With the first test of a file, all scenarios of the file have begun."""
    asides.begin(item for item in request.session.items if item.path == request.path)


@pytest.fixture
def seen(request: pytest.FixtureRequest, asides: Asides, begun: None) -> Any:
    """Return the result of the test's scenario."""
    return asides.result(request.node)


@pytest.fixture(scope="session", params=["fake", pytest.param("real", marks=pytest.mark.nightly)])
def slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Batch]:
    """A fake Slurm, and where it can be had by night, a real one."""
    if request.param == "fake":
        folder = tmp_path_factory.mktemp("fake")
        waits = [f"--kill-wait={KILL_WAIT}", "--keep=3600"]
        with fake("slurm", folder, *NODES, *waits) as batch:
            yield batch
        return
    try:
        with real(*NODES, f"--kill-wait={KILL_WAIT}") as batch:
            yield batch
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def place(slurm: Batch, tmp_path: Path) -> Iterator[Place]:
    """A user's home; when the test is over, no process of it is left."""
    place = Place(slurm, tmp_path / "place")
    try:
        yield place
    finally:
        place.close()


@pytest.fixture(scope="module")
def home_of_file(slurm: Batch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A user's home for all tests of a file; when they are over, no process of it is left."""
    place = Place(slurm, tmp_path_factory.mktemp("shared") / "place")
    try:
        yield place
    finally:
        place.close()


@pytest.fixture
def shared(home_of_file: Place) -> Iterator[Place]:
    """The home of all tests of a file, with the workers and the Gnaw that earlier ones left.

    A cluster costs far more than what a test does there. A mission ends with its test.
    """
    try:
        yield home_of_file
    finally:
        home_of_file.end_missions()
