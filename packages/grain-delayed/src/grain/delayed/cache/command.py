"""``grain cache``: list, explain and clear the results that missions keep.

click comes with the command `grain`; nothing else in this package needs it.
"""

from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from grain.delayed.cache.lookups import Lookup
    from grain.delayed.cache.store import DamagedFile, Store, StoredResult


@click.group()
@click.option(
    "-d", "--dir", "directory", metavar="DIR",
    help="The directory of the results; by default GRAIN_CACHE, or head.cache of the "
    "configuration, or .grain-cache here.",
)  # fmt: skip
@click.pass_context
def cache(ctx: click.Context, directory: str | None) -> None:
    """The results that missions keep on disk (cache_hfn).

    FUNCTION is a function's name, as `ls` shows it, or its last part alone.
    """
    ctx.obj = directory or os.environ.get("GRAIN_CACHE") or _configured(ctx)


@cache.command()
@click.option("--check", is_flag=True, help="Read the results, too, and find damaged ones.")
@click.argument("function", required=False)
@click.pass_obj
def ls(directory: str | None, function: str | None, check: bool) -> None:
    """List results: when, how long it took (waiting included), size, and which call."""
    from grain.delayed.times import span, when

    entries, broken = _sorted(_store(directory), function, check=check)
    for entry in entries:
        click.echo(
            f"{when(entry.created)}  {span(entry.seconds):>12}  {_size(entry.size):>9}  "
            f"{_call(entry)}"
        )
    for path, why in broken:
        click.echo(f"{path}: {why}")
    total = f"{_count(len(entries), 'result')}, {_size(sum(e.size for e in entries))}"
    click.echo(f"{total}, {len(broken)} damaged" if broken else total)


@cache.command()
@click.option("-n", "most", default=20, show_default=True, help="How many calls to show.")
@click.argument("function", required=False)
@click.pass_obj
def explain(directory: str | None, function: str | None, most: int) -> None:
    """Why the last lookup of each call was a hit or a miss, the latest first."""
    from grain.delayed.cache.lookups import explain as why
    from grain.delayed.cache.lookups import lookups
    from grain.delayed.times import when

    store = _store(directory)
    entries, _ = _sorted(store, None)
    of_function = collections.defaultdict(list)
    for entry in entries:
        of_function[entry.key.function].append(entry)
    last: dict[tuple[str, str], Lookup] = {}
    for lookup in lookups(store.root):
        if _named(lookup.key.function, function):
            last.setdefault((lookup.key.function, lookup.key.call), lookup)
    for lookup in list(last.values())[:most]:
        reason = why(lookup, of_function[lookup.key.function])
        click.echo(f"{when(lookup.at)}  {lookup.key.function}({lookup.key.shown})")
        click.echo(f"    {reason}")
    if not last:
        click.echo("no lookups" + (f" of {function}" if function else ""))
    elif len(last) > most:
        click.echo(f"and {_count(len(last) - most, 'call')} more: -n {len(last)} shows them")


@cache.command()
@click.option("--all", "everything", is_flag=True, help="All results.")
@click.option("--damaged", is_flag=True, help="Only what is damaged.")
@click.argument("function", required=False)
@click.pass_obj
def clear(directory: str | None, function: str | None, everything: bool, damaged: bool) -> None:
    """Remove results: those of a function, all, or what is damaged."""
    if not (function or everything or damaged):
        raise click.UsageError("say which results: those of a FUNCTION, --all, or --damaged")
    store = _store(directory)
    entries, broken = _sorted(store, function, check=damaged)
    paths = [] if damaged else [store.path(entry.key) for entry in entries]
    if everything or damaged:
        paths += [path for path, _ in broken]
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror or error}") from None
    click.echo(f"{_count(len(paths), 'result')} removed")


def _configured(ctx: click.Context) -> str | None:
    from grain.config import ConfigError, load

    chosen = ctx.find_root().obj  # grain -c FILE
    try:
        return load(chosen if isinstance(chosen, str) else None).head.cache or None
    except ConfigError as error:
        raise click.ClickException(str(error)) from None


def _store(directory: str | None) -> Store:
    from grain.delayed.cache.cache import cache_root
    from grain.delayed.cache.store import Store
    from grain.delayed.errors import CacheError

    root = cache_root(directory)
    assert root is not None
    store = Store(root[0])
    try:
        store.check(begun=True)
    except CacheError as error:
        raise click.ClickException(str(error)) from None
    except FileNotFoundError:
        raise click.ClickException(
            f"no results are kept in {store.root}: go to the directory where the mission was "
            "started, or give the cache's with --dir"
        ) from None
    except OSError as error:
        raise click.ClickException(f"{store.root}: {error.strerror or error}") from None
    return store


def _sorted(
    store: Store, function: str | None, *, check: bool = False
) -> tuple[list[StoredResult], list[DamagedFile]]:
    """The results of a function, the oldest first; and all that is damaged."""
    from grain.delayed.cache.store import DamagedFile

    entries: list[StoredResult] = []
    broken: list[DamagedFile] = []
    for found in store.entries(check=check):
        if isinstance(found, DamagedFile):
            broken.append(found)
        elif _named(found.key.function, function):
            entries.append(found)
    return sorted(entries, key=lambda entry: entry.created), sorted(broken)


def _named(name: str, wanted: str | None) -> bool:
    return wanted is None or name == wanted or name.endswith((f".{wanted}", f":{wanted}"))


def _call(entry: StoredResult) -> str:
    version = f" version {entry.key.version}" if entry.key.version else ""
    return f"{entry.key.function}({entry.key.shown}){version}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
