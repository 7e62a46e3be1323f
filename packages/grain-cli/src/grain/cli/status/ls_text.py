"""The tables of ``grain ls``. Pure."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from grain.cli.show import Row, clean, folded, in_several_clusters, moment, resources, table
from grain.resource.figures import clock, percent, size_text, span

if TYPE_CHECKING:
    from collections.abc import Collection

    from grain.cli.workers.jobs import OwnJob
    from grain.edge.questions import StateAnswer
    from grain.facts.rows import Mission, Queue, Worker


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
        table(
            "MISSIONS",
            ("NAME", "HOST", "STATE", "RUNNING", "WAITING", "DONE", "FAILED", "RETRIED"),
            map(_mission, state.missions),
            most,
        )
        or "No mission is here.\n",
        table(
            "TASKS",
            ("MISSION", "PRIORITY", "RUNNING", "WAITING", "OLDEST", "ASKING FOR"),
            map(_queue, state.queues),
            most,
        ),
        versions_text(state, most),
        table(
            "LAST MISSIONS",
            ("NAME", "HOST", "ENDED", "DONE", "FAILED", "RETRIED"),
            map(_ended, state.ended),
            most,
        ),
        "".join(f"{line}\n" for remark in _remarks(state) for line in folded(remark, most)),
    ]
    return "\n".join(part for part in parts if part)


def _each(workers: list[Worker], most: int | None) -> str:
    """Return a table with a row for each worker."""
    several = in_several_clusters(workers)
    heads = ("NAME", *["CLUSTER"] * several, "HOST", "STATE", "LEFT", "RUNNING")
    by_name = sorted(workers, key=lambda worker: worker.name)
    return table("WORKERS", heads, [_worker(one, with_cluster=several) for one in by_name], most)


def _groups(workers: list[Worker], most: int | None) -> str:
    """Return a table with a row for each sort of workers: of a cluster, state and size."""
    several = in_several_clusters(workers)
    groups: dict[tuple[str, str, str], list[Worker]] = {}
    for worker in sorted(workers, key=lambda worker: worker.name):
        key = worker.cluster or "-", worker.state, resources(worker.total)
        groups.setdefault(key, []).append(worker)
    rows = []
    for (cluster, state, owns), members in sorted(groups.items()):
        ends = [math.inf if one.left is None else one.left for one in members]
        least, last = (clock(None if end == math.inf else end) for end in (min(ends), max(ends)))
        left = least if least == last else f"{least} to {last}"
        names = [one.label for one in members]
        others = ["..."] * (len(names) > _NAMED)
        more = [
            f"given {_given(members)} of {owns} each",
            " ".join([*names[:_NAMED], *others]),
        ]
        running = sum(one.running for one in members)
        rows.append(Row((len(members), *[cluster] * several, state, left, running), more))
    heads = ("COUNT", *["CLUSTER"] * several, "STATE", "LEFT", "RUNNING")
    shown = table("WORKERS", heads, rows, most)
    return f"{shown}Each of the {len(workers)} workers: grain ls --all\n"


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


def _worker(worker: Worker, *, with_cluster: bool) -> Row:
    more = []
    if worker.tasks:
        others = " ..." if worker.running > len(worker.tasks) else ""
        more.append(f"runs {' '.join(worker.tasks)}{others}")
    owns, free = resources(worker.total), resources(worker.free)
    more.append(f"given {_given([worker])} of {owns}; free {free}")
    cells = (
        worker.label,
        *[worker.cluster or "-"] * with_cluster,
        worker.host,
        worker.state,
        clock(worker.left),
    )
    return Row((*cells, worker.running), more)


def _mission(mission: Mission) -> tuple[object, ...]:
    state = "connected" if mission.connected else "away"
    if mission.paused:
        state = "paused"  # it leaves too many outcomes unconfirmed
    counts = mission.running, mission.waiting, mission.done, mission.failed, mission.retried
    return mission.label, mission.host, state, *counts


def _ended(mission: Mission) -> tuple[object, ...]:
    counts = mission.done, mission.failed, mission.retried
    return mission.name, mission.host, moment(mission.ended or 0.0), *counts


def _queue(queue: Queue) -> Row:
    cells = (
        queue.mission,
        queue.priority,
        queue.running,
        queue.waiting,
        queue.oldest or "-",
        resources(queue.request),
    )
    return Row(cells, [f"waits: {_why(queue)}"] if queue.waiting else [])


def _why(queue: Queue) -> str:
    nobody = queue.why == "no worker is here"
    return f"{'no worker here can run it: ' if queue.never and not nobody else ''}{queue.why}"


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
    rows = [
        (
            job.record.name,
            job.record.id,
            job.state.phase.value,
            clock(time.time() - job.record.submitted),
            job.state.reason or "-",
        )
        for job in jobs
        if job.record.name not in here
    ]
    hidden = 0 if everything else max(0, len(rows) - MANY)
    heads = ("NAME", "JOB", "STATE", "SUBMITTED", "REASON")
    shown = table("JOBS NOT HERE YET", heads, rows[: len(rows) - hidden], most)
    more = f"and {hidden} more: grain ls --all\n" if hidden else ""
    return f"\n{shown}{more}" if shown else ""


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
    )


def _some(names: list[str]) -> str:
    more = len(names) - _PEERS
    return " ".join(names[:_PEERS]) + (f" and {more} more" if more > 0 else "") or "-"


def scaling_text(state: dict[str, Any] | None, most: int | None = None) -> str:
    """Format the state of a `grain scale --auto`; empty if there is none."""
    if state is None:
        return ""
    rows = [
        (
            shape["name"],
            *(shape["jobs"].get(phase, 0) for phase in ("pending", "running", "lost")),
            "-" if shape["max"] is None else shape["max"],
            _shape_remark(shape),
        )
        for shape in state["shapes"]
    ]
    head = ("SHAPE", "PENDING", "RUNNING", "LOST", "MAX", "REMARK")
    parts = [table("WORKERS BY DEMAND", head, rows, most)]
    lines = [
        f"{time.strftime('%H:%M:%S', time.localtime(at))} {clean(what)}"
        for at, what in state["lines"][-2:]
    ]
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
