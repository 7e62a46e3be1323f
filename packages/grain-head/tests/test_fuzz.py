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

from hypothesis import HealthCheck, given, seed, settings

from grain.head.service import CODEC
from grain.worker.messages import CODEC as AGENT_CODEC
from grain.worker.messages import LANE_CODEC, Ended, Inspected
from grain_testkit.hostile_messages import kinds_of
from grain_testkit.hostile_peers import TARGETS

TIMES = float(os.environ.get("GRAIN_FUZZ", "1"))

fuzz = settings(
    max_examples=int(60 * TIMES),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_a_hub_serves_honest_peers_whatever_others_say() -> None:
    lie_with_every_kind("hub", kinds_of(CODEC))


def test_a_mission_session_survives_whatever_its_head_says() -> None:
    lie_with_every_kind("mission", kinds_of(CODEC))


def test_a_worker_session_survives_whatever_its_head_says() -> None:
    lie_with_every_kind("worker", [*kinds_of(AGENT_CODEC), Ended, Inspected])


def test_a_mission_survives_whatever_the_runners_of_its_lanes_say() -> None:
    lie_with_every_kind("lanes", kinds_of(LANE_CODEC))


def lie_with_every_kind(target: str, kinds: list[type[Any]]) -> None:
    """Carry out scripts; each kind of message that a channel lets through is in one, or in others.

    So a kind that is added to a codec, and that no script has, fails.
    """
    counts: Counter[str] = Counter()

    def carry_out(script: list[Any]) -> None:
        TARGETS[target].carry_out(script, counts)

    def count(script: list[Any]) -> None:
        for step in script:
            if isinstance(step, tuple):
                counts.update(type(part).__name__ for part in step)

    def missing() -> list[str]:
        return [kind.__name__ for kind in kinds if not counts[kind.__name__]]

    scripts = given(TARGETS[target].scripts)
    fuzz(scripts(carry_out))()
    for number in range(16):  # so many that no kind is missing by chance
        if missing():
            seed(number)(settings(fuzz, max_examples=40, database=None)(scripts(count)))()
    assert [] == missing()
