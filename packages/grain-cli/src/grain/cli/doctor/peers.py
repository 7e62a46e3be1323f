"""Checks of ``grain doctor``: the versions of the workers that are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.cli.doctor.checks import Finding

if TYPE_CHECKING:
    from grain.config import Config
    from grain.edge.version import Versions


def workers(config: Config) -> list[Finding]:
    """Check that workers have the Python of this command, and NumPy of its major version.

    Without a scheduler there is no finding: another check has one.
    """
    from grain.cli.query import NoScheduler, ask
    from grain.edge.questions import Ask
    from grain.edge.version import own_versions

    try:
        [state] = ask(config, Ask("state"))
    except NoScheduler:
        return []
    return [judge_workers(state["workers"], own_versions())]


def judge_workers(workers: list[dict[str, Any]], own: Versions) -> Finding:
    """Judge the versions of workers, as in the scheduler's answer."""
    from grain.edge.version import Versions

    if not workers:
        return Finding("workers", "ok", "none is here")
    there = [
        (str(worker["name"]), Versions(**(worker.get("versions") or {}))) for worker in workers
    ]
    pythons = [f"{name} {v.interpreter}" for name, v in there if not own.runs_code_of(v)]
    if pythons:
        fix = (
            "Start workers with the Python of your missions: tasks whose functions travel by "
            "value wait for such a worker."
        )
        message = f"this is {own.interpreter}, workers have another: {_some(pythons)}"
        return Finding("workers", "warn", message, fix)
    arrays = [f"{name} NumPy {v.numpy}" for name, v in there if not own.loads_arrays_of(v)]
    if arrays:
        fix = "Install NumPy of the same major version on both, or arrays may not load."
        message = f"here is NumPy {own.numpy}, on workers another: {_some(arrays)}"
        return Finding("workers", "warn", message, fix)
    count = "1 worker has" if len(there) == 1 else f"{len(there)} workers have"
    return Finding("workers", "ok", f"{count} {own.interpreter}, as this command")


def _some(items: list[str]) -> str:
    more = [f"{len(items) - 3} more"] if len(items) > 3 else []
    return ", ".join(items[:3] + more)
