"""Checks of ``grain doctor``: the versions of workers and missions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.doctor.checks import CheckResult, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.config import Config
    from grain.edge.questions import StateAnswer
    from grain.edge.version import Versions
    from grain.facts.rows import Mission, Worker

_ANSWER = 5.0  # seconds; another check reports a scheduler that does not answer


def versions(config: Config) -> list[CheckResult]:
    """Check that workers have the Python of this command, and all peers one version of Grain.

    Without a scheduler there is no finding: another check has one.
    """
    from grain.cli.query import PATIENCE, state_if_any
    from grain.edge.version import own_versions

    state = state_if_any(config, patience=PATIENCE, answer=_ANSWER)
    if state is None:
        return []
    return [judge_workers(state.workers, own_versions()), *judge_grain(state)]


def judge_workers(workers: list[Worker], own: Versions) -> CheckResult:
    """Judge the versions of workers, as in the scheduler's answer."""
    if not workers:
        return ok("workers", "none is here")
    there = _versions(workers)
    pythons = [f"{name} {v.interpreter}" for name, v in there if not own.runs_code_of(v)]
    if pythons:
        fix = (
            "Start workers with the Python of your missions: tasks whose functions travel by "
            "value wait for such a worker."
        )
        message = f"this is {own.interpreter}, workers have another: {_some(pythons)}"
        return warn("workers", message, fix)
    arrays = [f"{name} NumPy {v.numpy}" for name, v in there if not own.loads_arrays_of(v)]
    if arrays:
        fix = "Install NumPy of the same major version on both, or arrays may not load."
        message = f"NumPy here is {own.numpy}, and workers have another: {_some(arrays)}"
        return warn("workers", message, fix)
    count = "1 worker has" if len(there) == 1 else f"{len(there)} workers have"
    return ok("workers", f"{count} {own.interpreter}, as this command")


def judge_grain(state: StateAnswer) -> list[CheckResult]:
    """Judge the versions of Grain of all workers and missions; nothing where they are one."""
    grains: dict[str, list[str]] = {}
    for name, versions in _versions([*state.workers, *state.missions]):
        if versions.grain:
            grains.setdefault(versions.grain, []).append(name)
    if len(grains) < 2:
        return []
    message = "; ".join(f"{version}: {_some(names)}" for version, names in sorted(grains.items()))
    fix = "Install one version of Grain for all, and start the workers again: grain drain '*'"
    return [warn("peers", f"they have several versions of Grain, {message}", fix)]


def _versions(peers: Iterable[Worker | Mission]) -> list[tuple[str, Versions]]:
    from grain.edge.questions import versions_of

    return [(peer.name, versions_of(peer)) for peer in peers]


def _some(items: list[str]) -> str:
    more = [f"{len(items) - 3} more"] if len(items) > 3 else []
    return ", ".join(items[:3] + more)
