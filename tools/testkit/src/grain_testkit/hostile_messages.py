"""Random messages of every kind that a wire can carry, with more or less sense."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from hypothesis import strategies as st

from grain.edge.messages import MESSAGES as EVERY_CHANNEL
from grain.edge.questions import Ask, pack
from grain.edge.version import Versions
from grain.eventlog.causes import RunFailure
from grain.eventlog.soft_stops import Interruption
from grain.eventlog.usage import ProgramState, RunReport, encode_report
from grain.facts.amounts import AskedAmounts, Histogram
from grain.facts.rows import Function, GroupRuns
from grain.head.messages import (
    HEAD,
    MISSION,
    Crash,
    Ending,
    FailedOn,
    HeldCalls,
    LaneCall,
    LaneCount,
    LaneFailure,
    RegisterMission,
)
from grain.head.service import CODEC as HEAD_CODEC
from grain.worker.messages import (
    AGENT,
    LANE_CODEC,
    BlockingCode,
    Ended,
    GangPart,
    HowEnded,
    Inspected,
    InventoryRun,
    Outlived,
    PastAttempts,
    Status,
)
from grain.worker.messages import CODEC as AGENT_CODEC
from grain.worker.messages import HEAD as AGENT_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.edge.messages import Codec, Message, Payload

    Values = dict[str, st.SearchStrategy[Any]]

# Few values each, so that messages refer to each other: sensible ones in most messages, as one odd
# value is enough for a message to be refused.
SENSE: Values = {
    "str": st.sampled_from(["liar", "other", "honest-mission"]),
    "int": st.integers(0, 6),
    "float": st.sampled_from([0.0, 1.5]),
    "float | None": st.sampled_from([None, 1.5, 100.0]),
    "bool": st.booleans(),
    "bytes": st.sampled_from([b"f" * 16, b"g" * 16]),
    "dict[str, Any]": st.sampled_from(
        [
            {},
            {"Cores": 1},
            {"Cores": [1]},
            {"Cores": 2},
            {"Cores": 0.5},
            {"Cores": [0, [1, 0.25]]},
            {"Cores": "all"},
            {"Cores": {"N": 1, "spread": True}},
            {"Cores": {"ids": 4, "groups": [["0,2", "1,3"]]}, "GPUs": {"ids": 1, "near": ["0"]}},
            {"Cores": 1, "GPUs": 0.5},
            {"Unknown": 1},
            {"WTime": {"T": 90.0}},
        ]
    ),
    "tuple[float, ...]": st.just((8.0, math.inf)),
    "Attempt": st.tuples(st.sampled_from([1, 1, 2]), st.integers(0, 8)),
    "Any": st.sampled_from([b"", encode_report(RunReport(started=1.0, ended=2.0))]),
    "Report": st.sampled_from([b"", encode_report(RunReport(started=1.0, ended=2.0)), 0.125]),
}
_odd_numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 2**63])
_odd_floats = st.sampled_from([-math.inf, -1.0, 0.0, 1.5, 1e300, math.inf, math.nan])
_odd_names = st.sampled_from(["liar", "", "x" * 300, "\x1b]0;liar\x07\n\0", "[!", "\u202e"])
ODD: Values = {
    "str": _odd_names,
    "int": _odd_numbers,
    "float": _odd_floats,
    "float | None": _odd_floats,
    "bool": st.booleans(),
    "bytes": st.sampled_from([b"", b"f" * 16, b"h" * 400]),
    "dict[str, Any]": st.dictionaries(
        st.sampled_from(["Cores", "Memory", "WTime", "GPUs", "Capacity", "Token", "Unknown"]),
        st.one_of(
            st.sampled_from(
                [1, 2, 0, -5, 2**40, math.nan, math.inf, 1e300, "", "tag", "all", None, True, b""]
            ),
            st.lists(
                st.sampled_from([0, 1, 1, 2, -1, "x", [1, 0.5], [2, math.nan], [0]]), max_size=3
            ),
            st.fixed_dictionaries(
                {"ids": st.sampled_from([2, [0, 1], [[0, 0.5]], "all", -1])},
                optional={
                    "groups": st.sampled_from([[], [["0", "1"]], [["0-9999999"]], [[[0], [0]]], 3]),
                    "near": st.sampled_from([[], ["0", "1"], [[2**40]], "01"]),
                },
            ),
            st.fixed_dictionaries(
                {},
                optional={
                    "T": _odd_floats,
                    "softT": _odd_floats,
                    "group": _odd_names,
                    "countdown": st.booleans(),
                    "N": _odd_numbers,
                },
            ),
        ),
        max_size=3,
    ),
    "tuple[float, ...]": st.lists(_odd_floats, max_size=3).map(tuple),
    "Attempt": st.tuples(st.sampled_from([1, 2, -1, 2**62]), _odd_numbers),
    "Any": st.sampled_from([None, 7, "", {"started": "x"}, b"h" * 400]),
    "Report": st.sampled_from([0.0, 0.2, b"", b"h" * 400]),
}


def _words(literal: Any) -> st.SearchStrategy[str]:
    return st.sampled_from(get_args(literal))


def _built(kind: type[Any], values: Values, **fixed: st.SearchStrategy[Any]) -> Any:
    """Return messages of a kind, with values of the right types and no more sense than given.

    Raises:
        KeyError: a field has a type that `values` has not.
    """
    types: dict[str, str] = {}
    for cls in reversed(kind.__mro__):
        types.update(inspect.get_annotations(cls))
    fields = {
        name: _words(get_type_hints(kind)[name])
        if types[name].startswith("Literal")
        else values[types[name]]
        for name in kind.__struct_fields__
    }
    return st.builds(kind, **{**fields, **fixed})


for _values in (SENSE, ODD):
    _text = _values["str"]
    _values["Versions"] = st.builds(Versions, _text, _text, _text, _text)
    _values["Outlived | None"] = st.none() | _built(Outlived, _values)
    _values["HowEnded"], _values["Interruption"] = _words(HowEnded), _words(Interruption)
    _values["PastAttempts | None"] = st.none() | _built(PastAttempts, _values)
    _values["GangPart | None"] = st.none() | _built(GangPart, _values)
    _values["Crash"] = _built(Crash, _values)
    _values |= {"Words": _text, "int | None": st.none() | _values["int"]}
    _values["RunFailure"] = _built(RunFailure, _values)
    _values["Raised"] = st.none() | _values["RunFailure"]
    _values["BlockingCode"] = _built(BlockingCode, _values)
    _figure = _values["float"]
    _values["dict[str, float]"] = st.dictionaries(_text, _figure, max_size=3)
    for _key, _one in (("str", _text), ("int", _values["int"])):
        _values[f"dict[{_key}, int]"] = st.dictionaries(_one, _values["int"], max_size=3)
    _values["dict[float, int]"] = st.dictionaries(_figure, _values["int"], max_size=3)
    _values["Histogram"] = _built(Histogram, _values)
    _asked = st.dictionaries(_text, _built(AskedAmounts, _values), max_size=3)
    _values["dict[str, AskedAmounts]"] = _asked
    _seen = st.tuples(_figure, _figure, _values["int"])
    _values["list[tuple[float, float, int]]"] = st.lists(_seen, max_size=3)
    _groups = st.dictionaries(_text, _built(GroupRuns, _values), max_size=3)
    _values["dict[str, GroupRuns]"] = _groups
    for _name, _one in (
        ("int", _values["int"]),
        ("bytes", _values["bytes"]),
        ("str", _text),
        ("Attempt", _values["Attempt"]),
        ("Crash", _values["Crash"]),
        ("InventoryRun", _built(InventoryRun, _values)),
        ("Function", _built(Function, _values)),
        ("HeldCalls", _built(HeldCalls, _values)),
        ("LaneCall", _built(LaneCall, _values)),
        ("LaneCount", _built(LaneCount, _values)),
        ("LaneFailure", _built(LaneFailure, _values)),
        (
            "ProgramState",
            st.builds(ProgramState, _text, _figure, st.none() | _figure, st.none() | _figure),
        ),
    ):
        _values[f"tuple[{_name}, ...]"] = st.lists(_one, max_size=3).map(tuple)
    _places = st.lists(_built(FailedOn, _values), max_size=3)
    _values["tuple[FailedOn, ...]"] = _places.map(tuple)
    _values["Status"] = _words(Status)
    _values["Ending"] = _words(Ending)


def messages(kinds: Iterable[type[Message]]) -> st.SearchStrategy[Message]:
    """Return messages of these kinds; three of four make sense by themselves."""
    # A liar may not come as the honest mission, which would lose its id to it.
    own: dict[Any, Values] = {RegisterMission: {"mission": st.sampled_from(["liar", "other"])}}
    wanted = list(dict.fromkeys(kinds))
    sense = st.one_of([_built(kind, SENSE, **own.get(kind, {})) for kind in wanted])
    odd = st.one_of([_built(kind, ODD) for kind in wanted])
    return st.one_of(sense, sense, sense, odd)


def kinds_of(codec: Codec) -> list[type[Message]]:
    """Return the kinds that a codec lets through to its program."""
    return [kind for kind in codec.types if kind not in EVERY_CHANNEL]


# Each peer gets, besides what is meant for it, whatever else the codec of its channel lets through.
TO_HUB = {
    "mission": messages(MISSION),
    "worker": messages(AGENT),
    "question": messages([Ask]),
    "any": messages(kinds_of(HEAD_CODEC)),
}
TO_MISSION = st.one_of(messages(HEAD), messages(HEAD), messages(kinds_of(HEAD_CODEC)))
TO_AGENT = st.one_of(messages(AGENT_HEAD), messages(AGENT_HEAD), messages(kinds_of(AGENT_CODEC)))
FROM_RUNNER = messages([Ended, Inspected])
IN_LANE = messages(kinds_of(LANE_CODEC))
_ways = {"status": st.sampled_from(["done", "returned"]), "crash": st.sampled_from(["", "died"])}
ENDED = st.one_of(_built(Ended, SENSE, **_ways), messages([Ended]))

payloads = st.sampled_from([None, b"", b"payload", pack([1, 2]), pack("words"), pack({"a": 1})])


def travel(codec: Codec, message: Message, payload: bytes | None) -> tuple[Message, Payload]:
    """Return a message as it arrives at the other end of a wire."""
    beside = payload if type(message).max_payload else None
    [arrived] = codec.decode_batch(b"\x91" + codec.encode(message, beside))
    return arrived
