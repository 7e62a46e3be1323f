"""Gnaw: a hub in a process of its own, which missions start and which outlives them.

It serves until no mission has been there for a while; then it drains its workers, and leaves. If
another one serves at its address it leaves at once: two missions that start one at the same time
end up with the same.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain.edge import DEFAULT, FROZEN, Serving, check_writable, serve
from grain.edge.address import check_argument, parse_address
from grain.edge.errors import (
    AddressError,
    EdgeError,
    FilesystemReadOnly,
    MeetingError,
    MeetingTaken,
    Superseded,
)
from grain.facts.needs import path_of
from grain.head.collapse import collapsing
from grain.head.gnaw.counting import SharedResources
from grain.head.gnaw.pool import PoolSize, keep_pool, pool_size, withdraw_pool
from grain.head.hub.hub import GRACE, MAX_SILENCE
from grain.head.needs import store as needs_file
from grain.head.service import CODEC, HubService
from grain.worker.logs import STANDARD_ERROR, LogFile, log_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FAREWELL = 30.0
"""Seconds that workers have for leaving before Gnaw leaves."""

LOOK = 2.5
"""Seconds between two looks at the disk of the log."""

_log = logging.getLogger("grain.head")


def meeting_address(text: str) -> str:
    """Return an address; the key of a bridge must not stand in it."""
    try:
        return check_argument(text)
    except AddressError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def shared_resources(text: str) -> dict[str, Any]:
    """Return the resources of the whole cluster from their JSON."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise argparse.ArgumentTypeError('it is an object of kinds, as {"Licences": 5}')
    return data


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of ``python -m grain.head``."""
    parser = argparse.ArgumentParser(prog="python -m grain.head", description=__doc__)
    parser.add_argument(
        "--address", default=DEFAULT, type=meeting_address, help="where it is met (%(default)s)"
    )
    parser.add_argument("--log-file", default="", help="where it logs; by default standard error")
    parser.add_argument(
        "--idle-timeout", type=float, default=1800.0, metavar="SECONDS", help="without a mission"
    )
    parser.add_argument("--max-conn", type=float, default=math.inf, help="missions at a time")
    parser.add_argument(
        "--pool",
        type=pool_size,
        default=0,
        metavar="N",
        help="workers to keep alive, by grain scale; auto for as many as the tasks need",
    )
    parser.add_argument("--config", default="", metavar="FILE", help="configuration for --pool")
    parser.add_argument(
        "--grace", type=float, default=GRACE, metavar="SECONDS", help="for peers that are away"
    )
    parser.add_argument(
        "--max-silence",
        type=float,
        default=MAX_SILENCE,
        metavar="SECONDS",
        help="for missions that are there and do not run their event loops",
    )
    parser.add_argument(
        "--res",
        type=shared_resources,
        default={},
        metavar="JSON",
        help="what the whole cluster has, as head.res of grain.toml",
    )
    parser.add_argument(
        "--metrics", default="", metavar="PLACE", help="where it serves them, as 127.0.0.1:9100"
    )
    parser.add_argument(
        "--frozen",
        type=float,
        default=FROZEN,
        metavar="SECONDS",
        help="for a scheduler of this host that is alive and does not answer, before this takes "
        "its place (%(default)g)",
    )
    return parser


async def run_gnaw(
    address: str = DEFAULT,
    *,
    idle_timeout: float = 1800.0,
    max_conn: float = math.inf,
    grace: float = GRACE,
    max_silence: float = MAX_SILENCE,
    pool: PoolSize = 0,
    config: str = "",
    metrics: str = "",
    frozen: float = FROZEN,
    res: Mapping[str, Any] | None = None,
    log: LogFile | None = None,
    task_status: trio.TaskStatus[Serving] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until there has been nothing to do for a while, or a signal says so.

    Args:
        idle_timeout: seconds without a mission after which it leaves.
        max_conn: how many missions may be connected at a time.
        grace: seconds for which workers and missions that are away are waited for.
        max_silence: as in `HubService`.
        pool: how many workers are kept alive meanwhile, or ``"auto"``; 0 leaves that to others.
        config: the configuration file by which they are submitted.
        metrics: where it serves metrics; empty for nowhere.
        frozen: as in `serve`.
        res: what the whole cluster has, as `head.res` of the configuration.
        log: where it logs; missions are informed when nothing can be stored there.
        task_status: gets the serving, with its address and targets, once peers may come.

    Raises:
        grain.edge.errors.MeetingTaken: another scheduler serves there.
        grain.edge.errors.Superseded: another scheduler took over.
        grain.edge.errors.EdgeError: it cannot serve there.
    """
    with collapsing():
        shared = SharedResources(res or {})
        service = HubService(
            grace=grace, max_silence=max_silence, max_missions=max_conn, cluster=shared.pool
        )
        async with trio.open_nursery() as nursery:
            head = partial(
                serve,
                service.handle,
                address,
                codec=CODEC,
                admit=service.admit,
                patience=service.patience,
                frozen=frozen,
                on_trouble=service.on_trouble,
            )
            serving = await nursery.start(head)
            _log.info("serving at %s: %s", serving.address, ", ".join(serving.targets))
            if serving.epoch == 1:  # no head was ever here that workers could come over from
                service.hub.scheduler.cluster.open()
            task_status.started(serving)
            nursery.start_soon(service.run)
            # By its argument, as the address that is served is for eyes: without the bridge's key.
            where = parse_address(address)
            if (path := path_of(where.edge, str(where))) is not None:
                needs = service.hub.scheduler.needs
                if why := needs_file.load(path, needs):
                    _log.warning("%s", why)
                service.hub.scheduler.on_needs_read()
                nursery.start_soon(needs_file.keep, path, needs)
            nursery.start_soon(shared.keep_counting, service.dispatch, service.on_uncounted)
            nursery.start_soon(_until_signal, nursery.cancel_scope)
            if metrics:
                # Imported where it is used, as that takes time and memory.
                from grain.head.gnaw.metrics_port import serve_metrics

                nursery.start_soon(serve_metrics, metrics, service.hub)
            if log is not None and not _same_disk(log.path, address):
                nursery.start_soon(_watch_log, log, service)
            await _until_idle(service, idle_timeout, pool, config)
            await _farewell(service)
            nursery.cancel_scope.cancel()


async def _until_idle(
    service: HubService, idle_timeout: float, pool: PoolSize, config: str
) -> None:
    """Keep the pool until there is nothing to do; then withdraw its jobs.

    Jobs that wait are cancelled before the workers are drained, or they would take their place.
    """
    while True:
        async with trio.open_nursery() as keeping:
            if pool:
                keeping.start_soon(keep_pool, pool, config)
            await _without_a_mission(service, idle_timeout)
            keeping.cancel_scope.cancel()
        if pool:
            await withdraw_pool(pool, config)
        if service.hub.idle:
            _log.info("no mission for %g s: leaving", idle_timeout)
            return


async def _without_a_mission(service: HubService, seconds: float) -> None:
    """Wait until no mission has been there for so long."""
    idle_since = trio.current_time()
    while trio.current_time() - idle_since < seconds:
        await trio.sleep(min(1.0, seconds / 4))
        if not service.hub.idle:
            idle_since = trio.current_time()


async def _farewell(service: HubService) -> None:
    """Drain the workers, and wait until they have left."""
    service.hub.drain()
    service.dispatch()
    with trio.move_on_after(FAREWELL):
        while service.hub.registry.workers:  # noqa: ASYNC110 - a matter of seconds, once
            await trio.sleep(0.1)


def _same_disk(log: str, address: str) -> bool:
    """Return True if a log is on the disk of the meeting file, which `serve` looks at."""
    where = parse_address(address)
    if where.edge is None:
        return False
    return Path(log).parent.stat().st_dev == Path(where.edge).parent.stat().st_dev


async def _watch_log(log: LogFile, service: HubService) -> None:
    """Report to missions when nothing can be stored where the log is."""
    directory = str(Path(log.path).parent)
    troubled = False
    while True:
        await trio.sleep(LOOK)
        why = ""
        try:
            await check_writable(directory)
        except FilesystemReadOnly:  # a file may be written where no new one can be made
            why = log.failed
        except MeetingError as error:
            why = str(error)
        else:
            if log.failed:
                _log.info("lines can be written here again")
                why = log.failed
        if bool(why) != troubled:
            troubled = bool(why)
            service.on_trouble(directory, why)


async def _until_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            _log.info("%s: leaving; workers will find a successor", signal.Signals(number).name)
            scope.cancel()


def _open_log(path: str) -> int | LogFile:
    """Open the log; a log that cannot be opened does not keep missions from their scheduler."""
    if path:
        try:
            return LogFile(path)
        except OSError as error:
            print(f"{path}: {error.strerror}; logging to standard error", file=sys.stderr)
    return STANDARD_ERROR


def main(words: Sequence[str] | None = None) -> int:
    """Run Gnaw; return 0 if it left as it should, or if another one serves there already."""
    options = make_parser().parse_args(words)
    log = _open_log(options.log_file)
    log_to(log, "%(asctime)s %(process)d %(name)s %(levelname)s %(message)s")
    try:
        trio.run(
            partial(
                run_gnaw,
                options.address,
                idle_timeout=options.idle_timeout,
                max_conn=options.max_conn,
                grace=options.grace,
                max_silence=options.max_silence,
                pool=options.pool,
                config=options.config,
                metrics=options.metrics,
                frozen=options.frozen,
                res=options.res,
                log=log if isinstance(log, LogFile) else None,
            )
        )
    except (MeetingTaken, Superseded) as error:
        _log.info("%s", error)
        return 0
    except EdgeError as error:
        _log.error("%s", error)
        return 1
    return 0
