"""A control group that a test may divide, where the machine lets it make one."""

from __future__ import annotations

import os
import random
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grain.worker.guards.group import removed
from grain.worker.node.delegation import own_group

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def group_of_test() -> Iterator[Path]:
    """Make a control group of version 2, as a site hands it over; skip the test where that fails.

    It has a memory controller where the node has one. Leaving it waits until nothing is left in it.
    """
    own = Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    place = own_group(*own)
    if place is None:
        pytest.skip("there is no control group of version 2")
    path = place[0] / f"test-of-grain-{random.randrange(10**9)}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        os.setxattr(path, "user.delegate", b"1")
    except OSError as error:
        path.rmdir()
        pytest.skip(f"the mark of systemd cannot be made: {error}")
    yield path
    # A process that was waited for may be in its group for a moment longer.
    deadline = time.monotonic() + 60
    while not removed(str(path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = [one for one in path.glob("*/") if removed(str(one))]
    assert removed(str(path)), f"processes are left in {path}"
    assert left == []
