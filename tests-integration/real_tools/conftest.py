"""Tools that speak Slurm, as they are on the package index, on Grain's commands.

Each file has one tool, in an environment of its own: one job that succeeds, one that fails, and one
that is cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from real_tools.tool_or_skip import tool_or_skip
from real_tools.tool_site import ToolSite, tool_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolSite]:
    """The home directory of the tests of one file, with a scheduler and a worker."""
    with tool_site(tmp_path_factory.mktemp("tool") / "home") as site:
        yield site


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Path:
    """The interpreter that has the packages which the file lists as ``TOOL``.

    If they cannot be installed, the tests are skipped; with ``--real-tools``, they fail.
    """
    return tool_or_skip(*request.module.TOOL, must=request.config.getoption("--real-tools"))
