"""Channels: messages in frames, over a stream or within one process.

Theory of operation. A channel has a sending half and a receiving half, which decide without I/O,
and a shell that reads and writes:

- `Writer` holds the queue of frames (`FrameEncoder`) and the state of what is sent. It decides
  whether a message is written at once, by the task that sends it, or by the channel's writer task
  in its next turn. Its module has the rules and the table of states.
- `FrameDecoder` makes messages of whatever pieces arrive. Amid a large payload it shows the shell
  where the next bytes belong, so that the kernel puts them there.
- `FramedChannel` is the shell, over any trio stream.

Two ways to send: `send` waits while much else is still to be written; `post` never waits, for
senders that something else bounds. Messages arrive in the order in which they were sent.

Within one process a `MemoryChannel` hands over the very objects.

Map:

- ``channel``: the interface of a channel
- ``frames``: the layout of frames, their encoder and decoder, without I/O
- ``writer``: what is written when, and by which task, without I/O
- ``framed_channel``: the channel over a stream, with its heartbeat
- ``memory_channel``: the channel within one process
"""
