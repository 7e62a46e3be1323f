"""The last resort of an invitation: the way by which host and guest have both met a head.

Where a guest cannot connect to its host, both reach the directory of a meeting file, or a bridge.
There the host has a place of its own, made for the invitation: a mailbox in that directory, private
as the head's is; or a meeting at the bridge with a key of its own, where both ends show the
certificates of the invitation. It is used as one of a head is, by the same offers and routes. A
bridge that serves listed meetings only serves such a one as well, as a listed one vouches for it.
"""

from __future__ import annotations

import dataclasses
import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from grain.edge.address import (
    BridgeAddress,
    EdgeAddress,
    TcpAddress,
    UnixAddress,
    parse_address,
)
from grain.edge.bridge.key import MeetingKeys, make_key, parse_key, read_key
from grain.edge.bridge.meeting import BridgeMeeting
from grain.edge.connecting.mailbox import new_door, remove_door, sweep_doors
from grain.edge.connecting.offers import OFFERS, Leadership
from grain.edge.connecting.routes import DialRequest, routes
from grain.edge.errors import MeetingError
from grain.edge.meeting.block import MeetingRecord
from grain.edge.meeting.disk import Disk
from grain.edge.meeting.meeting import Meeting
from grain.files.processes import this_process

if TYPE_CHECKING:
    from grain.edge.connecting.accept import Acceptor
    from grain.edge.connecting.offers import Offer
    from grain.edge.connecting.peer import GreetedStream
    from grain.edge.connecting.race import Route
    from grain.edge.messages import Codec, Hello
    from grain.edge.transports.identity import Credential

CARRIED = frozenset({"files", "relay"})
"""The transports by which a guest comes here."""

_DEADLINE = 15.0  # seconds for a guest to be heard: a host looks once in a second at least
_CLOSE = 5.0  # seconds for removing a place
_log = logging.getLogger("grain.edge")


async def offer_beside(address: str, acceptor: Acceptor, credential: Credential) -> Offer | None:
    """Take a place beside a meeting, and return the offer to guests there; None if there is none.

    Its only target is the address of the place, which is secret. Its `clean` leaves nothing behind,
    and waits for no more than some seconds; cancellation does not shorten it.

    Args:
        address: of the meeting, as in `grain.toml`.
        credential: the host's.
    """
    where = parse_address(address)
    place: EdgeAddress | BridgeAddress
    if isinstance(where, UnixAddress):
        return None
    try:
        place = _place(where)
    except MeetingError as error:
        _log.info("guests can come only by a connection of their own: %s", error)
        return None
    meeting = _meeting(place)
    clean = partial(_leave, meeting)
    try:
        offer = await _offered(meeting, acceptor, credential)
    except MeetingError as error:
        _log.info("guests can come only by a connection of their own: %s", error)
        await clean()
        return None
    except BaseException:
        await clean()
        raise
    text = place.text if isinstance(place, BridgeAddress) else str(place)
    return dataclasses.replace(offer, targets=[text], clean=clean)


def _place(where: EdgeAddress | TcpAddress | BridgeAddress) -> EdgeAddress | BridgeAddress:
    """Return the address of a new place.

    Raises:
        MeetingError: the key of the bridge cannot be read.
    """
    if not isinstance(where, BridgeAddress):
        return EdgeAddress(new_door(f"{where.edge}.d"))
    key = make_key()
    voucher = MeetingKeys(read_key(where)).vouch(MeetingKeys(parse_key(key)).public)
    return dataclasses.replace(where, key=key, iface="", voucher=voucher.hex())


def _meeting(place: EdgeAddress | BridgeAddress) -> Meeting | BridgeMeeting:
    return BridgeMeeting(place) if isinstance(place, BridgeAddress) else Meeting(place.edge, Disk())


async def _offered(
    meeting: Meeting | BridgeMeeting, acceptor: Acceptor, credential: Credential
) -> Offer:
    """Take a place.

    Raises:
        MeetingError: it cannot be had.
    """
    if isinstance(meeting, BridgeMeeting):
        await meeting.claim()
    else:
        await meeting.prepare()
        me = this_process()
        owner = MeetingRecord("", 0, True, me.host, me.boot, me.space, me.pid, me.start)
        await meeting.publish(owner)
        await meeting.disk.run(meeting.path, sweep_doors, str(Path(meeting.path).parent))
    leadership = Leadership(meeting, 0, credential, acceptor)
    offers = [await make(leadership) for names, make in OFFERS.items() if names & CARRIED]
    return next(offer for offer in offers if offer is not None)


async def _leave(meeting: Meeting | BridgeMeeting) -> None:
    with trio.CancelScope(shield=True), trio.move_on_after(_CLOSE):
        try:
            if isinstance(meeting, BridgeMeeting):
                await meeting.aclose()
            else:
                await meeting.disk.run(meeting.path, remove_door, meeting.path)
        except MeetingError as error:
            _log.warning("%s", error)


def routes_beside(
    place: str, credential: Credential, hello: Hello, codec: Codec
) -> list[Route[GreetedStream]]:
    """Return the routes of a guest to a host that has opened a place beside a meeting.

    Args:
        place: its address.
        credential: the guest's.
    """
    where = parse_address(place)
    assert isinstance(where, EdgeAddress | BridgeAddress)
    meeting = _meeting(where)
    record = MeetingRecord(
        "", 0, True, "", "", 0, 0, 0, files=isinstance(meeting, Meeting),
        authority=credential.authority, certificate=credential.certificate, key=credential.key,
    )  # fmt: skip
    request = DialRequest(meeting, record, hello, codec, same_kernel=False)
    return [dataclasses.replace(one, deadline=_DEADLINE) for one in routes(request, CARRIED)]
