"""Benchmarks: each module here prints its measurements as JSON lines.

Machines are noisy: quote medians, and ratios of what was measured in one run.
"""

from __future__ import annotations

import json


def say(bench: str, value: float, unit: str, **more: float) -> None:
    """Print one measurement; ``budget=`` states what it may be at most."""
    print(json.dumps({"bench": bench, "value": round(value, 3), "unit": unit, **more}), flush=True)
