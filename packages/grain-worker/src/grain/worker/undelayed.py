"""Delayed functions on a worker, where there is no mission to submit to."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from grain.worker.call import name_of


class Undelayed(functools.partial[Any]):
    """The function that was decorated. A leaf may call it, and await it within its own run."""

    def __matmul__(self, _: object) -> NoReturn:
        raise RuntimeError(
            f"{name_of(self)} was given resources in a leaf, which runs on a worker, where delayed "
            "functions cannot be submitted. Call it in a branch: a delayed function without "
            "resources"
        )

    def __get__(self, instance: object, owner: type | None = None) -> Undelayed:
        """Bind the function to an instance, as a method."""
        return self if instance is None else Undelayed(self, instance)

    def with_urgency(self, _: object) -> Undelayed:
        """Return the function as it is: a call in a leaf waits for nothing."""
        return self
