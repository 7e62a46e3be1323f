"""The fixture of tests of a hub: a harness without I/O."""

from __future__ import annotations

import pytest

from grain_testkit.hub_harness import HubHarness


@pytest.fixture
def harness() -> HubHarness:
    return HubHarness()
