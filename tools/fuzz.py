"""Send random messages of every kind to a hub and to the sessions of missions and workers.

    python -m tools.fuzz [--messages N] [--seed S] [--shrink]

Runs round after round, each with a seed of its own, until that many messages were sent. The last
line is JSON: how many messages of each kind, and the rounds that broke a law, whose example is on
standard error. The exit code is then 1. ``--messages 1 --seed S --shrink`` runs the round of one
seed again, and looks for a simpler example.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from grain.head.service import CODEC
from grain_testkit.hostile_messages import kinds_of
from grain_testkit.hostile_peers import TARGETS

if TYPE_CHECKING:
    from grain_testkit.hostile_peers import Carry

_SCRIPTS = 100  # in a round, for each target: hypothesis remembers all that it has tried
_MOST_BROKEN = 10  # rounds: then that is enough to mend
_EVERY = 30.0  # seconds between two lines about the progress

_settings = settings(
    max_examples=_SCRIPTS,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
_shrinking = settings(_settings, phases=[Phase.generate, Phase.shrink])


def run_round(number: int, counts: dict[str, Counter[str]], how: settings) -> list[dict[str, Any]]:
    """Send some thousand messages, the same for each number; return the laws that were broken."""
    broken = []
    for name, (scripts, carry_out) in TARGETS.items():
        try:
            test = _hypothesis_test(number, scripts, carry_out, counts[name])
            how(test)()
        except Exception as error:
            traceback.print_exc()
            broken.append({"seed": number, "target": name, "error": f"{error!r:.200}"})
    return broken


def _hypothesis_test(number: int, scripts: Any, carry_out: Carry, counts: Counter[str]) -> Any:
    @seed(number)
    @given(scripts)
    def carry_out_scripts(script: list[Any]) -> None:
        carry_out(script, counts)

    return carry_out_scripts


def main() -> int:
    """Run what the command line asks for; return 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=3_000_000, help="how many at least")
    parser.add_argument("--seed", type=int, default=0, help="that of the first round")
    parser.add_argument("--shrink", action="store_true", help="simplify what breaks a law")
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {name: Counter() for name in TARGETS}
    broken: list[dict[str, Any]] = []
    began = shown = time.monotonic()
    number = options.seed
    while (sent := sum(map(Counter.total, counts.values()))) < options.messages:
        broken += run_round(number, counts, _shrinking if options.shrink else _settings)
        number += 1
        if len(broken) >= _MOST_BROKEN:
            break
        if time.monotonic() - shown > _EVERY:
            shown = time.monotonic()
            print(f"{sent} messages, {len(broken)} broken", file=sys.stderr, flush=True)
    kinds = sum(counts.values(), Counter())
    never = [kind.__name__ for kind in kinds_of(CODEC) if not kinds[kind.__name__]]
    result = {
        "messages": kinds.total(),
        "targets": {name: count.total() for name, count in counts.items()},
        "kinds": dict(sorted(kinds.items())),
        "kinds_never_sent": never,
        "seeds": [options.seed, number - 1],
        "seconds": round(time.monotonic() - began),
        "errors": broken,
    }
    print(json.dumps(result))
    return 1 if broken or never else 0


if __name__ == "__main__":
    sys.exit(main())
