"""From the plain data of a TOML file to a `Config`, or to everything that is wrong with it.

It takes three steps: `read_table` compares the data with the schema, key by key, and keeps what
was given; `complete` adds what follows from other keys and the defaults; `conflicts` looks at keys
that only make sense together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

import msgspec

from grain.config.errors import MOST_MISTAKES, Mistake
from grain.config.expansion import Unfit
from grain.config.kinds import ExpansionContext, Kind, described
from grain.config.schema import Config, Script, Table
from grain.config.suggestion import dotted, nearest
from grain.config.walltime import format_walltime

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KeyPath = tuple[str, ...]
Plain = dict[str, Any]

# msgspec examines a class at its first use; two threads that make it do so at once crash the
# process (seen with msgspec 0.22). An import happens in one thread.
msgspec.json.Decoder(Config)


def check(
    data: Mapping[str, object], context: ExpansionContext
) -> tuple[Config | None, list[Mistake]]:
    """Make a configuration of a file's data.

    Args:
        data: The result of the TOML reader; empty for the defaults.
        context: The environment of the file.

    Returns:
        The configuration and no mistakes, or None and all mistakes.
    """
    mistakes: list[Mistake] = []
    given = read_table(Config, data, (), context, mistakes)
    if mistakes:
        return None, mistakes
    # By now msgspec has nothing to object to; it builds the classes and guards against a slip here.
    config = msgspec.convert(complete(given, context), Config)
    mistakes += conflicts(config)
    return (None if mistakes else config), mistakes


def fields(table: type[Table]) -> dict[str, Kind | type[Table]]:
    """Return the keys of a table: a kind for a value, a class for a table within."""
    keys: dict[str, Kind | type[Table]] = {}
    for name, hint in get_type_hints(table, include_extras=True).items():
        if get_origin(hint) is Annotated:
            keys[name] = hint.__metadata__[0]
        elif isinstance(hint, type) and issubclass(hint, Table):
            keys[name] = hint
    return keys


def known_keys(table: type[Table] = Config, above: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key of the schema, tables before their keys."""
    for name, sort in fields(table).items():
        yield (*above, name)
        if not isinstance(sort, Kind):
            yield from known_keys(sort, (*above, name))


def read_table(
    table: type[Table],
    data: Mapping[str, object],
    above: KeyPath,
    context: ExpansionContext,
    mistakes: list[Mistake],
) -> Plain:
    """Return the given values of a table, without defaults, and add to the mistakes."""
    given: Plain = {}
    keys = fields(table)
    for name, value in data.items():
        if len(mistakes) >= MOST_MISTAKES:
            break
        path = (*above, name)
        sort = keys.get(name)
        if sort is None:
            mistakes.append(_unknown(path, keys))
        elif isinstance(sort, Kind):
            try:
                given[name] = sort.read(value, context)
                if sort.check is not None:
                    sort.check(given[name], context)
            except Unfit as unfit:
                hint = f" ({unfit})" if str(unfit) else ""
                text = f"found {described(value)}, expected {sort.expected}{hint}"
                mistakes.append(Mistake(dotted(path), text))
        elif isinstance(value, dict):
            given[name] = read_table(sort, value, path, context, mistakes)
        else:
            text = f"found {described(value)}, expected a table, [{dotted(path)}]"
            mistakes.append(Mistake(dotted(path), text))
    return given


def _unknown(path: KeyPath, keys: Mapping[str, object]) -> Mistake:
    meant = nearest(path, list(known_keys()))
    suggestion = f"; did you mean {dotted(meant)}?" if meant else ""
    where = f"in [{dotted(path[:-1])}]" if len(path) > 1 else "at the top of the file"
    expected = ", ".join(sorted(keys))
    return Mistake(
        dotted(path), f"found an unknown key, expected {where} one of {expected}{suggestion}"
    )


def complete(given: Plain, context: ExpansionContext) -> Plain:
    """Add what follows from other keys: the scripts' overlays, and one address for all."""
    plain = _with_defaults(Config, given, context)
    head, worker = plain["head"], plain["worker"]
    for name, part in ("head", head), ("worker", worker):
        # Key by key, and a list replaces a list: to drop an option of [script] would be impossible
        # if they were joined.
        over = {**given.get("script", {}), **given.get(name, {}).get("script", {})}
        part["script"] = _with_defaults(Script, over, context)
        part["contextmod"] = part.get("contextmod") or plain.get("contextmod", "")
    head["listen"] = head["listen"] or plain["address"]
    worker["dial"] = worker["dial"] or plain["address"]
    worker["cli_dial"] = worker["cli_dial"] or worker["dial"]
    return plain


def _with_defaults(table: type[Table], given: Plain, context: ExpansionContext) -> Plain:
    """Add the defaults that must be expanded, at every depth; msgspec knows the others."""
    plain = dict(given)
    defaults = {field.name: field.default for field in msgspec.structs.fields(table)}
    for name, sort in fields(table).items():
        if not isinstance(sort, Kind):
            plain[name] = _with_defaults(sort, given.get(name, {}), context)
        elif sort.place and name not in given:
            try:
                plain[name] = sort.read(defaults[name], context)
            except Unfit:
                # Without HOME there is no default place to meet. The error is raised where somebody
                # goes there, which a mission that runs all by itself does not.
                plain[name] = defaults[name]
    return plain


def conflicts(config: Config) -> Iterator[Mistake]:
    """Yield the mistakes of keys that are right by themselves but not together."""
    if config.system == "custom":
        sorts = fields(type(config.custom_system))
        for name in ("submit_cmd", "directory", "template"):
            sort = sorts[name]
            if isinstance(sort, Kind) and not getattr(config.custom_system, name):
                text = f"found nothing, expected {sort.expected}, as system = 'custom' needs it"
                yield Mistake(f"custom_system.{name}", text)
    if config.system == "ssh" and not config.hosts:
        text = "found no host, expected those of the workers, such as ['n1', 'n2:2']"
        yield Mistake("hosts", f"{text}, as system = 'ssh' needs them")
    if config.system != "local" and config.worker.dial.startswith("tcp://:"):
        yield Mistake(
            "worker.dial" if config.worker.dial != config.address else "address",
            f"found {config.worker.dial!r}, which names no host, expected tcp://HOST:PORT, as "
            "workers on other nodes have to dial it; head.listen alone may leave the host out",
        )
    held, script = config.worker.held_back, config.worker.script
    if script.walltime is not None and held.walltime >= script.walltime:
        yield Mistake(
            "worker.held_back.walltime",
            f"found {format_walltime(held.walltime)}, expected less than the job's walltime, "
            f"{format_walltime(script.walltime)}, or no time is left for tasks",
        )
    if script.memory is not None and held.memory >= script.memory:
        yield Mistake(
            "worker.held_back.memory",
            f"found {held.memory:g} GB, expected less than the job's memory, "
            f"{script.memory:g} GB, or no memory is left for tasks",
        )
