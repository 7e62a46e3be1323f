"""Processes in a row that pass on what comes, as it is: what a round trip through them takes.

The floor under the round trip of a task, which Gnaw, agent and runner read, decide about and write
at each station.

python -m tools.bench._chain FD [FD]
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

import trio

TIMES = 2000
MESSAGE = bytes(200)


async def serve(*ends: socket.socket) -> None:
    """Send back what comes, or pass it on to the next process, and what comes from there back."""
    streams = [trio.SocketStream(trio.socket.from_stdlib_socket(end)) for end in ends]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry, streams[0], streams[-1])
        if len(streams) > 1:
            nursery.start_soon(carry, streams[1], streams[0])


async def carry(source: trio.SocketStream, sink: trio.SocketStream) -> None:
    """Pass messages on until there are no more."""
    async for data in source:
        await sink.send_all(data)
    if sink is not source:
        await sink.send_eof()


async def there_and_back(end: socket.socket) -> float:
    """Return the median microseconds of a message of 200 bytes."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(end))
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await stream.send_all(MESSAGE)
        await stream.receive_some()
        times.append(time.perf_counter() - began)
    await stream.send_eof()
    return statistics.median(times) * 1e6


def floor(stations: int) -> float:
    """Return the microseconds of a round trip through so many processes and back."""
    with ExitStack() as stack:
        first, last = socket.socketpair()
        for station in range(stations):
            ends = [last]
            if station < stations - 1:
                near, last = socket.socketpair()
                ends.append(near)
            fds = [end.fileno() for end in ends]
            words = [sys.executable, "-m", "tools.bench._chain", *map(str, fds)]
            process = subprocess.Popen(words, pass_fds=fds)
            stack.callback(process.wait)
            for end in ends:
                end.close()
        return trio.run(there_and_back, first)


if __name__ == "__main__":
    trio.run(serve, *(socket.socket(fileno=int(fd)) for fd in sys.argv[1:]))
