"""The `grain` command.

Layout: this file is the group; each command lives in a file of its own and imports what it needs
when it runs, as the command has to start fast.
"""

from grain.cli._main import main as main
