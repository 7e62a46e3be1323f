"""The pytest plugin of the tests: a hypothesis profile without time limits."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Load the profile, before hypothesis loads one that the command line names."""
    # A machine that is busy with something else is no counterexample.
    settings.register_profile(
        "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")
