"""The decisions of a bridge's server, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.bridge.wire import (
    CALL,
    MOST,
    SILENCE,
    Beat,
    Called,
    Claim,
    Incoming,
    Joined,
    LeaderRecord,
    Leading,
    MemberListens,
    MemberRefused,
    Open,
    Publish,
)
from grain.edge.relay.switchboard import (
    CALLS,
    MEETING,
    WAIT,
    Close,
    MeetingLimits,
    Send,
    Splice,
    Switchboard,
)

if TYPE_CHECKING:
    from grain.edge.bridge.wire import AnyMessage, Purpose


class Bench:
    """A switchboard, and what it has decided by connection."""

    def __init__(self, **limits: Any) -> None:
        self.board = Switchboard(MeetingLimits(**limits))
        self.now = 0.0
        self.got: dict[int, list[AnyMessage | str]] = {}
        self.spliced: list[tuple[int, int]] = []

    def enter(
        self,
        purpose: Purpose,
        meeting: bytes = b"a",
        token: bytes = b"",
        source: str = "host",
        sponsor: bytes = b"",
    ) -> int:
        number = self.board.enter(meeting, purpose, token, source, self.now, sponsor)
        self.look()
        return number

    def say(self, number: int, *messages: AnyMessage) -> None:
        for message in messages:
            self.board.on_message(number, message, self.now)
        self.look()

    def lose(self, number: int) -> None:
        self.board.on_lost(number, self.now)
        self.look()

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + 1.0, until)
            self.board.on_tick(self.now)
            self.look()

    def stop(self, seconds: float) -> None:
        """Let the server be stopped for a while."""
        self.now += seconds
        self.board.on_tick(self.now)
        self.look()

    def look(self) -> None:
        for effect in self.board.take_effects():
            if isinstance(effect, Send):
                self.got.setdefault(effect.connection, []).append(effect.message)
            elif isinstance(effect, Close):
                self.got.setdefault(effect.connection, []).append("closed")
            else:
                self.spliced.append((effect.one, effect.other))

    def taken(self, number: int) -> list[AnyMessage | str]:
        return self.got.pop(number, [])

    def head(self, epoch: int = 10, who: bytes = b"w", meeting: bytes = b"a") -> int:
        number = self.enter("lead", meeting)
        self.say(number, Claim(epoch, who, b"sealed %d" % epoch))
        return number

    def shown(self, meeting: bytes = b"a") -> AnyMessage | str:
        """Return what a member that looks is shown."""
        number = self.enter("look", meeting)
        record, closed = self.taken(number)
        assert "closed" == closed
        self.lose(number)
        return record


def test_the_first_head_leads_until_it_leaves() -> None:
    bench = Bench()
    assert LeaderRecord(0, b"", b"") == bench.shown()
    one = bench.head(10)
    assert [Leading()] == bench.taken(one)
    bench.say(one, Publish(b"record"))
    other = bench.head(10, b"other")
    assert [LeaderRecord(10, b"record", b"sealed 10"), "closed"] == bench.taken(other)
    assert LeaderRecord(10, b"record", b"sealed 10") == bench.shown()
    bench.lose(one)
    assert LeaderRecord(0, b"", b"") == bench.shown()
    assert [Leading()] == bench.taken(bench.head(5))


def test_a_larger_epoch_takes_the_place_of_a_head() -> None:
    """The other one gets the proof, and what it publishes after that is ignored."""
    bench = Bench()
    one = bench.head(10)
    other = bench.head(11, b"other")
    assert [Leading(), LeaderRecord(11, b"", b"sealed 11"), "closed"] == bench.taken(one)
    bench.say(one, Publish(b"late"))
    assert LeaderRecord(11, b"", b"sealed 11") == bench.shown()
    bench.lose(one)
    assert LeaderRecord(11, b"", b"sealed 11") == bench.shown()
    assert [Leading()] == bench.taken(other)


def test_a_head_that_connects_again_takes_the_place_of_its_own_connection() -> None:
    """Its record stays, and who waits is announced once more."""
    bench = Bench()
    one = bench.head()
    bench.say(one, Publish(b"record"))
    member = bench.enter("join")
    again = bench.head()
    [_, incoming, closed] = bench.taken(one)
    assert isinstance(incoming, Incoming)
    assert "closed" == closed
    assert [Leading(), incoming] == bench.taken(again)
    assert LeaderRecord(10, b"record", b"sealed 10") == bench.shown()
    bench.lose(one)
    taker = bench.enter("take", token=incoming.token)
    assert [(taker, member)] == bench.spliced


def test_a_silent_head_is_lost() -> None:
    bench = Bench()
    head = bench.head()
    for _ in range(10):
        bench.wait(SILENCE - 1)
        bench.say(head, Beat())
    assert [Leading(), *[Beat()] * 10] == bench.taken(head)
    bench.wait(SILENCE)
    assert ["closed"] == bench.taken(head)
    assert LeaderRecord(0, b"", b"") == bench.shown()
    silent = bench.enter("lead")
    bench.wait(SILENCE)
    assert ["closed"] == bench.taken(silent)


def test_no_connection_is_lost_while_the_server_was_stopped() -> None:
    bench = Bench()
    head = bench.head()
    bench.wait(SILENCE - 2)
    bench.stop(60.0)
    bench.wait(1)
    bench.say(head, Beat())
    assert [Leading(), Beat()] == bench.taken(head)
    bench.wait(SILENCE)
    assert ["closed"] == bench.taken(head)


def test_a_member_waits_until_it_is_taken_once() -> None:
    bench = Bench()
    early = bench.enter("join")
    assert [MemberRefused("no scheduler is connected to the bridge"), "closed"] == bench.taken(
        early
    )
    head = bench.head()
    member = bench.enter("join", source="there")
    [_, incoming] = bench.taken(head)
    assert isinstance(incoming, Incoming)
    assert "there" == incoming.source
    taker = bench.enter("take", token=incoming.token)
    assert [Joined()] == bench.taken(member) == bench.taken(taker)
    assert [(taker, member)] == bench.spliced
    late = bench.enter("take", token=incoming.token)
    assert [
        MemberRefused("the process that wanted to join does not wait any longer"),
        "closed",
    ] == bench.taken(late)


def test_a_member_that_is_not_taken_is_refused() -> None:
    bench = Bench()
    bench.head()
    member = bench.enter("join")
    bench.wait(WAIT - 1)
    assert [] == bench.taken(member)
    bench.wait(1)
    assert [MemberRefused("the scheduler did not take the connection"), "closed"] == bench.taken(
        member
    )


def test_members_that_wait_learn_that_the_head_is_lost() -> None:
    bench = Bench()
    head = bench.head()
    member = bench.enter("join")
    bench.lose(head)
    assert [MemberRefused("the scheduler is lost"), "closed"] == bench.taken(member)


def test_a_member_that_has_left_cannot_be_taken() -> None:
    bench = Bench()
    head = bench.head()
    member = bench.enter("join")
    [_, incoming] = bench.taken(head)
    assert isinstance(incoming, Incoming)
    bench.lose(member)
    taker = bench.enter("take", token=incoming.token)
    assert [] == bench.spliced
    assert "closed" == bench.taken(taker)[-1]


def test_of_a_pair_neither_outlives_the_other() -> None:
    bench = Bench()
    head = bench.head()
    member = bench.enter("join")
    [_, incoming] = bench.taken(head)
    assert isinstance(incoming, Incoming)
    taker = bench.enter("take", token=incoming.token)
    bench.taken(member)
    bench.lose(taker)
    assert ["closed"] == bench.taken(member)
    # The pair that it has brought together is not a concern of the head's connection.
    bench.lose(head)
    assert [] == bench.taken(member)


def test_a_token_of_another_meeting_is_of_no_use() -> None:
    """Tried: A member that joins with the token of another meeting.
    Result: refused.
    """
    bench = Bench()
    head = bench.head()
    bench.head(meeting=b"b")
    member = bench.enter("join")
    [_, incoming] = bench.taken(head)
    assert isinstance(incoming, Incoming)
    thief = bench.enter("take", b"b", incoming.token)
    assert "closed" == bench.taken(thief)[-1]
    taker = bench.enter("take", token=incoming.token)
    assert [(taker, member)] == bench.spliced


def test_who_breaks_the_protocol_is_closed_without_a_word() -> None:
    """Tried: A member that talks before it is taken, or out of turn.
    Result: dropped.
    """
    bench = Bench()
    head = bench.head()
    bench.say(head, Publish(b"record"))
    for purpose, message in (
        ("join", Publish(b"forged")),
        ("join", Claim(99, b"", b"")),
        ("lead", Publish(b"forged")),
        ("lead", Beat()),
        ("lead", Leading()),
    ):
        number = bench.enter(purpose)  # type: ignore[arg-type]
        bench.say(number, message)
        assert ["closed"] == bench.taken(number)
        bench.lose(number)
    assert LeaderRecord(10, b"record", b"sealed 10") == bench.shown()
    bench.taken(head)
    bench.say(head, Claim(11, b"w", b""), Publish(b"late"))
    assert ["closed"] == bench.taken(head)


def test_a_meeting_that_takes_all_it_may_leaves_others_alone() -> None:
    """Tried: All connections of the server.
    Result: a meeting and an address have limits; a full server takes from the address with the
    most connections.
    """
    bench = Bench(each=3, burst=100)
    for _ in range(3):
        assert [] == bench.taken(bench.enter("lead"))
    refusal = MemberRefused("this meeting has 3 connections, the most on this bridge")
    assert [refusal, "closed"] == bench.taken(bench.enter("lead"))
    assert [] == bench.taken(bench.enter("lead", b"b"))


def test_a_full_server_takes_from_the_address_with_the_most_connections() -> None:
    """Its youngest connection goes, and its heads last.

    Tried: All connections of the server.
    Result: a meeting and an address have limits; a full server takes from the address with the
    most connections.
    """
    bench = Bench(connections=7)
    head = bench.head(meeting=b"large")
    members = [bench.enter("join", b"large") for _ in range(2)]
    assert [Leading()] == bench.taken(head)[:1]
    others = [bench.enter("lead", source="one"), bench.enter("lead", source="two")]
    others += [bench.enter("lead", source="one"), bench.enter("lead", source="two")]
    others.append(bench.enter("lead", source="three"))
    assert ["closed"] == bench.taken(members[-1])
    # It and two others are alike now.
    refusal = MemberRefused("the bridge has no room for further connections")
    assert [refusal, "closed"] == bench.taken(bench.enter("lead", source="three"))
    assert [] == [message for number in others for message in bench.taken(number)]


def test_a_head_that_came_last_stays_as_long_as_its_address_has_members() -> None:
    bench = Bench(connections=8)
    bench.head(meeting=b"large")
    members = [bench.enter("join", b"large") for _ in range(2)]
    last = bench.head(meeting=b"small")
    for source in ("one", "two", "three", "four"):
        bench.enter("lead", b"other", source=source)

    assert [] == bench.taken(bench.enter("lead", b"other", source="five"))
    assert [Leading()] == bench.taken(last)
    assert [[], ["closed"]] == [bench.taken(number) for number in members]


def test_an_address_that_has_only_heads_loses_the_youngest() -> None:
    bench = Bench(connections=6)
    heads = [bench.head(meeting=bytes([number])) for number in range(3)]
    for number in heads:
        assert [Leading()] == bench.taken(number)
    for source in ("one", "two", "three"):
        bench.enter("lead", b"other", source=source)
    assert [] == bench.taken(bench.enter("lead", b"other", source="four"))
    assert [["closed"], []] == [bench.taken(number) for number in reversed(heads[1:])]


def test_many_meetings_of_a_stranger_do_not_end_connections_of_a_large_one() -> None:
    """Tried: All connections of the server.
    Result: a meeting and an address have limits; a full server takes from the address with the
    most connections.
    """
    bench = Bench(connections=8)
    bench.head()
    members = [bench.enter("join") for _ in range(3)]
    refused = 0
    for number in range(20):
        got = bench.taken(bench.enter("lead", b"%d" % number, source="stranger"))
        refused += bool(got)
    assert 16 == refused
    assert [] == [message for number in members for message in bench.taken(number)]


@pytest.mark.parametrize(("connections", "most"), [(6, 3), (7, 3), (100, 5)])
def test_an_address_gets_half_of_a_small_server(connections: int, most: int) -> None:
    bench = Bench(connections=connections, source=5)
    got = [bench.taken(bench.enter("lead", bytes([number]))) for number in range(most + 1)]
    refusal = MemberRefused(f"your host has {most} connections, the most on this bridge")
    assert [*([[]] * most), [refusal, "closed"]] == got


def test_the_addresses_of_an_ipv6_network_count_as_one() -> None:
    bench = Bench(source=2)
    for source in ("2001:db8::1", "2001:db8::2"):
        assert [] == bench.taken(bench.enter("lead", source=source))
    assert "closed" in bench.taken(bench.enter("lead", source="2001:db8::3"))
    assert [] == bench.taken(bench.enter("lead", source="2001:db8:0:1::3"))
    for source in ("192.0.2.7", "::ffff:192.0.2.7"):
        assert [] == bench.taken(bench.enter("lead", source=source))
    assert "closed" in bench.taken(bench.enter("lead", source="192.0.2.7"))


def test_an_address_has_a_limit_for_all_its_meetings_together() -> None:
    """Tried: Many meetings from one host.
    Result: that has a limit, too.
    """
    bench = Bench(source=3)
    held = [bench.enter("lead", bytes([number]), source="one") for number in range(3)]
    refusal = MemberRefused("your host has 3 connections, the most on this bridge")
    assert [refusal, "closed"] == bench.taken(bench.enter("lead", b"d", source="one"))
    assert [] == bench.taken(bench.enter("lead", b"d", source="other"))
    bench.lose(held[0])
    assert [] == bench.taken(bench.enter("lead", b"d", source="one"))


def test_connections_in_quick_succession_are_refused_after_a_burst() -> None:
    """Leaving and coming again does not restore the credit; time does.

    Tried: Connections in quick succession.
    Result: refused after a burst.
    """
    bench = Bench(burst=3, rate=1.0)
    for _ in range(3):
        bench.lose(bench.enter("lead"))
    refusal = MemberRefused("this meeting opens connections faster than this bridge allows")
    assert [refusal, "closed"] == bench.taken(bench.enter("lead"))
    bench.now = 1.0
    assert [] == bench.taken(bench.enter("lead"))
    assert [refusal, "closed"] == bench.taken(bench.enter("lead"))


def test_members_that_wait_are_limited() -> None:
    bench = Bench(waiting=2)
    bench.head()
    for _ in range(2):
        assert [] == bench.taken(bench.enter("join"))
    refusal = MemberRefused("too many wait for the scheduler, which takes no member")
    assert [refusal, "closed"] == bench.taken(bench.enter("join"))


def test_a_call_is_passed_on_to_the_head_and_forgotten() -> None:
    bench = Bench(waiting=0)
    sealed = b"s" * CALL
    refusal = MemberRefused("no scheduler is connected to the bridge")
    assert [refusal, "closed"] == bench.taken(bench.enter("call", token=sealed))
    head = bench.head()
    bench.taken(head)
    bench.head(meeting=b"b")
    caller = bench.enter("call", token=sealed)
    assert [Called(), "closed"] == bench.taken(caller)
    assert [MemberListens(sealed)] == bench.taken(head)
    bench.lose(caller)
    again = bench.head(11)
    assert [Leading()] == bench.taken(again)


@pytest.mark.parametrize("size", [0, CALL - 1, CALL + 1, 16_000])
def test_a_call_of_another_size_is_not_passed_on(size: int) -> None:
    """Tried: Calls without end, or of another size.
    Result: refused until the head shows a sign of life; not passed on.
    """
    bench = Bench()
    head = bench.head()
    bench.taken(head)
    assert ["closed"] == bench.taken(bench.enter("call", token=bytes(size)))
    assert [] == bench.taken(head)


def test_calls_are_limited_until_the_next_sign_of_life_of_the_head() -> None:
    """Tried: Calls without end, or of another size.
    Result: refused until the head shows a sign of life; not passed on.
    """
    bench = Bench()
    head = bench.head()
    bench.taken(head)
    sealed = bytes(CALL)
    for _ in range(CALLS):
        bench.lose(bench.enter("call", token=sealed))
    assert CALLS == len(bench.taken(head))
    refusal = MemberRefused("too many call the scheduler")
    assert [refusal, "closed"] == bench.taken(bench.enter("call", token=sealed))
    assert [] == bench.taken(head)
    bench.say(head, Beat())
    assert [Called(), "closed"] == bench.taken(bench.enter("call", token=sealed))
    assert [Beat(), MemberListens(sealed)] == bench.taken(head)


FULL = MemberRefused("the bridge has no memory left for further meetings; try again later")


def test_no_further_meeting_is_let_in_while_memory_is_short() -> None:
    """Those that are there go on, and the place of one that has left is free."""
    bench = Bench(memory=4 * 4 * MEETING)  # a quarter of it is for meetings
    held = [bench.enter("lead", bytes([number]), source=str(number)) for number in range(4)]
    assert [FULL, "closed"] == bench.taken(bench.enter("lead", b"new", source="new"))
    assert [] == bench.taken(bench.enter("lead", bytes([0])))
    bench.say(held[0], Claim(10, b"w", b"sealed"))
    member = bench.enter("join", bytes([0]))
    assert isinstance(bench.taken(held[0])[-1], Incoming)
    assert [] == bench.taken(member)
    bench.lose(held[1])
    assert [] == bench.taken(bench.enter("lead", b"new", source="new"))


def test_the_meetings_of_an_address_get_half_of_the_memory_for_meetings() -> None:
    """Tried: Meetings without end.
    Result: refused beyond the memory for them, of which one address gets half; others go on.
    """
    bench = Bench(memory=4 * 4 * MEETING)
    for number in range(2):
        assert [] == bench.taken(bench.enter("lead", bytes([number]), source="one"))
    assert [FULL, "closed"] == bench.taken(bench.enter("lead", b"c", source="one"))
    assert [] == bench.taken(bench.enter("lead", b"c", source="other"))


def test_no_member_is_introduced_to_a_head_that_reads_slowly_while_memory_is_short() -> None:
    """Tried: Heads that send and do not read, while memory is short.
    Result: not read; no member is introduced to them.
    """
    bench = Bench(memory=4 * 4 * MEETING)
    head = bench.head()
    other = bench.head(meeting=b"b")
    bench.board.on_unsent(head, MEETING)  # which its address may have beside its two meetings
    assert not bench.board.is_full_for(other)
    assert bench.board.is_full_for(head)
    refusal = MemberRefused("the scheduler reads slowly, and the bridge has no memory left")
    assert [refusal, "closed"] == bench.taken(bench.enter("join"))
    assert [refusal, "closed"] == bench.taken(bench.enter("call", token=bytes(CALL)))
    assert [] == bench.taken(bench.enter("join", b"b"))
    bench.board.on_unsent(head, 0)
    assert not bench.board.is_full_for(head)
    assert [] == bench.taken(bench.enter("join"))


def test_a_long_message_is_for_heads_that_lead() -> None:
    bench = Bench()
    head = bench.enter("lead")
    assert 1024 == bench.board.longest(head)
    bench.say(head, Claim(10, b"w", b"sealed"))
    assert MOST == bench.board.longest(head)
    assert 1024 == bench.board.longest(bench.enter("join"))


def test_meetings_that_the_operator_has_not_listed_are_refused_and_take_no_place() -> None:
    bench = Bench(each=1)
    bench.board = Switchboard(MeetingLimits(each=1), frozenset({b"a"}))
    assert [Leading()] == bench.taken(bench.head(meeting=b"a"))
    for _ in range(3):
        refusal, closed = bench.taken(bench.enter("lead", b"b"))
        assert isinstance(refusal, MemberRefused)
        assert "closed" == closed
        assert refusal.unlisted
        assert "what `grain bridge id` prints" in refusal.why
    refusal, _ = bench.taken(bench.enter("lead", b"b", sponsor=b"c"))
    assert isinstance(refusal, MemberRefused)
    assert refusal.unlisted
    assert (1, 1) == (len(bench.board), bench.board.meetings)
    refusal, _ = bench.taken(bench.enter("lead", b"a"))
    assert isinstance(refusal, MemberRefused)
    assert not refusal.unlisted
    record, _ = bench.taken(bench.enter("look", b"b", sponsor=b"a"))
    assert isinstance(record, LeaderRecord)


messages = st.one_of(
    st.builds(Claim, st.integers(-1, 9), st.sampled_from([b"", b"w", b"v"]), st.just(b"")),
    st.builds(Publish, st.binary(max_size=3)),
    st.builds(LeaderRecord, st.integers(0, 99), st.binary(max_size=3), st.just(b"")),
    st.builds(Incoming, st.binary(max_size=3), st.just("host")),
    st.sampled_from(
        [Beat(), MemberListens(bytes(CALL)), Called(), Leading(), Joined(), MemberRefused("no")]
    ),
    st.builds(Open, st.integers(0, 2), st.just(b"a"), st.just(b""), st.just("look")),
)
steps = st.one_of(
    st.tuples(
        st.just("enter"),
        st.sampled_from(["look", "lead", "call", "join", "take"]),
        st.tuples(st.sampled_from([b"a", b"b"]), st.sampled_from(["one", "two", "three"])),
    ),
    st.tuples(st.just("say"), st.integers(0, 30), messages),
    st.tuples(st.just("unsent"), st.integers(0, 30), st.integers(0, 200_000)),
    st.tuples(st.just("lose"), st.integers(0, 30), st.none()),
    st.tuples(st.just("wait"), st.floats(0, 30), st.none()),
)


class Observed(Bench):
    """A switchboard with whatever members do, and what holds after each step."""

    def __init__(self) -> None:
        super().__init__(connections=8, each=5, waiting=2, burst=20, memory=4 * 200_000)
        self.here: dict[int, bytes] = {}
        self.tokens: dict[bytes, tuple[bytes, int]] = {}
        self.wanted: dict[int, bytes] = {}
        self.over: set[int] = set()
        self.entering = 0

    def step(self, what: str, which: Any, how: Any) -> None:
        if what == "enter":
            used = sorted(self.tokens)
            token = used[-1] if used and which == "take" else b"nothing"
            meeting, source = how
            if which == "call":
                token = meeting * CALL
            # Its number is the next one, which the effects of its coming name already.
            self.entering = len(self.here) + 1
            self.here[self.entering], self.wanted[self.entering] = meeting, token
            assert self.entering == self.enter(which, meeting, token, source)
        elif what == "wait":
            (self.stop if which > 20 else self.wait)(which)
        elif self.here:
            number = sorted(self.here)[which % len(self.here)]
            if what == "say":
                self.say(number, how)
            elif what == "unsent":
                self.board.on_unsent(number, how)
            else:
                self.over.add(number)
                self.lose(number)

    def look(self) -> None:
        for effect in self.board.take_effects():
            if isinstance(effect, Splice):
                self.check_pair(effect)
            elif isinstance(effect, Close):
                self.over.add(effect.connection)
            elif isinstance(effect.message, MemberListens):
                assert self.here[effect.connection] * CALL == effect.message.sealed
            elif isinstance(effect.message, Incoming):
                meeting = self.here[effect.connection]
                token = effect.message.token
                assert meeting == self.tokens.setdefault(token, (meeting, self.entering))[0]
        assert not self.over & {state.leader for state in self.board._meetings.values()}

    def check_pair(self, pair: Splice) -> None:
        """Check that both are of one meeting, and that the one has the token of the other."""
        assert self.here[pair.one] == self.here[pair.other]
        assert (self.here[pair.one], pair.other) == self.tokens[self.wanted[pair.one]]
        assert not {pair.one, pair.other} & ({*sum(self.spliced, ())} | self.over)
        self.spliced.append((pair.one, pair.other))


@given(st.lists(steps, max_size=60))
def test_whatever_members_do_meetings_stay_apart_and_nothing_is_left(
    story: list[tuple[str, Any, Any]],
) -> None:
    """Tried: Whatever members do, in any order.
    Result: meetings stay apart, and nothing is left of them.
    """
    bench = Observed()
    for what, which, how in story:
        bench.step(what, which, how)
    for number in bench.here:
        bench.over.add(number)
        bench.lose(number)
    bench.stop(1000.0)
    bench.wait(1)
    assert (0, 0) == (len(bench.board), bench.board.meetings)
    assert (0, 0) == (len(bench.board._sources), len(bench.board._timed))
    assert 0 == bench.board._kept
