"""``python -m grain.worker``: a worker; docs/workers.md is its manual."""

import sys

from grain.worker.agent.command import run

if __name__ == "__main__":
    sys.exit(run())
