"""The structured frontend: blocks that wait for the tasks that were started in them.

    from grain.combine import exec1, open_waitgroup, run

A mission is the same for both frontends: waitgroups can be opened wherever delayed functions can
be called, and the other way round. A task of a group is a task of the mission whose node reports
its end to the group.

Map:

- ``block``: `open_waitgroup` and `exec1`: the block around a group, and a group of one
- ``waitgroup``: the group: its tasks, their failures, their results
- ``errors``: the errors of this package
"""

from grain.combine.block import exec1 as exec1
from grain.combine.block import open_waitgroup as open_waitgroup
from grain.combine.errors import CombineError as CombineError
from grain.combine.errors import ResultsNotReady as ResultsNotReady
from grain.combine.errors import WaitGroupClosed as WaitGroupClosed
from grain.combine.waitgroup import WaitGroup as WaitGroup
from grain.delayed import run as run
