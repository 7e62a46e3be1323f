"""``grain doctor``: check this installation, and say what to fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from grain.cli.options import config_option, json_option, load_config
from grain.cli.show import clean, print_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.doctor.checks import CheckResult


@click.command()
@click.option("--slow", is_flag=True, help="Try every way to the scheduler, for a minute.")
@json_option
@config_option
@click.pass_context
def doctor(ctx: click.Context, slow: bool, as_json: bool, config_file: str | None) -> None:
    """Check this installation, and say what to fix.

    The configuration, the batch system, the address and its file system, room on disks, locks,
    the clock, versions, here and of workers and missions, and whether something else goes by the
    name of `grain`.

    \b
    Examples:
      grain doctor
      grain -c cluster.toml doctor --slow
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    findings = examine(ctx, config_file, slow=slow)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            click.echo(f"{finding.state:4}  {finding.check:{width}}  {_line(finding.says)}")
            if finding.fix:
                click.echo(f"{'':4}  {'':{width}}  -> {_line(finding.fix)}")
    if any(finding.state == "fail" for finding in findings):
        ctx.exit(1)


def _line(text: str) -> str:
    return clean(" | ".join(line.strip() for line in text.splitlines()))


def examine(ctx: click.Context, config_file: str | None, *, slow: bool) -> list[CheckResult]:
    """Run all checks at once; return their findings in a fixed order."""
    from concurrent.futures import ThreadPoolExecutor

    # Threads that import modules of one package at once can fail on each other's locks.
    import grain.cli.query
    import grain.edge  # noqa: F401
    from grain.cli.doctor import batch, disk, installed, meeting, peers
    from grain.cli.doctor.checks import LIMIT, fail, ok, within
    from grain.config import ConfigError

    checks: dict[str, Callable[[], list[CheckResult]]] = {
        "versions": installed.versions,
        "import name": installed.import_name,
        "locks": disk.locks,
    }
    try:
        config = load_config(ctx, config_file)
    except ConfigError as error:
        first = fail("configuration", str(error), "Correct it, and look again.")
    else:
        source = config.source or "no grain.toml here or above: the defaults hold"
        first = ok("configuration", f"{source}; system {config.system}")
        dial = config.worker.cli_dial
        meet = meeting.every_way if slow else meeting.scheduler
        checks |= {
            "batch system": lambda: batch.batch(config),
            "grain-worker": lambda: batch.worker_command(config),
            "outputs": lambda: batch.outputs(config),
            "directory": lambda: disk.working_directory(config),
            "disk space": lambda: disk.space(config),
            "file system": lambda: meeting.files(dial),
            "scheduler": lambda: meet(dial),
            "peers": lambda: peers.versions(config),
        }
    limits = [120.0 if slow and name == "scheduler" else LIMIT for name in checks]
    with ThreadPoolExecutor(len(checks)) as pool:
        answers = pool.map(within, limits, checks, checks.values())
        return [first, *(finding for findings in answers for finding in findings)]
