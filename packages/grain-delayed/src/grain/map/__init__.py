"""``grain map``: a command template run once for each input, as leaves, without writing Python.

The layout follows the way of an input. Without I/O, and without click:

- ``_words`` takes the command line apart into the template and its sources
- ``_splitting`` makes records of bytes: lines, columns, CSV
- ``_template`` fills a record into the template, as arguments or quoted for the shell
- ``_requests`` reads ``Cores=4,WTime=1:00:00``
- ``_entries`` are the lines of the result log, and what they say about a job that comes again
- ``_halting`` counts failures, decides when that is enough, and what the exit status is

The shells around them: ``_sources`` reads inputs as streams, ``_joblog`` appends to the result
log, ``_output`` prints in order, ``_run`` is the mission, ``_command`` the click command, which is
an entry point in the group ``grain.commands``. Nothing else here needs click.
"""

from grain.map.errors import InputError as InputError
from grain.map.errors import LogError as LogError
from grain.map.errors import MapError as MapError
from grain.map.errors import RequestError as RequestError
from grain.map.errors import TemplateError as TemplateError
