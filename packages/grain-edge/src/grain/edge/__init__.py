"""Connections between the parts of Grain: meetings, routes and channels.

    async def handler(peer: Peer) -> None:          # the head, once per peer that joins
        async for ... await peer.channel.receive() ...

    await nursery.start(serve, handler, "edge:///shared/me/meeting")

    async with dial("edge:///shared/me/meeting", role="worker") as peer:
        await peer.channel.send([(message, payload)])

`serve` claims the meeting and accepts peers; `dial` finds it, waiting if need be, by whatever route
the site allows; `examine` reports for `grain doctor`.

To add a transport:

1. `transports/`: a module that connects and listens, authenticates the peer (or says who does),
   and ends in a trio stream; see `transports/__init__`.
2. `meeting/block`: a field of `MeetingRecord`, where the head is reached.
3. `connecting/offers`: a function that listens, and its entry in `OFFERS` (the head's side).
4. `connecting/routes`: a function that yields routes, and its entry in `DIRECT` or
   `INDIRECT` (the dialler's side); `ALL_TRANSPORTS` follows.
5. docs/meeting.md; a remedy in `_REMEDIES` of `grain/cli/doctor/meeting.py`; and the list
   `TRANSPORTS` of `tools/testkit/src/grain_testkit/head_and_diallers.py`: the promises of every
   transport are tested over each of them. Nothing above sees which transport it is.

Map:

- ``public``: the public names that need a network
- ``served``: those for processes that others dial
- ``address``: addresses and their parser
- ``errors``: the errors, each with a remedy; attempts to reach a head, for them and the doctor
- ``mission_ids``: the ids of missions that outlive their processes
- ``messages``: messages, the greeting, codecs
- ``questions``: questions to a head, and the structs of their answers
- ``channel``: the public names of channels
- ``buffers``: memory of large payloads
- ``invitation``: a direct connection between two processes that a third one brings together
- ``beside``: its last resort: the directory or the bridge by which both have met a head
- ``version``: the version of the package
- ``machine/``: this machine: CPUs that workers have taken, copies of processes, users of sockets
- ``bridge/``: meetings at a bridge, where processes meet that share no file system
- ``relay/``: the server of a bridge
- ``connecting/``: dialling and serving: routes, offers, greeting
- ``framing/``: channels: frames and the writer
- ``meeting/``: the meeting file: who leads, and how it is reached
- ``transports/``: trio streams over Unix sockets, TLS and files
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.edge.public import *  # noqa: F403
    from grain.edge.served import *  # noqa: F403
else:
    # A mission that keeps to its own machine needs only channels in memory, and starts in two
    # thirds of the time without TLS and what else meets over a network.
    def __getattr__(name: str) -> object:
        from importlib import import_module

        for module in () if name.startswith("_") else ("public", "served"):
            # Not by a from-import, which would ask this very function for the module.
            names = import_module(f"grain.edge.{module}")
            if hasattr(names, name):
                return getattr(names, name)
        raise AttributeError(f"module 'grain.edge' has no attribute {name!r}")
