"""Which executor a mission has: one of its own, one that others may join, or a shared one."""

from __future__ import annotations

import datetime
import logging
import os
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from grain.head import GrainExecutor
from grain.head.events import HostingFailed
from grain.resource import ZERO, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from grain.config import Config
    from grain.head.events import Event
    from grain.remote_exer import RemoteExecutor

    Executor = GrainExecutor | RemoteExecutor
    Listener = Callable[[Event], object]


@asynccontextmanager
async def executing(
    local: Resource | None, config: Config | None, name: str | None, on_event: Listener
) -> AsyncGenerator[Executor]:
    """The executor of a mission, running.

    Without a local worker it is the scheduler that missions share. With one, the mission hosts a
    scheduler of its own, which the workers of a configuration file may join. Where there is no
    file nobody was told to come: the address of the defaults is left to missions that share.

    Args:
        local: the resources of the local worker, if there is one.
        config: the configuration; None for a mission that keeps to itself.
        name: the mission's name.
        on_event: called with each event.

    Raises:
        grain.edge.errors.EdgeError: no scheduler can be had, and waiting would not help.
    """
    if local is not None and not isinstance(local, Resource):
        raise TypeError(f"local={local!r}: give the resources of the local worker, as Cores(2)")
    async with AsyncExitStack() as stack:
        if config is None or (local is not None and config.source is None):
            own = GrainExecutor(ZERO if local is None else local, name=name, on_event=on_event)
            yield await stack.enter_async_context(own)
            return
        if local is not None:
            stack.enter_context(_logging_to(config.head.log_file))
            if config.head.contextmod:
                from grain.worker.context import user_context

                await stack.enter_async_context(user_context(config.head.contextmod))
        if local is None and config.head.gnaw.enabled:
            yield await stack.enter_async_context(_shared(config, name, on_event))
        else:
            yield await _hosted(stack, local, config, name, on_event)


# What follows is imported where it is used: a mission that keeps to itself needs no network.


def _shared(config: Config, name: str | None, on_event: Listener) -> RemoteExecutor:
    from grain.remote_exer import GnawConnector, RemoteExecutor

    address, gnaw = config.head.listen, config.head.gnaw
    options = [f"--idle-quit={gnaw.idle_quit}", f"--max-conn={gnaw.max_conn}"]
    if gnaw.swarm:
        options += [f"--swarm={gnaw.swarm}", f"--config={config.source or ''}"]
    arguments = (*options, *gnaw.extra_args)
    finder = GnawConnector(address, name=name or "", log_file=gnaw.log_file, arguments=arguments)
    return RemoteExecutor(address, name=name, on_event=on_event, connect=finder.connect)


async def _hosted(
    stack: AsyncExitStack,
    local: Resource | None,
    config: Config,
    name: str | None,
    on_event: Listener,
) -> Executor:
    from grain.edge.errors import MeetingTaken
    from grain.remote_exer import HostingExecutor

    address = config.head.listen
    host = HostingExecutor(local or ZERO, address=address, name=name, on_event=on_event)
    try:
        return await stack.enter_async_context(host)
    except MeetingTaken as error:
        if local is None:
            raise  # it would wait for workers that go elsewhere
        on_event(HostingFailed(address, str(error)))
    return await stack.enter_async_context(GrainExecutor(local, name=name, on_event=on_event))


@contextmanager
def _logging_to(path: str) -> Iterator[None]:
    """Have what Grain logs in this process written to a file meanwhile, if one is given.

    One that cannot be made is a warning.
    """
    if not path:
        yield
        return
    from grain.config import stamp
    from grain.worker.logs import PatientHandler

    name = stamp(path, datetime.datetime.now())
    logger = logging.getLogger("grain")
    try:
        fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError as error:  # no reason for a mission to fail
        logger.warning("head.log_file: %s: %s; there is no log", name, error.strerror)
        yield
        return
    handler = PatientHandler(fd)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        os.close(fd)
