"""``grain init``: look around, and write a configuration."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grain.cli.plugin import report_errors
from grain.cli.show import clean
from grain.cli.streams import file_trouble
from grain.files.whole import whole_file

if TYPE_CHECKING:
    from grain.cli.init.site import Queue, Site


@click.command()
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
@click.option("-f", "--force", is_flag=True, help="Replace a file that is there.")
@click.argument("file", metavar="[FILE]", default="grain.toml", type=click.Path(dir_okay=False))
def init(file: str, yes: bool, force: bool) -> None:
    """Look around, and write a configuration.

    It finds the batch system with its queues and their limits, the nodes, your accounts, scratch
    directories and modules, and writes grain.toml, or the FILE. On a terminal it asks three
    questions at most. A file that is there stays, unless --force is given.

    \b
    Examples:
      grain init
      grain init --yes && grain up --dry
      grain init other.toml
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.cli.init.document import document
        from grain.cli.init.survey import survey

        path = Path(file)
        if path.exists() and not force:
            raise click.ClickException(
                f"{clean(file)} exists; `grain init --force` replaces it, and `grain init "
                "other.toml` writes another file"
            )
        site = survey()
        for note in site.notes:
            click.echo(clean(note))
        asks = not yes and sys.stdin.isatty() and sys.stdout.isatty()
        queue, account, gpus = _choices(site, asks=asks)
        _write(path, document(site, queue, account, gpus), force=force)
        chosen = "" if file == "grain.toml" else f" -c {shlex.quote(file)}"
        click.echo(f"{clean(file)} is written; `grain{chosen} up --dry` shows the job of a worker.")


def _choices(site: Site, *, asks: bool) -> tuple[Queue | None, str, Queue | None]:
    """Return the queue, the account, and the queue of workers with GPUs: three questions."""
    from grain.cli.init.site import preferred

    queue = preferred(site.queues)
    if asks and queue is not None and len(site.queues) > 1:
        names = [one.name for one in site.queues]
        chosen = click.prompt("Queue of the workers", queue.name, type=click.Choice(names))
        queue = site.queues[names.index(chosen)]
    account = site.accounts[0] if site.accounts else ""
    if asks and len(site.accounts) > 1:
        account = click.prompt("Account", account, type=click.Choice(site.accounts))
    gpus = next((one for one in site.queues if one.gpus and one != queue), None)
    wanted = asks and gpus is not None and queue is not None and not queue.gpus
    if not wanted or gpus is None:
        return queue, account, None
    text = f"Workers with GPUs, too (queue {clean(gpus.name)})"
    return queue, account, gpus if click.confirm(text, default=True) else None


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write a file, for its owner to change; what is there is replaced as a whole or not at all.

    Raises:
        click.ClickException: it cannot be written, or has come meanwhile.
    """
    try:
        # Whatever the umask: Grain does not use a file that others may write to.
        with whole_file(path, mode=0o644, replaces=force) as file:
            file.write(text.encode())
    except OSError as error:
        named = OSError(error.errno, error.strerror, str(path))
        raise click.ClickException(clean(file_trouble(named))) from None
