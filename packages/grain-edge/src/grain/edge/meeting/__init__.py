"""The meeting: one meeting file, its directory, and the head that leads.

Theory of operation. A meeting is a file on a filesystem that all hosts share. Shared filesystems
promise little: locks may not work, other clients see changes seconds late, a rename leaves a hole,
a server may be away for minutes. Everything here relies on two promises that each of them keeps:
exclusive creation of a name succeeds once, and a block of 4096 bytes written in place is read
either old or new.

A head claims the leadership with a number, the epoch: it creates `P.d/claim.<epoch>` above every
claim that exists. Then it writes the meeting file, and looks every 15 s whether a higher claim has
come; then it steps down. So two heads may believe for 15 s that they lead, but their epochs differ,
and peers follow the higher one. Before a claim the incumbent is checked: a head that lives is not
replaced.

Every call on the filesystem runs in a thread with a deadline, as a call on a mount whose server is
away blocks in the kernel. A thread that is abandoned does its work later: every caller can bear
that.

Map:

- ``place``: what a head and its diallers need of a meeting, wherever it is
- ``meeting``: claim, publish, watch
- ``block``: the content of the meeting file, without I/O
- ``notify``: changes of a file, as far as the kernel reports them
- ``files``: files and directories that only this user may touch
- ``disk``: threads with deadlines
"""
