"""The counts of a hub as metrics of Prometheus.

They are read and not walked: what the hub counts anyway, and what `Overview` has of its workers.
No label has a name that a user chose: names come and go without end, and whoever reaches a port
could read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from grain.edge.version import own_versions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.core import Metric

    from grain.head.hub.hub import Hub

WORKER_STATES = ("serving", "joining", "away", "draining", "paused")
MISSION_STATES = ("connected", "away", "paused")


class Description(NamedTuple):
    """A metric, as documentation has it.

    Attributes:
        name: its name.
        kind: ``"gauge"`` or ``"counter"``.
        label: the name of its label; empty for none.
        help: what it counts.
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
    Description("grain_tasks_ended_total", "counter", "outcome", "Tasks that have ended."),
    Description("grain_cores", "gauge", "", "Cores of all workers."),
    Description("grain_cores_given", "gauge", "", "Cores that tasks were given."),
    Description(
        "grain_cores_computing", "gauge", "", "Cores on which their processes compute, if known."
    ),
    Description(
        "grain_waiting_requests", "gauge", "", "Different requests of tasks that wait for room."
    ),
    Description(
        "grain_unconfirmed_outcomes", "gauge", "", "Outcomes that missions have not confirmed."
    ),
    Description("grain_unconfirmed_bytes", "gauge", "", "The size of these outcomes."),
    Description("grain_troubles", "gauge", "", "Troubles of the scheduler, such as a full disk."),
)
"""All metrics, beside those of the process, which the client library has."""


class HubCollector:
    """Makes metrics of a hub whenever they are collected.

    Args:
        hub: whose.
        started: when it started, in seconds since Unix' epoch.
    """

    def __init__(self, hub: Hub, started: float) -> None:
        self._hub = hub
        self._started = started

    def collect(self) -> Iterator[Metric]:
        """Yield each metric with its values."""
        values = self._values()
        for metric in METRICS:
            labels = [metric.label] if metric.label else []
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=labels)
            for label, value in values[metric.name].items():
                family.add_metric([label] if labels else [], value)
            yield family

    def _values(self) -> Mapping[str, Mapping[str, float]]:
        """Return the values of each metric, by the label."""
        hub = self._hub
        tasks = hub.tasks.counts()
        given, cores = hub.overview.cores
        computing = hub.overview.computing
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
                state.replace(" ", "_"): tasks[state]
                for state in ("waiting", "held back", "suspect", "running")
            },
            "grain_tasks_ended_total": {
                state: tasks[state] for state in ("done", "failed", "retried")
            },
            "grain_cores": {"": cores},
            "grain_cores_given": {"": given},
            "grain_cores_computing": {} if computing is None else {"": computing},
            "grain_waiting_requests": {"": len(hub.scheduler.in_order_of_service)},
            "grain_unconfirmed_outcomes": {"": sum(m.unconfirmed for m in missions)},
            "grain_unconfirmed_bytes": {"": sum(m.unconfirmed_bytes for m in missions)},
            "grain_troubles": {"": len(hub.troubles)},
        }


class Exposition:
    """The text of the metrics of a hub.

    Args:
        hub: whose.
        started: when it started, in seconds since Unix' epoch.
    """

    def __init__(self, hub: Hub, started: float) -> None:
        # Of its own: the library's global one would have the metrics of other libraries, too.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(HubCollector(hub, started))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
