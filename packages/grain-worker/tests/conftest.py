"""What tests share: no time limit for examples; surroundings of programs that are to be ended."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import HealthCheck, settings
from program_trees import alive

from grain import GVAR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.resource import Resource

# A machine that does something else for a while is no counterexample.
settings.register_profile(
    "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture
def no_allocation() -> Iterator[None]:
    with GVAR.scope(cast("Resource", SimpleNamespace())):
        yield


@pytest.fixture
def marker() -> Iterator[str]:
    """A duration for sleep that no other process has; whatever has it at the end is killed."""
    chosen = f"1000.{random.randrange(10**9)}1"
    yield chosen
    for pid in alive(chosen):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
