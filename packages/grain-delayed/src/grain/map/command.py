"""The click command; only this module needs click, which comes with grain-cli.

Here exceptions become messages and exit statuses: 255 for anything but a failed job, as with GNU
parallel, since smaller numbers count failed jobs.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grain.map.errors import MapError, RequestError, sentence_of
from grain.map.halting import INTERRUPTED, NEVER, TROUBLE, Tally, parse_halt
from grain.map.inputs.words import STDIN, take_apart
from grain.map.refused import instead_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.map.plan import MapOptions
    from grain.resource import Resource


# The key of the words of the command line in the context.
_WORDS = "grain.map.words"
# The longest command that is printed as a whole, in characters: where it is asked for, and as a
# line that is most often not needed.
_LONG = 4000
_SHORT = 400


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
        words = list(args[1] if len(args) > 1 else kwargs["args"])
        try:
            context = super().make_context(*args, **kwargs)
            context.meta[_WORDS] = words
        except click.UsageError as error:
            message = error.format_message()
            if isinstance(error, click.NoSuchOption):
                hint = instead_of(error.option_name)
                if hint is not None:
                    message = f"No such option: {error.option_name}; {hint}."
            raise _Misuse(message, error.ctx) from None
        return context


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
    "-j", "--jobs", "-P", "--max-procs", "jobs", metavar="N",
    help="Run on this machine, at most N jobs at a time; +N, -N, N%: relative to its CPUs.",
)  # fmt: skip
@click.option(
    "--local", metavar="Kind=value,...",
    help="Run on this machine, with these resources, as in Cores=8,Memory=16.",
)  # fmt: skip
@click.option("--shell", is_flag=True, help="The command is one line for sh, with pipes and all.")
@click.option("-a", "--arg-file", "files", multiple=True, metavar="FILE", help="Inputs: its lines.")
@click.option("-0", "--null", is_flag=True, help="Lines of files end with a null character.")
@click.option("-C", "--colsep", metavar="REGEX", help="Split each input into columns {1}, {2}, ...")
@click.option("--csv", is_flag=True, help="Each input is a row of comma-separated values.")
@click.option(
    "--header", metavar=":",
    help="The first input names the columns: {name}.",
)  # fmt: skip
@click.option("-k", "--keep-order", is_flag=True, help="Print outputs in the order of the inputs.")
@click.option(
    "--results", metavar="NAME",
    help="Write outputs to files: NAME/{#}/stdout and stderr, or a name such as out/{/.}.log; "
    "or to a table: FILE.csv, FILE.tsv.",
)  # fmt: skip
@click.option("--tag", is_flag=True, help="Print the input before each line of output.")
@click.option("--tagstring", metavar="TEXT", help="Print a text such as {/.} before each line.")
@click.option(
    "--wd", "--workdir", "workdir", metavar="DIR",
    help="Run each job in this directory, as in work/{#}; it is made if it is not there.",
)  # fmt: skip
@click.option(
    "--joblog", "--jl", "joblog", metavar="FILE", help="Write a line for each job that ended."
)
@click.option("--resume", is_flag=True, help="Do not run again what ended by the joblog.")
@click.option("--resume-failed", is_flag=True, help="The same, but run again what failed.")
@click.option("--by-command", is_flag=True, help="Know jobs again by command, not by number.")
@click.option(
    "--retries", "tries", default=1, type=click.IntRange(1, 1000), metavar="N",
    help="Run a job that fails up to N times in all.",
)  # fmt: skip
@click.option("--timeout", metavar="SECONDS", help="End a job after so long; also 10m, 2h, 1d.")
@click.option(
    "--warn", metavar="FILE|SIG",
    help="Ask a job to stop before it is ended, by a file it looks for, or a signal.",
)  # fmt: skip
@click.option("--warn-before", metavar="SECONDS", help="So long before.  [default: 60]")
@click.option("--delay", metavar="SECONDS", help="Start jobs at least so far apart.")
@click.option("--shuf", "shuffle", is_flag=True, help="Run the jobs in random order.")
@click.option(
    "--env", "variables", multiple=True, metavar="NAME",
    help="Give this environment variable to the jobs.",
)  # fmt: skip
@click.option(
    "--halt", "--halt-on-error", "halt", default="never", metavar="WHEN,WHY",
    help="Stop early: now,fail=1 or soon,fail=3; also success= and done=.",
)  # fmt: skip
@click.option(
    "--dry-run", "--dryrun", "dry_run", is_flag=True, help="Print the commands and run nothing."
)
@click.option("--no-progress", is_flag=True, help="Show no progress.")
# What GNU parallel does by these options is always done here.
@click.option(
    "--group", "--no-keep-order", "--silent", "--gnu", "--plain", "--bar", "--eta", "--progress",
    "_always", is_flag=True, expose_value=False, hidden=True,
)  # fmt: skip
@click.option(
    "-d", "--detach", is_flag=True,
    help="Go on when the user logs out; `grain attach map` shows the output.",
)  # fmt: skip
@click.option("--name", default="map", metavar="NAME", help="Name of the mission, with -d.")
@click.option("-c", "--config", "config_file", metavar="FILE", help="Configuration to use.")
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [::: VALUES | :::: FILES]..."
)
@click.pass_context
def map_command(
    ctx: click.Context, /, dry_run: bool, detach: bool, name: str, **given: Any
) -> None:
    """Run a command for each input, as jobs on workers.

    Inputs are the values after :::, the lines of files after :::: or of standard input. In the
    command, {} is the input, {.} without its extension, {/} without its directories, {//} its
    directory, {/.} without both, {#} the number of the job, {%} its slot, {2} the second column.

    The exit status is the number of jobs that failed, 101 for more than 100, 255 for other errors.

    \b
    grain map -r Cores=4 --wd 'opt/{/.}' -- xtb "$PWD"/{} --opt ::: *.xyz
    grain map -j 2 --shell 'sort {} | uniq -c > {.}.txt' ::: *.log
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    # Imported when something runs, so that help and completion start fast.
    import trio

    from grain.delayed.errors import MissionCancelled
    from grain.map import detached, mission, output

    tally = Tally(NEVER)
    try:
        plan = _plan(ctx, **given)
        if dry_run:
            trio.run(mission.dry_run, plan)
            return
        detached.detach_if(detach, ctx, plan, ctx.meta[_WORDS], name=name, config=_chosen(ctx))
        tally = Tally(plan.halt)
        with output.streams_of_jobs():
            trio.run(mission.run_map, plan, tally)
    # The second for SIGTERM and SIGHUP, the third for `grain cancel`.
    except (KeyboardInterrupt, SystemExit, MissionCancelled) as error:
        if not dry_run:
            click.echo(
                f"grain map: interrupted: {tally.summary()}; nothing is left running", err=True
            )
            _suggest_resume(ctx, "--resume")
        if isinstance(error, SystemExit):
            raise
        ctx.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone; Python must not try to flush to it once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        ctx.exit(TROUBLE)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        raise _Trouble(sentence) from None
    _report_end(ctx, tally)
    ctx.exit(tally.exit_status())


def _report_end(ctx: click.Context, tally: Tally) -> None:
    """Print how the jobs ended, and what to do about failed ones."""
    if not tally.total:
        _put_line("grain map: there was no input, so nothing was run")
        return
    _put_line(f"grain map: {tally.summary()}")
    if tally.halted and tally.halt.why == "fail":
        _suggest_resume(ctx, "--resume-failed")
    elif tally.failed and not tally.halted and ctx.params["joblog"] is not None:
        command = _command_with(ctx, "--resume-failed", _SHORT)
        if command is not None:
            _put_line(f"Run them again: {command}")
    if tally.failed and tally.log:
        _put_line(f"Which jobs failed, and why: grain history --failed {tally.log}")


def _suggest_resume(ctx: click.Context, option: str) -> None:
    """Print the command that goes on where this one has ended."""
    if ctx.params["joblog"] is None:
        _put_line(
            "To go on where a run ended, it needs a log: --joblog FILE. Then --resume goes on."
        )
        return
    command = _command_with(ctx, option, _LONG)
    if command is None:
        command = f"the same command, with {option} before its other options"
        command += _same_stdin(ctx)
    _put_line(f"To go on: {command}")


def _command_with(ctx: click.Context, option: str, most: int) -> str | None:
    """Return this command with an option that makes it resume, to be typed as it is.

    None if it is longer than so many characters, as with thousands of names from a pattern, or if
    it would upset the terminal.
    """
    words = [word for word in ctx.meta[_WORDS] if word not in ("--resume", "--resume-failed")]
    # What stands before them: an option of `grain` itself, and the name of this command.
    before = sys.argv[1 : len(sys.argv) - len(ctx.meta[_WORDS])] or ["map"]
    command = shlex.join(["grain", *before, option, *words])
    if len(command) > most or not command.isprintable():
        return None
    return command + _same_stdin(ctx)


def _same_stdin(ctx: click.Context) -> str:
    sources = take_apart(ctx.params["words"], ctx.params["files"])[1]
    if STDIN in (source.file for source in sources):
        return "   (with the same standard input)"
    return ""


def _put_line(line: str) -> None:
    with suppress(OSError):  # the exit status has to be right also where this cannot be printed
        click.echo(line, err=True)


def _plan(ctx: click.Context, **given: Any) -> MapOptions:
    """Return the options as a plan.

    Raises:
        MapError: the options contradict one another.
    """
    from grain.inputs.splitting import Columns
    from grain.map.detached import resume_mode
    from grain.map.inputs.requests import parse_jobs
    from grain.map.plan import MapOptions
    from grain.resource import from_data, learns, to_data, with_group

    try:
        Path.cwd()
    except FileNotFoundError:
        raise MapError("this directory was removed; change to another one") from None
    command, sources = take_apart(given["words"], given["files"])
    stdin = sys.stdin if [source.file for source in sources] == [STDIN] else None
    if stdin is not None and stdin.isatty():
        click.echo("grain map: reading inputs from the terminal; Ctrl-D ends them", err=True)
    resume = given["resume"] or given["resume_failed"]
    if resume and given["joblog"] is None:
        raise MapError("--resume needs the --joblog FILE of the run that it goes on with")
    if given["by_command"] and not resume:
        raise MapError("--by-command makes --resume identify jobs by their commands; add --resume")
    _check_results(**given)
    if given["joblog"] is not None and given["joblog"].startswith("+"):
        raise MapError(f"--joblog {given['joblog']}: write it without the +; --resume adds lines")
    if given["workdir"] == "...":
        raise MapError("--wd ...: name the directory of each job, as in --wd 'work/{#}'")
    if given["header"] not in (None, ":"):
        raise MapError(
            f"--header {given['header']}: write --header : for the first line; cut other headers, "
            "as by tail -n +3"
        )
    for key, option in (("joblog", "--joblog"), ("results", "--results"), ("workdir", "--wd")):
        given[key] = _place(option, given[key])
    at_once = None
    if given["jobs"] is not None:
        at_once = parse_jobs(given["jobs"], len(os.sched_getaffinity(0)))
    request, local = _resources(given["res"], at_once, given["local"])
    if learns(request):
        program = (shlex.split(command[0]) or command if given["shell"] else command)[:1]
        name = Path(*program).name or "map"
        request = from_data(with_group(to_data(request), name))
    timeout = _seconds("--timeout", given["timeout"]) or None
    warn, before = _warning(given["warn"], given["warn_before"], timeout)
    config_file = given["config_file"] or _chosen(ctx)
    return MapOptions(
        command=command,
        sources=sources,
        columns=Columns(given["colsep"], csv=given["csv"]),
        request=request,
        local=local,
        at_once=at_once,
        # Jobs that run only on this machine need no configuration, unless one is named.
        config_file=config_file or (None if local is None else False),
        shell=given["shell"],
        null=given["null"],
        header=given["header"] is not None,
        joblog=given["joblog"],
        resume=resume_mode(given["resume"], given["resume_failed"], given["joblog"]),
        by_command=given["by_command"],
        results=given["results"],
        workdir=given["workdir"],
        tag=given["tagstring"]
        if given["tagstring"] is not None
        else "{}"
        if given["tag"]
        else None,
        keep_order=given["keep_order"],
        tries=given["tries"],
        timeout=timeout,
        warn=warn,
        warn_before=before,
        delay=_seconds("--delay", given["delay"]),
        shuffle=given["shuffle"],
        env=_environment(given["variables"]),
        halt=parse_halt(given["halt"]),
        progress=False if given["no_progress"] else None,
    )


def _warning(
    text: str | None, before: str | None, timeout: float | None
) -> tuple[tuple[str, str] | int | None, float]:
    """Return what warns a job, None for nothing, and how many seconds before its end."""
    from grain.inputs.warning import BEFORE, check_before, parse_warning

    seconds = _seconds("--warn-before", before) if before is not None else BEFORE
    if text is None:
        if before is not None:
            raise MapError(f"--warn-before {before}: add --warn FILE or --warn SIGNAL")
        return None, seconds
    warn = parse_warning(text)
    check_before(seconds, timeout, "--timeout")
    return warn, seconds


def _chosen(ctx: click.Context) -> str | None:
    """Return what `grain -c FILE` names, see grain.cli.plugin."""
    chosen = ctx.find_root().obj
    return chosen if isinstance(chosen, str) else None


def _resources(
    res: str | None, jobs: int | None, local: str | None
) -> tuple[Resource, Resource | None]:
    """Return the resources of each job, and those of the worker on this machine, if any."""
    from grain.map.inputs.requests import parse_request, parse_supply
    from grain.resource import Capacity, Cores, Memory

    if res is not None and not {"=", "("} & set(res):
        raise RequestError(
            f"-r {res}: -r and --res state what each job needs, as in -r Cores=4,Memory=8. What "
            "they do in GNU parallel is done here by --results; and nothing runs without input"
        )
    request = None if res is None else parse_request(res)
    if local is not None:
        supply = parse_supply(local)
        if jobs is not None:
            supply = supply & Capacity(jobs)
    elif jobs is None:
        return request or Cores(1), None
    elif request is None:
        # So many at a time, bound to no core: as -j elsewhere.
        return Capacity(1), Capacity(jobs)
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        cores = Cores(len(os.sched_getaffinity(0)))  # whichever are free
        supply = cores & Memory(round(memory, 3)) & Capacity(jobs)
    return request or Cores(1), supply


def _check_results(
    results: str | None, keep_order: bool, tag: bool, tagstring: str | None, **_: Any
) -> None:
    """Refuse options for outputs that contradict one another."""
    from grain.map.job_log.table import is_table

    if results is None:
        return
    if results.endswith(".json"):
        raise MapError(
            f"--results {results}: write {results[:-5]}.csv for a table of all jobs, or a name "
            "with replacements, as out/{#}.txt, for a file of each"
        )
    if keep_order:
        order = "sort the table by its first column" if is_table(results) else "leave -k out"
        raise MapError(f"-k orders what is printed, and --results prints nothing of it: {order}")
    if tag or tagstring is not None:
        raise MapError(
            "--tag and --tagstring begin lines that are printed, and --results prints none: leave "
            "them out"
        )


def _environment(names: Sequence[str]) -> dict[str, str] | None:
    """Return the variables of these names.

    Raises:
        MapError: there is no such variable.
    """
    for name in names:
        if name == "_":
            raise MapError("--env _: name each variable, as in --env PATH --env OMP_STACKSIZE")
        if name in os.environ:
            continue
        if f"BASH_FUNC_{name}%%" in os.environ:
            raise MapError(f"--env {name}: it is a function of bash; write it into a script")
        raise MapError(f"--env {name}: there is no such variable here; export {name} first")
    return {name: os.environ[name] for name in names} or None


def _seconds(option: str, text: str | None) -> float:
    """Return a span of time in seconds, 0 for none; a number without a unit is one of seconds.

    Raises:
        MapError: the text is not a span of time.
    """
    from grain.resource import unit_seconds

    if text is None:
        return 0.0
    seconds = unit_seconds(text if text[-1:].isalpha() else f"{text}s")
    if not seconds and not (option == "--delay" and text == "0"):
        percent = " A share of the median, as 200%, is not known here." if "%" in text else ""
        raise MapError(f"{option} {text}: write seconds, or 90s, 10m, 2h, 1d.{percent}")
    return seconds or 0.0


def _place(option: str, text: str | None) -> str | None:
    """Return a name with ~ and variables filled in: in quotes, as {} needs, no shell does so.

    Raises:
        MapError: a variable is not set.
    """
    from grain.config import Unfit, expand_place
    from grain.eventlog.names import with_home

    try:
        return None if text is None else expand_place(text, with_home(os.environ))
    except Unfit as error:
        raise MapError(f"{option} {text}: {error}") from None
