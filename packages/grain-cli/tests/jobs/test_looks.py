"""When a command that waits for jobs looks at the queue again."""

from __future__ import annotations

import pytest

from grain.cli.queue.looks import LATEST, PART, REVIVE, SOONEST, Looks


class Clock:
    """A clock that moves on where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("grain.cli.queue.looks.time", clock)
    return clock


def test_looks_come_soon_at_first_and_are_never_late_by_more_than_a_part_of_the_wait(
    clock: Clock,
) -> None:
    looks = Looks()
    while clock.now < 1100:
        waited = clock.now - 1000
        looks.wait()
        assert clock.pauses[-1] <= max(SOONEST, waited / PART)

    assert SOONEST == clock.pauses[0] < 0.1
    assert clock.pauses == sorted(clock.pauses)
    assert LATEST == clock.pauses[-1]
    assert len(clock.pauses) < 150


def test_a_killed_dispatcher_is_looked_for_at_first_and_now_and_then(clock: Clock) -> None:
    looks = Looks()
    assert looks.revival_is_due()
    assert not looks.revival_is_due()
    clock.now += REVIVE - 1
    assert not looks.revival_is_due()
    clock.now += 1
    assert looks.revival_is_due()
    assert not looks.revival_is_due()
