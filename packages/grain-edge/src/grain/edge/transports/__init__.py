"""Transports: trio streams to a peer that is authenticated.

A transport brings three things:

- a *stream* (`trio.abc.Stream`), for `FramedChannel`. If it can also write without waiting it is a
  `sockets.DirectWriter`, and messages that are sent alone are written at once;
- a way to *listen*, and a way to *connect*, with deadlines set by the caller; cancellation closes
  everything;
- *authentication* before a byte of the peer is parsed: the kernel's word for Unix sockets, TLS 1.3
  on both sides for TCP, directories of mode 0700 for files.

What a transport does not do: greetings, heartbeats, choice among routes. It enters the two tables
of `grain.edge.connecting`: `offers.OFFERS` (the head listens) and `routes.DIRECT` or
`routes.THROUGH_FILES` (the dialler connects). As an example, named pipes on one host would be a
module here with a stream over two descriptors, a field `pipes` of `MeetingRecord`, an offer and a
route; `unix` is the model to follow.

Map:

- ``unix``: Unix sockets
- ``tcp``: TCP, always with TLS
- ``tls``: TLS over a socket
- ``identity``: credentials of a meeting, and TLS contexts
- ``interfaces``: the addresses of this host
- ``sockets``: reads and writes with one pass through the scheduler or none
- ``listening``: accept connections for as long as it takes
- ``file_stream``: a stream over two logs in a shared directory
- ``file_log``: the logs, without I/O
- ``file_folder``: the logs' calls on the filesystem
"""
