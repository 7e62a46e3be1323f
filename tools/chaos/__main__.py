"""Run chaos for a while: python -m tools.chaos [--seconds S] [--seed N]."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from tools.chaos.judge import LAWS, judge
from tools.chaos.places import place
from tools.chaos.schedule import AT_BRIDGE, AT_QUEUE, BUSY, STRIKES, make_schedule
from tools.chaos.session import Session
from tools.hosts import why_not

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.chaos.places import Place
    from tools.chaos.schedule import Strike


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="nox -s chaos --", description=__doc__)
    add = parser.add_argument
    add("--seconds", type=float, default=600.0, help="for how long faults strike (%(default)g)")
    add("--seed", type=int, default=None, help="of the schedule; by default another one each time")
    add("--grace", type=float, default=30.0, help="Gnaw's grace period, in seconds (%(default)g)")
    # A worker that is killed while it is connected over files is lost after five minutes.
    add("--settle", type=float, default=420.0, help="seconds for missions to end (%(default)g)")
    add("--interval", type=float, default=2.0, help="mean seconds between faults (%(default)g)")
    add("--only", default="", metavar="KINDS", help="no other faults, as in 'stop,kill gnaw'")
    add("--without", default="", metavar="KINDS", help="all but these")
    add("--bridge", action="store_true", help="meet at a bridge; needs root, as it needs hosts")
    add("--here", action="store_true", help="no hosts, also where this user could make them")
    add("--keep", action="store_true", help="keep the directory also if nothing was broken")
    return parser


def names(strike: Strike) -> tuple[str, str]:
    """Return the names of a kind of fault on the command line, the wider one first."""
    return strike.kind, f"{strike.kind} {strike.target}".strip()


def possible(place: Place, only: str, without: str) -> tuple[Strike, ...]:
    """Return the kinds of fault that can strike in a place, and that are wanted."""
    chosen, refused = only.split(","), without.split(",")
    # Where there are hosts, the file system is one of its own; at a bridge none is needed.
    return tuple(
        strike
        for strike in (*STRIKES, *AT_BRIDGE, *AT_QUEUE, BUSY)
        if (not only or any(name in chosen for name in names(strike)))
        and not any(name in refused for name in names(strike))
        and (strike.kind not in {"cut", "reset"} or strike.target in (*place.transports, "bridge"))
        and (strike.target != "bridge" or "relay" in place.transports)
        and (strike.kind != "fill" or "files" in place.transports)
        and (strike.kind != "purge" or "relay" not in place.transports)
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run; print the JSON line; return the exit code."""
    parser = make_parser()
    options = parser.parse_args(words)
    if options.bridge and (reason := "--here" if options.here else why_not()):
        parser.error(f"no --bridge: {reason}")
    # As Ctrl-C, by which everything is put away.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    seed = random.randrange(10**6) if options.seed is None else options.seed
    # Not in /tmp, which each host may have of its own.
    folder = Path(tempfile.mkdtemp(prefix="grain-chaos-", dir="/var/tmp"))
    began = time.monotonic()
    with place(folder, here=options.here, bridge=options.bridge) as where:
        schedule = make_schedule(
            seed,
            options.seconds,
            grace=options.grace,
            strikes=possible(where, options.only, options.without),
            interval=options.interval,
        )
        session = Session(folder, where, schedule, grace=options.grace, settle=options.settle)
        evidence = trio.run(session.run, options.seconds)
        transports, lacking = where.transports, where.lacking
    report = judge(evidence)
    line: dict[str, object] = {
        "chaos": seed,
        "meets": "at a bridge" if options.bridge else "by a file",
        "seconds": options.seconds,
        "elapsed": round(time.monotonic() - began, 1),
        "transports": transports,
        "lacking": lacking,
        "missions": len(evidence.endings),
        "tasks": report.tasks,
        "resolved": report.resolved,
        "jobs": len(evidence.jobs),
        "cancelled": sum(one.cancelled is not None for one in evidence.jobs),
        "unwatched": report.unwatched,
        "on two workers": {"runs": report.gangs, "given up": report.apart},
        "resumed": len(evidence.resumed),
        "starts": report.starts,
        "restarts": dict(report.restarts),
        "by": dict(report.by_transport),
        "faults": dict(Counter(f"{one.kind} {one.target}".strip() for one in evidence.events)),
        "missed": session.missed,
        "megabytes": {role: round(size) for role, size in evidence.megabytes.items()},
        **{law: report.count(law) for law in LAWS},
        "broken": [f"{one.law}: {one.detail}" for one in report.violations],
    }
    print(json.dumps(line), flush=True)
    if report.violations:
        again = f"--seed {seed}{' --bridge' * options.bridge}"
        print(f"books, faults and logs: {folder}; again: {again}", file=sys.stderr)
    elif options.keep:
        print(folder, file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return bool(report.violations)


if __name__ == "__main__":
    sys.exit(main())
