"""A backend of joblib, by an `Executor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from grain.subproc import subprocify

# AutoBatchingMixin is in no manual, but Dask's and Ray's backends have it, too: it joins calls of
# milliseconds to batches.
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from grain.delayed import Executor


class GrainBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """A backend of joblib, as in ``joblib.parallel_config(GrainBackend(executor), n_jobs=100)``.

    Each batch of calls is one call of the executor, with its request, and runs in a process of its
    own, which is bound to its cores. If a call fails, those that wait are cancelled.

    Args:
        executor: it is open while the backend is used; you close it.
        options: those of every backend of joblib.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1  # which is refused, and says what to do

    def __init__(self, executor: Executor, **options: Any) -> None:
        super().__init__(**options)
        self._executor = executor
        self._futures: WeakSet[Future[Any]] = WeakSet()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many batches may run at a time; twice as many are submitted at once.

        Raises:
            ValueError: it is not positive.
        """
        if n_jobs is not None and n_jobs < 1:
            raise ValueError(
                f"n_jobs={n_jobs}: workers come and go, so say how many calls may run at a time, "
                "as in parallel_config(GrainBackend(executor), n_jobs=100)"
            )
        return n_jobs or 1

    def submit(
        self, func: Callable[[], Any], callback: Callable[[Future[Any]], object] | None = None
    ) -> Future[Any]:
        """Submit a batch; have a function called with its future when it has ended."""
        future = self._executor.submit(run_batch, func)
        self._futures.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        """Return the result of a future, or raise its exception."""
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: ARG002 - as joblib calls it
        """Cancel what waits, and what runs on workers elsewhere."""
        for future in list(self._futures):
            future.cancel()


@subprocify
def run_batch(batch: Callable[[], Any]) -> Any:
    """Run a batch of calls, in a process of its own."""
    return batch()
