"""What the options of `delayed` on caching and retries amount to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grain.delayed.cache.key import Caching
from grain.delayed.leaves.retry import Retry, check
from grain.worker.job import name_of

if TYPE_CHECKING:
    from grain.worker import Call


class Care(NamedTuple):
    """What is to be done about the tasks of a delayed function besides running them."""

    caching: Caching | None
    retry: Retry | None

    def check_branch(self, call: Call) -> None:
        """Refuse what a branch cannot do.

        Raises:
            TypeError: it has no request that a retry could change.
        """
        if self.retry is not None and self.retry.escalate is not None:
            raise TypeError(
                f"{name_of(call.fn)} was called without resources, so there is no request that "
                "retry_with could change: bind some with @, or leave retry_with out"
            )


def make_care(
    cache_hfn: Any, cache_version: Any, retries: Any, on: Any, escalate: Any, wait: Any
) -> Care | None:
    """The options, checked; None if there is nothing to care for.

    Raises:
        TypeError, ValueError: an option makes no sense.
    """
    if cache_hfn is not None and cache_hfn != "args" and not callable(cache_hfn):
        raise TypeError(
            f"cache_hfn={cache_hfn!r}: give a function of the call's arguments, or 'args' for a "
            "digest of the arguments themselves"
        )
    if not isinstance(cache_version, str | int) or isinstance(cache_version, bool):
        raise TypeError(f"cache_version={cache_version!r}: a version is a str or an int")
    if cache_version != "" and cache_hfn is None:
        raise TypeError("cache_version does nothing without cache_hfn")
    retry = check(retries, on, escalate, wait)
    caching = None if cache_hfn is None else Caching(cache_hfn, str(cache_version))
    return None if caching is None and retry is None else Care(caching, retry)
