"""``grain history``: what missions have done, from their event logs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

from grain.cli import completion
from grain.cli.options import config_option, json_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import clean, print_json, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from grain.cli.columns import Column
    from grain.config import Config
    from grain.eventlog.store import LogStore, StoredLog

R = TypeVar("R")


def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a mission that has left an event log, the last first."""
    return completion.names_within(incomplete, lambda: _logged(completion.config_of(ctx)))


def _logged(config: Config) -> list[str]:
    from grain.cli.mission_names import store_of

    return list(dict.fromkeys(log.name for log in store_of(config).logs()))


@click.command()
@click.option("--failed", is_flag=True, help="Show failures, by cause.")
@click.option("--calls", is_flag=True, help="List the calls that failed, one in a line.")
@click.option("--inputs", is_flag=True, help="List their first arguments, one in a line.")
@click.option(
    "-n", "most", default=20, show_default=True, metavar="N", type=click.IntRange(1),
    help="List the last N missions.",
)  # fmt: skip
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print a row for each mission, or each run.")
@click.option("--parquet", metavar="FILE", help="Write these rows to a Parquet file.")
@config_option
@click.argument("mission", metavar="[NAME]", required=False, shell_complete=complete)
@click.pass_context
def history(
    ctx: click.Context,
    failed: bool,
    calls: bool,
    inputs: bool,
    most: int,
    as_json: bool,
    as_csv: bool,
    parquet: str | None,
    config_file: str | None,
    mission: str | None,
) -> None:
    """Show what missions have done, past and present.

    These are all missions that have left an event log, however they were started. `grain missions`
    lists the missions of `grain run` and `grain start`, which can be followed, ended and resumed.
    Without NAME, list missions; with the name or the id of one, or the beginning of it, show its
    tasks by function and outcome. NAME may also be a label such as opt@2, as `grain ls` and `grain
    missions` show it, or the path of an event log.

    \b
    Examples:
      grain history
      grain history screening            the last mission of that name
      grain history --failed screening   why tasks have failed
      grain history --calls screening    which calls failed, to be run again
      grain history --inputs screening > failed.txt
      grain history --csv screening > runs.csv
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    if sum((as_json, as_csv, parquet is not None)) > 1:
        raise click.UsageError("choose one of --json, --csv and --parquet")
    listed = "--inputs" if inputs else "--calls" if calls else "--failed" if failed else ""
    if listed and mission is None:
        raise click.UsageError(f"name a mission, as in: grain history {listed} screening")
    if listed in {"--calls", "--inputs"} and (as_csv or parquet is not None):
        raise click.UsageError(f"--csv and --parquet have the calls in a column: omit {listed}")
    with report_errors():
        from grain.cli.mission_names import store_of

        config = load_config(ctx, config_file)
        if mission is None:
            _list(store_of(config), most, as_json=as_json, as_csv=as_csv, parquet=parquet)
        elif calls or inputs:
            _calls(config, mission, inputs=inputs, as_json=as_json)
        elif as_csv or parquet is not None:
            _runs(config, mission, failed=failed, parquet=parquet)
        else:
            _show(config, mission, failed=failed, as_json=as_json)


def _list(store: LogStore, most: int, *, as_json: bool, as_csv: bool, parquet: str | None) -> None:
    """List the last missions, the newest first."""
    from grain.cli.columns import data
    from grain.cli.history.kept import KeptSummaries
    from grain.cli.history.logs import state_of, up_to_now
    from grain.cli.history.text import MISSIONS_DATA, ListedMission, missions_text
    from grain.eventlog.errors import LogError

    logs = store.logs()
    kept = KeptSummaries()
    kept.prune(logs)
    missions: list[ListedMission] = []
    unreadable: list[str] = []
    for log in logs[:most]:
        try:
            summary = kept.of(log)
        except (LogError, OSError) as error:
            unreadable.append(f"{log.folder.name} cannot be read: {error}")
        else:
            label = log.label if log.number else ""
            state = state_of(log, summary.status)
            missions.append(ListedMission.of(label, state, up_to_now(state, summary)))
    if as_json:
        print_json([data(MISSIONS_DATA, mission) for mission in missions])
    elif as_csv or parquet is not None:
        _write(missions, MISSIONS_DATA, parquet)
    elif not logs:
        click.echo(
            f"No mission has left an event log in {clean(store.folder)}. Missions write one, "
            "unless run(..., event_log=False) or head.event_log of grain.toml says otherwise."
        )
        return
    else:
        click.echo(missions_text(missions, unreadable, terminal_width()), nl=False)
        if len(logs) > most:
            click.echo(f"{len(logs) - most} more: grain history -n {len(logs)}")
        return
    for sentence in unreadable:
        click.echo(f"Note: {clean(sentence)}", err=True)


def _show(config: Config, word: str, *, failed: bool, as_json: bool) -> None:
    """Show the tasks of a mission by function, or its failures by cause."""
    from grain.cli.history.kept import KeptSummaries
    from grain.cli.history.logs import state_of, up_to_now
    from grain.cli.history.text import failures_text, mission_data, summary_text

    log = _find(config, word)
    summary = KeptSummaries().of(log)
    state = state_of(log, summary.status)
    summary = up_to_now(state, summary)
    if as_json:
        print_json(mission_data(state, summary))
    elif failed:
        click.echo(failures_text(summary, terminal_width(), word), nl=False)
    else:
        click.echo(summary_text(state, summary, terminal_width()), nl=False)
        if summary.causes:
            click.echo(f"\nWhy tasks have failed: grain history --failed {clean(word)}")


def _calls(config: Config, word: str, *, inputs: bool, as_json: bool) -> None:
    """List the calls of a mission that failed, by cause, or their inputs."""
    from grain.cli.history.calls import calls_data, calls_text, failures_of, inputs_of
    from grain.cli.history.logs import lines_of
    from grain.eventlog.reader import LogReader

    log = _find(config, word)
    failures = failures_of(lines_of(LogReader(log.folder), log.size()))
    if inputs:
        lines, others = inputs_of(failures)
        if as_json:
            print_json(lines)
        else:
            click.echo("".join(f"{line}\n" for line in lines), nl=False)
        if others:
            click.echo(
                f"Note: {others} more failed, whose first argument is not a text or a number, or "
                f"not whole in the log: grain history --calls {clean(word)}",
                err=True,
            )
    elif as_json:
        print_json(calls_data(failures))
    else:
        click.echo(calls_text(failures), nl=False)


def _runs(config: Config, word: str, *, failed: bool, parquet: str | None) -> None:
    """Write a row for each run of a mission."""
    from grain.cli.history.logs import lines_of
    from grain.cli.history.rows import listed_runs, run_columns
    from grain.eventlog.reader import LogReader

    log = _find(config, word)
    lines = lines_of(LogReader(log.folder), log.size())
    _write(listed_runs(lines, failed=failed), run_columns(log.id), parquet)


def _write(rows: Iterable[R], columns: Sequence[Column[R]], parquet: str | None) -> None:
    from grain.cli.history.tables import write_csv, write_parquet

    if parquet is None:
        write_csv(rows, columns, sys.stdout)
    else:
        write_parquet(rows, columns, parquet)


def _find(config: Config, word: str) -> StoredLog:
    """Return the log that a word means, and say so where it may mean others as well."""
    from grain.cli.mission_names import find_log, namesakes_text

    log = find_log(config, word)
    if text := namesakes_text(config, log, word):
        click.echo(f"Note: {text}", err=True)
    return log
