"""Fixtures: no time limit for examples; an empty allocation; a marker for processes; a group."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from grain import GVAR
from grain.resource import Token
from grain_testkit.control_groups import group_of_test
from grain_testkit.program_trees import marked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def no_allocation() -> Iterator[None]:
    with GVAR.scope(Token("own")):
        yield


@pytest.fixture
def marker() -> Iterator[str]:
    """A duration for sleep that no other process has; whatever has it at the end is killed."""
    chosen = f"1000.{random.randrange(10**9)}1"
    yield chosen
    for pid in marked(chosen):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def control_group() -> Iterator[Path]:
    with group_of_test() as path:
        yield path
