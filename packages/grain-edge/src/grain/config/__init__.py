"""The configuration: ``grain.toml``, checked and complete, as one frozen value.

>>> from grain.config import load
>>> load(False).system
'local'

Nothing of a file is ignored: a key or a value that is not understood is a mistake, and one error
reports all mistakes of a file. Only ``search`` and ``loading`` do I/O; all others are pure
functions of the data, the environment and the time.

Each module of the map imports only from those above it.

Map:

- ``errors``: ``Mistake`` and ``ConfigError``, to be read as they are
- ``expansion``: from the text of a value to its meaning: $HOME and ~, {{HHMMSS}}, ``defer``
- ``walltime``: spans of time
- ``metrics``: the place of metrics
- ``shared``: the resources of the whole cluster, and commands that count them
- ``kinds``: the sorts of values, with the words in which to ask for them
- ``schema``: every key with its type, kind, default and meaning
- ``options``: the settings of a worker as options of its command
- ``suggestion``: the known key that is nearest to an unknown one
- ``check``: data against the schema; keys that follow from others
- ``search``: the nearest ``grain.toml``, and the check that no other user wrote it
- ``loading``: the choice of a file, and reading it
"""

from grain.config.errors import ConfigError as ConfigError
from grain.config.errors import Mistake as Mistake
from grain.config.expansion import Unfit as Unfit
from grain.config.expansion import expand_place as expand_place
from grain.config.expansion import split_defer as split_defer
from grain.config.expansion import stamp as stamp
from grain.config.loading import load as load
from grain.config.metrics import MetricsPlace as MetricsPlace
from grain.config.metrics import parse_metrics as parse_metrics
from grain.config.options import add_options as add_options
from grain.config.options import option_words as option_words
from grain.config.options import read_options as read_options
from grain.config.schema import Config as Config
from grain.config.schema import CustomSystem as CustomSystem
from grain.config.schema import EventLog as EventLog
from grain.config.schema import Gnaw as Gnaw
from grain.config.schema import Head as Head
from grain.config.schema import Reserve as Reserve
from grain.config.schema import Script as Script
from grain.config.schema import Shape as Shape
from grain.config.schema import Worker as Worker
from grain.config.schema import WorkerSettings as WorkerSettings
from grain.config.shared import with_counts as with_counts
from grain.config.walltime import format_walltime as format_walltime
from grain.config.walltime import parse_walltime as parse_walltime
