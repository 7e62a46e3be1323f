"""Tasklets that go on until they are cancelled."""

from __future__ import annotations

import trio


class Hanging:
    """Tasklets that note how they begin and end; it takes them a second to clean up."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []

    async def hang(self, i: int) -> None:
        self.began.append(i)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            self.ended.append(i)
