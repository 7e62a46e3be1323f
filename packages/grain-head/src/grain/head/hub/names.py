"""The names of missions and workers, as users and commands know them.

Names repeat: two runs of one script, workers that were given a fixed name. A mission brings its
number among those of its name (`grain.eventlog.names`); a worker gets an ordinal when it comes,
and keeps it. The *label* of a peer is its name as long as no other peer has that, else
``name@ordinal``. One that lacks either, or shares both with a mission of another home directory,
goes by the beginning of its id. Each command takes a label, with or without its number, a name that
is the only one, an id, and the beginning of an id.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from grain.head.hub.state import PeerRecord

_ID = 8  # the beginning of an id that is shown
_SHORTEST = 4  # characters of the beginning of an id
_SHOWN = 8  # peers that a message names

P = TypeVar("P", bound="PeerRecord")


def next_ordinal(name: str, peers: Iterable[PeerRecord]) -> int:
    """Return the ordinal of a peer that comes, among those of its name."""
    return 1 + max((peer.ordinal for peer in peers if peer.name == name), default=0)


def labels(peers: Collection[PeerRecord]) -> dict[int, str]:
    """Return the label of each peer by its number."""
    names = Counter(peer.name for peer in peers)
    same = Counter(map(numbered, peers))
    return {
        peer.number: peer_label(peer, alone=names[peer.name] == 1)
        if same[numbered(peer)] == 1
        else peer.id[:_ID]
        for peer in peers
    }


def numbered(peer: PeerRecord) -> str:
    """Return the label of a peer that it has among others of its name."""
    return peer_label(peer, alone=False)


def peer_label(peer: PeerRecord, *, alone: bool) -> str:
    """Return the label of a peer, which is or is not the only one of its name."""
    if alone and peer.name:
        return peer.name
    return f"{peer.name}@{peer.ordinal}" if peer.name and peer.ordinal else peer.id[:_ID]


def find_peer(peers: Collection[P], word: str, kind: str) -> P | str:
    """Return the peer that a word means, or a sentence that says why none can be meant.

    Args:
        peers: to be looked at; those with an empty id and name are never meant.
        word: a label, a name, an id, or the beginning of an id.
    """
    exact = [peer for peer in peers if word and peer.id == word]
    named = [peer for peer in peers if word and peer.name == word]
    matches = exact or named
    matches = matches or [peer for peer in peers if word and numbered(peer) == word]
    # A few letters may be the name of a peer that has left.
    if len(word) >= _SHORTEST:
        matches = matches or [peer for peer in peers if peer.id.startswith(word)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        which = _listed(
            f"{numbered(peer)} (id {peer.id[:_ID]}, on {peer.host or 'an unknown host'})"
            for peer in matches
        )
        return f"{len(matches)} {kind}s are called {word!r}: {which}"
    here = labels(peers)
    which = _listed(sorted(here.values())) or "none"
    return f"no {kind} goes by {word!r}; here are: {which}"


def _listed(items: Iterable[str]) -> str:
    listed = list(items)
    more = [f"and {len(listed) - _SHOWN} more"] if len(listed) > _SHOWN else []
    return ", ".join(listed[:_SHOWN] + more)
