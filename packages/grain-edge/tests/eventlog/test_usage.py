from __future__ import annotations

import math

import pytest

from grain.eventlog.usage import BRIEF, report_of


@pytest.mark.parametrize("report", [b"", b"bytes", 0.0, BRIEF])
def test_a_report_stays_as_it_came(report: object) -> None:
    assert report == report_of(report)


@pytest.mark.parametrize("value", [None, 1, "text", {}, -0.1, 1e300, math.inf, math.nan])
def test_what_is_not_a_report_counts_as_none(value: object) -> None:
    assert report_of(value) == b""
