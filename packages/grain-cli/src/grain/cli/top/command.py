"""``grain top``: a live view of workers, missions and tasks."""

from __future__ import annotations

import os
import sys

import click

from grain.cli.options import config_option, load_config, patience_option
from grain.cli.plugin import report_errors
from grain.cli.streams import plain

_PLAIN = 10.0  # seconds between two texts where there is no terminal


@click.command()
@click.option("--once", is_flag=True, help="Print it once, as text.")
@click.option(
    "--every", metavar="SECONDS", type=click.FloatRange(0.5, 3600),
    help="How often to look; by default every second, and every 10 as text.",
)  # fmt: skip
@patience_option
@config_option
@click.pass_context
def top(
    ctx: click.Context,
    once: bool,
    every: float | None,
    patience: float,
    config_file: str | None,
) -> None:
    """Watch workers, missions and tasks.

    On a terminal the keys are listed by `?`, and `q` ends it. Elsewhere, and with TERM=dumb, it
    prints text every 10 seconds.

    \b
    Examples:
      grain top
      grain top --once         text, once
      NO_COLOR=1 grain top     without colours
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.query import NoScheduler, without_scheduler

        config = load_config(ctx, config_file)
        try:
            _show(ctx, config.worker.cli_dial, once=once, every=every, patience=patience)
        except NoScheduler as error:
            if alone := without_scheduler(config):
                raise NoScheduler(f"{error}; {alone}") from None
            raise


def _show(
    ctx: click.Context, address: str, *, once: bool, every: float | None, patience: float
) -> None:
    """Show what the scheduler at an address answers, on the screen or as text.

    Raises:
        NoScheduler: there is none at the start.
        click.UsageError: the library that draws on terminals is not installed.
    """
    from grain.cli.plugins import library
    from grain.cli.top.plain import watch
    from grain.cli.top.tables.picture import ASCII, marks

    if not once and not (why := unfit()):
        library(
            "textual",
            user="`grain top` on a terminal",
            install="'grain-cli[displays]'",
            instead="print text, as `grain top --once` and `grain top | cat` do",
        )
        from grain.cli.top.app import show

        ctx.exit(show(address, seconds=every or 1.0, patience=patience))
    import shutil

    if not once:
        click.echo(f"Note: {why}, so this is text; Ctrl-C ends it.", err=True)
    here = sys.stdout.isatty()
    try:
        watch(
            address,
            seconds=None if once else every or _PLAIN,
            patience=patience,
            width=max(20, shutil.get_terminal_size().columns),
            by=marks(plain(sys.stdout).encoding or "ascii") if here else ASCII,
        )
    except KeyboardInterrupt:
        return


def unfit() -> str:
    """Return why the terminal cannot be drawn on, as the beginning of a sentence; "" if it can."""
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        return "input or output is not a terminal"
    term = os.environ.get("TERM", "")
    if term in ("", "dumb", "unknown"):
        return f"the terminal (TERM={term}) cannot be drawn on"
    return ""
