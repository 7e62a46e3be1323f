"""The benchmark `peers` with the tools that it installs."""

from __future__ import annotations

import pytest
from tools.bench.peers import MEASURES, TOOLS, interpreter, one

pytestmark = pytest.mark.real_tools

INSTALLED = [tool for tool, compared in TOOLS.items() if compared.requirement]


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("tool", INSTALLED)
def test_each_measurement_runs(tool: str, name: str) -> None:
    if name in TOOLS[tool].lacks:
        pytest.skip(f"{TOOLS[tool].title} has nothing for it")

    quantities = one(interpreter(tool), tool, MEASURES[name], quick=True)

    assert set(MEASURES[name].rows) <= set(quantities)
