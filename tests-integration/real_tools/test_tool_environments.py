"""Environments of tools: what cannot be installed is said, and is red where it must not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_tools.tool_environments import CACHE, tool_or_skip

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("must", "outcome"), [(False, pytest.skip.Exception), (True, pytest.fail.Exception)]
)
def test_a_tool_that_cannot_be_installed_is_skipped_or_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, must: bool, outcome: type[Exception]
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    with pytest.raises(outcome, match=r"submitit==99\.0 is not installed: "):
        tool_or_skip("submitit==99.0", must=must)
