"""Environments of tools, for tests: a tool that cannot be installed skips its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain_testkit.tool_environments import NotInstalled, tool_environment

if TYPE_CHECKING:
    from pathlib import Path


def tool_or_skip(*requirements: str, must: bool) -> Path:
    """Return the interpreter of an environment that has a tool, or skip the test.

    Args:
        requirements: those of `tool_environment`.
        must: fail, and do not skip, if the tool cannot be installed.
    """
    try:
        return tool_environment(*requirements)
    except NotInstalled as error:
        if must:
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
