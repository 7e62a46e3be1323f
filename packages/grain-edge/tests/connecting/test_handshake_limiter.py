"""The limits of handshakes, without I/O."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grain.edge.connecting.handshake_limiter import HandshakeLimiter


def test_silent_connections_make_way_for_a_newcomer() -> None:
    """16 silent ones of one address do not keep a 17th out, once they are a second old."""
    limiter = HandshakeLimiter()
    first = [limiter.admit("a", 0.0)[0] for _ in range(16)]

    assert limiter.admit("a", 0.5) == (None, None)
    assert limiter.admit("b", 0.5) == (17, None)
    assert limiter.admit("a", 1.5) == (18, first[0])


def test_many_addresses_share_one_limit() -> None:
    """64 in all, from whatever address."""
    limiter = HandshakeLimiter()
    for n in range(64):
        limiter.admit(str(n), 0.0)

    assert limiter.admit("x", 0.9) == (None, None)
    number, out = limiter.admit("x", 1.1)
    assert number is not None
    assert out == 1
    assert len(limiter) == 64


def test_loopback_counts_as_one_address() -> None:
    """A local user with many addresses has no more places than one, and leaves those of others."""
    limiter = HandshakeLimiter()
    mine = [f"127.0.{n}.1" for n in range(100)] + ["::1", "::ffff:127.9.9.9"]
    admitted = [limiter.admit(address, 0.5)[0] for address in mine]

    assert 16 == sum(number is not None for number in admitted)
    assert limiter.admit("192.0.2.1", 0.5)[0] is not None


def test_honest_connections_are_not_driven_out() -> None:
    """Those who authenticate quickly leave room for as many as come."""
    limiter = HandshakeLimiter()
    for n in range(1000):
        number, out = limiter.admit("a", n * 0.001)
        assert number is not None
        assert out is None
        if n >= 10:
            limiter.leave(number - 10)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 3), st.booleans()), max_size=200))
def test_neither_limit_is_exceeded_and_no_young_connection_driven_out(
    events: list[tuple[str, float, bool]],
) -> None:
    limiter, now = HandshakeLimiter(8, 3, 1.0), 0.0
    open_: dict[int, tuple[str, float]] = {}
    for address, pause, leave in events:
        now += pause
        number, out = limiter.admit(address, now)
        if out is not None:
            assert now - open_.pop(out)[1] >= 1.0
        if number is not None:
            open_[number] = (address, now)
        if leave and open_:
            ended = next(iter(open_))
            del open_[ended]
            limiter.leave(ended)
        assert len(limiter) == len(open_) <= 8
        assert all(sum(a == x for a, _ in open_.values()) <= 3 for x in "abcde")
