"""The mission's side of a scheduler that missions share.

Layout: `_session` is what a mission remembers and says, without I/O; `_functions` has its functions
as bytes; `_connection` finds the scheduler, or starts it; `_link` keeps connected to it;
`_executor` is the shell around all; `_hosting` has the scheduler within, with a `_local` worker.
"""

from grain.remote_exer.connection import Gnaw as Gnaw
from grain.remote_exer.executor import RemoteExecutor as RemoteExecutor
from grain.remote_exer.hosting import HostingExecutor as HostingExecutor
from grain.remote_exer.session import MissionSession as MissionSession
from grain.remote_exer.session import Resolution as Resolution
