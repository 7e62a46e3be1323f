"""The fixture of tests that keep results: a directory of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain_testkit.kept_calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current directory, and no calls yet."""
    CALLS.clear()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CACHE", raising=False)
    yield tmp_path
    CALLS.clear()
