"""What tests share: examples of properties without a time limit; a harness with a hub."""

from __future__ import annotations

import pytest
from hub_harness import HubHarness
from hypothesis import HealthCheck, settings

# A machine that does something else for a while is no counterexample.
settings.register_profile(
    "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture
def harness() -> HubHarness:
    return HubHarness()
