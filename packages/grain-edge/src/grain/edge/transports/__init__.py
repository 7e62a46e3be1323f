"""Transports: trio streams to a peer that is authenticated.

A transport brings three things:

- a *stream* (`trio.abc.Stream`), for `FramedChannel`. If it can also write without waiting it is a
  `sockets.DirectWriter`, and single messages are written at once;
- a way to *listen*, and a way to *connect*, with deadlines set by the caller; cancellation closes
  everything;
- *authentication* before a byte of the peer is parsed: the kernel's word for Unix sockets, TLS 1.3
  on both sides for TCP, directories of mode 0700 for files.

A transport does no greetings, no heartbeats and no choice among routes. Besides its module here it
needs four small additions, which the docstring of `grain.edge` lists as steps: a field of
`MeetingRecord` (`meeting/block.py`), an offer (`connecting/offers.py`), a route
(`connecting/routes.py`), and its name in the tests of all transports. Named pipes on one host, for
example, would be a module with a stream over two descriptors; `unix` is the model to follow.

Map:

- ``unix``: Unix sockets
- ``tcp``: TCP, always with TLS
- ``tls``: TLS over a socket
- ``identity``: credentials of a meeting, and TLS contexts
- ``interfaces``: the addresses of this host, and those of them on which a head listens
- ``sockets``: reads and writes with one pass through the scheduler or none
- ``heartbeat``: the times between signs of life, and of silence until a loss
- ``liveness``: signs of life of a peer that sends nothing
- ``listening``: accept connections for as long as it takes
- ``file_stream``: a stream over two logs in a shared directory
- ``segments``: the logs, without I/O
- ``file_folder``: the logs' calls on the filesystem
"""
