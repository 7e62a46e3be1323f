"""The frame of these tests: what cannot be installed is said, and no process is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_tools.tool_or_skip import tool_or_skip
from real_tools.tool_site import tool_site

from grain_testkit.tool_environments import CACHE

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


def test_no_process_of_a_site_is_left_also_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), tool_site(tmp_path / "home") as site:  # noqa: PT012
        site.call("sh", "-c", "setsid -f sleep 1000 >&- 2>&-")
        site.until(site.call("sbatch", "--parsable", "--wrap", "sleep 1000").strip(), "R")
        assert len(list(site.processes())) > 5
        raise ZeroDivisionError
    assert [] == list(site.processes())
