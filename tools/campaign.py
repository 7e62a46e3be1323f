"""Write the event log of a campaign that never was, to look at what the commands show of it.

1,887 tasks in four stages, thirty failures of six kinds, second attempts, a worker that is killed,
two whose clocks are wrong, and six tasks that fit nowhere: `grain_testkit.campaign` says more.

    python -m tools.campaign /tmp/campaign
    grain report -o /tmp/campaign.html /tmp/campaign
"""

from __future__ import annotations

import argparse
from pathlib import Path

from grain_testkit.campaign import GPU_TASKS, MOLECULES, Campaign
from grain_testkit.event_logs import write_log


def main() -> None:
    """Write a log as the command line says."""
    parser = argparse.ArgumentParser(description="write the event log of a synthetic campaign")
    parser.add_argument("folder", type=Path, help="where to write it")
    parser.add_argument("--molecules", type=int, default=MOLECULES, help="[default: %(default)s]")
    parser.add_argument(
        "--gpu-tasks", type=int, default=GPU_TASKS, metavar="N",
        help="tasks that fit nowhere  [default: %(default)s]",
    )  # fmt: skip
    parser.add_argument("--no-loss", action="store_true", help="let no worker be lost")
    given = parser.parse_args()
    campaign = Campaign(
        given.molecules, gpu_tasks=given.gpu_tasks, loses_a_worker=not given.no_loss
    )
    print(write_log(given.folder, campaign.lines()))


if __name__ == "__main__":
    main()
