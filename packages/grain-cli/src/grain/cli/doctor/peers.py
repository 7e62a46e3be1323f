"""Checks of ``grain doctor``: the versions of the workers and missions that are here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grain.cli.doctor.checks import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.config import Config

_ANSWER = 5.0  # seconds; another check reports a scheduler that does not answer


def versions(config: Config) -> list[Finding]:
    """Check that workers and missions have the versions of the scheduler; nothing without one."""
    from grain.cli.query import NoScheduler, ask
    from grain.edge.questions import Ask

    try:
        [state] = ask(config, Ask("state"), answer=_ANSWER)
    except NoScheduler:
        return []
    return judge(state)


def judge(state: dict[str, Any]) -> list[Finding]:
    """Judge the versions in a snapshot; nothing where peers do not state theirs."""
    kinds = {
        (text(peer), what): peer
        for what, peers in (("worker", state["workers"]), ("mission", state["missions"]))
        for peer in peers
        if peer.get("versions")
    }
    if not kinds:
        return []
    counts = [
        f"{_count(version, what, state)} {version}" for version, what in sorted(kinds, reverse=True)
    ]
    interpreters = {peer["versions"].get("interpreter", "") for peer in kinds.values()}
    grains = {peer["versions"].get("grain", "") for peer in kinds.values()}
    if len(grains) > 1:
        fix = "Install one version of Grain for all, and start workers anew: grain quit '*'"
        return [Finding("peers", "warn", "; ".join(counts), fix)]
    if len(interpreters - {""}) > 1:
        fix = (
            "Functions of scripts and notebooks run on workers with the mission's Python alone: "
            "start workers from the environment of the mission."
        )
        return [Finding("peers", "warn", "; ".join(counts), fix)]
    return [Finding("peers", "ok", "; ".join(counts))]


def text(peer: dict[str, Any]) -> str:
    """Return the versions of a peer for people."""
    from grain.cli.status.ls_text import versions_text

    return versions_text(peer["versions"])


def _count(version: str, what: str, state: dict[str, Any]) -> str:
    peers: Iterable[dict[str, Any]] = state["workers" if what == "worker" else "missions"]
    count = sum(bool(peer.get("versions")) and text(peer) == version for peer in peers)
    return f"1 {what} with" if count == 1 else f"{count} {what}s with"
