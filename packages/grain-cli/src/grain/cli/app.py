"""The command `grain`: the group that all commands join."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from grain.cli import plugins
from grain.cli.options import config_option
from grain.cli.plugins import show_version
from grain.cli.streams import guarded

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class _Own(NamedTuple):
    """A command of this package: where it is, and its line in the list."""

    module: str
    help: str


# A command is imported when it is used: the imports of one must not slow down the others.
OWN = {
    "attach": _Own("grain.cli.missions.attach", "Follow the output of a mission."),
    "bridge": _Own("grain.cli.bridge.command", "Let several clusters meet: a server that relays."),
    "cancel": _Own(
        "grain.cli.status.cancel", "End a mission, one task of it, or jobs of the queue."
    ),
    "doctor": _Own("grain.cli.doctor.command", "Check this installation, and say what to fix."),
    "history": _Own("grain.cli.history.command", "Show what missions have done, past and present."),
    "hold": _Own("grain.cli.jobs.change", "Keep jobs from beginning until `grain release`."),
    "hq": _Own(
        "grain.cli.hq.setup", "Print the directory of a command that looks like HyperQueue's."
    ),
    "init": _Own("grain.cli.init.command", "Look around, and write a configuration."),
    "jobs": _Own("grain.cli.jobs.listing", "List jobs, or the tasks of one job."),
    "logs": _Own("grain.cli.workers.logs", "Show the output of workers, or of a task."),
    "ls": _Own("grain.cli.status.ls", "List workers, missions, and what waits and why."),
    "missions": _Own(
        "grain.cli.missions.listing", "List missions that can be followed, ended or resumed."
    ),
    "drain": _Own("grain.cli.workers.drain", "Let workers go."),
    "needs": _Own(
        "grain.cli.status.needs", "List the groups that learn how much memory their tasks need."
    ),
    "queue": _Own("grain.cli.jobs.queue", "Start, stop or look at the dispatcher of the queue."),
    "release": _Own("grain.cli.jobs.change", "Let held jobs begin."),
    "report": _Own("grain.cli.report.command", "Show what happened in a mission, on one page."),
    "resubmit": _Own("grain.cli.jobs.change", "Run jobs again that have ended."),
    "resume": _Own("grain.cli.missions.resume", "Start a mission again that was killed."),
    "run": _Own("grain.cli.missions.run", "Run a program as a mission."),
    "scale": _Own(
        "grain.cli.workers.scale", "Keep workers alive: N, or as many as the tasks need."
    ),
    "slurm": _Own(
        "grain.cli.slurm.setup.command", "Print the directory of commands that look like Slurm's."
    ),
    "start": _Own("grain.cli.workers.start", "Submit the mission itself as a job."),
    "submit": _Own("grain.cli.jobs.submit", "Put a job into the queue, and print its number."),
    "top": _Own("grain.cli.top.command", "Watch workers, missions and tasks."),
    "up": _Own("grain.cli.workers.up", "Submit workers, one per node."),
    "wait": _Own("grain.cli.jobs.wait", "Wait until jobs have ended."),
    "why": _Own("grain.cli.status.why", "Explain why a task waits or runs, or how it has ended."),
}


# The sections of the list of commands, in the order in which a newcomer needs them. Commands of
# packages that are not Grain's come last.
_SECTIONS = {
    "Run": ("run", "map", "start", "attach", "missions", "cancel", "resume"),
    "Jobs": ("submit", "jobs", "wait", "hold", "release", "resubmit", "queue", "slurm", "hq"),
    "Look": ("ls", "top", "why", "logs", "history", "report", "whatif", "needs"),
    "Workers": ("up", "scale", "drain"),
    "Set up": ("init", "doctor", "bridge", "cache"),
}

# The words that other programs have for them.
_MEANT = {
    "abort": "cancel", "check": "doctor", "configure": "init", "down": "drain", "explain": "why",
    "kill": "cancel", "list": "ls", "log": "logs", "parallel": "map",
    "past": "history", "predict": "whatif", "ps": "ls", "qdel": "cancel", "qstat": "jobs",
    "qsub": "submit", "quit": "drain", "sacct": "history", "sbatch": "submit",
    "scancel": "cancel",
    "simulate": "whatif", "squeue": "jobs", "stat": "ls", "status": "ls", "stop": "drain",
    "watch": "top", "workers": "ls",
}  # fmt: skip


class Lazy(click.Group):
    """A group that imports a command to run it, and not to list it.

    Its own commands are functions of the same name, each in its own module; `grain.cli.plugins`
    finds those of other packages.
    """

    def main(self, args: Any = None, *others: Any, **options: Any) -> Any:
        """Run the command; where it is the process's own, without any traceback."""
        if args is not None:
            return super().main(args, *others, **options)
        with guarded():
            return super().main(None, *others, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it with the exit status that shells have for that.

        Raises:
            Interrupted: on Ctrl-C; a command that leaves something behind has said that itself.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            from grain.cli.plugin import Interrupted

            raise Interrupted("interrupted") from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the words that are left.

        Raises:
            click.UsageError: there is none of that name; it says which one may be meant.
        """
        command = self.get_command(ctx, args[0])
        if command is not None:
            return args[0], command, args[1:]
        if ctx.resilient_parsing or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(self._unknown(ctx, args[0]), ctx)

    def _unknown(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        names = self.list_commands(ctx)
        word = name.lower()
        meant = [_MEANT[word]] if word in _MEANT else get_close_matches(word, names, n=1)
        advice = f"did you mean {meant[0]!r}?" if meant else f"there are {', '.join(names)}"
        return f"No such command {name!r}; {advice}"

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """List all commands."""
        return sorted(_lines())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in OWN:
            command = getattr(importlib.import_module(OWN[cmd_name].module), cmd_name)
            assert isinstance(command, click.Command)
            return command
        return super().get_command(ctx, cmd_name) or plugins.load(cmd_name)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - as click calls it
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands; click would import each for that."""
        lines = _lines()
        width = max(map(len, lines))
        for section, names in _SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:{width}}", lines.pop(name)) for name in names])
        if lines:
            with formatter.section("Commands of other packages"):
                formatter.write_dl(
                    [(f"{name:{width}}", line) for name, line in sorted(lines.items())]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands, importing none, and options."""
        from click.shell_completion import CompletionItem

        lines = sorted(_lines().items())
        items = [CompletionItem(name, help=line) for name, line in lines]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [item for item in items if item.value.startswith(incomplete)] + options


def _lines() -> dict[str, str]:
    """Return the line of `--help` for each command."""
    return {**plugins.lines(), **{name: own.help for name, own in OWN.items()}}


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version,
    help="Show the version and exit.",
)  # fmt: skip
@config_option
@click.pass_context
def main(ctx: click.Context, config_file: str | None) -> None:
    """Grain: a resource-aware scheduler for parallel external computing on clusters.

    \b
    Examples:
      grain up -n 2     two workers, as grain.toml describes them
      grain ls          what they do, and what waits and why
      grain map -r Cores=4 -- xtb {} ::: *.xyz
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    ctx.obj = config_file
    try:
        os.getcwd()  # noqa: PTH109 (pathlib takes a while to import)
    except FileNotFoundError:
        # A configuration is looked for from here; without it, a command would answer for another.
        # Commands of other packages look themselves, as their exit statuses have other meanings.
        if ctx.invoked_subcommand not in OWN:
            return
        raise click.ClickException("this directory was removed; change to another one") from None
