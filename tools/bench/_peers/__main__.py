"""python -m tools.bench._peers TOOL MEASURE WORKERS COUNT SIZE: print quantities as JSON."""

from __future__ import annotations

import importlib
import json
import signal
import sys

from tools.bench._peers import measures

MODULES = {
    "gnaw": "with_grain",
    "tls": "with_grain",
    "within": "with_grain",
    "processes": "with_futures",
    "executorlib": "with_futures",
    "hyperqueue": "with_hyperqueue",
    "xargs": "with_xargs",
}


def main(tool: str, measure: str, workers: str, count: str, size: str) -> None:
    """Measure, and print."""
    # What ends this process ends its children first.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    module = importlib.import_module(f"tools.bench._peers.{MODULES[tool]}")
    function = getattr(measures, measure)
    quantities = module.run(tool, int(workers), lambda peer: function(peer, int(count), int(size)))
    print(json.dumps(quantities))


if __name__ == "__main__":
    main(*sys.argv[1:])
