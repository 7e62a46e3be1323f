"""Batch systems: one small interface, and what stands behind it.

>>> from grain.cli.batch import open_system
>>> from grain.config import load
>>> system = open_system(load(False))
"""

# The general layout:
#
#   errors.py         BatchError: what was refused, in the batch system's words, and the remedy
#   _base.py          BatchSystem (script, submit, states, cancel); Job, Submitted, State
#   _shell.py         the part of a script that the shell runs
#   _directives.py    the lines that the batch system reads
#   _slurm_text.py    Slurm's scripts and answers
#   _pbs_text.py      those of PBS, in both dialects
#   _custom_text.py   the user's template
#   _command.py       running commands
#   _systems.py       Slurm, Pbs, Custom
#   _local.py         Local: processes of this machine
#   _open.py          which of them a configuration means
#   _worker.py        the job that a worker is
#   _mission.py       the job that a mission is
#   _records.py       what was submitted, in files
#
# The files up to _custom_text.py, _worker.py and _mission.py are pure.

from grain.cli.batch.base import BatchJob as BatchJob
from grain.cli.batch.base import BatchSystem as BatchSystem
from grain.cli.batch.base import JobState as JobState
from grain.cli.batch.base import Phase as Phase
from grain.cli.batch.base import SubmittedJob as SubmittedJob
from grain.cli.batch.errors import BatchError as BatchError
from grain.cli.batch.errors import BatchUnreachable as BatchUnreachable
from grain.cli.batch.errors import BatchUnsupported as BatchUnsupported
from grain.cli.batch.opening import open_local as open_local
from grain.cli.batch.opening import open_system as open_system
from grain.cli.batch.opening import state_folder as state_folder
from grain.cli.batch.records import JobRecord as JobRecord
from grain.cli.batch.records import JobRecords as JobRecords
from grain.cli.batch.scripts.mission import mission_job as mission_job
from grain.cli.batch.scripts.worker import worker_job as worker_job
