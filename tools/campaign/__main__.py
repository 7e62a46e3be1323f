"""Write or run a campaign: ``python -m tools.campaign write|run FOLDER``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from grain.eventlog.reader import read
from grain_testkit.campaign import GPU_TASKS, MOLECULES, Campaign
from grain_testkit.event_logs import write_log
from tools.campaign.live import Site, run_campaign
from tools.campaign.measures import estimated, replayed
from tools.campaign.mission import MissionPlan


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=__doc__)
    ways = parser.add_subparsers(dest="way", required=True)
    write = ways.add_parser("write", help="write the event log of a campaign in virtual time")
    live = ways.add_parser("run", help="run a campaign, and measure it")
    for one in (write, live):
        one.add_argument("folder", type=Path, help="where to write it")
        add = one.add_argument
        add("--molecules", type=int, default=MOLECULES, help="[default: %(default)s]")
        add("--gpu-tasks", type=int, default=GPU_TASKS, metavar="N",
            help="tasks that fit nowhere  [default: %(default)s]")  # fmt: skip
        add("--no-loss", action="store_true", help="let no worker be lost")
    add = live.add_argument
    add("--scale", type=float, default=0.12, metavar="S",
        help="seconds for one of the campaign  [default: %(default)s]")  # fmt: skip
    add("--at-once", type=int, default=10**6, metavar="N", help="molecules on their way at a time")
    add("--stated", action="store_true", help="state at the beginning how many calls there are")
    add("--workers", type=int, default=3, metavar="N", help="[default: %(default)s]")
    add("--cores", type=int, default=4, metavar="N", help="of each  [default: %(default)s]")
    add(
        "--killed", type=float, default=20.0, metavar="S", help="when one is [default: %(default)s]"
    )
    add("--silent", action="store_true", help="let it stand still instead, as a host that is down")
    add("--drained", type=float, metavar="S", help="when one is asked to leave, if any is")
    return parser


def main() -> None:
    """Write or run a campaign as the command line says."""
    given = make_parser().parse_args()
    folder = given.folder.absolute()
    if given.way == "write":
        campaign = Campaign(
            given.molecules, gpu_tasks=given.gpu_tasks, loses_a_worker=not given.no_loss
        )
        print(write_log(folder, campaign.lines()))
        return
    plan = MissionPlan(
        str(folder), given.molecules, given.gpu_tasks, given.at_once, given.scale, given.stated
    )
    killed = None if given.no_loss else given.killed
    site = Site(
        given.workers, given.cores, killed=killed, silent=given.silent, drained=given.drained
    )
    log, looks = run_campaign(plan, site)
    lines = list(read(log))
    found = replayed(lines)
    print(json.dumps({"log": str(log), **found._asdict(), "error": round(found.error, 4)}))
    for one in estimated(lines, looks):
        print(json.dumps({**one._asdict(), "error": round(one.error, 3)}))


if __name__ == "__main__":
    main()
