"""``grain resume``: start a mission again that was killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from grain.cli.missions.attach import complete
from grain.cli.options import load_config
from grain.cli.plugin import report_errors
from grain.cli.show import clean


@click.command()
@click.option("--changed", is_flag=True, help="Also if its program has changed since.")
@click.option("--lost", is_flag=True, help="Also if it may still run on a host that is silent.")
@click.argument("mission", metavar="NAME", required=False, shell_complete=complete)
@click.pass_context
def resume(ctx: click.Context, changed: bool, lost: bool, mission: str | None) -> None:
    """Start a mission again that was killed.

    Or whose host was rebooted, or that has failed: with the same arguments, in the same directory,
    and with the same environment variables except variables of the terminal and secrets, which are
    taken from this shell. With the result cache it computes only what is missing.

    \b
    Examples:
      grain resume night
      grain resume night@1            not the last start of that name
      grain resume --lost night       its host is silent, and known to be dead
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        import msgspec

        from grain.cli.mission_names import started
        from grain.cli.mission_records import missions_folder, read
        from grain.cli.missions.environment import restored
        from grain.cli.missions.starting import begin, digest, state_of
        from grain.cli.missions.state import Phase

        if mission is None:
            raise click.UsageError("name a mission, as in: grain resume opt; see `grain missions`")
        record = started(lambda: load_config(ctx, None), mission)
        start, state = record.start, state_of(record)
        if state.phase.alive:
            raise click.ClickException(
                f"{record.label} {state.detail}: there is nothing to resume; `grain attach "
                f"{start.name}` follows it"
            )
        if state.phase is Phase.DONE:
            raise click.ClickException(
                f"{record.label} is done: there is nothing to resume; `grain run` runs it again"
            )
        # A later start of this name is what `grain resume NAME@1` would run beside.
        later = [one for one in read(missions_folder(), start.name) if one.number > record.number]
        for one, now in [(record, state), *((one, state_of(one)) for one in later)]:
            if not now.certain and not lost:
                raise click.ClickException(
                    f"{one.label} {now.detail}. If it still runs there, its tasks would run "
                    f"twice: have a look at that host, and if it is dead, `grain resume --lost "
                    f"{clean(mission)}` starts the mission again"
                )
        if not Path(start.directory).is_dir():
            raise click.ClickException(
                f"the directory of {record.label}, {clean(start.directory)}, is not there any more"
            )
        program = Path(start.program)
        if start.program and not program.is_file():
            raise click.ClickException(
                f"the program of {record.label}, {clean(program)}, is not there any more"
            )
        new = digest(program) if start.program else ""
        if new != start.digest and not changed:
            raise click.ClickException(
                f"the program of {record.label}, {clean(program)}, has changed since; `grain "
                f"resume --changed {'--lost ' * lost}{clean(mission)}` starts it as it is now: "
                "the cache tells which results still hold"
            )
        start = msgspec.structs.replace(start, at=time.time(), digest=new)
        # By this `grain map -d` knows that it goes on.
        env = {**restored(start.environment, os.environ), "GRAIN_RESUMED": "1"}
        repeat = f"grain resume {'--changed ' * changed}{'--lost ' * lost}{clean(mission)}"
        ctx.exit(begin(start, env, otherwise=f"and then `{repeat}` starts this one"))
