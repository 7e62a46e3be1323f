"""The connection to the scheduler: a thread that asks once a second, and asks more on request.

The thread has an event loop of trio's, and the screen one of asyncio's: what arrives is handed over
by a function that may be called from any thread.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import trio
from msgspec.structs import replace

from grain.cli.query import read
from grain.edge.questions import CODEC, Answer, Ask, OverviewAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.edge import Peer

_Form = TypeVar("_Form")

SECONDS = 1.0
"""Seconds between two looks."""

_SOON = 0.5  # the same while the scheduler has not looked at all its workers yet
_AGAIN = 2.0  # seconds until the scheduler is looked for again
_ANSWER = 30.0  # seconds for its answers
_PENDING = 1000  # questions without an answer, at most


class Seen(NamedTuple):
    """The result of a look."""

    answer: OverviewAnswer | None
    problem: str = ""


class Link:
    """A connection that comes back when it is lost.

    Args:
        on_seen: called in the thread with each look, and when the connection is lost.
        seconds: between two looks.
        patience: seconds to look for the scheduler, each time.
    """

    def __init__(
        self,
        address: str,
        on_seen: Callable[[Seen], object],
        *,
        seconds: float = SECONDS,
        patience: float = 2.0,
    ) -> None:
        self._address = address
        self._on_seen = on_seen
        self._seconds = seconds
        self._patience = patience
        self._thread = threading.Thread(target=self._run, name="grain top", daemon=True)
        self._lock = threading.Lock()
        # Set while the thread runs its loop.
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._peer: Peer | None = None
        self._last = 0
        # The form of the answer to each question, and who takes it.
        self._pending: dict[int, tuple[type[Any], Callable[[Any], object]]] = {}
        self._unsent: list[Ask] = []
        self._wake = trio.Event()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the connection, and wait for the thread; it takes a moment at most."""
        with self._lock:
            token = self._token
        if token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._scope.cancel)
        self._thread.join(1.0)

    def put(self, question: Ask, form: type[_Form], done: Callable[[_Form], object]) -> None:
        """Put a question; the answer comes in the thread or never."""
        with self._lock:
            token = self._token
        if token is not None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._enqueue, question, form, done)

    # ---- in the thread

    def _enqueue(self, question: Ask, form: type[Any], done: Callable[[Any], object]) -> None:
        if self._peer is None:
            return
        self._last += 1
        self._pending[self._last] = form, done
        if len(self._pending) > _PENDING:
            del self._pending[next(iter(self._pending))]
        self._unsent.append(replace(question, number=self._last))
        self._wake.set()

    def _run(self) -> None:
        trio.run(self._look)

    async def _look(self) -> None:
        with self._lock:
            self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            while True:
                try:
                    await self._watch()
                except Exception as error:
                    self._on_seen(Seen(None, problem(error, self._address)))
                self._peer = None
                self._pending.clear()
                self._unsent.clear()
                await trio.sleep(_AGAIN)

    async def _watch(self) -> None:
        from grain.edge import dial

        dialled = dial(self._address, role="cli", codec=CODEC, patience=self._patience)
        async with dialled as peer, trio.open_nursery() as nursery:
            self._peer = peer
            nursery.start_soon(self._send, peer)
            nursery.start_soon(self._receive, peer)
            nursery.start_soon(self._ask)

    async def _send(self, peer: Peer) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            unsent, self._unsent = self._unsent, []
            if unsent:
                await peer.channel.send([(question, None) for question in unsent])

    async def _receive(self, peer: Peer) -> None:
        while True:
            for message, payload in await peer.channel.receive():
                if isinstance(message, Answer):
                    pending = self._pending.pop(message.number, None)
                    if pending is not None:
                        form, done = pending
                        done(read(peer, payload, form))

    async def _ask(self) -> None:
        """Look again and again; a scheduler that does not answer is looked for again."""
        while True:
            answered = trio.Event()
            seen: list[OverviewAnswer] = []

            def done(
                answer: OverviewAnswer,
                answered: trio.Event = answered,
                seen: list[OverviewAnswer] = seen,
            ) -> None:
                seen.append(answer)
                answered.set()

            self._enqueue(Ask("overview"), OverviewAnswer, done)
            with trio.fail_after(_ANSWER):
                await answered.wait()
            self._on_seen(Seen(seen[0]))
            await trio.sleep(_SOON if seen[0].more_workers else self._seconds)


def problem(error: BaseException, address: str) -> str:
    """Return why a scheduler cannot be asked, as a sentence."""
    from grain.cli.query import NOBODY, members
    from grain.edge.errors import DialError

    while len(inner := members(error)) == 1:
        error = inner[0]
    if isinstance(error, DialError):
        return f"no scheduler answers at {address}: {NOBODY}"
    if isinstance(error, trio.TooSlowError):
        return f"the scheduler at {address} does not answer"
    reason = str(error) or "it has ended the connection"
    return f"the scheduler at {address} cannot be asked: {reason}"
