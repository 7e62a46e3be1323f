"""Dask-like delayed objects for parallel external computing.

    from grain.delayed import delayed, run

The way of a call: ``function`` checks the arguments and asks ``missions`` for the current mission,
which makes a task of the call: a branch is a trio task of the mission, a leaf goes to the executor,
and a leaf that is cached or retried goes through ``leaves`` and ``cache`` first. The caller gets a
``value``, a delayed object, at once. Operations on it are recorded in the ``graph``, whose nodes
are filled in by the outcomes of tasks, and ``await`` waits for the tasks behind a node and computes
the rest.

Imports go one way only, from the last line of the map to the first: a node knows the tasks of its
mission (`graph.MissionTasks`) and not the mission.

Map:

- ``errors``: the errors of this package
- ``advice``: lines on code that works and is not what its author wants
- ``overload``: the warning about too many waiting tasks
- ``host``: waiting in trio, or in the asyncio loop whose guest trio is
- ``graph``: nodes that tasks fill in, and the operations recorded on them
- ``watch``: a callback for the end of the tasks behind a node
- ``value``: `Delayed`: a placeholder on which operations are recorded
- ``cache/``: results on disk: keys, digests, files
- ``leaves/``: leaves that are looked up, retried or kept
- ``display/``: progress, failures and the summary, as the user sees them
- ``missions/``: missions: in trio, in asyncio, and as whole programs
- ``function``: `delayed` and `DelayedFn`: async functions whose calls become tasks
- ``futures/``: `Executor`: missions for libraries that take an executor of `concurrent.futures`
"""

from typing import TYPE_CHECKING

from grain.delayed.errors import CacheError as CacheError
from grain.delayed.errors import DelayedError as DelayedError
from grain.delayed.errors import MissionCancelled as MissionCancelled
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
    """Import `Executor` where it is used: few programs need it."""
    if name == "Executor":
        from grain.delayed.futures.executor import Executor

        return Executor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
