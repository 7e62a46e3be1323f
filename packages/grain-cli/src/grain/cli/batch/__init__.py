"""Batch systems: one small interface, and the systems behind it.

>>> from grain.cli.batch import open_system
>>> from grain.config import load
>>> system = open_system(load(False))

Map:

- ``base``: the interface of a batch system, its jobs and their states
- ``errors``: refusals, in the batch system's words, and the remedy
- ``opening``: the batch system of a configuration
- ``command``: running a command
- ``system_commands``: the system's own commands, where Grain has some of the same names
- ``answers``: reading what a command has printed
- ``records``: the records of submitted jobs, in files
- ``ended``: which batch jobs are over, for the dispatcher of a queue
- ``tracked``: jobs that may or may not have been submitted: looked for, and adopted
- ``systems/``: each batch system: its scripts, its answers, and the commands that it runs
- ``scripts/``: job scripts as text, as far as they are the same for all of them
"""

from grain.cli.batch.base import WAITING as WAITING
from grain.cli.batch.base import BatchJob as BatchJob
from grain.cli.batch.base import BatchSystem as BatchSystem
from grain.cli.batch.base import JobPhase as JobPhase
from grain.cli.batch.base import JobState as JobState
from grain.cli.batch.base import SubmittedJob as SubmittedJob
from grain.cli.batch.errors import BatchError as BatchError
from grain.cli.batch.errors import BatchUnreachable as BatchUnreachable
from grain.cli.batch.errors import BatchUnsupported as BatchUnsupported
from grain.cli.batch.errors import SubmissionUnknown as SubmissionUnknown
from grain.cli.batch.opening import open_local as open_local
from grain.cli.batch.opening import open_system as open_system
from grain.cli.batch.records import JobRecord as JobRecord
from grain.cli.batch.records import JobRecords as JobRecords
from grain.cli.batch.records import is_mark as is_mark
from grain.cli.batch.records import job_name as job_name
from grain.cli.batch.records import mark_of as mark_of
from grain.cli.batch.records import name_of as name_of
from grain.cli.batch.records import submitted_names as submitted_names
from grain.cli.batch.scripts.jobs import mission_job as mission_job
from grain.cli.batch.scripts.jobs import worker_job as worker_job
from grain.eventlog.names import state_folder as state_folder
