"""The configuration: ``grain.toml``, checked and complete, as one frozen value.

>>> from grain.config import load
>>> load(False).system
'local'
"""

# The general layout:
#
#   errors.py     Mistake, ConfigError: what is wrong, for people to read
#   _expand.py    $HOME and ~, {{HHMMSS}}, defer: from what is written to what is meant
#   _walltime.py  spans of time
#   _kinds.py     what one value may be, and how to ask for it
#   _schema.py    every key: type, kind, default, meaning
#   _suggest.py   the nearest known key
#   _check.py     data against the schema; what follows from other keys
#   _load.py      which file it is, and reading it: the only file with I/O
#
# Each imports from those above it only.

from grain.config.errors import ConfigError as ConfigError
from grain.config.errors import Mistake as Mistake
from grain.config.expansion import split_defer as split_defer
from grain.config.expansion import stamp as stamp
from grain.config.loading import load as load
from grain.config.schema import Config as Config
from grain.config.schema import CustomSystem as CustomSystem
from grain.config.schema import Gnaw as Gnaw
from grain.config.schema import Head as Head
from grain.config.schema import HeldBack as HeldBack
from grain.config.schema import Script as Script
from grain.config.schema import Worker as Worker
from grain.config.walltime import format_walltime as format_walltime
from grain.config.walltime import parse_walltime as parse_walltime
