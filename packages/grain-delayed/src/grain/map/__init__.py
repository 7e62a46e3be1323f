"""``grain map``: a command template run once for each input, as leaves, without writing Python.

The way of an input: ``inputs`` reads it as a record, and `grain.inputs` fills the record into the
template; ``mission`` makes a job of it, unless the result log says that it has ended before;
``jobs`` submits the job as a leaf and awaits it; its end goes to the result log, to the tally that
decides when to halt, and to the printer of outputs. No more than a thousand jobs wait for resources
at a time, so memory stays flat however long the input is.

Only ``command`` needs click; it is an entry point in the group ``grain.commands``.

Map:

- ``command``: the click command: options, exit statuses, messages
- ``detached``: ``-d``: the same command, started by ``grain run``
- ``plan``: the options as one value
- ``mission``: the mission of a call, from the first input to the last end
- ``inputs/``: from words, files and standard input to records
- ``results``: the files, directories and tags of each job
- ``jobs``: jobs that run: submitted, awaited, retried, written down
- ``job_log/``: the result log: its lines, and its file; the table of results
- ``overflow``: the files of outputs that are too large for memory
- ``output``: the outputs of jobs, printed one job at a time
- ``failures``: the jobs that failed, in groups by their ends
- ``halting``: the count of failures, the decision to halt, the exit status
- ``refused``: the options of GNU parallel that are missing, with what to do instead
- ``errors``: the errors of this package
"""

from grain.map.errors import MapError as MapError
from grain.map.errors import RequestError as RequestError
from grain.map.errors import ResultLogError as ResultLogError
