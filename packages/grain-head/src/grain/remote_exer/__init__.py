"""The mission's side of a scheduler that missions share.

Layout: `_session` is what a mission remembers and says, without I/O.
"""

from grain.remote_exer._session import MissionSession as MissionSession
from grain.remote_exer._session import Resolution as Resolution
