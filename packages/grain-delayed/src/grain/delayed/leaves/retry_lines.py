"""Which retries are told of: the first few of a sort, then the tenth, the hundredth, and so on.

A thousand tasks that a licence server does not answer need no thousand lines.
"""

from __future__ import annotations

import collections

FIRST = 3
"""How many of a sort are told of one by one."""


class RetryLines:
    """The lines about the retries of one mission.

    A sort is a function and a type of exception: what has not been seen before is always told.
    """

    def __init__(self) -> None:
        self._counts: collections.Counter[tuple[str, type[BaseException]]] = collections.Counter()

    def line(self, function: str, error: BaseException, text: str) -> str | None:
        """What to tell of a retry.

        Args:
            function: the name of what failed.
            error: how.
            text: all there is to say.

        Returns:
            The text, perhaps with how many there were; None for nothing.
        """
        self._counts[function, type(error)] += 1
        count = self._counts[function, type(error)]
        if count < FIRST:
            return text
        if count == FIRST:
            return f"{text}; of more like this, only the 10th, 100th, ... are told"
        if set(str(count)[1:]) == {"0"} and str(count)[0] == "1":
            return f"{text}; {count} like this so far"
        return None
