"""The runs that an agent has, and the intended end of each."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from grain.worker.messages import RunOver

if TYPE_CHECKING:
    from grain.worker.messages import Lease, RunMessage


class Wish(enum.Enum):
    """The intended end of a run that has not ended yet."""

    COMPLETE = enum.auto()
    """The run is to end by itself."""
    CANCEL = enum.auto()
    """The head has revoked the run."""
    RETURN = enum.auto()
    """The worker leaves, and hands the run back."""


class RunRecord:
    """A run that has not ended.

    Attributes:
        began: when it came.
        news: what it has said, if anything.
    """

    __slots__ = ("began", "lease", "news", "wish")

    def __init__(self, lease: Lease, began: float) -> None:
        self.lease = lease
        self.began = began
        self.wish = Wish.COMPLETE
        self.news: RunMessage | None = None

    @property
    def over(self) -> bool:
        """True if the run uses its resources no more."""
        return isinstance(self.news, RunOver)
