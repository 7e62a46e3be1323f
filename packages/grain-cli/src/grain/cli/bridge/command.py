"""``grain bridge``: serve a bridge, and make a key for it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from grain.cli.options import config_option, load_config
from grain.cli.plugin import report_errors
from grain.cli.show import clean

PORT = 4747
"""The port of a bridge unless another is named."""


@click.group()
def bridge() -> None:
    """Let several clusters meet: a server that relays.

    A bridge runs on any host that all sides reach. It needs no account, keeps nothing on disk, and
    reads nothing of what it relays: members share a key that it does not have.

    \b
    Examples:
      grain bridge key > ~/bridge.key      make a key, and copy it to each cluster
      grain bridge serve                   on a host that all sides reach
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped


@bridge.command()
def key() -> None:
    """Print a new key.

    Any holder of the key can join the meeting. If you print it to a file, only you can read the
    file.

    \b
    Examples:
      grain bridge key > ~/bridge.key
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.edge import make_key

    _hide_from_others()
    click.echo(make_key())


@bridge.command("id")
@config_option
@click.argument("key", required=False, metavar="[FILE]", type=click.Path())
@click.pass_context
def meeting(ctx: click.Context, key: str | None, config_file: str | None) -> None:
    """Print the public id of a meeting.

    The operator of a bridge may want it, for `grain bridge serve --allow`. The id does not let
    anyone join a meeting, or read anything. FILE has the key; without FILE, the key of the
    configuration is used.

    \b
    Examples:
      grain bridge id
      grain bridge id ~/bridge.key
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    with report_errors():
        from grain.edge import meeting_id

        if key is not None and _has_key(key):
            # Not shown again.
            raise click.UsageError(
                "name the file of the key, as in: grain bridge id ~/bridge.key. Every user of this "
                "host can read the arguments of a command: if that was the key, make a new one"
            )
        click.echo(meeting_id(key or load_config(ctx, config_file).address))


def _has_key(text: str) -> bool:
    """Return True if a text may be a key, or a part or an address of one, and names no file."""
    if text.startswith("bridge://"):
        return not text.startswith("bridge://@")
    return re.fullmatch(r"[\w-]{20,}", text) is not None and not Path(text).exists()


def _hide_from_others() -> None:
    """Take the file to which standard output goes from other users, who could read the key."""
    import stat

    try:
        status = os.fstat(1)
        if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            os.fchmod(1, stat.S_IMODE(status.st_mode) & stat.S_IRWXU)
    except OSError as error:
        click.echo(f"Warning: other users may read this key: {error.strerror}", err=True)


@bridge.command()
@click.option(
    "--listen", default=f":{PORT}", show_default=True, metavar="[HOST]:PORT",
    help="Where to listen; without a host on all interfaces.",
)  # fmt: skip
@click.option(
    "--memory", default=512, show_default=True, metavar="MB", type=click.IntRange(16, 1_000_000),
    help="Memory for connections, meetings and what waits for slow readers, all together.",
)  # fmt: skip
@click.option(
    "--allow", metavar="FILE", type=click.Path(),
    help="Serve only the meetings whose ids are in FILE, one id per line.",
)  # fmt: skip
def serve(listen: str, memory: int, allow: str | None) -> None:
    """Serve a bridge until Ctrl-C or SIGTERM.

    It may be killed and started again: schedulers, missions and workers connect again, and
    nothing is lost.

    \b
    Examples:
      grain bridge serve
      grain bridge serve --listen 192.0.2.7:4747
      grain bridge serve --memory 2000       for some ten thousand meetings
      grain bridge serve --allow meetings    ids that `grain bridge id` prints
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    host, port = parse_listen(listen)
    with report_errors():
        import trio

        listed = None if allow is None else read_ids(allow)
        error = trio.run(_serve, host, port, memory * 1024**2, listed)
        if error is not None:
            raise click.ClickException(
                f"cannot listen at {listen}: {error.strerror or error}; name an address of this "
                f"host, and a port that is free, as in --listen :{PORT + 1}"
            )


def read_ids(path: str) -> frozenset[bytes]:
    """Return the ids in a file, one per line; a comment begins with ``#``.

    Raises:
        click.ClickException: a line has no id, or there is none at all.
        OSError: the file cannot be read.
    """
    ids = set()
    for number, line in enumerate(Path(path).read_text(errors="replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
            # Not shown: it is a key, perhaps.
            raise click.ClickException(
                f"{clean(path)}, line {number}: an id of a meeting has 64 hexadecimal digits, as "
                "`grain bridge id` prints them"
            )
        ids.add(bytes.fromhex(text))
    if not ids:
        raise click.ClickException(
            f"{clean(path)} lists no meeting, so none could meet: add what `grain bridge id` "
            "prints, a line for each meeting"
        )
    return frozenset(ids)


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of ``--listen``."""
    if text.startswith("bridge://"):
        # Not shown again: a key stands in it, perhaps.
        raise click.UsageError(
            f"--listen: write HOST:PORT or :PORT, as in :{PORT}; the server needs no key. If one "
            "stood there, every user of this host could read it: make a new one"
        )
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--listen {text}: write HOST:PORT or :PORT, as in :{PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)


async def _serve(
    host: str, port: int, memory: int, listed: frozenset[bytes] | None
) -> OSError | None:
    """Serve until a signal; return why it cannot, if so.

    Args:
        memory: bytes for all meetings together.
        listed: the ids of the meetings that are served; None for all.
    """
    import signal

    import trio

    from grain.edge import serve_bridge

    # Kept from the nursery, which would make a group of it.
    failed: list[OSError] = []
    async with trio.open_nursery() as nursery:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:

            async def start(task_status: trio.TaskStatus[list[tuple[str, int]]]) -> None:
                try:
                    await serve_bridge(
                        host, port, memory=memory, listed=listed, task_status=task_status
                    )
                except OSError as error:
                    failed.append(error)
                    task_status.started([])

            places = await nursery.start(start)
            if failed:
                return failed[0]
            shown = ", ".join(f"{place} port {number}" for place, number in places)
            click.echo(f"a bridge listens at {shown}")
            async for _ in signals:
                break
        nursery.cancel_scope.cancel()
    return None
