"""The `grain` command.

Layout: `_main` is the group, `_plugins` finds the commands of other packages, `plugin` has what
all commands need. Each command lives in a file of its own and imports what it needs when it runs,
as the command has to start fast.
"""

from grain.cli.app import main as main
