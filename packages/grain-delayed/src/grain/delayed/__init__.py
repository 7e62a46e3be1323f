"""Dask-like delayed objects for parallel external computing.

    from grain.delayed import delayed, run

Layout: ``_function`` turns async functions into delayed ones; their calls are tasks of a
``_mission``; ``_value`` is the delayed object that a call returns, and ``_graph`` the operations
recorded on it; ``_run`` makes a mission a program, ``_report`` tells of it on standard error.
``_asyncio`` has missions in asyncio programs and notebooks, ``_futures`` the `Executor` and
``_engine`` its mission.

Tasks that are cached or retried have ``_options`` and are cared for by ``_care`` (``_leaf``,
``_batches``): ``_retry`` decides about attempts, ``_key`` (``_digest``) says what a result depends
on, ``_store`` keeps it on disk, ``_cache`` does so in threads, and ``_lookups`` explains it later.
``_cache_command`` is for the command `grain`.
"""

from typing import TYPE_CHECKING

from grain.delayed.errors import CacheError as CacheError
from grain.delayed.errors import DelayedError as DelayedError
from grain.delayed.errors import NotInMission as NotInMission
from grain.delayed.function import DelayedFn as DelayedFn
from grain.delayed.function import delayed as delayed
from grain.delayed.missions.mission import Mission as Mission
from grain.delayed.missions.opening import mission as mission
from grain.delayed.missions.run import run as run
from grain.delayed.value import Delayed as Delayed
from grain.delayed.value import delayedval as delayedval
from grain.delayed.value import each as each

if TYPE_CHECKING:
    from grain.delayed.futures.executor import Executor as Executor


def __getattr__(name: str) -> object:
    """Import what few programs need, where it is used."""
    if name == "Executor":
        from grain.delayed.futures.executor import Executor

        return Executor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
