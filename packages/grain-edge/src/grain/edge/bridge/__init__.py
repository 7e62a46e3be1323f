"""A bridge: a server by which processes meet that share no file system and cannot connect.

Here is the members' side; `grain.edge.relay` has the server.

Theory of operation:

1. A *key* of 32 random bytes is all that the members of a meeting share. From it each derives a
   signing key, whose public half names the meeting, and a key that seals the head's record. The
   server gets the public half and sealed bytes: it reads nothing and cannot join.
2. Every connection to the server begins with a number that the server has drawn, and with the
   member's signature of it: who lacks the key, or has overheard a member, gets nowhere, and does
   not learn whether a meeting exists.
3. The server is in the place of the meeting file. A head *leads* a meeting over a connection that
   it keeps, and publishes its record there, sealed; others *look* at the record. With it they reach
   the head by TCP, if the network lets them.
4. They *call* it where it does not answer: they listen, and the server passes their addresses on,
   sealed. The head connects to them, if its network lets it.
5. Otherwise they *join* through the server: it tells the head a token, the head *takes* it over a
   further connection, and the server copies bytes between the two. Both ends speak TLS 1.3 through
   that, with the certificates in the record.
6. The server keeps nothing. After a restart heads and members connect again; the head's epoch, from
   its clock, decides if two claim the meeting. A claim is sealed as well, so that the server cannot
   make a head step down by itself.

Map:

- ``key``: the key, and what is derived from it
- ``wire``: the messages to and from the server, as bytes
- ``call``: the addresses on which a member listens for the head, as bytes
- ``client``: connections to the server
- ``leader``: the decisions of a head that leads a meeting, without I/O
- ``meeting``: a meeting at a bridge, in the place of a meeting file
"""
