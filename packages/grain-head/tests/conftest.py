"""What tests share: examples of properties without a time limit; a scene with a hub."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from grain.head.hub.harness import Scene

# A machine that does something else for a while is no counterexample.
settings.register_profile(
    "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture
def scene() -> Scene:
    return Scene()
