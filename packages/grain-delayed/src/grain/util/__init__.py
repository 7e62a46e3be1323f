"""Helpers around delayed objects: limits on their number, and the order of their ends.

    from grain.util import QueueLimiter, as_completed

Map:

- ``limiter``: `QueueLimiter`: a limit on the calls that have not ended
- ``nursery``: `open_nursery_with_capacity`: the same for plain trio tasks
- ``capacity``: the places that both hand out, in trio and asyncio alike
- ``completed``: `as_completed`: delayed objects as they finish
- ``numpy_repr``: a short repr of NumPy arrays
"""

from grain.util.completed import AsCompleted as AsCompleted
from grain.util.completed import as_completed as as_completed
from grain.util.limiter import QueueLimiter as QueueLimiter
from grain.util.numpy_repr import set_numpy_oneline_repr as set_numpy_oneline_repr
from grain.util.nursery import LimitedNursery as LimitedNursery
from grain.util.nursery import open_nursery_with_capacity as open_nursery_with_capacity
