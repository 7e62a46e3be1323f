"""Laws of what a worker keeps, in whatever order outcomes come and are acknowledged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grain.worker.agent.session.delayed import ArrivedLeases
from grain.worker.agent.session.kept import KeptOutcomes
from grain.worker.agent.spool import SpooledOutcome
from grain.worker.messages import Backlog, Lease, RunEnded

STEPS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 9), st.booleans()), max_size=60)


@given(STEPS)
def test_a_worker_counts_what_it_keeps_and_is_paused_from_too_many_to_half_of_that(
    steps: list[tuple[int, int, bool]],
) -> None:
    kept = KeptOutcomes(in_memory=15)
    kept.most, kept.most_bytes = 4, 30
    for number, size, comes in steps:
        attempt = (1, number)
        if comes and attempt not in kept.by_attempt:
            lease = Lease("m", number, attempt, b"f", {})
            kept.add(RunEnded("m", number, attempt, "value"), bytes(size), lease)
        elif not comes:
            kept.forget([attempt])
        before = kept.paused
        changed = kept.review()

        outcomes = [outcome for _, outcome, _ in kept.by_attempt.values()]
        sizes = [
            one.size if isinstance(one, SpooledOutcome) else len(one or b"") for one in outcomes
        ]
        spooled = [isinstance(one, SpooledOutcome) for one in outcomes]
        in_memory = sum(size for size, disk in zip(sizes, spooled, strict=True) if not disk)
        assert (sum(sizes), sum(spooled)) == (kept.bytes, kept.spooled)
        assert in_memory <= 15
        many, half = len(sizes) > 4 or sum(sizes) > 30, len(sizes) <= 2 and sum(sizes) <= 15
        assert kept.paused == (many or (before and not half))
        assert changed == (kept.paused != before)
        assert (Backlog(len(sizes), sum(sizes)) if kept.paused else Backlog()) == kept.backlog()


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 9)), max_size=30))
def test_a_lease_that_comes_again_or_late_is_not_taken(attempts: list[tuple[int, int]]) -> None:
    """The attempts of a head ascend."""
    leases, last = ArrivedLeases(), {1: -1, 2: -1}
    for taken, (epoch, number) in enumerate(attempts):
        assert (number > last[epoch]) == leases.take((epoch, number), float(taken))
        last[epoch] = max(last[epoch], number)
    assert leases.count <= len(attempts)
