"""Points in time on the way of messages through a process of Grain, for `tools.bench.hops`.

python -m tools.bench._trace FILE MODULE [WORD ...]

It runs a module and writes to FILE what `Trace.events` has in the end. For a runner it is the
context module, and the environment names the file.

Nothing of Grain knows of this: it wraps three methods of a channel, in its own process, and trio
says when the process has woken up.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from grain.edge.framing.frames import FrameDecoder
from grain.edge.framing.writer import Writer
from grain.edge.transports.sockets import SocketWriter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from grain.edge.buffers import Buffer
    from grain.edge.channel import WireBatch
    from grain.edge.messages import Message, Payload

FILE_OF_RUNNER = "GRAIN_BENCH_TRACE"
"""The variable with the path of the file for the trace of a runner."""

Event = tuple[str, float, float, list[str]]
"""What was done, when that began and ended in seconds of the monotonic clock, with which messages.

``woke``: trio's wait for I/O ended; ``decoded``, ``encoded``, ``wrote``.
"""


class Trace(trio.abc.Instrument):
    """What a process does with its messages, from `tracing` on."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - as trio calls it
        """Note that the process is awake."""
        now = time.perf_counter()
        self.events.append(("woke", now, now, []))


@contextmanager
def tracing() -> Iterator[Trace]:
    """Trace the channels of this process; the caller adds the trace to trio's instruments."""
    trace = Trace()
    add, clock = trace.events.append, time.perf_counter
    feed, put, write_now = FrameDecoder.feed, Writer.put, SocketWriter.write_now

    def traced_feed(self: FrameDecoder, data: Buffer) -> list[tuple[Message, Payload]]:
        began = clock()
        out = feed(self, data)
        add(("decoded", began, clock(), [type(message).__name__ for message, _ in out]))
        return out

    def traced_put(self: Writer, batch: WireBatch) -> None:
        began = clock()
        put(self, batch)
        add(("encoded", began, clock(), [type(message).__name__ for message, _ in batch]))

    def traced_write(self: SocketWriter, buffers: Sequence[Buffer]) -> int:
        began = clock()
        done = write_now(self, buffers)
        add(("wrote", began, clock(), []))
        return done

    classes: Any = (FrameDecoder, Writer, SocketWriter)
    for class_, name, traced in zip(
        classes,
        ("feed", "put", "write_now"),
        (traced_feed, traced_put, traced_write),
        strict=True,
    ):
        setattr(class_, name, traced)
    try:
        yield trace
    finally:
        FrameDecoder.feed, Writer.put, SocketWriter.write_now = feed, put, write_now  # type: ignore[method-assign]


@asynccontextmanager
async def grain_context() -> AsyncIterator[None]:
    """Trace a runner, as its context; the file gets the events when the runner leaves."""
    with tracing() as trace:
        trio.lowlevel.add_instrument(trace)
        yield
        trio.lowlevel.remove_instrument(trace)
    write(os.environ[FILE_OF_RUNNER], trace)


def write(file: str, trace: Trace) -> None:
    """Write a trace to a file."""
    Path(file).write_text(json.dumps(trace.events))


def main(file: str, module: str, *words: str) -> None:
    """Run a module as a program, and write its trace."""
    sys.argv[:] = [module, *words]
    with tracing() as trace:
        run = trio.run

        def traced_run(*args: Any, **more: Any) -> Any:
            return run(*args, instruments=[trace], **more)

        trio.run = traced_run  # type: ignore[assignment]
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        finally:
            write(file, trace)


if __name__ == "__main__":
    main(*sys.argv[1:])
