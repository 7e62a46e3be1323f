"""Members that talk nonsense: random messages to a live hub, an agent's and a mission's session.

Honest peers work through the same hub all the while: after each message the invariants of the
scheduler and the laws that the records of a hub obey hold, and in the end all honest tasks have
resolved. ``nox -s fuzz`` does the same for as long as one likes; GRAIN_FUZZ=10 makes these tests
last ten times as long.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from grain.head.service import CODEC
from grain.worker.messages import CODEC as AGENT_CODEC
from grain.worker.messages import LANE_CODEC, Ended, Inspected
from grain_testkit.hostile_messages import kinds_of
from grain_testkit.hostile_peers import TARGETS

TIMES = float(os.environ.get("GRAIN_FUZZ", "1"))

fuzz = settings(
    max_examples=int(20 * TIMES),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

KINDS: dict[str, list[type[Any]]] = {
    "hub": kinds_of(CODEC),
    "mission": kinds_of(CODEC),
    "worker": [*kinds_of(AGENT_CODEC), Ended, Inspected],
    "lanes": kinds_of(LANE_CODEC),
}

# Three each, so that one test of a dear kind is short on a busy machine as well.
PARTS = pytest.mark.parametrize("part", range(3))


@PARTS
def test_a_hub_serves_honest_peers_whatever_others_say(part: int) -> None:
    """Tried: Random messages of every kind, to a scheduler with honest members.
    Result: these are served.
    """
    carry_out("hub", part)


@PARTS
def test_a_mission_session_survives_whatever_its_head_says(part: int) -> None:
    """Tried: The same to the session of a mission.
    Result: no task lost or resolved twice.
    """
    carry_out("mission", part)


@PARTS
def test_a_worker_session_survives_whatever_its_head_says(part: int) -> None:
    """Tried: The same to that of a worker, also from its runner.
    Result: it can always finish.
    """
    carry_out("worker", part)


@PARTS
def test_a_mission_survives_whatever_the_runners_of_its_lanes_say(part: int) -> None:
    """Tried: The same from the runners of a mission's lanes.
    Result: each can resolve the call that it has, and no other.
    """
    carry_out("lanes", part)


def carry_out(target: str, part: int) -> None:
    """Carry out scripts of random messages: others in each part."""
    counts: Counter[str] = Counter()

    def carry_out(script: list[Any]) -> None:
        TARGETS[target].carry_out(script, counts)

    test = fuzz(given(TARGETS[target].scripts)(carry_out))
    # Without a seed of their own, all parts would draw the same examples where each day does.
    (seed(part)(test) if fuzz.derandomize else test)()
    assert counts  # it heard of something


@pytest.mark.parametrize("target", KINDS)
def test_scripts_have_messages_of_every_kind_that_a_channel_lets_through(target: str) -> None:
    """A kind that is added to a codec, and that no script has, fails.

    Tried: Kinds that the fuzz session leaves out.
    Result: none.
    """
    counts: Counter[str] = Counter()

    def count(script: list[Any]) -> None:
        for step in script:
            if isinstance(step, tuple):
                counts.update(type(part).__name__ for part in step)

    def missing() -> list[str]:
        return [kind.__name__ for kind in KINDS[target] if not counts[kind.__name__]]

    for number in range(64):  # so many that no kind is missing by chance
        if missing():
            few = settings(fuzz, max_examples=10, database=None)
            seed(number)(few(given(TARGETS[target].scripts)(count)))()
    assert [] == missing()
