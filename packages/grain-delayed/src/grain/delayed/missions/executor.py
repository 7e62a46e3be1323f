"""The executor of a mission: its own, one that workers may join, or a shared one."""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.head import GrainExecutor
from grain.head.events import HostingFailed
from grain.resource import ZERO

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping

    from grain.config import Config
    from grain.delayed.missions.options import MissionOptions
    from grain.head.events import Event
    from grain.head.run_log import RunLog
    from grain.remote_exer import HostingExecutor, RemoteExecutor

    MissionExecutor = GrainExecutor | RemoteExecutor
    Listener = Callable[[Event], object]


@asynccontextmanager
async def executing(
    options: MissionOptions,
    config: Config | None,
    on_event: Listener,
    run_log: RunLog | None = None,
    number: int = 0,
) -> AsyncGenerator[MissionExecutor]:
    """Run the executor of a mission.

    Without a local worker it is the scheduler that missions share. With one, the mission hosts a
    scheduler of its own, which workers join at the address of the configuration file. Without a
    file no worker was sent there, and the default address is left to the shared scheduler.

    Args:
        config: the configuration; None for a mission that no worker can join.
        number: that of its label; 0 if it has none.

    Raises:
        grain.edge.errors.EdgeError: no scheduler can be had, and waiting would not help.
    """
    maker = _Maker(options, on_event, run_log, number)
    async with AsyncExitStack() as stack:
        if config is None or options.is_alone(config):
            yield await stack.enter_async_context(maker.own())
            return
        contextmod = ""
        if options.local is not None:
            stack.enter_context(_logging_to(config.head.log_file))
            contextmod = config.head.contextmod
            if contextmod and not options.isolated:
                from grain.worker.context import user_context

                await stack.enter_async_context(user_context(contextmod))
        if options.local is None and config.head.gnaw.enabled:
            yield await stack.enter_async_context(maker.shared(config))
        else:
            yield await maker.hosted(stack, config)


class _Maker:
    """The executors that a mission may have.

    Each method imports what it uses: a mission that keeps to itself needs no network.
    """

    def __init__(
        self, options: MissionOptions, on_event: Listener, run_log: RunLog | None, number: int
    ) -> None:
        self._options = options
        self._on_event = on_event
        self._run_log = run_log
        self._number = number

    def own(self, context: str = "") -> MissionExecutor:
        """Return the executor of a mission that no other worker can join."""
        options = self._options
        if not options.isolated:
            return GrainExecutor(
                ZERO if options.local is None else options.local,
                name=options.name,
                on_event=self._on_event,
                env=options.env,
                run_log=self._run_log,
            )
        return self._hosting(None, context)

    def shared(self, config: Config) -> RemoteExecutor:
        """Return an executor at the scheduler that missions share."""
        from grain.remote_exer import GnawConnector, RemoteExecutor

        options = self._options
        address, gnaw = config.head.listen, config.head.gnaw
        words = [f"--idle-timeout={gnaw.idle_timeout}", f"--max-conn={gnaw.max_conn}"]
        words += [f"--grace={gnaw.grace}", f"--max-silence={gnaw.max_silence}"]
        if gnaw.metrics:
            words += [f"--metrics={gnaw.metrics}"]
        if config.head.res:
            words += [f"--res={json.dumps(config.head.res)}"]
        if gnaw.pool:
            words += [f"--pool={gnaw.pool}", f"--config={config.source or ''}"]
        arguments = (*words, *gnaw.extra_args)
        name = options.name or mission_name()
        finder = GnawConnector(address, name=name, log_file=gnaw.log_file, arguments=arguments)
        return RemoteExecutor(
            address,
            name=name,
            on_event=self._on_event,
            connect=finder.connect,
            until_direct=finder.until_direct,
            env=options.env,
            run_log=self._run_log,
            echo=options.echo,
            number=self._number,
            lasting=options.lasting,
        )

    async def hosted(self, stack: AsyncExitStack, config: Config) -> MissionExecutor:
        """Enter an executor with a scheduler of its own, which workers join.

        Where another scheduler has their address, enter an executor that they cannot join.
        """
        from grain.edge.errors import MeetingTaken

        address = config.head.listen
        context = config.head.contextmod if self._options.isolated else ""
        try:
            hosting = self._hosting(address, context, config.head.res)
            return await stack.enter_async_context(hosting)
        except MeetingTaken as error:
            if self._options.local is None:
                raise  # it would wait for workers that go elsewhere
            # That scheduler is most often the user's own, of another mission: it must not be ended.
            why = (
                f"the scheduler at {address} (process {error.pid} on {error.host}) goes on with "
                "its missions, and workers join that one. To use its workers, leave out local=; to "
                "have workers of its own, give this mission another address"
            )
            self._on_event(HostingFailed(address, why))
        return await stack.enter_async_context(self.own(context))

    def _hosting(
        self, address: str | None, context: str, shared: Mapping[str, Any] | None = None
    ) -> HostingExecutor:
        from grain.remote_exer import HostingExecutor

        options = self._options
        return HostingExecutor(
            options.local or ZERO,
            address=address,
            isolated=options.isolated,
            context=context,
            name=options.name if address is None else options.name or mission_name(),
            on_event=self._on_event,
            env=options.env,
            run_log=self._run_log,
            echo=options.echo,
            number=self._number,
            shared=shared,
        )


def mission_name(otherwise: str = "") -> str:
    """Return the name of a mission whose program gives none: that of its script.

    ``opt.py``, ``python -m opt`` and the directory or archive ``opt`` are ``opt``. A notebook has
    the name of its file where Jupyter tells it. What `grain run` has started has the name that it
    was given there, by the variable ``GRAIN_MISSION``, which has its label.

    Args:
        otherwise: the name of a mission that `grain run` has given none, in place of its script's.
    """
    if given := _fit(os.environ.get("GRAIN_MISSION", "").partition("@")[0]):
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
