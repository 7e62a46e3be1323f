"""Trio is a guest in asyncio's loop: beside the loop's own tasks, and without a trace."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import outcome
import pytest
import trio

from grain.delayed import NotInMission
from grain.resource import Cores
from grain_testkit.asyncio_programs import add, asyncio_run, here, wait_for


def test_asyncio_goes_on_meanwhile() -> None:
    """Tasks of asyncio and of trio run side by side, and each wakes the other."""

    async def main() -> str:
        event = trio.Event()
        async with here():
            r_ = wait_for(event)
            asyncio.get_running_loop().call_later(0.01, event.set)
            return await r_

    assert "waited" == asyncio_run(main)


def test_the_guest_of_another_library() -> None:
    """A mission belongs inside of the trio run that there is."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        event = trio.Event()
        trio.lowlevel.start_guest_run(
            event.wait,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=done.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        with pytest.raises(RuntimeError, match="has a trio run already"):
            async with here():
                pass
        with pytest.raises(NotInMission):
            add(1, 2)
        event.set()
        ended = await done
        assert isinstance(ended, outcome.Value)

    asyncio_run(main)


def test_import_does_not_bring_in_asyncio() -> None:
    """A trio program does not pay for it."""
    code = "import sys, grain.delayed; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False\n" == done.stdout


def test_nothing_is_left_of_the_guest() -> None:
    """No thread, no file descriptor, whatever the number of missions."""

    def files() -> list[str]:
        return os.listdir("/proc/self/fd")

    async def main() -> None:
        for _ in range(3):
            async with here(Cores(1)):
                await (add @ Cores(1))(1, 2)

    asyncio_run(main)
    gc.collect()  # what other tests have left is not to go meanwhile
    before, threads = len(files()), set(threading.enumerate())
    asyncio_run(main)
    assert before == len(files())
    # Trio keeps a thread for the next one that wants it, for ten seconds. If those were over
    # between the two runs there is a new one, which ends as well.
    deadline = time.monotonic() + 120
    while not set(threading.enumerate()) <= threads and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(threading.enumerate()) <= threads


def test_a_thread_that_is_late_holds_nothing_of_a_program_that_a_signal_has_ended() -> None:
    """Threads of trio may hold what they have delivered when the interpreter ends.

    What they hold then is never collected: Python would not flush a file that is open there.
    """
    held: list[Any] = []

    class Loop(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(  # type: ignore[override]  # mypy: `Any` is not its `*Ts`
            self, callback: Any, *args: Any, context: Any = None
        ) -> Any:
            held.append(callback)  # as the thread does that calls this
            return super().call_soon_threadsafe(callback, *args, context=context)

    class File: ...

    async def main() -> None:
        async with here():
            while not held:
                await add(1, 2)
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(60)

    def program() -> weakref.ref[File]:
        file = File()
        loop = Loop()
        # A mission overrides no handler, and a test before may have left one.
        before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            with pytest.raises(SystemExit, match="143"):
                loop.run_until_complete(main())
        finally:
            signal.signal(signal.SIGTERM, before)
        loop.close()
        return weakref.ref(file)

    file = program()
    gc.collect()
    assert file() is None
