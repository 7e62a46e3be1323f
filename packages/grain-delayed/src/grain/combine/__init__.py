"""The structured frontend: blocks that wait for the jobs that were started in them.

    from grain.combine import exec1, open_waitgroup, run

A mission is the same for both frontends: waitgroups can be opened wherever delayed functions can
be called, and the other way round. Layout: ``_waitgroup`` is the group of jobs, ``_open`` its
block and `exec1`.
"""

from grain.combine.block import exec1 as exec1
from grain.combine.block import open_waitgroup as open_waitgroup
from grain.combine.errors import CombineError as CombineError
from grain.combine.errors import ResultsNotReady as ResultsNotReady
from grain.combine.errors import WaitGroupClosed as WaitGroupClosed
from grain.combine.waitgroup import WaitGroup as WaitGroup
from grain.delayed import run as run
