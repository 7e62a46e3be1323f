"""Helpers around delayed objects: how many at once, and in which order they are looked at.

    from grain.util import QueueLimiter, as_completed

Layout: ``_limiter`` is `QueueLimiter`, ``_nursery`` the same for plain trio tasks, ``_completed``
`as_completed`, ``_numpy`` a short repr for arrays.
"""

from grain.util.completed import AsCompleted as AsCompleted
from grain.util.completed import as_completed as as_completed
from grain.util.limiter import QueueLimiter as QueueLimiter
from grain.util.numpy_repr import set_numpy_oneline_repr as set_numpy_oneline_repr
from grain.util.nursery import LimitedNursery as LimitedNursery
from grain.util.nursery import open_nursery_with_capacity as open_nursery_with_capacity
