"""How the parts of Grain find each other and talk.

    async def handler(peer: Peer) -> None:          # the head, once per peer that joins
        async for ... await peer.channel.receive() ...

    await nursery.start(serve, handler, "edge:///shared/me/meeting")

    async with dial("edge:///shared/me/meeting", role="worker") as peer:
        await peer.channel.send([(message, payload)])

`serve` claims the meeting and takes peers in; `dial` finds it, waiting if need be, by whatever
the site allows; `examine` reports for `grain doctor`. Channels are in `grain.edge.channel`, the
messages in `grain.edge.messages`, questions to a head in `grain.edge.questions`, errors in
`grain.edge.errors`, faulty connections for tests in `grain.edge.testing`.

Layout, from the bottom up:

- pure, without I/O: `_address`, `_block` (the Edge file), `_frames` (`_outbox` makes them, `_inbox`
  reads them), `_pieces` (large payloads that nobody has put together), `_log` (the file transport's
  logs), `_guard` (who may try to authenticate); `_version`
- the shared filesystem: `_files` and `_folder` (calls), `_disk` (threads with deadlines), `_host`
  (who we are), `_meeting` (who leads), `_mailbox` (calls from who has no route)
- transports, each ending in a trio stream: `_unix`; `_tcp` with `_tls`, `_identity` and
  `_interfaces`; `_reverse`; `_filelink` with `_filestream`; `_sockets` and `_listening` below them
- `_greet` (first frames); `_channel`, `_framed` with `_pace` and `_readsize`, `_memory` (channels);
  `_peer`
- `_race`, `_dial` with `_report`; `_accept`, `_serve`

Later transports, a relay between clusters among them, need an address, a `Way` in `_dial` and a
call of `Reception.greet` with their stream in `_serve`; nothing above sees them.
"""

from typing import TYPE_CHECKING

from grain.edge.address import DEFAULT as DEFAULT

if TYPE_CHECKING:
    from grain.edge.attempt import Attempt as Attempt
    from grain.edge.connecting.dial import dial as dial
    from grain.edge.connecting.dial import examine as examine
    from grain.edge.connecting.peer import ALL_TRANSPORTS as ALL_TRANSPORTS
    from grain.edge.connecting.peer import Peer as Peer
    from grain.edge.connecting.serve import Serving as Serving
    from grain.edge.connecting.serve import prepare as prepare
    from grain.edge.connecting.serve import serve as serve
else:
    # What meets over a network is imported by whoever uses it: a mission that keeps to its own
    # machine needs the channel in memory alone, and a third less time to start.
    def __getattr__(name: str) -> object:
        from importlib import import_module

        homes = {
            "ALL_TRANSPORTS": "connecting.peer",
            "Attempt": "attempt",
            "Peer": "connecting.peer",
            "Serving": "connecting.serve",
            "dial": "connecting.dial",
            "examine": "connecting.dial",
            "prepare": "connecting.serve",
            "serve": "connecting.serve",
        }
        if name not in homes:
            raise AttributeError(f"module 'grain.edge' has no attribute {name!r}")
        return getattr(import_module(f"grain.edge.{homes[name]}"), name)
