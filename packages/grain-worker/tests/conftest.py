"""What several tests here need."""

from __future__ import annotations

import pytest


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Test modules can be imported by name in other processes, as those of a user's program.

    Their names begin at the root of the tests, which `python -m pytest` has on its search path,
    and `pytest` has not.
    """
    monkeypatch.syspath_prepend(request.config.rootpath)
