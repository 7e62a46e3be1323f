"""The tables of ``grain ls``. Pure."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, TypeVar

from grain.cli.columns import Column, rows_text
from grain.cli.show import clean, folded, in_several_clusters, resources, table
from grain.resource.figures import clock, moment, percent, size_text, span

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from grain.cli.workers.jobs import OwnJob
    from grain.edge.questions import StateAnswer
    from grain.facts.rows import Mission, Queue, Worker

R = TypeVar("R")

MANY = 20
"""The most workers, or jobs, that are listed one by one; more get a summary."""

_NAMED = 3  # workers of a group
_PEERS = 4  # workers, and missions, that are named for each version


def state_text(state: StateAnswer, most: int | None = None, *, everything: bool = False) -> str:
    """Format the scheduler's answer as tables of at most so many columns.

    Args:
        most: the columns; None for as many as it takes.
        everything: True to list each worker, however many there are.
    """
    summed_up = len(state.workers) > MANY and not everything
    parts = [
        (_groups if summed_up else _each)(state.workers, most)
        or "No worker is here; `grain up` submits some.\n",
        rows_text("MISSIONS", _MISSIONS, state.missions, most) or "No mission is here.\n",
        rows_text("TASKS", _TASKS, state.queues, most, _waits),
        versions_text(state, most),
        rows_text("LAST MISSIONS", _LAST_MISSIONS, state.ended, most),
        "".join(f"{line}\n" for remark in _remarks(state) for line in folded(remark, most)),
    ]
    return "\n".join(part for part in parts if part)


def _each(workers: list[Worker], most: int | None) -> str:
    """Return a table with a row for each worker."""
    columns = _where(_WORKERS, workers)
    return rows_text("WORKERS", columns, sorted(workers, key=_by_name), most, _below_worker)


def _groups(workers: list[Worker], most: int | None) -> str:
    """Return a table with a row for each sort of workers: of a cluster, state and size."""
    groups: dict[tuple[str, str, str], list[Worker]] = {}
    for worker in sorted(workers, key=_by_name):
        key = worker.cluster or "-", worker.state, resources(worker.total)
        groups.setdefault(key, []).append(worker)
    rows = [members for _, members in sorted(groups.items())]
    shown = rows_text("WORKERS", _where(_GROUPS, workers), rows, most, _below_group)
    return f"{shown}Each of the {len(workers)} workers: grain ls --all\n"


def _by_name(worker: Worker) -> str:
    return worker.name


def _where(columns: Iterable[Column[R]], workers: list[Worker]) -> list[Column[R]]:
    """Return columns, with the cluster only if there are several."""
    several = in_several_clusters(workers)
    return [column for column in columns if several or column.name != "CLUSTER"]


def _left(group: list[Worker]) -> str:
    ends = [math.inf if one.left is None else one.left for one in group]
    least, last = (clock(None if end == math.inf else end) for end in (min(ends), max(ends)))
    return least if least == last else f"{least} to {last}"


def _below_group(group: list[Worker]) -> Sequence[str]:
    names = [one.label for one in group]
    others = ["..."] * (len(names) > _NAMED)
    given = f"given {_given(group)} of {resources(group[0].total)} each"
    return given, " ".join([*names[:_NAMED], *others])


def _below_worker(worker: Worker) -> Sequence[str]:
    others = " ..." if worker.running > len(worker.tasks) else ""
    runs = [f"runs {' '.join(worker.tasks)}{others}"] if worker.tasks else []
    owns, free = resources(worker.total), resources(worker.free)
    return *runs, f"given {_given([worker])} of {owns}; free {free}"


def _mission_state(mission: Mission) -> str:
    if mission.paused:
        return "paused"  # it leaves too many outcomes unconfirmed
    return "connected" if mission.connected else "away"


_WORKERS: tuple[Column[Worker], ...] = (
    Column("NAME", lambda one: one.label, least=5),
    Column("CLUSTER", lambda one: one.cluster or "-"),
    Column("HOST", lambda one: one.host, rank=1, under="on {}"),
    Column("STATE", lambda one: one.state),
    Column("LEFT", lambda one: one.left, clock),
    Column("RUNNING", lambda one: one.running),
)
_GROUPS: tuple[Column[list[Worker]], ...] = (
    Column("COUNT", len),
    Column("CLUSTER", lambda group: group[0].cluster or "-"),
    Column("STATE", lambda group: group[0].state),
    Column("LEFT", _left),
    Column("RUNNING", lambda group: sum(one.running for one in group)),
)
_MISSIONS: tuple[Column[Mission], ...] = (
    Column("NAME", lambda one: one.label, least=5),
    Column("HOST", lambda one: one.host, rank=1, under="on {}"),
    Column("STATE", _mission_state),
    Column("RUNNING", lambda one: one.running),
    Column("WAITING", lambda one: one.waiting),
    Column("DONE", lambda one: one.done, rank=1, under="{} done"),
    Column("FAILED", lambda one: one.failed, rank=1, under="{} failed"),
    Column("RETRIED", lambda one: one.retried, rank=1, under="{} retried"),
)
_TASKS: tuple[Column[Queue], ...] = (
    Column("MISSION", lambda one: one.mission, least=5),
    Column("PRIORITY", lambda one: one.priority, rank=1, under="priority {}"),
    Column("RUNNING", lambda one: one.running),
    Column("WAITING", lambda one: one.waiting),
    Column("OLDEST", lambda one: one.oldest or "-", rank=1, under="oldest: {}"),
    Column("ASKING FOR", lambda one: one.request, resources, least=5),
)
_LAST_MISSIONS: tuple[Column[Mission], ...] = (
    Column("NAME", lambda one: one.name, least=5),
    Column("HOST", lambda one: one.host, rank=1, under="on {}"),
    Column("ENDED", lambda one: one.ended or 0.0, moment, rank=1, under="ended at {}"),
    Column("DONE", lambda one: one.done),
    Column("FAILED", lambda one: one.failed),
    Column("RETRIED", lambda one: one.retried),
)


def _given(workers: list[Worker]) -> str:
    """Return the part of each kind that tasks were given, on average."""
    parts: dict[str, list[float | None]] = {}
    for worker in workers:
        for kind, part in worker.used.items():
            parts.setdefault(kind, []).append(part)
    texts = []
    for kind, each in parts.items():
        known = [part for part in each if part is not None]
        share = percent(sum(known) / len(each)) if len(known) == len(each) else "?"
        texts.append(f"{kind} {share}")
    return ", ".join(texts) or "nothing"


def _waits(queue: Queue) -> Sequence[str]:
    if not queue.waiting:
        return ()
    never = queue.never and queue.lack != "here"
    return (f"waits: {'no worker here can run it: ' if never else ''}{queue.why}",)


def _remarks(state: StateAnswer) -> list[str]:
    sentences = [f"cluster: {clean(str(one))}" for one in state.cluster]
    sentences += [f"Note: {clean(trouble)}." for trouble in state.troubles]
    sentences += [
        f"{clean(mission.label)} has not taken {mission.unconfirmed} outcomes, "
        f"{size_text(mission.unconfirmed_bytes)}: no more of it starts until it has."
        for mission in state.missions
        if mission.paused
    ]
    sentences += [
        f"{clean(worker.label)} has {worker.backlog[0]} outcomes, "
        f"{size_text(worker.backlog[1])}, that missions have not taken: it takes no more "
        "tasks until they have."
        for worker in state.workers
        if worker.backlog
    ]
    if (count := state.tasks.awaiting_report) == 1:
        sentences.append("1 task waits for the report of the worker that it ran on.")
    elif count:
        sentences.append(f"{count} tasks wait for the reports of the workers that they ran on.")
    if (count := state.tasks.suspect) == 1:
        sentences.append("1 task that crashed waits for a worker of its own.")
    elif count:
        sentences.append(f"{count} tasks that crashed wait for a worker of their own.")
    if count := state.more_queues:
        sentences.append(f"More kinds of tasks are not shown: {count}.")
    return sentences


def jobs_text(
    jobs: list[OwnJob],
    here: Collection[str],
    most: int | None = None,
    *,
    everything: bool = False,
) -> str:
    """Format the jobs whose workers have not joined the scheduler; `everything` as elsewhere."""
    rows = [job for job in jobs if job.record.name not in here]
    hidden = 0 if everything else max(0, len(rows) - MANY)
    shown = rows_text("JOBS NOT HERE YET", _JOBS, rows[: len(rows) - hidden], most)
    more = f"and {hidden} more: grain ls --all\n" if hidden else ""
    return f"\n{shown}{more}" if shown else ""


_JOBS: tuple[Column[OwnJob], ...] = (
    Column("NAME", lambda job: job.record.name, least=5),
    Column("JOB", lambda job: job.record.id),
    Column("STATE", lambda job: job.state.phase.value),
    Column("SUBMITTED", lambda job: time.time() - job.record.submitted, clock, rank=1,
           under="submitted {} ago"),
    Column("REASON", lambda job: job.state.reason or "-", least=5),
)  # fmt: skip


def versions_text(state: StateAnswer, most: int | None = None) -> str:
    """Format the versions of Python, Grain and NumPy as a table; "" unless some differ.

    Python's minor version counts, as bytecode differs between those; NumPy's major version does.
    The Python of the scheduler does not count: it loads nothing of what missions and workers send.
    """
    from grain.edge.questions import versions_of

    rows: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for kind, peers in ("worker", state.workers), ("mission", state.missions):
        for peer in peers:
            versions = versions_of(peer)
            if versions.interpreter:
                key = (versions.interpreter, versions.grain, versions.numpy.partition(".")[0])
                names = rows.setdefault(key, {"worker": [], "mission": []})
                names[kind].append(peer.label)
    own = state.versions.grain
    pythons = {python for python, _, _ in rows}
    grains = {grain for _, grain, _ in rows} | ({own} if own else set())
    numpys = {numpy for _, _, numpy in rows if numpy}
    if max(len(pythons), len(grains), len(numpys)) < 2:
        return ""
    return table(
        "VERSIONS DIFFER",
        ("PYTHON", "GRAIN", "NUMPY", "WORKERS", "MISSIONS"),
        [
            (python, grain, numpy or "-", _some(names["worker"]), _some(names["mission"]))
            for (python, grain, numpy), names in sorted(rows.items())
        ],
        most,
        elastic=(3, 4),
    )


def _some(names: list[str]) -> str:
    more = len(names) - _PEERS
    return " ".join(names[:_PEERS]) + (f" and {more} more" if more > 0 else "") or "-"


def scaling_text(state: dict[str, Any] | None, most: int | None = None) -> str:
    """Format the state of a `grain scale --auto`; empty if there is none."""
    if state is None:
        return ""
    parts = [rows_text("WORKERS BY DEMAND", _SHAPES, state["shapes"], most)]
    lines = [f"{moment(at, at)} {clean(what)}" for at, what in state["lines"][-2:]]
    for one in state["impossible"]:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in one["reasons"].items())
        lines.append(
            f"Impossible: {clean(one['ask'])}, {one['waiting']} waiting ({clean(reasons)})"
        )
    lines.append(
        f"From {state['min']} to {state['max']} workers, by process {state['pid']} on "
        f"{clean(state['host'])}."
    )
    parts += [f"{text}\n" for line in lines for text in folded(line, most)]
    return "\n" + "".join(parts)


def _shape_remark(shape: dict[str, Any]) -> str:
    remarks = [f"one for each {span(shape['worth'])} of work"] if "worth" in shape else []
    if shape["pause"]:
        remarks.append(f"pause of {shape['pause']:.0f} s after failures")
    if shape["avoided"]:
        remarks.append(f"avoids {', '.join(map(clean, shape['avoided']))}")
    return "; ".join(remarks) or "-"


_SHAPES: tuple[Column[dict[str, Any]], ...] = (
    Column("SHAPE", lambda shape: shape["name"], least=5),
    Column("PENDING", lambda shape: shape["jobs"].get("pending", 0)),
    Column("RUNNING", lambda shape: shape["jobs"].get("running", 0)),
    Column("LOST", lambda shape: shape["jobs"].get("lost", 0), rank=1, under="{} lost"),
    Column("MAX", lambda shape: "-" if shape["max"] is None else shape["max"]),
    Column("REMARK", _shape_remark, least=5),
)
