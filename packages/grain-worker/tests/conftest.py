"""How properties are tested: no example has a time limit.

A machine that does something else for a while is no counterexample.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")
