"""The counts of a hub as metrics of Prometheus.

They are what the hub counts anyway, what `Overview` has of its workers, and sums over the workers,
some thousands at most. No label has the name of a mission or a worker: these come and go without
end. Run times have the names of functions where only the user can read them, and not more than
`MOST_FUNCTIONS`; a port shows only the sum.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import asdict
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from grain.edge.version import own_versions
from grain.resource import GPUs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from grain.head.hub.hub import Hub

WORKER_STATES = ("serving", "joining", "away", "draining", "paused")
MISSION_STATES = ("connected", "away", "paused")

BOUNDS = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 14400.0, 86400.0)
"""Seconds: the upper bounds of the buckets of run times."""

MOST_FUNCTIONS = 20
"""Functions that have run times of their own; all others are added up as `OTHERS`."""

ALL, OTHERS = "all", "others"

_BYTES = 1000  # of a unit of memory


class Description(NamedTuple):
    """A metric, as documentation has it.

    Attributes:
        kind: ``"gauge"``, ``"counter"`` or ``"histogram"``.
        label: the name of its label; empty for none.
    """

    name: str
    kind: str
    label: str
    help: str


METRICS = (
    Description("grain_build_info", "gauge", "version", "1, with the version of Grain."),
    Description("grain_start_time_seconds", "gauge", "", "When the scheduler started, Unix time."),
    Description("grain_workers", "gauge", "state", "Workers by state."),
    Description("grain_missions", "gauge", "state", "Missions by state."),
    Description("grain_tasks", "gauge", "state", "Tasks that have no outcome, by state."),
    Description(
        "grain_tasks_unschedulable", "gauge", "", "Tasks that fit no worker, even an empty one."
    ),
    Description("grain_tasks_ended_total", "counter", "outcome", "Tasks that have ended."),
    Description(
        "grain_run_seconds", "histogram", "function", "Times of runs that ended by themselves."
    ),
    Description("grain_cores", "gauge", "", "Cores of all workers."),
    Description("grain_cores_given", "gauge", "", "Cores that tasks were given."),
    Description(
        "grain_cores_computing", "gauge", "", "Cores on which their processes compute, if known."
    ),
    Description("grain_memory_bytes", "gauge", "", "Memory of all workers."),
    Description("grain_memory_given_bytes", "gauge", "", "Memory that tasks were given."),
    Description("grain_gpus", "gauge", "", "GPUs of all workers."),
    Description("grain_gpus_given", "gauge", "", "GPUs that tasks were given."),
    Description(
        "grain_shared", "gauge", "resource", "What tasks may use of the whole cluster's resources."
    ),
    Description("grain_shared_given", "gauge", "resource", "What of that tasks were given."),
    Description("grain_waiting_requests", "gauge", "", "Queues of tasks that wait for room."),
    Description(
        "grain_unconfirmed_outcomes", "gauge", "", "Outcomes that missions have not confirmed."
    ),
    Description("grain_unconfirmed_bytes", "gauge", "", "The size of these outcomes."),
    Description("grain_troubles", "gauge", "", "Troubles of the scheduler, such as a full disk."),
)
"""All metrics, beside those of the process, which the client library has."""


class RunTimeHistogram:
    """The histogram of the times of runs; a collector of it.

    Args:
        by_function: False to add up all functions as `ALL`.
    """

    # The library's own histogram takes one observation at a time; lanes end thousands a second.

    def __init__(self, *, by_function: bool) -> None:
        self._by_function = by_function
        # By function: the runs in each bucket, and all seconds.
        self._runs: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        if not by_function:
            self.on_runs(ALL, 0.0, 0)  # it is there before the first run

    def on_runs(self, function: str, seconds: float, runs: int) -> None:
        """Count runs that ended by themselves, which have taken so many seconds together."""
        name = ALL
        if self._by_function:
            many = len(self._runs) - (OTHERS in self._runs) >= MOST_FUNCTIONS
            name = OTHERS if many and function not in self._runs else function
        buckets = self._runs.setdefault(name, [0] * (len(BOUNDS) + 1))
        buckets[bisect_left(BOUNDS, seconds / max(runs, 1))] += runs
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram."""
        [metric] = [metric for metric in METRICS if metric.kind == "histogram"]
        family = HistogramMetricFamily(metric.name, metric.help, labels=[metric.label])
        bounds = [*map(str, BOUNDS), "+Inf"]
        for name, buckets in self._runs.items():
            pairs = list(zip(bounds, accumulate(buckets), strict=True))
            family.add_metric([name], pairs, self._seconds[name])
        yield family


class HubCollector:
    """Makes metrics of a hub whenever they are collected.

    Args:
        started: when it started, in seconds since Unix' epoch.
    """

    def __init__(self, hub: Hub, started: float) -> None:
        self._hub = hub
        self._started = started

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its values."""
        values = self._values()
        for metric in METRICS:
            if metric.name not in values:
                continue  # `RunTimeHistogram` has it
            labels = [metric.label] if metric.label else []
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=labels)
            for label, value in values[metric.name].items():
                family.add_metric([label] if labels else [], value)
            yield family

    def _values(self) -> Mapping[str, Mapping[str, float]]:
        """Return the values of each metric, by the label."""
        hub = self._hub
        tasks = asdict(hub.counts())
        given, cores = hub.overview.cores
        computing = hub.overview.computing
        memory, gpus = _memory(hub), _gpus(hub)
        shared = {
            f"{kind}.{name}".rstrip("."): counts
            for kind, sorts in hub.scheduler.cluster.usage().items()
            for name, counts in sorts.items()
        }
        waiting = [queue for _, _, queue in hub.scheduler.in_order_of_service]
        calls = hub.waiting.calls()
        missions = hub.registry.missions.values()
        states = [
            "paused" if m.paused else "away" if m.link is None else "connected" for m in missions
        ]
        return {
            "grain_build_info": {own_versions().grain: 1},
            "grain_start_time_seconds": {"": self._started},
            "grain_workers": {
                state: hub.overview.worker_states.get(state, 0) for state in WORKER_STATES
            },
            "grain_missions": {state: states.count(state) for state in MISSION_STATES},
            "grain_tasks": {
                state: tasks[state]
                for state in ("waiting", "awaiting_report", "suspect", "running")
            },
            "grain_tasks_unschedulable": {
                "": sum(one.waiting + calls[one] for one in waiting if not one.serving_shapes)
            },
            "grain_tasks_ended_total": {
                state: tasks[state] for state in ("done", "failed", "retried")
            },
            "grain_cores": {"": cores},
            "grain_cores_given": {"": given},
            "grain_cores_computing": {} if computing is None else {"": computing},
            "grain_memory_bytes": {"": memory[1] * _BYTES},
            "grain_memory_given_bytes": {"": memory[0] * _BYTES},
            "grain_gpus": {"": gpus[1]},
            "grain_gpus_given": {"": gpus[0]},
            "grain_shared": {name: n for name, (_, n) in shared.items()},
            "grain_shared_given": {name: used for name, (used, _) in shared.items()},
            "grain_waiting_requests": {"": len(waiting)},
            "grain_unconfirmed_outcomes": {"": sum(m.unconfirmed for m in missions)},
            "grain_unconfirmed_bytes": {"": sum(m.unconfirmed_bytes for m in missions)},
            "grain_troubles": {"": len(hub.registry.troubles)},
        }


def _memory(hub: Hub) -> tuple[int, int]:
    """Return how many units of memory tasks were given, and how many there are."""
    given = owned = 0
    for worker in hub.scheduler.workers.values():
        free, total = worker.supply.free.stat().get("Memory", (0, 0))
        given += total - free
        owned += total
    return given, owned


def _gpus(hub: Hub) -> tuple[float, float]:
    """Return how many GPUs tasks were given, and how many there are."""
    pairs = [worker.supply.given(GPUs) for worker in hub.scheduler.workers.values()]
    return sum(given for given, _ in pairs), sum(owned for _, owned in pairs)


class Exposition:
    """The text of the metrics of a hub.

    Args:
        hub: whose; the times of its runs are counted from now on.
        started: when it started, in seconds since Unix' epoch.
        by_function: as in `RunTimeHistogram`.
    """

    def __init__(self, hub: Hub, started: float, *, by_function: bool = False) -> None:
        # Of its own: the library's global one would have the metrics of other libraries, too.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(HubCollector(hub, started))
        run_times = RunTimeHistogram(by_function=by_function)
        self._registry.register(run_times)
        hub.outcomes.on_run_time = run_times.on_runs
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
