"""Benchmarks: each module here has a ``main`` that prints its measurements as JSON lines.

`peers` prints a table instead: it compares tools.

Machines are noisy: quote medians, and ratios of what was measured in one run.
"""

from __future__ import annotations

import json


def say(bench: str, value: float, unit: str, budget: float | None = None, **more: float) -> None:
    """Print one measurement; the budget, in the same unit, is the most or least it may be."""
    line = {"bench": bench, "value": round(value, 3), "unit": unit, "budget": budget, **more}
    print(json.dumps(line), flush=True)
