"""Benchmarks: each module has a `main` that prints JSON lines; run with `python -m tools.bench`."""

from __future__ import annotations

import json


def report(bench: str, value: float, unit: str, budget: float | None = None) -> None:
    """Print one result; the budget is in the same unit."""
    line = {"bench": bench, "value": round(value, 3), "unit": unit, "budget": budget}
    print(json.dumps(line), flush=True)
