"""The decisions of a head that leads a meeting at a bridge, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.edge.bridge.call import pack_call
from grain.edge.bridge.key import MeetingKeys
from grain.edge.bridge.leader import MOST_CALLS, MOST_TAKEN, Leader, Listener
from grain.edge.bridge.wire import (
    CALL,
    Beat,
    Called,
    Claim,
    Greeting,
    Incoming,
    Joined,
    LeaderRecord,
    Leading,
    MemberListens,
    Publish,
)
from grain.edge.errors import RemoteProtocolError

if TYPE_CHECKING:
    from grain.edge.bridge.wire import AnyMessage

KEYS = MeetingKeys(bytes(32))


def claim_of(leader: Leader) -> Claim:
    [claim] = leader.on_connected()
    assert isinstance(claim, Claim)
    return claim


def shown(leader: Leader, sent: list[AnyMessage]) -> bytes:
    [publish] = sent
    assert isinstance(publish, Publish)
    return KEYS.unseal(publish.sealed)


def test_a_head_states_its_claim_and_its_record_on_each_connection() -> None:
    leader = Leader(KEYS, 7)
    first = claim_of(leader)
    assert 7 == first.epoch == KEYS.claimed_epoch(first.sealed)
    assert [] == leader.publish(b"early")  # nobody has let it lead
    sent, _ = leader.on_message(Leading())
    assert b"early" == shown(leader, sent)
    assert b"late" == shown(leader, leader.publish(b"late"))
    leader.on_lost()
    assert [] == leader.publish(b"meanwhile")
    again = claim_of(leader)
    assert (7, first.who) == (again.epoch, again.who)
    sent, _ = leader.on_message(Leading())
    assert b"meanwhile" == shown(leader, sent)


def test_a_head_steps_down_for_a_larger_epoch_that_a_member_has_claimed() -> None:
    leader = Leader(KEYS, 7)
    leader.on_connected()
    leader.on_message(Leading())
    leader.on_message(LeaderRecord(8, b"", claim_of(Leader(KEYS, 8)).sealed))
    assert (8, False) == (leader.higher, leader.leads)


def test_a_head_that_claims_again_leads_where_the_larger_epoch_has_left() -> None:
    """As two begin at the same moment, and the other one ends before it has a record."""
    leader = Leader(KEYS, 7)
    leader.on_connected()
    leader.on_message(LeaderRecord(8, b"", claim_of(Leader(KEYS, 8)).sealed))
    leader.on_connected()
    leader.on_message(Leading())
    assert (0, True) == (leader.higher, leader.leads)


@pytest.mark.parametrize(
    "claim",
    [
        b"",
        b"any bytes that are long enough for a nonce",
        claim_of(Leader(KEYS, 6)).sealed,
        claim_of(Leader(MeetingKeys(bytes(31) + b"x"), 99)).sealed,
        KEYS.seal(b"a record, which is no claim"),
    ],
    ids=["none", "any", "smaller", "of another key", "a record"],
)
def test_the_server_cannot_make_a_head_step_down_by_itself(claim: bytes) -> None:
    """It tries again instead.

    Tried: Say that another head leads.
    Result: that head goes on, unless a member has claimed it.
    """
    leader = Leader(KEYS, 7)
    leader.on_connected()
    leader.on_message(Leading())
    leader.on_message(LeaderRecord(2**62, b"", claim))
    assert (0, False) == (leader.higher, leader.leads)


def test_members_are_taken_while_a_head_leads_and_not_more_than_it_can() -> None:
    leader = Leader(KEYS, 7)
    leader.on_connected()
    incoming = Incoming(b"token", "there")
    assert ([], None) == leader.on_message(incoming)
    leader.on_message(Leading())
    for _ in range(MOST_TAKEN):
        assert ([], incoming) == leader.on_message(incoming)
    assert ([], None) == leader.on_message(incoming)
    leader.taking -= 1
    assert ([], incoming) == leader.on_message(incoming)


ADDRESSES = [("10.0.0.7", 4711), ("fd00::7", 65535)]


def called(
    addresses: list[tuple[str, int]], epoch: int = 7, keys: MeetingKeys = KEYS
) -> MemberListens:
    return MemberListens(keys.seal_call(pack_call(epoch, addresses)))


def test_a_head_that_leads_calls_members_back_and_not_more_than_it_can() -> None:
    leader = Leader(KEYS, 7)
    leader.on_connected()
    assert ([], None) == leader.on_message(called(ADDRESSES))
    leader.on_message(Leading())
    for _ in range(MOST_CALLS):
        assert ([], Listener(ADDRESSES)) == leader.on_message(called(ADDRESSES))
    assert ([], None) == leader.on_message(called(ADDRESSES))
    leader.calling -= 1
    assert ([], Listener(ADDRESSES)) == leader.on_message(called(ADDRESSES))


@pytest.mark.parametrize(
    "call",
    [
        MemberListens(b""),
        MemberListens(b"any bytes that are long enough for a nonce"),
        called(ADDRESSES, epoch=6),
        called(ADDRESSES, keys=MeetingKeys(bytes(31) + b"x")),
        MemberListens(KEYS.seal(pack_call(7, ADDRESSES))),
        MemberListens(KEYS.seal_call(pack_call(7, ADDRESSES)[:-1])),
        called([]),
    ],
    ids=["none", "any", "other head", "other key", "a record", "other size", "no address"],
)
def test_the_server_cannot_make_a_head_connect_by_itself(call: MemberListens) -> None:
    """Tried: Make up a call, show one of another scheduler or key, or another sealed record as
    one.
    Result: ignored by the head.
    """
    leader = Leader(KEYS, 7)
    leader.on_connected()
    leader.on_message(Leading())
    assert (([], None), 0) == (leader.on_message(call), leader.calling)


def test_calls_have_one_size_however_many_addresses_a_host_has() -> None:
    """Tried: Tell from a call how many addresses a host has.
    Result: all have one size.
    """
    leader = Leader(KEYS, 7)
    leader.on_connected()
    leader.on_message(Leading())
    many = [(f"10.0.0.{number}", 4711) for number in range(12)]
    for addresses in (many[:1], many):
        call = called(addresses)
        assert CALL == len(call.sealed)
        assert ([], Listener(addresses[:8])) == leader.on_message(call)


def test_what_no_server_sends_is_refused() -> None:
    leader = Leader(KEYS, 7)
    assert ([], None) == leader.on_message(Beat())
    for message in (Joined(), Called(), Greeting(1, b""), Claim(9, b"", b"")):
        with pytest.raises(RemoteProtocolError):
            leader.on_message(message)
