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

from grain.config._expand import split_defer as split_defer
from grain.config._expand import stamp as stamp
from grain.config._load import load as load
from grain.config._schema import Config as Config
from grain.config._schema import CustomSystem as CustomSystem
from grain.config._schema import Gnaw as Gnaw
from grain.config._schema import Head as Head
from grain.config._schema import HeldBack as HeldBack
from grain.config._schema import Script as Script
from grain.config._schema import Worker as Worker
from grain.config._walltime import format_walltime as format_walltime
from grain.config._walltime import parse_walltime as parse_walltime
from grain.config.errors import ConfigError as ConfigError
from grain.config.errors import Mistake as Mistake
