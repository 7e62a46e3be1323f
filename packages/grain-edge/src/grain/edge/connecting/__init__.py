"""Dialling and serving: from an address to a channel.

Theory of operation. The dialler reads the meeting file and gets a list of routes, the best first.
They are tried in a race, each with a head start before the next: a route that works costs nothing
more, a route that the site forbids costs its head start. Each route ends in a stream that is
authenticated (by the kernel, by TLS, or by a directory of mode 0700) and greeted. Then the dialler
joins on the winner, and only then does the head's program see a peer; all others are closed.

A dialler keeps looking at the meeting file: while no head serves, and also during a race, since
slow routes to a head that has died would else delay it although a successor leads.

A head claims the meeting, makes an offer by each transport, publishes them in the meeting file and
watches it. Every connection, by whatever transport, is handed to the one `Acceptor`, which greets
the peer and runs the program's handler. An error of one peer ends only its own task.

At the path of a Unix socket there is no meeting file: the head that has the name leads. A head that
does not answer for a minute loses it, and quits when it sees another socket there.

Rules:

1. Nothing of a peer is parsed before it is authenticated, and nothing but greetings of 4 KiB
   before it is welcomed.
2. Cancellation of a route leaves nothing behind: no file, no listener, no stream.
3. What leaves `serve` leaves it as it is, not within an exception group.

Map:

- ``dial``: find the head of an address and reach it; patience
- ``routes``: the dialler's side of each transport, and the tables `DIRECT` and `INDIRECT`
- ``seeking``: the search for a direct way while files or a relay carry the connection
- ``race``: several routes at once, the first that works wins
- ``serve``: claim, offer, publish, watch, clean up
- ``offers``: the head's side of each transport, and the table `OFFERS`
- ``accept``: authenticate and greet who connects, then run the handler; detours of members
- ``greeting``: the first frames of a connection
- ``handshake_limiter``: limits for connections that are not authenticated yet
- ``reverse``: TCP in reverse: the dialler listens, the head connects
- ``mailbox``: the meeting's directory, by which diallers without a route call the head
- ``peer``: the other end of a channel, as the program sees it
"""
