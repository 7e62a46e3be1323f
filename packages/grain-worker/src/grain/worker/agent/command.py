"""The command line of a worker: its options, and the `Agent` that is made of them."""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import outcome
import trio

from grain.config import WorkerSettings, add_options, read_options
from grain.edge import DEFAULT, SEEK_FIRST, DirectWaySeeker, dial, is_reached_directly
from grain.edge.address import check_argument
from grain.edge.errors import AddressError
from grain.edge.machine.cpu_locks import taking_cpus
from grain.edge.version import own_versions
from grain.files.batch_systems import BATCH_SYSTEMS, facts_of, several_nodes
from grain.worker.agent.agent import FAILED, USAGE, Agent
from grain.worker.agent.first_runner import FirstRunner
from grain.worker.agent.lifecycle import Lifecycle, Times
from grain.worker.agent.session import IN_MEMORY, WorkerSession
from grain.worker.auto import (
    NodeOffer,
    batch_cluster,
    batch_id,
    batch_job,
    batch_system,
    detect_resources,
)
from grain.worker.errors import RunnerUnusable, UsageError
from grain.worker.launch.launcher import launch
from grain.worker.launch.part import NodePart, worker_name
from grain.worker.logs import STANDARD_ERROR, log_to
from grain.worker.messages import CODEC
from grain.worker.node.delegation import Delegation, decide, prepared, read_group
from grain.worker.node.host_info import read_host_info
from grain.worker.node.limits import raise_open_files
from grain.worker.runner.settings import RunnerSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grain.worker.node.host_info import HostInfo

_PART = 32  # of the machine's memory, outcomes may take one; what is more is spooled

_log = logging.getLogger("grain.worker")

EPILOG = """\
exit codes: 0 it left as it was asked to (a signal, the end of its job, grain drain); 1 it could not
work; 2 a mistake on the command line; 3 there was no scheduler for --give-up seconds
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    options = argparse.ArgumentParser(
        prog="grain-worker",
        description="Run tasks of Grain on this node, until asked to leave.",
        epilog=EPILOG,
    )
    add = options.add_argument
    add(
        "--url",
        default=DEFAULT,
        type=meeting_address,
        metavar="ADDRESS",
        help="where the scheduler is met (%(default)s)",
    )
    add(
        "--res",
        default="auto",
        metavar="JSON",
        help="the resources to offer: auto, or an object of kinds, as "
        '{"Cores": 4, "Memory": "auto"} or {"auto": true, "Memory": 60} (%(default)s)',
    )
    add("--name", default="", help="the display name of this worker (the host's name)")
    add_options(options, WorkerSettings)
    add(
        "--term-grace",
        type=seconds,
        metavar="S",
        help=f"seconds between SIGTERM and SIGKILL ({_graces()})",
    )
    add(
        "--drain",
        type=seconds,
        default=60.0,
        metavar="S",
        help="seconds without new runs before the tasks have to be over (%(default)g)",
    )
    add(
        "--give-up",
        type=seconds,
        default=600.0,
        metavar="S",
        help="seconds without a scheduler after which to leave (%(default)g)",
    )
    add("--dry", action="store_true", help="say what would be offered, and leave")
    add(
        "--nodes",
        type=int,
        default=1,
        metavar="N",
        help="start a worker on each of the N nodes of this batch job "
        f"({several_nodes(', ')}), called NAME.0, NAME.1 and so on, and wait for all of them",
    )
    add("--log", default="", metavar="FILE", help="with --nodes: the file of the job's output")
    return options


def _graces() -> str:
    """Return the seconds that batch systems leave, for the help."""
    usual, titles = facts_of("").grace, dict[float, list[str]]()
    for one in sorted(BATCH_SYSTEMS.values(), key=lambda one: one.grace):
        titles.setdefault(one.grace, []).append(one.title)
    texts = (f"{grace:g} under {' and '.join(titles[grace])}" for grace in titles if grace != usual)
    return ", ".join((*texts, f"else {usual:g}"))


def meeting_address(text: str) -> str:
    """Return an address; the key of a bridge must not stand in it."""
    try:
        return check_argument(text)
    except AddressError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(text: str) -> float:
    """Parse a number of seconds, which is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return number


def stated_resources(text: str) -> Any:
    """Parse ``--res``.

    Raises:
        UsageError: it is not JSON.
    """
    if text == "auto":
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"--res {text}: not JSON ({error}). Mind the shell's quotes: "
            '--res \'{"Cores": 4, "Memory": 16}\''
        ) from None


def make_lifecycle(
    options: argparse.Namespace, offer: NodeOffer, info: HostInfo, now: float
) -> Lifecycle:
    """Return the lifecycle of a worker with these options."""
    term = options.term_grace
    if term is None:
        term = facts_of(batch_system(info.environ)).grace
    done_by = float("inf") if offer.time is None else now + offer.time
    return Lifecycle(Times(term, options.drain, options.give_up), done_by, now)


def control_groups(environ: Mapping[str, str]) -> Delegation:
    """Return the decision on control groups for programs, which a variable may forbid."""
    if environ.get("GRAIN_CONTROL_GROUPS") == "off":
        return Delegation(why="GRAIN_CONTROL_GROUPS is off")
    return decide(*read_group())


async def serve(
    options: argparse.Namespace,
    offer: NodeOffer,
    info: HostInfo,
    groups: str = "",
    seek: float = SEEK_FIRST,
    part: NodePart | None = None,
    first: FirstRunner | None = None,
) -> int:
    """Serve as a worker until it leaves; return the exit code.

    Args:
        first: becomes the first runner.
        part: of a worker that another process of its job has started.
    """
    now = trio.current_time()
    worker = with_absolute_paths(read_options(options, WorkerSettings))
    name = options.name or info.hostname
    session = WorkerSession(
        secrets.token_hex(8),
        name,
        info.hostname,
        offer.resources,
        now,
        versions=own_versions(),
        in_memory=min(IN_MEMORY, (info.memory or IN_MEMORY * _PART) // _PART),
        job=batch_job(info.environ),
        cluster=worker.cluster or batch_cluster(info.environ),
        system=batch_system(info.environ),
        listed=batch_id(info.environ),
    )
    lifecycle = make_lifecycle(options, offer, info, now)
    connect = partial(dial, options.url, role="worker", name=name, codec=CODEC)
    settings = RunnerSettings(worker, own_directory=bool(worker.cwd), labels=True, groups=groups)
    direct = DirectWaySeeker(partial(is_reached_directly, options.url), seek)
    agent = Agent(session, lifecycle, connect, settings=settings, direct=direct, first=first)
    if part is None:
        return await agent.run()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(part.obey)
        ran = await outcome.acapture(agent.run)  # so that its error is not in a group
        nursery.cancel_scope.cancel()
    return ran.unwrap()


def with_absolute_paths(worker: WorkerSettings) -> WorkerSettings:
    """Return settings whose paths begin where the worker was started: a runner may be elsewhere."""
    cwd, context = worker.cwd, worker.contextmod
    return msgspec.structs.replace(
        worker,
        cwd=cwd and str(Path(cwd).absolute()),
        # The name of a module has neither.
        contextmod=str(Path(context).absolute())
        if "/" in context or context.endswith(".py")
        else context,
    )


def start_workers(argv: Sequence[str], options: argparse.Namespace) -> int:
    """Start the workers of a job of several nodes; return the exit code when all have ended."""
    try:
        return trio.run(launch, argv, options.nodes, options.log)
    except UsageError as error:
        print(f"grain-worker: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"grain-worker: {error}", file=sys.stderr)
        return FAILED


def run() -> int:
    """Run the command as a process of its own; return the exit code."""
    return main(forking=True)


def main(
    argv: Sequence[str] | None = None, seek: float = SEEK_FIRST, *, forking: bool = False
) -> int:
    """Run the command; return the exit code.

    Args:
        seek: seconds until the first look for a direct way, where another one connects it.
        forking: fork the first runner from this process, which has done nothing else and does
            nothing behind this.
    """
    options = parser().parse_args(argv)
    part = NodePart.taken(os.environ)
    if part is not None:
        # Until the agent takes it: it comes again from the process that started this one.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        part.redirect()
        options.name = worker_name(options.name, part)
    first = None
    if not options.dry and (part is not None or options.nodes == 1):
        raise_open_files()
        # Before this process has more than one thread, a log or a lock.
        first = FirstRunner.fork() if forking else None
    log_to(STANDARD_ERROR, "%(asctime)s %(levelname)s %(message)s")
    # Grid Engine sends it to every process of a job; the job's script forwards it as SIGTERM.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if part is None and options.nodes > 1:
        return start_workers(sys.argv[1:] if argv is None else argv, options)
    info = read_host_info()
    try:
        offer = detect_resources(
            stated_resources(options.res), info, hyperthreads=options.hyperthreads
        )
    except UsageError as error:
        print(f"grain-worker: {error}", file=sys.stderr)
        return USAGE
    for remark in offer.remarks:
        _log.warning("%s", remark)
    _log.info("this worker, %s, offers %r", options.name or info.hostname, offer.resources)
    _log.info("it runs %s", own_versions())
    decision = control_groups(os.environ)
    _log.info("%s", decision.describe())
    if options.dry:
        return 0
    if options.cwd and not (Path(options.cwd).is_dir() and os.access(options.cwd, os.X_OK)):
        print(
            f"grain-worker: --cwd {options.cwd}: not a directory that it can enter", file=sys.stderr
        )
        return USAGE
    try:
        # Missions with a local worker on this machine choose other CPUs.
        with taking_cpus(getattr(offer.resources, "c", ())), prepared(decision) as groups:
            code = trio.run(serve, options, offer, info, groups, seek, part, first)
    except RunnerUnusable as error:
        print(f"grain-worker: {error}", file=sys.stderr)
        return FAILED
    _log.info("this worker has ended")
    return code
