"""The check of what peers state, before the hub believes it. Plain functions, no state.

The codec refuses messages of a wrong form. What is left are values of the right form that make no
sense: a negative amount of memory, a core that appears twice, a time that is not a number. A hub
that took one of them would stumble later, while it serves another peer. So every value with a
meaning passes through here first, and only a peer that states nonsense is dropped, with the reason.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from grain.head.errors import BadMessage
from grain.head.messages import (
    AVOIDED,
    FAILURES,
    FUNCTIONS,
    KINDS,
    LANES,
    Ask,
    LaneCall,
    LaneFailure,
    LaneReport,
    Outlook,
    RegisterMission,
    Request,
    Submit,
)
from grain.resource import Resource, WTime, from_data
from grain.worker.messages import (
    PRINTED,
    CoresComputed,
    DefineFunction,
    Inspected,
    Inventory,
    LoopBlocked,
    RegisterWorker,
    RunEnded,
    TasksPrinted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grain.edge.messages import Message
    from grain.edge.version import Versions
    from grain.worker.messages import Attempt, Outlived

_ID = 256  # characters of an id or a name of a peer
_DETAIL = 4096  # characters of the way in which a process ended, and of other text for display
_CALLS = 10**9  # calls of a function that end in lanes between two reports
_CRASHES = 32  # crashes of one task: it is given up long before
_DIGEST = 24  # bytes of the digest of a function
_SETTINGS = 512 * 1024  # bytes of a mission's settings, which go along with each of its leases
_GPUS = 1024  # of a run
_GPU_IDS = 1_000_000
_DEPTH = 8  # levels of lists and dicts in the data of a resource
# Numbers, and characters, in the data of a resource: the cores of the largest node fit, and its
# text, which travels in a `Notice`, is far shorter than a message may be.
_VALUES = 32768
_FARTHEST = 1e10  # seconds, three centuries: sums of times remain exact to a millisecond


def resources_of(data: Mapping[str, Any]) -> Resource:
    """Return the resources that a peer has, or gives to a run, from plain data.

    Kinds without a class here are kept as they are: they can be shown and passed on.

    Raises:
        BadMessage: they make no sense, or they are alternatives.
    """
    resources = _resources(data)
    if len(resources.alternatives()) > 1:
        raise BadMessage(f"{resources.ask()} can be asked for, and not be there")
    return resources


def request_of(data: Mapping[str, Any]) -> Resource:
    """Return the resources that a mission asks for.

    Raises:
        BadMessage: they make no sense, or they are a supply and no request.
    """
    resources = _resources(data)
    for one in resources.alternatives():
        wtime = one.get(WTime)
        if isinstance(wtime, WTime) and wtime.countdown:
            raise BadMessage(f"{resources.ask()} is asked for: only a worker's time counts down")
    return resources


def _resources(data: Mapping[str, Any]) -> Resource:
    try:
        _check_plain(data, _DEPTH, _VALUES)
        resources = from_data(data, unknown="keep")
        # Kinds that any user may have written: a kind whose text or hash fails would do so later,
        # amid the work for others.
        resources.ask()
        hash(resources)
    except Exception as error:
        raise BadMessage(f"resources that make no sense: {error}") from error
    return resources


def check_message(message: Message) -> None:
    """Check the values of a message from a mission or an agent, other than resources.

    Raises:
        BadMessage: one of them makes no sense.
    """
    check = _CHECKS.get(type(message))
    if check is not None:
        check(message)


def check_attempt(attempt: Attempt, epoch: int, last: int) -> None:
    """Check a run that a worker reports.

    Args:
        last: the number of the last run that this head has begun.

    Raises:
        BadMessage: it names a run that this head has yet to begin.
    """
    if attempt[0] == epoch and attempt[1] > last:
        raise BadMessage(f"run {attempt} is reported, and has not begun")


def _check_plain(data: Any, depth: int, values: int) -> int:
    """Check that data are plain, finite and of a moderate size; return how many values are left."""
    if isinstance(data, dict | list):
        if not depth:
            raise ValueError("its data are nested too deeply")
        values -= 1
        for part in data:
            values = _check_plain(part, depth - 1, values)
            if isinstance(data, dict):
                if not isinstance(part, str):
                    raise TypeError(f"{part!r} is not a name")
                values = _check_plain(data[part], depth - 1, values)
        return values
    if isinstance(data, float) and not math.isfinite(data):
        raise ValueError(f"{data} is not an amount")
    if not (data is None or isinstance(data, bool | int | float | str)):
        raise ValueError(f"{type(data).__name__} is not plain data")
    values -= len(data) if isinstance(data, str) else 1
    if values < 0:
        raise ValueError(f"its data are larger than {_VALUES} values")
    return values


def _check_text(name: str, text: str, most: int = _ID) -> None:
    if len(text) > most:
        raise BadMessage(f"its {name} has {len(text)} characters; {most} are the most")


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is not None and not -_FARTHEST <= seconds <= _FARTHEST:
        raise BadMessage(f"{name} = {seconds} s: no time is that long")


def _check_peer(
    id: str,  # noqa: A002 - its name
    name: str,
    host: str,
    versions: Versions,
) -> None:
    if not id:
        raise BadMessage("it registers without an id")
    texts = (versions.interpreter, versions.python, versions.grain, versions.numpy)
    for label, text in (("id", id), ("name", name), ("host", host)):
        _check_text(label, text)
    for text in texts:
        _check_text("version", text)


def _check_connection(connection: int) -> None:
    if connection < 1:
        raise BadMessage(f"connection {connection}: connections are counted from 1")


def _check_digest(digest: bytes) -> None:
    if len(digest) > _DIGEST:
        raise BadMessage(f"a digest of {len(digest)} bytes; {_DIGEST} are the most")


def _check_mission(message: RegisterMission) -> None:
    _check_peer(message.mission, message.name, message.host, message.versions)
    _check_connection(message.connection)
    if not 0 <= message.number < 10**9:
        raise BadMessage(f"{message.number} is not the number of a mission")
    if len(message.settings) > _SETTINGS:
        raise BadMessage(
            f"its settings have {len(message.settings)} bytes; {_SETTINGS} is the most"
        )


def _check_worker(message: RegisterWorker) -> None:
    _check_peer(message.worker, message.name, message.host, message.versions)
    _check_connection(message.connection)
    _check_text("job", message.job)
    _check_text("cluster", message.cluster)
    _check_text("system", message.system)
    _check_text("listed", message.listed)
    for digest in message.functions:
        _check_digest(digest)


def _check_request(message: Request) -> None:
    _check_text("interpreter", message.interpreter)


def _check_submit(message: Submit) -> None:
    if message.task < 1:
        raise BadMessage(f"task {message.task}: tasks are counted from 1")
    if not math.isfinite(message.urgency):
        raise BadMessage(f"a task of urgency {message.urgency}: it is a finite number")
    if len(message.crashes) > _CRASHES:
        raise BadMessage(f"{len(message.crashes)} crashes of a task; {_CRASHES} are the most")
    for crash in message.crashes:
        _check_text("worker", crash.worker)
        _check_text("crash", crash.how, _DETAIL)
        _check_seconds("the time of a crash", crash.at)
        _check_outlived(crash.outlived)
        _check_text("worker", crash.absent)
    if len(message.avoid) > AVOIDED:
        raise BadMessage(f"it avoids {len(message.avoid)} places; {AVOIDED} are the most")
    for place in message.avoid:
        _check_text("worker", place.worker)
        if len(place.gpus) > _GPUS or not all(0 <= gpu < _GPU_IDS for gpu in place.gpus):
            raise BadMessage(f"the GPUs {place.gpus}: no run has these")
    if message.past is not None:
        if message.past.count < 1:
            raise BadMessage(f"{message.past.count} attempts before a task: one is the least")
        _check_text("attempt", message.past.text, _DETAIL)


def _check_outlived(outlived: Outlived | None) -> None:
    if outlived is not None:
        for name, seconds in (("ran", outlived.ran), ("life", outlived.life)):
            _check_seconds(f"the {name} of a run", seconds)


def _check_inventory(message: Inventory) -> None:
    for run in message.runs:
        _check_text("mission", run.mission)
        _check_seconds("elapsed", run.elapsed)
        _check_seconds("left", run.left)
        if not run.mission or run.task < 1:
            raise BadMessage(f"run {run.attempt} is reported of no task: {run.mission}:{run.task}")


def _check_ended(message: RunEnded) -> None:
    _check_text("crash", message.detail, _DETAIL)
    _check_text("worker", message.lost)
    _check_outlived(message.outlived)


def _check_function(message: DefineFunction) -> None:
    _check_digest(message.digest)
    _check_text("function", message.name)


def _check_blocked(message: LoopBlocked) -> None:
    code = message.code
    for text in (code.function, code.where, code.line, code.instead):
        _check_text("blocking code", text, _DETAIL)
    _check_seconds("blocked for", code.seconds)


def _check_programs(message: Inspected) -> None:
    for program in message.programs:
        for value in (program.seconds, program.cpu, program.memory):
            if value is not None:
                _check_seconds("programs", value)


def _check_outlook(message: Outlook) -> None:
    if message.left is not None:
        _check_seconds("the time left", message.left)
    if min(message.ended, message.total, message.left or 0.0) < 0:
        raise BadMessage(f"{message.ended} of {message.total} calls, {message.left} s left")
    if len(message.functions) > FUNCTIONS or message.more_functions < 0:
        raise BadMessage(f"{len(message.functions)} functions; {FUNCTIONS} are the most")
    for row in message.functions:
        _check_figures(row.name, row)


def _check_figures(function: str, value: Any) -> None:
    """Check the names and numbers of a row of sums, whatever its fields are."""
    match value:
        case str():
            _check_text("function", value)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _check_figures(function, getattr(value, name))
        case dict():
            if len(value) > KINDS:
                raise BadMessage(f"{len(value)} sums of a kind; {KINDS} are the most")
            for key, one in value.items():
                if isinstance(key, str):
                    _check_text("kind of resource", key)
                _check_figures(function, one)
        case list() | tuple():
            if len(value) > KINDS:
                raise BadMessage(f"{len(value)} amounts of a kind; {KINDS} are the most")
            for one in value:
                _check_figures(function, one)
        case _ if not 0 <= value < math.inf:
            raise BadMessage(f"amounts of {function} that cannot be")


def _check_lanes(message: LaneReport) -> None:
    many = (
        ("calls", message.calls, LANES),
        ("functions", message.counts, LANES),
        ("requests", message.held, LANES),
    )
    for name, items, most in (*many, ("failures", message.failures, FAILURES)):
        if len(items) > most:
            raise BadMessage(f"{len(items)} {name} in lanes; {most} are the most")
    calls: tuple[LaneCall | LaneFailure, ...] = (*message.calls, *message.failures)
    for call in calls:
        _check_digest(call.function)
        if call.task < 1:
            raise BadMessage(f"task {call.task} in a lane: tasks are counted from 1")
    for held in message.held:
        if not 0 <= held.calls <= _CALLS or not 1 <= held.first <= held.last:
            raise BadMessage(f"{held.calls} calls from {held.first} to {held.last} are held")
    for count in message.counts:
        _check_digest(count.function)
        counts = (count.done, count.failed, count.retried)
        if not 0 <= min(counts) <= max(counts) <= _CALLS:
            raise BadMessage(f"{counts} calls in lanes: no report has so many")
    for failure in message.failures:
        _check_text("worker", failure.worker)
    times = [call.seconds for call in calls] + [count.seconds for count in message.counts]
    for seconds in (*times, *(failure.ago for failure in message.failures)):
        _check_seconds("the time of a call", seconds)
        if seconds < 0:
            raise BadMessage(f"a call in a lane has taken {seconds} s")


def _check_computed(message: CoresComputed) -> None:
    if message.cores is not None:
        _check_seconds("cores that compute", message.cores)
        if message.cores < 0:
            raise BadMessage(f"{message.cores} cores compute")


def _check_printed(message: TasksPrinted) -> None:
    _check_text("mission", message.mission)
    if len(message.text) > PRINTED or message.lost < 0:
        raise BadMessage(f"{len(message.text)} characters, {message.lost} lines lost")


def _check_question(message: Ask) -> None:
    for text in (message.mission, message.pattern, message.by):
        _check_text("question", text)


_CHECKS: dict[type[Message], Callable[[Any], None]] = {
    RegisterMission: _check_mission,
    RegisterWorker: _check_worker,
    Request: _check_request,
    Submit: _check_submit,
    Inventory: _check_inventory,
    RunEnded: _check_ended,
    LoopBlocked: _check_blocked,
    Inspected: _check_programs,
    Outlook: _check_outlook,
    LaneReport: _check_lanes,
    CoresComputed: _check_computed,
    TasksPrinted: _check_printed,
    DefineFunction: _check_function,
    Ask: _check_question,
}
