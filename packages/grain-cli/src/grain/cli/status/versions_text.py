"""The versions of peers, where they differ. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.show import table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.edge.questions import MissionState, StateAnswer, WorkerState

_NAMED = 4  # workers, and missions, that are named for each version


def versions_text(state: StateAnswer, most: int | None = None) -> str:
    """Format the versions of Python, Grain and NumPy as a table; "" unless some differ.

    Python's minor version counts, as bytecode differs between those; NumPy's major version does.
    The Python of the scheduler does not count: it loads nothing of what missions and workers send.
    """
    rows: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for kind, peer in _peers(state):
        versions = peer.versions
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
            (python, grain, numpy or "-", _listed(names["worker"]), _listed(names["mission"]))
            for (python, grain, numpy), names in sorted(rows.items())
        ],
        most,
    )


def _peers(state: StateAnswer) -> Iterable[tuple[str, WorkerState | MissionState]]:
    yield from (("worker", worker) for worker in state.workers)
    yield from (("mission", mission) for mission in state.missions)


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return " ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "") or "-"
