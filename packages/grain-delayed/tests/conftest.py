"""What tests share: examples of properties without a time limit; a directory for kept results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from kept_calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A machine that does something else for a while is no counterexample.
settings.register_profile(
    "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory, and no calls yet."""
    CALLS.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CACHE", raising=False)
    yield tmp_path
    CALLS.clear()
