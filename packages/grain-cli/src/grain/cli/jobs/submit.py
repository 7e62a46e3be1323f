"""``grain submit``: put a job into the queue."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from grain.cli.options import config_option, json_option
from grain.cli.plugin import chosen_config, print_json, report_errors
from grain.cli.queue.opening import dispatcher_state, open_queue, queue_errors, queue_option
from grain.cli.show import clean
from grain.cli.streams import announced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grain.cli.jobs.inputs import FileInputs
    from grain.cli.queue.submission import SubmitOptions, SubmittedFrom

# Options of the command, which a script cannot give.
_NOT_OF_JOB = ("wait", "parsable", "as_json", "directives", "config_file", "words")
_GIVEN = ParameterSource.COMMANDLINE
# Words of sbatch and hq that people type, and what to write here.
_CORES, _MEMORY, _GPUS = "-r Cores=4", "-r Memory=8, in GB", "-r GPUs=1"
_NO_PARTITION = "[script] of grain.toml, as workers and not jobs ask the batch system"
_INSTEAD = {
    **dict.fromkeys(("--cpus", "--cpus-per-task", "--cores", "--ncpus"), _CORES),
    **dict.fromkeys(("-m", "--mem", "--memory", "--mem-per-cpu", "--mem-per-node"), _MEMORY),
    **dict.fromkeys(("-G", "--gpus", "--gres", "--gpus-per-node", "--resource"), _GPUS),
    **dict.fromkeys(("-p", "--partition", "-A", "--account", "-q", "--qos"), _NO_PARTITION),
    **dict.fromkeys(("-d", "--dependency"), "--after 12"),
    **dict.fromkeys(("--ntasks", "--tasks"), "--ranks 8"),
    **dict.fromkeys(("--ntasks-per-node", "--tasks-per-node"), "--ranks, for all nodes together"),
    **dict.fromkeys(("--time-limit", "--time-request", "--walltime"), "--time 2h"),
    "--pty": "--wait, as no terminal reaches a worker",
    "--wrap": "the command after --, as in: grain submit -- bash -c 'a; b'",
    "--job-name": "--name NAME",
    "--output": "--stdout FILE",
    "--error": "--stderr FILE",
    "--input": "--stdin FILE",
    "--chdir": "--cwd DIR",
    "--export": "--env NAME=VALUE",
    "--exclusive": "-r Cores=all",
    "-L": "-r Licences=vasp:2",
    "--licenses": "-r Licences=vasp:2",
    "--max-fails": "--halt fail=3",
    "--crash-limit": "--retries 3, or --no-requeue",
}  # fmt: skip


class _SubmitCommand(click.Command):
    """A command that names the right option for words of sbatch and hq."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line.

        Raises:
            click.UsageError: the command line makes no sense.
        """
        try:
            return super().make_context(*args, **kwargs)
        except click.NoSuchOption as error:
            if instead := _INSTEAD.get(error.option_name):
                text = f"there is no {error.option_name} here: use {instead}"
                raise click.UsageError(text, error.ctx) from None
            raise


@click.command(
    cls=_SubmitCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [--]",
)
@click.option("-J", "--name", metavar="NAME", help="Name of the job.  [default: of the script]")
@click.option(
    "-r", "--res", metavar="Kind=value,...",
    help="What each task needs, as Cores=4,Memory=8 (GB).  [default: Cores=1]",
)  # fmt: skip
@click.option(
    "-N", "--nodes", type=click.IntRange(1, 10_000), metavar="N",
    help="It takes N workers at once; each gives what -r says.",
)  # fmt: skip
@click.option(
    "-n", "--ranks", type=click.IntRange(1, 100_000), metavar="N",
    help="It starts N processes, as mpirun does, which share its cores.",
)  # fmt: skip
@click.option(
    "-t", "--time", metavar="SPAN",
    help="Time limit, as 2h or 1:30:00; a task begins only where so much time is left.",
)  # fmt: skip
@click.option(
    "-a", "--array", metavar="LIST",
    help="Run a task for each number, as 1-100 or 1-9:2,20; %4 at the end: 4 at a time.",
)  # fmt: skip
@click.option(
    "--each-line", metavar="FILE",
    help="Run a task for each line; {} in the command and $GRAIN_ENTRY are the line.",
)  # fmt: skip
@click.option(
    "--csv", metavar="FILE", help="Run a task for each row; {1}, {2}, ... are its columns."
)
@click.option(
    "--header", metavar=":", type=click.Choice([":"]),
    help="With --csv: the first row names the columns, as {name}.",
)  # fmt: skip
@click.option(
    "--from-json", metavar="FILE",
    help="Run a task for each item of a list; {key} is a value of an object.",
)  # fmt: skip
@click.option(
    "--after", metavar="JOB[,JOB...][:any|:fail]", multiple=True,
    help="Begin when these jobs have succeeded; or ended, or failed.",
)  # fmt: skip
@click.option("--begin", metavar="TIME", help="Begin at 2027-01-31T18:00 or later, or in +2h.")
@click.option("-H", "--hold", is_flag=True, help="Wait until `grain release`.")
@click.option(
    "--priority", type=click.IntRange(-1_000_000_000, 1_000_000_000), metavar="N",
    help="Larger numbers go first.  [default: 0]",
)  # fmt: skip
@click.option(
    "--retries", type=click.IntRange(0, 1000), metavar="N",
    help="Run a task again that failed, up to N times.",
)  # fmt: skip
@click.option(
    "--halt", metavar="fail=N", help="Cancel the other tasks of an array after N failures."
)
@click.option("--no-requeue", is_flag=True, help="Never run a task twice, even if its node dies.")
@click.option(
    "--signal", metavar="[B:]SIG[@SECONDS]", help="Warn so long before the limit, as USR2@60."
)
@click.option(
    "--warn", metavar="FILE|SIG",
    help="Ask it to stop before its limit or its worker's end, by a file it looks for, or a "
    "signal.",
)  # fmt: skip
@click.option("--warn-before", metavar="SPAN", help="So long before.  [default: 60s]")
@click.option("-D", "--cwd", metavar="DIR", help="Directory to run in.  [default: this one]")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="Set an environment variable.")
@click.option("--clean-env", is_flag=True, help="Pass on no variables but HOME and --env.")
@click.option(
    "-o", "--stdout", metavar="FILE",
    help="File for the output; %j is the job, %a the task, %x the name.  [default: job-%j.out]",
)  # fmt: skip
@click.option(
    "-e", "--stderr", metavar="FILE", help="File for standard error.  [default: as stdout]"
)
@click.option("--append", is_flag=True, help="Append to these files.")
@click.option("-i", "--stdin", metavar="FILE", help="File for standard input; - for this one's.")
@click.option("--scratch", is_flag=True, help="Run with a private TMPDIR, which is removed.")
@click.option("-W", "--wait", is_flag=True, help="Wait for the end, and show progress.")
@click.option("--parsable", is_flag=True, help="Print only the number of the job.")
@json_option
@click.option(
    "--directives", type=click.Choice(["on", "off"]), default="on",
    help="Read lines #SBATCH and #GRAIN in the script.  [default: on]",
)  # fmt: skip
@queue_option
@config_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT | COMMAND [ARGS]...")
@click.pass_context
def submit(ctx: click.Context, /, words: tuple[str, ...], **given: Any) -> None:
    """Put a job into the queue, and print its number.

    A job is a script, or after -- any command. It runs on a worker that has what -r asks for, now
    or when there is one, whether you stay logged in or not. A script is copied, and may have its
    options in lines that begin with #GRAIN.

    \b
    Examples:
      grain submit job.sh
      grain submit -r Cores=8,Memory=16 -t 2h -- xtb mol.xyz --opt
      grain submit -a 1-100%10 job.sh      $GRAIN_ARRAY_TASK_ID is 1 to 100
      grain submit --after 12 next.sh
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    if not words:
        raise click.UsageError("name a script or a command, as in: grain submit job.sh")
    _check_config(given["config_file"])
    from grain.cli.jobs.wait import going_on, trouble, wait_for

    with trouble() if given["wait"] else nullcontext(), report_errors(), queue_errors():
        from grain.cli.jobs.dispatcher import no_workers, wake_dispatcher
        from grain.cli.jobs.submission import (
            check_files,
            directives,
            read_script,
            submit_options,
        )
        from grain.cli.queue.sharing import same_warning, shared_text
        from grain.cli.queue.submission import SubmittedFrom, make_job
        from grain.queue.selectors import Selected

        own, script, name = _options(ctx), read_script(words[0], given["cwd"]), ""
        around = SubmittedFrom.here()
        config = given["config_file"] or chosen_config(ctx)
        of_slurm: SubmitOptions = {}
        if script:
            name, *words_left = words
            words = tuple(words_left)
            if given["directives"] == "on":
                own = _together(_options(_context_of(ctx, directives(script))), own)
                of_slurm = _of_slurm(script, name, around, partial(_gpu_shards, config))
                # Ranks share the cores that were asked for with them.
                # With a request that has its own number of nodes, theirs does not count either.
                if own.get("res"):
                    of_slurm.pop("ranks", None)
                    of_slurm.pop("nodes", None)
        inputs = _inputs(own)
        stdin = sys.stdin.buffer.read() if own.get("stdin") == "-" else b""
        job = make_job(
            submit_options(own, around, base=of_slurm, inputs=inputs), around,
            words=words, script=script, script_name=name, columns=inputs.names if inputs else (),
        )  # fmt: skip
        check_files(job)
        shared = shared_text(job, inputs.entries if inputs else ())
        filled = inputs.filled(words, job.array, is_script=bool(script)) if inputs else b""
        # Without the option, it may be that of the environment.
        queue = open_queue(own.get("queue_name") or given["queue_name"], make=True)
        for line in (*shared.splitlines(), *same_warning(job, queue).splitlines()):
            click.echo(f"grain submit: {line}", err=True)
        number = queue.submit(job, stdin, filled)
        # From here on the job is in the queue, whatever fails.
        if given["as_json"]:
            announce = partial(print_json, {"job": number, "queue": queue.name})
        else:
            announce = partial(click.echo, number if given["parsable"] else f"job {number}")
        known = announced(f"Error: job {number}", announce)
        mine = [Selected(number, number)]
        with going_on(queue, mine):
            first = not dispatcher_state(queue)
            why = wake_dispatcher(queue, config)
            # A user who has just begun may not know that; a loop of submissions need not ask.
            if not why and first and _on_terminal():
                why = no_workers(config)
            if why:
                click.echo(f"job {number} waits: {why}", err=True)
            if given["wait"]:
                ctx.exit(wait_for(queue, mine, config=config))
        if not known:
            ctx.exit(1)


def _check_config(file: str | None) -> None:
    """Refuse a configuration that is not there, as sbatch has the cores under this option.

    Raises:
        click.UsageError: there is no such file.
    """
    if file is not None and not Path(file).exists():
        more = f"; for cores use -r Cores={file}" if file.isdecimal() else ""
        raise click.UsageError(f"-c {clean(file)}: there is no such configuration file{more}")


def _on_terminal() -> bool:
    return sys.stderr.isatty()


def _inputs(options: Mapping[str, Any]) -> FileInputs | None:
    """Read the inputs of the tasks of an array; None if there are none.

    Raises:
        BadSubmission: several files are given, or this one makes no sense.
        OSError: it cannot be read.
    """
    from grain.cli.jobs.errors import BadSubmission
    from grain.cli.jobs.inputs import LONGEST, OPTIONS, read_inputs

    given = [name for name in OPTIONS if options.get(name) is not None]
    if options.get("header") and given != ["csv"]:
        raise BadSubmission("--header : names the columns of --csv FILE: add that")
    if not given:
        return None
    if len(given) > 1:
        raise BadSubmission(
            f"{OPTIONS[given[0]]} and {OPTIONS[given[1]]} both make an array: give one of them"
        )
    name = options[given[0]]
    if name == "-" == options.get("stdin"):
        raise BadSubmission(
            f"{OPTIONS[given[0]]} - and --stdin - both read what is piped: give one a file"
        )
    # One byte more than it may have is enough to refuse it, be it without end.
    if name == "-":
        content = sys.stdin.buffer.read(LONGEST + 1)
    else:
        with Path(name).open("rb") as file:
            content = file.read(LONGEST + 1)
    return read_inputs(given[0], name, content, header=bool(options.get("header")))


def _options(ctx: click.Context) -> dict[str, Any]:
    """Return the options of a job that were given."""
    return {
        name: value
        for name, value in ctx.params.items()
        if name not in _NOT_OF_JOB and ctx.get_parameter_source(name) is _GIVEN
    }


def _together(of_script: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; the own options and inputs go first."""
    from grain.cli.jobs.inputs import OPTIONS

    if any(name in own for name in OPTIONS):
        of_inputs = {*OPTIONS, "header"}
        of_script = {name: of_script[name] for name in of_script if name not in of_inputs}
    return {**of_script, **own}


def _gpu_shards(config: str | None) -> int:
    from grain.config import load

    return load(config).worker.gpu_shards


def _of_slurm(
    script: str, name: str, around: SubmittedFrom, gpu_shards: Callable[[], int]
) -> SubmitOptions:
    """Return the options in lines #SBATCH of a script; arguments as of `options_of_script`.

    Raises:
        click.UsageError: one is wrong, or asks for what there is not here.
    """
    from grain.cli.slurm_words.submission import NotTranslated, options_of_script

    try:
        return options_of_script(script, name, around, gpu_shards)
    except NotTranslated as error:
        raise click.UsageError(f"in a line #SBATCH: {error}; or use --directives off") from None


def _context_of(ctx: click.Context, words: list[str]) -> click.Context:
    """Read the options of a script.

    Raises:
        click.UsageError: there is no such option, or it is not one of a job.
    """
    try:
        inner = submit.make_context("#GRAIN", words, resilient_parsing=False)
    except click.UsageError as error:
        raise click.UsageError(f"in a line #GRAIN: {error.format_message()}", ctx) from None
    wrong = [name for name in _NOT_OF_JOB[:-1] if inner.get_parameter_source(name) is _GIVEN]
    if inner.params["words"]:
        word = inner.params["words"][0]
        raise click.UsageError(f"in a line #GRAIN: {clean(word)} is not an option", ctx)
    if wrong:
        raise click.UsageError(f"in a line #GRAIN: give --{wrong[0]} on the command line", ctx)
    return inner
