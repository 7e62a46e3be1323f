"""The click command; only this module needs click, which comes with grain-cli.

Here exceptions become messages and exit statuses: 255 for anything but a failed job, as with GNU
parallel, since smaller numbers count failed jobs.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from grain.map.errors import MapError
from grain.map.halting import INTERRUPTED, TROUBLE, parse_halt
from grain.map.inputs.words import STDIN, take_apart

if TYPE_CHECKING:
    from grain.map.plan import Plan
    from grain.resource import Resource


# Options of GNU parallel that users will try, with the replacements.
_INSTEAD = {
    ("-S", "--sshlogin", "--sshloginfile", "--slf"): "workers join by `grain up`",
    ("--pipe", "--pipepart", "--pipe-part", "--block", "--recstart", "--recend"): (
        "a job reads nothing; give it a file, as in --shell 'wc < {}'"
    ),
    ("-X", "-m", "-n", "-N", "--max-args", "-L", "--max-replace-args", "--xargs"): (
        "each input is one job; several columns come from several sources or --colsep"
    ),
    ("-I", "-U", "--rpl", "--plus"): "the replacements are fixed: {} {.} {/} {//} {/.} {#} {1}",
    ("--link", "--xapply"): "link sources by :::+ and ::::+",
    ("--bar", "--progress", "--eta"): "progress is shown on a terminal; --no-progress ends that",
    ("-u", "--ungroup", "--lb", "--line-buffer"): (
        "outputs are printed job by job; --results writes them while jobs run"
    ),
    ("--tag", "--tagstring"): "--results keeps the output of each job apart",
    ("-d", "--delimiter"): "inputs are lines, or end with a null character with -0; see --colsep",
    ("-q", "--quote"): "values are never read by a shell",
    ("-i", "--replace"): "{} is replaced anyway",
    ("-v", "-t", "--verbose"): "--dry-run prints the commands, --joblog has those that ran",
    ("--will-cite", "--citation"): "nothing is to be cited",
    ("--load", "--memfree", "--noswap", "--limit"): "state what a job needs: -r 'Cores=1,Memory=4'",
    ("--nice",): "programs inherit the nice value of the worker",
    ("--env",): "jobs have the worker's environment; --shell 'X=1 prog {}' sets a variable",
    ("--transfer", "--transferfile", "--tf", "--return", "--cleanup", "--trc", "--basefile"): (
        "workers share a file system with this directory"
    ),
    ("--retry-failed",): "--resume-failed runs once more what failed",
    ("-P", "--max-procs"): "it is -j here",
    ("--delay", "--shuf", "--sem", "--semaphore", "--tmux", "--sql", "--sqlmaster"): (
        "there is nothing like it"
    ),
}


class _Trouble(click.ClickException):
    exit_code = TROUBLE


class _Misuse(click.UsageError):
    exit_code = TROUBLE


class MapCommand(click.Command):
    """A command whose usage errors, too, have the exit status of trouble."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line.

        Raises:
            click.UsageError: the command line makes no sense.
        """
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            message = error.format_message()
            if isinstance(error, click.NoSuchOption):
                for names, hint in _INSTEAD.items():
                    if error.option_name in names:
                        message = f"No such option: {error.option_name}; {hint}."
            raise _Misuse(message, error.ctx) from None


@click.command(
    "map",
    cls=MapCommand,
    context_settings={
        "allow_interspersed_args": False,  # what follows the program's name is the program's
        "help_option_names": ["-h", "--help"],
    },
    options_metavar="[OPTIONS] [--]",
)
@click.option(
    "-r", "--res", metavar="Kind=value,...",
    help="What each job needs, as in Cores=4,Memory=8,WTime=1:00:00 (GB; h:mm:ss).  "
    "[default: Cores=1; nothing with -j]",
)  # fmt: skip
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), metavar="N",
    help="Run on this machine, at most N jobs at a time.",
)  # fmt: skip
@click.option(
    "--local", metavar="Kind=value,...",
    help="Run on this machine, with these resources, as in Cores=8,Memory=16.",
)  # fmt: skip
@click.option("--shell", is_flag=True, help="The command is one line for sh, with pipes and all.")
@click.option("-a", "--arg-file", "files", multiple=True, metavar="FILE", help="Inputs: its lines.")
@click.option("-0", "--null", is_flag=True, help="Lines of files end with a null character.")
@click.option("--colsep", metavar="REGEX", help="Split each input into columns {1}, {2}, ...")
@click.option("--csv", is_flag=True, help="Each input is a row of comma-separated values.")
@click.option(
    "--header", type=click.Choice([":"]), metavar=":",
    help="The first input names the columns: {name}.",
)  # fmt: skip
@click.option("-k", "--keep-order", is_flag=True, help="Print outputs in the order of the inputs.")
@click.option(
    "--results", metavar="NAME",
    help="Write outputs to files: NAME/{#}/stdout and stderr, or a name such as out/{/.}.log.",
)  # fmt: skip
@click.option(
    "--wd", "--workdir", "workdir", metavar="DIR",
    help="Run each job in this directory, as in work/{#}; it is made if it is not there.",
)  # fmt: skip
@click.option("--joblog", metavar="FILE", help="Write a line for each job that ended.")
@click.option("--resume", is_flag=True, help="Do not run again what ended by the joblog.")
@click.option("--resume-failed", is_flag=True, help="The same, but run again what failed.")
@click.option("--by-command", is_flag=True, help="Know jobs again by command, not by number.")
@click.option(
    "--retries", "tries", default=1, type=click.IntRange(1, 1000), metavar="N",
    help="Run a job that fails up to N times in all.",
)  # fmt: skip
@click.option("--timeout", metavar="SECONDS", help="End a job after so long; also 10m, 2h, 1d.")
@click.option(
    "--halt", default="never", metavar="WHEN,WHY",
    help="Stop early: now,fail=1 or soon,fail=3; also success= and done=.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the commands and run nothing.")
@click.option("--no-progress", is_flag=True, help="Show no progress.")
@click.option("-c", "--config", "config_file", metavar="FILE", help="Configuration to use.")
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [::: VALUES | :::: FILES]..."
)
@click.pass_context
def map_command(ctx: click.Context, /, dry_run: bool, **given: Any) -> None:
    """Run a command for each input, as jobs on workers.

    Inputs are the values after :::, the lines of files after :::: or of standard input. In the
    command, {} is the input, {.} without its extension, {/} without its directories, {//} its
    directory, {/.} without both, {#} the number of the job, {2} the second column.

    The exit status is the number of jobs that failed, 101 for more than 100, 255 for other errors.

    \b
    grain map -r Cores=4 --wd 'opt/{/.}' -- xtb "$PWD"/{} --opt ::: *.xyz
    grain map -j 2 --shell 'sort {} | uniq -c > {.}.txt' ::: *.log
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    # Imported when something runs, so that help and completion start fast.
    import trio

    from grain.map import mission

    try:
        plan = _plan(ctx, **given)
        if dry_run:
            trio.run(mission.dry_run, plan)
            return
        tally = trio.run(mission.run_map, plan)
    except KeyboardInterrupt:
        ctx.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone; Python must not try to flush to it once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        ctx.exit(TROUBLE)
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise _Trouble(sentence) from None
    if not tally.total:
        click.echo("grain map: there was no input, so nothing was run", err=True)
    else:
        click.echo(f"grain map: {tally.summary()}", err=True)
    ctx.exit(tally.exit_status())


def _plan(ctx: click.Context, **given: Any) -> Plan:
    """Return the options as a plan.

    Raises:
        MapError: the options contradict one another.
    """
    from grain.map.inputs.splitting import Columns
    from grain.map.plan import Plan

    command, sources = take_apart(given["words"], given["files"])
    stdin = sys.stdin if [source.file for source in sources] == [STDIN] else None
    if stdin is not None and stdin.isatty():
        click.echo("grain map: reading inputs from the terminal; Ctrl-D ends them", err=True)
    resume = given["resume"] or given["resume_failed"]
    if resume and given["joblog"] is None:
        raise MapError("--resume needs the --joblog FILE of the run that it goes on with")
    if given["by_command"] and not resume:
        raise MapError("--by-command makes --resume identify jobs by their commands; add --resume")
    if given["keep_order"] and given["results"] is not None:
        raise MapError("-k orders what is printed, and --results prints nothing; use one of them")
    request, local = _resources(given["res"], given["jobs"], given["local"])
    chosen = ctx.find_root().obj  # what `grain -c FILE` names, see grain.cli.plugin
    config_file = given["config_file"] or (chosen if isinstance(chosen, str) else None)
    return Plan(
        command=command,
        sources=sources,
        columns=Columns(given["colsep"], csv=given["csv"]),
        request=request,
        local=local,
        at_once=given["jobs"],
        # Jobs that run on this machine alone need no configuration, unless one is named.
        config_file=config_file or (None if local is None else False),
        shell=given["shell"],
        null=given["null"],
        header=given["header"] is not None,
        joblog=given["joblog"],
        resume="succeeded" if given["resume_failed"] else "ended" if resume else "no",
        by_command=given["by_command"],
        results=given["results"],
        workdir=given["workdir"],
        keep_order=given["keep_order"],
        tries=given["tries"],
        timeout=_seconds(given["timeout"]),
        halt=parse_halt(given["halt"]),
        progress=False if given["no_progress"] else None,
    )


def _resources(
    res: str | None, jobs: int | None, local: str | None
) -> tuple[Resource, Resource | None]:
    """Return the resources of each job, and those of the worker on this machine, if any."""
    from grain.map.inputs.requests import parse_request
    from grain.resource import Capacity, Cores, Memory

    request = None if res is None else parse_request(res)
    if local is not None:
        supply = parse_request(local)
        if jobs is not None:
            supply = supply & Capacity(jobs)
    elif jobs is None:
        return request or Cores(1), None
    elif request is None:
        # So many at a time, bound to no core: as -j elsewhere.
        return Capacity(1), Capacity(jobs)
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        cores = Cores(sorted(os.sched_getaffinity(0)))
        supply = cores & Memory(round(memory, 3)) & Capacity(jobs)
    return request or Cores(1), supply


def _seconds(text: str | None) -> float | None:
    """Return a span of time in seconds; a number without a unit is one of seconds."""
    from grain.resource import unit_seconds

    if text is None:
        return None
    seconds = unit_seconds(text if text[-1:].isalpha() else f"{text}s")
    if not seconds:
        percent = " A share of the median, as 200%, is not known here." if "%" in text else ""
        raise MapError(f"--timeout {text}: write seconds, or 90s, 10m, 2h, 1d.{percent}")
    return seconds


def _sentence(error: Exception) -> str | None:
    """Return the message for an error that the user can act upon; None for any other."""
    from grain.config import ConfigError
    from grain.edge.errors import EdgeError
    from grain.resource import Infeasible, ResourceError

    if isinstance(error, OSError) and error.strerror:
        name = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return f"{name}{error.strerror}"
    if isinstance(error, Infeasible):
        return f"{error}\nIn terms of grain map: -r asks for less, -j and --local give more."
    if isinstance(error, (MapError, ConfigError, EdgeError, ResourceError, OSError)):
        return str(error)
    return None
