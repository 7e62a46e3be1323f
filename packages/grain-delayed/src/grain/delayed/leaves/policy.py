"""`LeafPolicy`: the options of `delayed` on caching and retries, checked and put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grain.delayed.cache.key import Caching
from grain.delayed.leaves.retry import Retry, make_retry
from grain.worker.call import name_of

if TYPE_CHECKING:
    from grain.worker import Call


class LeafPolicy(NamedTuple):
    """The caching and the retries of the tasks of one delayed function; None where there is none.

    Branches, too, are retried, and never cached.
    """

    caching: Caching | None
    retry: Retry | None

    def check_branch(self, call: Call) -> None:
        """Refuse what a branch cannot do.

        Raises:
            TypeError: a branch has no request that a retry could change.
        """
        if self.retry is not None and self.retry.escalate is not None:
            raise TypeError(
                f"{name_of(call.fn)} was called without resources, so there is no request that "
                "retry_with could change: bind some with @, or leave retry_with out"
            )


LEARNING = LeafPolicy(None, None)
"""Of a function whose group learns its memory: a task that had too little is tried with more."""


def make_policy(
    cache_hfn: Any, cache_version: Any, retries: Any, on: Any, escalate: Any, wait: Any
) -> LeafPolicy | None:
    """Check the options; return the policy, None if they ask for neither caching nor retries.

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
    retry = make_retry(retries, on, escalate, wait)
    caching = None if cache_hfn is None else Caching(cache_hfn, str(cache_version))
    return None if caching is None and retry is None else LeafPolicy(caching, retry)
