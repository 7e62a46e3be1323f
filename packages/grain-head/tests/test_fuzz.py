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
from grain.worker.messages import Ended, Inspected
from grain_testkit.hostile_messages import kinds_of
from grain_testkit.hostile_peers import TARGETS

TIMES = float(os.environ.get("GRAIN_FUZZ", "1"))

fuzz = settings(
    max_examples=int(60 * TIMES),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@fuzz
@given(TARGETS["hub"].scripts)
def test_a_hub_serves_honest_peers_whatever_others_say(script: list[Any]) -> None:
    TARGETS["hub"].carry_out(script, Counter())


@fuzz
@given(TARGETS["mission"].scripts)
def test_a_mission_session_survives_whatever_its_head_says(script: list[Any]) -> None:
    TARGETS["mission"].carry_out(script, Counter())


@fuzz
@given(TARGETS["worker"].scripts)
def test_a_worker_session_survives_whatever_its_head_says(script: list[Any]) -> None:
    TARGETS["worker"].carry_out(script, Counter())


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        ("hub", kinds_of(CODEC)),
        ("mission", kinds_of(CODEC)),
        ("worker", [*kinds_of(AGENT_CODEC), Ended, Inspected]),
    ],
)
def test_every_kind_of_message_that_a_channel_lets_through_is_among_the_nonsense(
    target: str, kinds: list[type[Any]]
) -> None:
    """A kind that is added to a codec, and that no script has, fails here."""
    counts: Counter[str] = Counter()

    for number in range(8):  # so many that no kind is missing by chance

        @seed(number)
        @settings(fuzz, max_examples=80, database=None)
        @given(TARGETS[target].scripts)
        def count(script: list[Any]) -> None:
            for step in script:
                if isinstance(step, tuple):
                    counts.update(type(part).__name__ for part in step)

        count()
        if all(counts[kind.__name__] for kind in kinds):
            return
    assert [] == [kind.__name__ for kind in kinds if not counts[kind.__name__]]
