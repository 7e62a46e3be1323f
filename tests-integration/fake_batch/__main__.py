"""The command line of the controller: ``python -m fake_batch slurm FOLDER``."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from fake_batch.cluster import Cluster
from fake_batch.controller import Controller
from fake_batch.model import Node, Timing
from fake_batch.pbs import Pbs
from fake_batch.processes import Processes
from fake_batch.slurm import MAX_ARRAY, Slurm

# As PBS was seen: walltimes are looked at often, and SIGKILL comes 2 s after SIGTERM. Jobs of a
# node that does not answer are queued again after node_fail_requeue, 310 s unless it is set.
PBS_TIMING = Timing(kill_wait=2, check=6, requeue=0, node_timeout=310)


def main() -> None:
    """Read the command line, serve until the end of standard input, or SIGTERM."""
    parser = argparse.ArgumentParser(description="The controller of a fake batch system.")
    parser.add_argument("system", choices=["slurm", "pbs"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-n", "--nodes", type=int, default=3)
    parser.add_argument("-c", "--cores", type=int, default=4, help="of each node")
    parser.add_argument("-m", "--memory", type=int, default=4000, help="of each node, in MiB")
    parser.add_argument("--array", type=int, default=MAX_ARRAY, help="MaxArraySize")
    parser.add_argument(
        "--pace",
        type=float,
        default=1.0,
        help="seconds in one of the clock; with 0, time passes by `fakectl pass` alone",
    )
    parser.add_argument("--kill-wait", type=float, help="seconds from SIGTERM to SIGKILL")
    parser.add_argument("--keep", type=float, help="seconds for which ended jobs are known")
    parser.add_argument("--requeue", type=float, help="seconds before a job starts once more")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=_end_with_input, daemon=True).start()

    timing = Timing() if asked.system == "slurm" else PBS_TIMING
    if asked.kill_wait is not None:
        timing.kill_wait = asked.kill_wait
    if asked.keep is not None:
        timing.keep = asked.keep
    if asked.requeue is not None:
        timing.requeue = asked.requeue
    processes = Processes(asked.folder)
    nodes = [Node(f"n{i + 1}", asked.cores, asked.memory) for i in range(asked.nodes)]
    cluster = Cluster(nodes, timing, processes)
    system = Slurm(cluster, asked.array) if asked.system == "slurm" else Pbs(cluster, asked.folder)
    Controller(system, cluster, processes, asked.folder, asked.pace).run()


def _end_with_input() -> None:
    """Nobody is left who could want this when standard input ends."""
    sys.stdin.read()
    signal.raise_signal(signal.SIGTERM)


main()
