"""Tables of pages that follow from the code: `docs/extensions/tables.py` puts them into the site.

A page has a comment such as ``<!-- table: the metrics -->`` in the place of each.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from grain.cli.top.prompts import KEYS
from grain.eventlog import schema
from grain.eventlog.causes import RunFailure
from grain.eventlog.usage import LearnedAmount, RunMember, Usage
from grain.head import messages as mission_messages
from grain.head.gnaw.metrics import METRICS
from grain.worker import messages as worker_messages
from grain.worker.agent.command import parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KINDS: tuple[type[msgspec.Struct], ...] = (
    *get_args(schema.AnyLine),
    Usage,
    LearnedAmount,
    RunMember,
    RunFailure,
    schema.FunctionStanding,
)
RUNNER = (
    worker_messages.Ready,
    worker_messages.LaneOpen,
    worker_messages.StartRun,
    worker_messages.Cancel,
    worker_messages.Ended,
    worker_messages.AskEnding,
    worker_messages.EndingTold,
)
PLACE = re.compile(r"^<!-- table: (.*) -->$", re.MULTILINE)


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def keys_of_top() -> str:
    """Return the keys of `grain top`, as its help has them."""
    return table(["key", ""], KEYS)


def metrics() -> str:
    """Return the metrics that a scheduler serves."""
    rows = [
        [f"`{one.name}`", one.kind, f"`{one.label}`" if one.label else "", one.help]
        for one in METRICS
    ]
    return table(["metric", "kind", "label", ""], rows)


def options_of_a_worker() -> str:
    """Return the options of `grain-worker`, as its help has them."""
    rows = []
    # argparse has no public list of options; a test of grain-worker reads this one as well.
    for action in parser()._actions:
        if action.dest != "help":
            words = f"{action.option_strings[-1]} {action.metavar or ''}".strip()
            text = (action.help or "") % vars(action)
            rows.append([f"`{words}`", text.replace("|", "\\|").replace("$", "\\$")])
    return table(["option", ""], rows)


def meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the meaning of each field, from the docstrings of a type and its bases."""
    found = {}
    for cls in reversed(kind.__mro__):
        _, _, attributes = (inspect.getdoc(cls) or "").partition("Attributes:\n")
        for name, text in re.findall(r"^    (\w+): (.*(?:\n     .*)*)", attributes, re.MULTILINE):
            found[name] = " ".join(text.split())
    return found


def type_name(type_: Any) -> str:
    """Return the type of a field in JSON's words."""
    match type_:
        case msgspec.inspect.FloatType() | msgspec.inspect.IntType():
            return "number"
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            return "string"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.VarTupleType():
            first, *rest = re.split("(?=[ ,])", type_name(type_.item_type), maxsplit=1)
            return f"array of {first}s{''.join(rest)}"
        case msgspec.inspect.DictType():
            return f"object of {type_name(type_.value_type)}s"
        case msgspec.inspect.UnionType():
            return " or ".join(type_name(one) for one in type_.types)
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.StructType():
            return f"object, see {type_.cls.__name__.lower()}"
    raise AssertionError(type_)


def section(kind: type[msgspec.Struct]) -> str:
    """Return the section on a kind of line."""
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    title = f"`{info.tag}`" if info.tag else kind.__name__
    first = (inspect.getdoc(kind) or "").splitlines()[0].replace("``", "`")
    rows = []
    own = meanings(kind)
    for field in info.fields:
        if field.name == "time" and kind is not schema.LogStarted:
            continue
        meaning = own[field.name].replace("``", "`").replace("|", "\\|")
        needed = "always" if field.required else "optional"
        rows.append([f"`{field.name}`", f"{type_name(field.type)}, {needed}", meaning])
    return f"### {title}\n\n{first}\n\n" + (table(["field", "", ""], rows) if rows else "")


def lines_of_a_log() -> str:
    """Return a section for each kind of line of an event log."""
    return "\n".join(map(section, KINDS))


def message_row(kind: type[msgspec.Struct]) -> list[str]:
    """Return the row of a message: its name, and its docstring with its fields."""
    text, _, _ = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    fields = [f"`{name}`: {meaning}" for name, meaning in meanings(kind).items()]
    said = " ".join([*text.split(), *fields]).replace("``", "`").replace("|", "\\|")
    others = [name for name in kind.__struct_fields__ if name not in meanings(kind)]
    plain = f" (also {', '.join(f'`{name}`' for name in others)})" if others else ""
    return [f"`{kind.__name__}`", said + plain]


def messages() -> str:
    """Return a table of messages for each sender and receiver."""
    senders = {
        "Mission to head": mission_messages.MISSION,
        "Head to mission": mission_messages.HEAD,
        "Agent to head": worker_messages.AGENT,
        "Head to agent": worker_messages.HEAD,
        "Agent and runner, mission and runner": RUNNER,
    }
    return "\n".join(
        f"### {who}\n\n" + table(["message", ""], map(message_row, kinds))
        for who, kinds in senders.items()
    )


TABLES: dict[str, Callable[[], str]] = {
    "the keys of grain top": keys_of_top,
    "the metrics": metrics,
    "the options of grain-worker": options_of_a_worker,
    "the lines of an event log": lines_of_a_log,
    "the messages": messages,
}
"""The tables, by the names in the comments."""


def filled(text: str) -> str:
    """Return a page with its tables; a name that is not known is a `KeyError`."""
    return PLACE.sub(lambda place: TABLES[place[1]](), text)
