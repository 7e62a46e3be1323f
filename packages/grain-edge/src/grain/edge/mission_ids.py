"""Ids of missions that outlive their processes: every process knows them by their beginning."""

from __future__ import annotations

LASTING = "lasting-"
"""The beginning of the id of a lasting mission, which no other mission has.

The id is the only thing of a mission that every process knows: it is in each lease, and in the
inventory by which a new head learns of a run before any process of the mission is back."""


def lasting_id(name: str, chance: str) -> str:
    """Return the id of a lasting mission.

    Args:
        name: its display name, which a head shows that no process of the mission has come to.
        chance: random letters and digits, which no other mission has.
    """
    return f"{LASTING}{name}-{chance}"


def lasts(mission: str) -> bool:
    """Return True if a mission is a lasting one, by its id: it may outlive its processes."""
    return mission.startswith(LASTING)


def lasting_name(mission: str) -> str:
    """Return the display name in the id of a lasting mission."""
    return mission[len(LASTING) :].rpartition("-")[0]
