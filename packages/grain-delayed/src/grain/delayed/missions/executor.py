"""The executor of a mission: one of its own, one that workers may join, or a shared one."""

from __future__ import annotations

import datetime
import logging
import os
import re
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from grain.head import GrainExecutor
from grain.head.events import HostingFailed
from grain.resource import ZERO, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from grain.config import Config
    from grain.head.events import Event
    from grain.remote_exer import RemoteExecutor

    MissionExecutor = GrainExecutor | RemoteExecutor
    Listener = Callable[[Event], object]


@asynccontextmanager
async def executing(
    local: Resource | None, config: Config | None, name: str | None, on_event: Listener
) -> AsyncGenerator[MissionExecutor]:
    """Run the executor of a mission.

    Without a local worker it is the scheduler that missions share. With one, the mission hosts a
    scheduler of its own, which workers join at the address of the configuration file. Without a
    file no worker was sent there, and the default address is left to the shared scheduler.

    Args:
        local: the resources of the local worker, if there is one.
        config: the configuration; None for a mission that no worker can join.
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


# The functions below import what they use: a mission that keeps to itself needs no network.


def _shared(config: Config, name: str | None, on_event: Listener) -> RemoteExecutor:
    from grain.remote_exer import GnawConnector, RemoteExecutor

    address, gnaw = config.head.listen, config.head.gnaw
    options = [f"--idle-quit={gnaw.idle_quit}", f"--max-conn={gnaw.max_conn}"]
    options += [f"--grace={gnaw.grace}", f"--max-silence={gnaw.max_silence}"]
    if gnaw.swarm:
        options += [f"--swarm={gnaw.swarm}", f"--config={config.source or ''}"]
    arguments = (*options, *gnaw.extra_args)
    name = name or mission_name()
    finder = GnawConnector(address, name=name, log_file=gnaw.log_file, arguments=arguments)
    return RemoteExecutor(address, name=name, on_event=on_event, connect=finder.connect)


async def _hosted(
    stack: AsyncExitStack,
    local: Resource | None,
    config: Config,
    name: str | None,
    on_event: Listener,
) -> MissionExecutor:
    from grain.edge.errors import MeetingTaken
    from grain.remote_exer import HostingExecutor

    address = config.head.listen
    own = name or mission_name()
    host = HostingExecutor(local or ZERO, address=address, name=own, on_event=on_event)
    try:
        return await stack.enter_async_context(host)
    except MeetingTaken as error:
        if local is None:
            raise  # it would wait for workers that go elsewhere
        on_event(HostingFailed(address, str(error)))
    return await stack.enter_async_context(GrainExecutor(local, name=name, on_event=on_event))


def mission_name() -> str:
    """Return the name of a mission whose program gives none: that of its script.

    ``opt.py``, ``python -m opt`` and the directory or archive ``opt`` are ``opt``. A notebook has
    the name of its file where Jupyter tells it.
    """
    if "ipykernel" in sys.modules:
        return _fit(Path(os.environ.get("JPY_SESSION_NAME", "")).stem) or "notebook"
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return _fit(spec.name.removesuffix(".__main__")) or "python"
    file = getattr(main, "__file__", None)
    if file is not None and not file.startswith("<"):  # as <stdin>
        path = Path(file)
        return _fit(path.parent.name if path.name == "__main__.py" else path.stem) or "python"
    if "IPython" in sys.modules:
        return "ipython"
    return {"-c": "python-c", "-": "python-stdin"}.get(sys.argv[0] if sys.argv else "", "python")


def _fit(name: str) -> str:
    """Return a name as one types it in a shell: without spaces, and colons, which end it."""
    return re.sub(r"[\s:/@*?\[\]]+", "_", name).strip("_")


@contextmanager
def _logging_to(path: str) -> Iterator[None]:
    """Write what Grain logs in this process to a file during the block, if a path is given.

    A file that cannot be made is a warning in the log, and no reason for a mission to fail.
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
    except OSError as error:
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
