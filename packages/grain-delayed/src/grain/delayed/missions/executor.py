"""The executor of a mission: one of its own, one that workers may join, or a shared one."""

from __future__ import annotations

import datetime
import logging
import os
import re
import sys
from collections.abc import Mapping
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
    from grain.head.run_log import RunLog
    from grain.remote_exer import RemoteExecutor

    MissionExecutor = GrainExecutor | RemoteExecutor
    Listener = Callable[[Event], object]


@asynccontextmanager
async def executing(
    local: Resource | None,
    config: Config | None,
    name: str | None,
    on_event: Listener,
    *,
    isolated: bool = False,
    env: Mapping[str, str | None] | None = None,
    run_log: RunLog | None = None,
    echo: bool = False,
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
        isolated: True for a local worker with a process of its own.
        env: changes to the environment of external programs.
        run_log: takes note of what happens to the tasks; None if the mission has no log.
        echo: True to get what leaves print on workers elsewhere.

    Raises:
        grain.edge.errors.EdgeError: no scheduler can be had, and waiting would not help.
    """
    check_options(local, isolated=isolated, env=env)
    async with AsyncExitStack() as stack:
        if config is None or is_alone(local, config):
            own = _own(local, name, on_event, isolated, env, run_log)
            yield await stack.enter_async_context(own)
            return
        contextmod = ""
        if local is not None:
            stack.enter_context(_logging_to(config.head.log_file))
            contextmod = config.head.contextmod
            if contextmod and not isolated:
                from grain.worker.context import user_context

                await stack.enter_async_context(user_context(contextmod))
        if local is None and config.head.gnaw.enabled:
            yield await stack.enter_async_context(
                _shared(config, name, on_event, env, run_log, echo)
            )
        else:
            yield await _hosted(stack, local, config, name, on_event, isolated, env, run_log, echo)


def is_alone(local: Resource | None, config: Config | None) -> bool:
    """Return True if a mission has its local worker only, and no other can join."""
    return config is None or (local is not None and config.source is None)


def check_options(
    local: Resource | None, *, isolated: bool, env: Mapping[str, str | None] | None
) -> None:
    """Raise an error for options that no mission can have.

    Raises:
        TypeError: local is no resource, or there is none to isolate; env is no mapping of strings.
        ValueError: env has a name or a value that no environment can have.
    """
    if local is not None and not isinstance(local, Resource):
        raise TypeError(f"local={local!r}: give the resources of the local worker, as Cores(2)")
    if isolated and local is None:
        raise TypeError(
            "isolated=True gives the local worker a process of its own, and there is no local "
            "worker: state its resources, as in local=Cores(2)"
        )
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise TypeError(f'env={env!r}: give names and values, as in env={{"XTBPATH": "/opt/xtb"}}')
    for key, value in env.items():
        if not isinstance(key, str) or not isinstance(value, str | None):
            raise TypeError(
                f"env: {key!r}: {value!r}: a variable has a string as its name and as its value; "
                "None removes it"
            )
        if not key or "=" in key or "\0" in key or "\0" in (value or ""):
            raise ValueError(f"env: {key!r}: {value!r} cannot be a variable of an environment")


def _own(
    local: Resource | None,
    name: str | None,
    on_event: Listener,
    isolated: bool,
    env: Mapping[str, str | None] | None,
    run_log: RunLog | None,
    context: str = "",
) -> MissionExecutor:
    """Return the executor of a mission that no other worker can join."""
    if not isolated:
        return GrainExecutor(
            ZERO if local is None else local,
            name=name,
            on_event=on_event,
            env=env,
            run_log=run_log,
        )
    from grain.remote_exer import HostingExecutor

    return HostingExecutor(
        local or ZERO,
        address=None,
        isolated=True,
        context=context,
        name=name,
        on_event=on_event,
        env=env,
        run_log=run_log,
    )


# The functions below import what they use: a mission that keeps to itself needs no network.


def _shared(
    config: Config,
    name: str | None,
    on_event: Listener,
    env: Mapping[str, str | None] | None,
    run_log: RunLog | None,
    echo: bool,
) -> RemoteExecutor:
    from grain.remote_exer import GnawConnector, RemoteExecutor

    address, gnaw = config.head.listen, config.head.gnaw
    options = [f"--idle-quit={gnaw.idle_quit}", f"--max-conn={gnaw.max_conn}"]
    options += [f"--grace={gnaw.grace}", f"--max-silence={gnaw.max_silence}"]
    if gnaw.metrics:
        options += [f"--metrics={gnaw.metrics}"]
    if gnaw.swarm:
        options += [f"--swarm={gnaw.swarm}", f"--config={config.source or ''}"]
    if config.head.event_log.enabled:
        logs = config.head.event_log
        options += [f"--event-log={logs.folder}", f"--event-log-keep={logs.keep}"]
        options += [f"--event-log-size={logs.keep_size}"]
    arguments = (*options, *gnaw.extra_args)
    name = name or mission_name()
    finder = GnawConnector(address, name=name, log_file=gnaw.log_file, arguments=arguments)
    return RemoteExecutor(
        address,
        name=name,
        on_event=on_event,
        connect=finder.connect,
        until_direct=finder.until_direct,
        env=env,
        run_log=run_log,
        echo=echo,
    )


async def _hosted(
    stack: AsyncExitStack,
    local: Resource | None,
    config: Config,
    name: str | None,
    on_event: Listener,
    isolated: bool,
    env: Mapping[str, str | None] | None,
    run_log: RunLog | None,
    echo: bool,
) -> MissionExecutor:
    from grain.edge.errors import MeetingTaken
    from grain.remote_exer import HostingExecutor

    address = config.head.listen
    context = config.head.contextmod if isolated else ""
    host = HostingExecutor(
        local or ZERO,
        address=address,
        isolated=isolated,
        context=context,
        name=name or mission_name(),
        on_event=on_event,
        env=env,
        run_log=run_log,
        echo=echo,
    )
    try:
        return await stack.enter_async_context(host)
    except MeetingTaken as error:
        if local is None:
            raise  # it would wait for workers that go elsewhere
        # That scheduler is most often the user's own, of another mission: nobody is to end it.
        why = (
            f"the scheduler at {address} (process {error.pid} on {error.host}) goes on with its "
            "missions, and workers join that one. To use its workers, leave out local=; to have "
            "workers of its own, give this mission another address"
        )
        on_event(HostingFailed(address, why))
    own = _own(local, name, on_event, isolated, env, run_log, context)
    return await stack.enter_async_context(own)


def mission_name(otherwise: str = "") -> str:
    """Return the name of a mission whose program gives none: that of its script.

    ``opt.py``, ``python -m opt`` and the directory or archive ``opt`` are ``opt``. A notebook has
    the name of its file where Jupyter tells it. What `grain run` has started has the name that it
    was given there, by the variable ``GRAIN_MISSION``.

    Args:
        otherwise: the name of a mission that `grain run` has given none, in place of its script's.
    """
    if given := _fit(os.environ.get("GRAIN_MISSION", "")):
        return given
    if otherwise:
        return otherwise
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
    from grain.worker.logs import PatientHandler, open_private

    name = stamp(path, datetime.datetime.now())
    logger = logging.getLogger("grain")
    try:
        fd = open_private(name)
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
