"""`SentAhead`: the tasks that wait in lanes for the end of another one. No I/O.

A lane has several calls (`grain.remote_exer.lanes`), of which each begins when the one before it
has ended, without a message. So the mission keeps the order, and knows which of its tasks run.
"""

from __future__ import annotations


class SentAhead:
    """The order of the tasks in each lane of a mission.

    Attributes:
        behind: by each task that waits in a lane, the one for whose end it waits.
        following: the reverse of that.
        used: True from `add` on, until whoever notes which tasks have begun has set it back.
    """

    __slots__ = ("behind", "following", "used")

    def __init__(self) -> None:
        self.behind: dict[int, int] = {}
        self.following: dict[int, int] = {}
        self.used = False

    def add(self, task: int, before: int) -> bool:
        """Put a task behind another one; return False if its place makes no sense."""
        if task == before or before in self.following or task in self.behind:
            return False
        self.behind[task] = before
        self.following[before] = task
        self.used = True
        return True

    def on_over(self, task: int) -> int:
        """Take a task out that is over, or was sent elsewhere.

        Returns:
            The task that begins with its end; 0 if none does.
        """
        after = self.following.pop(task, 0)
        before = self.behind.pop(task, 0)
        if not before:
            if after:
                del self.behind[after]
            return after
        # It had not begun: what waits for it waits for the one before.
        if after:
            self.behind[after] = before
            self.following[before] = after
        else:
            del self.following[before]
        return 0

    def clear(self) -> None:
        """Forget all of them."""
        self.behind.clear()
        self.following.clear()
