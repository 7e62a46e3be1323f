"""The runner's process: ``python -m grain.worker.runner.main NAME [CONTEXT]``, its channel on fd 3.

It serves a `Runner` until its agent closes the channel, or dies. A subreaper starts it
(`grain.worker.guards`), and ends whatever it leaves behind.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from functools import partial
from typing import TYPE_CHECKING

import trio

from grain.edge.channel import FramedChannel
from grain.edge.errors import ChannelError
from grain.worker.messages import Ready
from grain.worker.processes.child_setup import set_up_child
from grain.worker.runner.context import ContextError, user_context
from grain.worker.runner.runner import Runner
from grain.worker.runner.watchdog import Watchdog
from grain.worker.runner.wire import BLOCKED, CODEC, HEARTBEAT
from grain.worker.runner.wire_translation import WireTranslation

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

if TYPE_CHECKING:
    from grain.edge.messages import WireBytes

CONTEXT_FAILED, AGENT_GONE = 3, 4


def main() -> None:
    """Serve as the runner's process until its agent ends it."""
    caught = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)
    sock = set_up_child(b"grain-runner", caught)
    name, context = sys.argv[1], (*sys.argv[2:], "")[0]
    # User code is not to see our command line.
    sys.argv[1:] = []
    code = trio.run(partial(serve, sock, name, context))
    sys.stdout.flush()
    sys.exit(code)


async def serve(sock: socket.socket, name: str, context: str) -> int:
    """Serve runs over a socket until its other end is closed; return the exit code."""
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    async with FramedChannel(stream, CODEC, HEARTBEAT) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        code = await serve_in_context(channel, name, context)
        nursery.cancel_scope.cancel()
    return code


async def serve_in_context(channel: FramedChannel, name: str, context: str) -> int:
    """Enter the user's context, serve, leave it; return the exit code."""
    entered, code = False, None
    try:
        async with user_context(context):
            entered = True
            await channel.send([(Ready(), None)])
            code = await serve_runs(channel, name)
    except Exception as error:
        if entered and code is None:
            raise  # not the context's fault
        traceback.print_exc()
        if not entered:
            why = str(error) if isinstance(error, ContextError) else repr(error)
            await channel.send([(Ready(why[:4000]), None)])
        return CONTEXT_FAILED
    return code


async def serve_runs(channel: FramedChannel, name: str) -> int:
    """Serve runs; return the exit code."""
    translation = WireTranslation(f"{name} (host {socket.gethostname()}, pid {os.getpid()})")
    runner: Runner[WireBytes, WireBytes] = Runner(name, channel, translation)
    try:
        await runner.serve()
    except BaseExceptionGroup as group:
        if group.split(ChannelError)[1] is not None:
            raise
        return AGENT_GONE
    return 0


async def watch() -> None:
    """Print the stacks of all threads when the event loop has been blocked for long."""
    with Watchdog(BLOCKED) as watchdog:
        while True:
            watchdog.feed()
            await trio.sleep(HEARTBEAT.interval)


if __name__ == "__main__":
    main()
