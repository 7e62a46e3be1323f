"""From the plain data of a TOML file to a `Config`, or to everything that is wrong with it.

It takes three steps: `read_table` compares the data with the schema, key by key, and keeps what
was given; `complete` adds what follows from other keys and the defaults; `conflicts` looks at keys
that only make sense together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from grain.config.errors import MOST_MISTAKES, Mistake
from grain.config.expansion import Unfit
from grain.config.kinds import ExpansionContext, Kind, described
from grain.config.schema import Config, ConfigTable, Script, Shape
from grain.config.suggestion import dotted, nearest
from grain.config.walltime import format_walltime
from grain.files.batch_systems import facts_of, several_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KeyPath = tuple[str, ...]
Plain = dict[str, Any]


class Tables(NamedTuple):
    """An array of tables, ``[[name]]``."""

    table: type[ConfigTable]


# msgspec examines a class at its first use; two threads that make it do so at once crash the
# process (seen with msgspec 0.22). An import happens in one thread.
msgspec.json.Decoder(Config)


def check(
    data: Mapping[str, object], context: ExpansionContext
) -> tuple[Config | None, list[Mistake]]:
    """Make a configuration of a file's data.

    Args:
        data: the result of the TOML reader; empty for the defaults.

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


def fields(table: type[ConfigTable]) -> dict[str, Kind | type[ConfigTable] | Tables]:
    """Return the keys of a table: a kind for a value, a class for a table within, or `Tables`."""
    keys: dict[str, Kind | type[ConfigTable] | Tables] = {}
    for name, hint in get_type_hints(table, include_extras=True).items():
        if get_origin(hint) is Annotated:
            keys[name] = hint.__metadata__[0]
        elif isinstance(hint, type) and issubclass(hint, ConfigTable):
            keys[name] = hint
        elif get_origin(hint) is tuple:
            keys[name] = Tables(get_args(hint)[0])
    return keys


def all_keys(table: type[ConfigTable] = Config, above: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key of the schema, tables before their keys."""
    for name, sort in fields(table).items():
        yield (*above, name)
        if isinstance(sort, Tables):
            yield from all_keys(sort.table, (*above, name))
        elif not isinstance(sort, Kind):
            yield from all_keys(sort, (*above, name))


def read_table(
    table: type[ConfigTable],
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
        elif isinstance(sort, Tables):
            given[name] = [
                read_table(sort.table, one, (*path, label), context, mistakes)
                for label, one in _labelled(value, path, mistakes)
            ]
        elif isinstance(value, dict):
            given[name] = read_table(sort, value, path, context, mistakes)
        else:
            text = f"found {described(value)}, expected a table, [{dotted(path)}]"
            mistakes.append(Mistake(dotted(path), text))
    return given


def _labelled(value: object, path: KeyPath, mistakes: list[Mistake]) -> Iterator[tuple[str, Plain]]:
    """Yield the tables of an array, each with the name by which messages call it."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        text = f"found {described(value)}, expected tables, each under [[{dotted(path)}]]"
        mistakes.append(Mistake(dotted(path), text))
        return
    for number, one in enumerate(value, 1):
        name = one.get("name")
        yield (name if isinstance(name, str) and name else str(number)), one


def _unknown(path: KeyPath, keys: Mapping[str, object]) -> Mistake:
    # The schema has no names of single tables of an array.
    array = path[0] == "shape" and len(path) > 1
    plain = (path[0], *path[2:]) if array else path
    meant = nearest(plain, list(all_keys()))
    suggestion = f"; did you mean {dotted(meant)}?" if meant else ""
    where = f"in [{dotted(path[:-1])}]" if len(path) > 1 else "at the top of the file"
    where = "in [[shape]]" if array else where
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
    over = {**given.get("script", {}), **given.get("worker", {}).get("script", {})}
    # A shape's own resources go before those of all workers, kind by kind.
    owned = given.get("worker", {}).get("res", {})
    plain["shape"] = [
        _with_defaults(Shape, {**over, **one, "res": {**owned, **one.get("res", {})}}, context)
        for one in given.get("shape", [])
    ]
    head["listen"] = head["listen"] or plain["address"]
    worker["dial"] = worker["dial"] or plain["address"]
    worker["cli_dial"] = worker["cli_dial"] or worker["dial"]
    return plain


def _with_defaults(table: type[ConfigTable], given: Plain, context: ExpansionContext) -> Plain:
    """Add the defaults that must be expanded, at every depth; msgspec knows the others."""
    plain = dict(given)
    defaults = {field.name: field.default for field in msgspec.structs.fields(table)}
    for name, sort in fields(table).items():
        if isinstance(sort, Tables):
            continue
        if not isinstance(sort, Kind):
            plain[name] = _with_defaults(sort, given.get(name, {}), context)
        elif sort.place and name not in given:
            try:
                plain[name] = sort.read(defaults[name], context)
            except Unfit:
                # Without a home directory there is no default place to meet. The error is raised by
                # the process that goes there; a mission that runs all by itself does not. A file
                # has no place then: no directory may get the name $HOME.
                plain[name] = defaults[name] if sort.check is not None else ""
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
            "workers on other nodes have to dial it; only head.listen may leave the host out",
        )
    yield from _shape_conflicts(config)
    of_workers = [("worker.res", config.worker.res)]
    of_workers += [(f"shape.{one.name}.res", one.res) for one in config.shape]
    for where, owned in of_workers:
        for kind in config.head.res.keys() & owned.keys():
            yield Mistake(
                f"head.res.{kind}",
                f"found it in {where}, too, expected one owner: workers, each with some of its "
                "own, or the scheduler, for the whole cluster",
            )
            return
    held = config.worker.reserve
    for where, script in [("", config.worker.script), *((one.name, one) for one in config.shape)]:
        whose = f"the job's {{}} ({where})" if where else "the job's {}"
        if script.nodes > 1 and not facts_of(config.system).launchers:
            yield Mistake(
                f"shape.{where}.nodes" if where else "script.nodes",
                f"found {script.nodes}, expected 1, as a job has workers on several nodes under "
                f"{several_nodes(' and ')} only",
            )
        if script.walltime is not None and held.walltime >= script.walltime:
            yield Mistake(
                "worker.reserve.walltime",
                f"found {format_walltime(held.walltime)}, expected less than "
                f"{whose.format('walltime')}, {format_walltime(script.walltime)}, or no time is "
                "left for tasks",
            )
        if script.memory is not None and held.memory >= script.memory:
            yield Mistake(
                "worker.reserve.memory",
                f"found {held.memory:g} GB, expected less than {whose.format('memory')}, "
                f"{script.memory:g} GB, or no memory is left for tasks",
            )


def _shape_conflicts(config: Config) -> Iterator[Mistake]:
    """Yield shapes without a name, and names that several have."""
    names: set[str] = set()
    for number, shape in enumerate(config.shape, 1):
        if not shape.name:
            text = "found nothing, expected a name for it, as in name = 'gpu'"
            yield Mistake(f"shape.{number}.name", text)
        elif shape.name in names:
            yield Mistake(f"shape.{shape.name}.name", "found it twice, expected different names")
        names.add(shape.name)
