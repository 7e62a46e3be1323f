"""Each command of `grain`, with words as users type them."""

from __future__ import annotations

from importlib.metadata import entry_points

from grain.cli import plugins

# As users type them; nothing of this may leave a process behind, so jobs go to a Slurm that is not
# there, and `grain map` reads a command line alone.
COMMANDS = {
    "--help": [],
    "--version": [],
    "attach": ["opt"],
    "bridge": ["key"],
    "cancel": ["-y", "opt"],
    "doctor": [],
    "history": [],
    "hold": ["1"],
    "init": [],
    "jobs": [],
    "logs": ["w*"],
    "ls": [],
    "missions": [],
    "needs": [],
    "drain": ["w*"],
    "queue": ["status"],
    "release": ["1"],
    "report": [],
    "resubmit": ["1"],
    "resume": ["opt"],
    "run": ["true"],
    "scale": ["--parent", "1", "1"],  # which is not its parent, so it ends at once
    "hq": [],
    "slurm": ["doctor"],
    "start": [],
    "submit": ["no-such-script"],  # which puts nothing into the queue
    "top": ["--once"],
    "up": [],
    "wait": ["1"],
    "why": ["opt:1"],
    "cache": ["ls"],
    "whatif": ["opt"],
    "map": ["--dry-run", "echo", ":::", "\u00e4"],
}


def available() -> dict[str, list[str]]:
    """Return the commands of the packages that are installed."""
    here = {point.name for point in entry_points(group=plugins.GROUP)}
    missing = plugins.ELSEWHERE.keys() - here
    return {name: words for name, words in COMMANDS.items() if name not in missing}
