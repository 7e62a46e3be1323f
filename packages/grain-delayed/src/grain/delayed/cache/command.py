"""``grain cache``: list, explain and clear the results that missions keep.

click comes with the command `grain`; no other module of this package needs it.
"""

from __future__ import annotations

import collections
import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from grain.delayed.cache.store import DamagedFile, Store, StoredResult


@click.group()
@click.option(
    "-d", "--dir", "directory", metavar="DIR",
    help="The directory of the results; by default GRAIN_CACHE, or head.cache of the "
    "configuration, or .grain-cache here.",
)  # fmt: skip
@click.pass_context
def cache(ctx: click.Context, directory: str | None) -> None:
    """List, explain and clear the results that missions keep.

    Those of functions with `cache_hfn`, on disk. FUNCTION is a function's name, as `ls` shows it,
    or only its last part.

    \b
    Examples:
      grain cache ls
      grain cache explain energy
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    ctx.obj = directory or os.environ.get("GRAIN_CACHE") or _configured(ctx)


@cache.command()
@click.option("--check", is_flag=True, help="Read the results, too, to find damaged ones.")
@click.argument("function", required=False)
@click.pass_obj
def ls(directory: str | None, function: str | None, check: bool) -> None:
    """List results: when and how long it was computed (waiting included), its size, its call.

    \b
    Examples:
      grain cache ls
      grain cache ls --check energy   read the results of energy, too
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.resource.figures import clock, counted, second, size_text

    results, damaged_files = _sorted(_store(directory), function, check=check)
    for result in results:
        click.echo(
            f"{second(result.created)}  {clock(result.seconds):>12}  {size_text(result.size):>9}  "
            f"{_call(result)}"
        )
    for path, why in damaged_files:
        click.echo(f"{path}: {why}")
    total = f"{counted(len(results), 'result')}, {size_text(sum(r.size for r in results))}"
    click.echo(f"{total}, {len(damaged_files)} damaged" if damaged_files else total)


@cache.command()
@click.option("-n", "most", default=20, show_default=True, help="The number of calls to show.")
@click.argument("function", required=False)
@click.pass_obj
def explain(directory: str | None, function: str | None, most: int) -> None:
    """Show why the latest result of each call was computed and not found, the latest first.

    The second line names the parts of its key, of digests the first digits.

    \b
    Examples:
      grain cache explain
      grain cache explain -n 5 energy
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.delayed.cache.explain import latest_of_each_call, parts, reason
    from grain.resource.figures import counted, second

    results, _ = _sorted(_store(directory), function)
    of_function = collections.defaultdict(list)
    for result in results:
        of_function[result.key.function].append(result)
    latest = latest_of_each_call(results)
    for result in latest[:most]:
        click.echo(f"{second(result.created)}  {_call(result)}")
        why = reason(result, of_function[result.key.function])
        click.echo(f"    computed on {result.host}, as {why}")
        click.echo(f"    key: {parts(result.key)}")
    if not latest:
        click.echo("no results" + (f" of {function}" if function else ""))
    elif len(latest) > most:
        click.echo(f"and {counted(len(latest) - most, 'call')} more: -n {len(latest)} shows them")


@cache.command()
@click.option("--all", "everything", is_flag=True, help="All results.")
@click.option("--damaged", is_flag=True, help="Only what is damaged.")
@click.argument("function", required=False)
@click.pass_obj
def clear(directory: str | None, function: str | None, everything: bool, damaged: bool) -> None:
    """Remove results: those of a function, all, or what is damaged.

    \b
    Examples:
      grain cache clear energy
      grain cache clear --damaged
    """  # noqa: D301 - click's mark for a paragraph that is not to be wrapped
    from grain.resource.figures import counted

    if not (function or everything or damaged):
        raise click.UsageError("name the results to remove: a FUNCTION, --all, or --damaged")
    store = _store(directory)
    results, damaged_files = _sorted(store, function, check=damaged)
    paths = [] if damaged else [store.path(result.key) for result in results]
    if everything or damaged:
        paths += [path for path, _ in damaged_files]
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise click.ClickException(f"{path}: {error.strerror or error}") from None
    click.echo(f"{counted(len(paths), 'result')} removed")


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
    """Return the results of a function, the oldest first, and all damaged files."""
    from grain.delayed.cache.store import DamagedFile

    results: list[StoredResult] = []
    damaged: list[DamagedFile] = []
    for entry in store.results(check=check):
        if isinstance(entry, DamagedFile):
            damaged.append(entry)
        elif _named(entry.key.function, function):
            results.append(entry)
    return sorted(results, key=lambda result: result.created), sorted(damaged)


def _named(name: str, wanted: str | None) -> bool:
    return wanted is None or name == wanted or name.endswith((f".{wanted}", f":{wanted}"))


def _call(result: StoredResult) -> str:
    version = f" version {result.key.version}" if result.key.version else ""
    return f"{result.key.function}({result.key.shown}){version}"
