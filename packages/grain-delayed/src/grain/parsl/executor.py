"""An executor of Parsl, by an `Executor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from grain.delayed import Executor
from grain.resource import ZERO, Cores, GPUs, Memory, Resource
from grain.subproc import subprocify
from parsl.executors.base import ParslExecutor
from parsl.executors.errors import InvalidResourceSpecification
from parsl.utils import RepresentationMixin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

# The words of Parsl's executors for Work Queue and TaskVine, with memory in MB.
_KINDS: dict[str, Callable[[Any], Resource]] = {
    "cores": Cores,
    "memory": lambda megabytes: Memory(megabytes / 1000),
    "gpus": GPUs,
}


class GrainWorkers(ParslExecutor, RepresentationMixin):  # type: ignore[misc]
    """The workers of Grain, as an executor of Parsl.

    Each call of an app runs in a process of its own, which is bound to the cores of the call.
    An app with the argument ``parsl_resource_specification`` asks for other resources than
    `request`, by ``cores``, ``memory`` in MB, and ``gpus``.

    Parsl closes it. Calls that wait are cancelled then; those that run on workers elsewhere are
    ended, and those on the local worker end first.

    Args:
        label: the name for Parsl, and of the mission.
        request: the resources of each call; by default one core.
        local: the resources of a worker in this program, as for `grain.delayed.Executor`. Without
            it, calls go to the scheduler that your missions share.
        config_file: as for `grain.delayed.Executor`.
        working_dir: where Parsl stages files.
        storage_access: how Parsl stages files.
    """

    def __init__(
        self,
        label: str = "grain",
        request: Resource | None = None,
        local: Resource | None = None,
        config_file: str | Literal[False] | None = None,
        working_dir: str | None = None,
        storage_access: list[Any] | None = None,
    ) -> None:
        super().__init__()
        self.label = label
        self.request = request
        self.local = local
        self.config_file = config_file
        self.working_dir = working_dir
        self.storage_access = storage_access
        self._executor: Executor | None = None

    def start(self) -> None:
        """Begin the mission; errors are those of `grain.delayed.Executor`."""
        self._executor = Executor(
            self.request, self.local, config_file=self.config_file, name=self.label
        )

    def submit(
        self,
        func: Callable[..., Any],
        resource_specification: Mapping[str, Any],
        *args: Any,
        **kwargs: Any,
    ) -> Future[Any]:
        """Submit a call of an app.

        Raises:
            InvalidResourceSpecification: the app asks for something that Grain does not know.
        """
        if self._executor is None:
            raise RuntimeError(f"{self.label} has not been started")
        executor = self._executor
        if resource_specification:
            executor @= _request(resource_specification)
        return executor.submit(subprocify(func), *args, **kwargs)

    def shutdown(self) -> None:
        """Cancel what waits, and end the mission when nothing of it runs here any more."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        super().shutdown()

    def monitor_resources(self) -> bool:
        """Return False: Grain measures the calls itself."""
        return False


def _request(specification: Mapping[str, Any]) -> Resource:
    unknown = set(specification) - set(_KINDS)
    if unknown:
        raise InvalidResourceSpecification(unknown, f"Grain knows {', '.join(_KINDS)}")
    request: Resource = ZERO
    for name, kind in _KINDS.items():
        if name in specification:
            request &= kind(specification[name])
    return request
