"""Jobs that never begin: what they wait for has failed, or they fit no worker and no shape.

The dispatcher tells which requests no worker can meet that is here. Those that may come are in the
configuration.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from grain.queue.book import Blocks
from grain.queue.dispatchers import Dispatchers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from grain.cli.scaling.model import TaskClass, WorkerShape
    from grain.config import Config
    from grain.queue.book import Book
    from grain.queue.records import Job, UnmetRequest


def blocks_of(book: Book, config: str | None = None, env: Mapping[str, str] = os.environ) -> Blocks:
    """Return which tasks of a queue never begin, as of now.

    Args:
        config: the configuration file that was chosen; None for the usual one.
        env: the variables by which that is found.
    """
    unmet: list[UnmetRequest] = []
    with suppress(OSError):
        unmet = Dispatchers(book.queue.files).unmet()
    return Blocks(book, UnfitReasons(unmet, config, env).of) if unmet else Blocks(book)


class UnfitReasons:
    """The reasons why jobs fit no worker.

    Args:
        unmet: the requests that no worker can meet that is here.
        config, env: as of `blocks_of`.
    """

    def __init__(
        self, unmet: Iterable[UnmetRequest], config: str | None, env: Mapping[str, str]
    ) -> None:
        self._unmet = list(unmet)
        self._chosen, self._env = config, env
        self._shapes: tuple[Config, list[WorkerShape]] | None = None
        self._known: dict[int, str] = {}

    def of(self, job: Job) -> str:
        """Return why a job fits no worker; "" if it may fit one."""
        for place, one in enumerate(self._unmet):
            if one.request == job.request and one.timeout == job.timeout:
                if place not in self._known:
                    self._known[place] = one.why or self._why(one)
                return self._known[place]
        return ""

    def _why(self, one: UnmetRequest) -> str:
        """Return why no shape of the configuration fits; "" if one may, or that is not known."""
        import click

        from grain.cli.scaling.configured import with_shape, worker_shape
        from grain.config import ConfigError, load

        try:
            if self._shapes is None:
                config = load(self._chosen, env=dict(self._env))
                self._shapes = (
                    config,
                    [worker_shape(with_shape(config, shape), shape, 1) for shape in config.shape]
                    or [worker_shape(config, None, 1)],
                )
            return why_unfit(one, *self._shapes)
        except (click.ClickException, ConfigError, OSError, ValueError, LookupError, TypeError):
            return ""


def why_unfit(one: UnmetRequest, config: Config, shapes: Iterable[WorkerShape]) -> str:
    """Return why a request fits no worker of a configuration; "" if it fits one.

    Raises:
        ValueError, LookupError, TypeError: the request makes no sense here.
    """
    from grain.cli.scaling.room import empty, why_never

    reasons = []
    for shape in shapes:
        ways = list(_ways(one, frozenset(config.head.res)))
        # Other jobs of the shape may give the other members.
        if any(empty(shape).take(way, 1) and not _too_few(way, shape) for way in ways):
            return ""
        reasons.append(f"{shape.name}: {why_never(ways[0], shape)}")
    others = "that grain.toml describes" if config.source else "that `grain up` starts"
    return f"it fits no worker that is here, and none {others} ({'; '.join(reasons)})"


def _too_few(way: TaskClass, shape: WorkerShape) -> bool:
    return way.members > shape.nodes * (1 if way.one_job else shape.most)


def _ways(one: UnmetRequest, shared: frozenset[str]) -> Iterator[TaskClass]:
    """Yield the alternatives of a request, without what the whole cluster shares."""
    from grain.cli.scaling.model import TaskClass, without
    from grain.resource import Cores, Gang, from_data

    request = from_data(one.request, unknown="keep") if one.request else Cores(1)
    for way in request.alternatives():
        space = without(way.member if isinstance(way, Gang) else way, shared | {"WTime"})
        yield TaskClass(
            space,
            way.ask(),
            waiting=1,
            need=one.timeout,
            members=way.count,
            one_job=isinstance(way, Gang) and way.same == "job",
        )
