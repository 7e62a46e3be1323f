"""Values of options as users write them for Slurm: times, memory, signals, and so on."""

from __future__ import annotations

import os
import re
import signal as signals
import time
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.slurm_words.grammar import BadUse
from grain.files.hosts import host_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grain.queue.records import Dependency, Receivers, Until

EXCLUSIVE = "exclusive"
"""The option of a job that takes whole nodes: the cores that each has to have."""

SINGLETON = "singleton"
"""The option of a job that waits for all earlier ones of its name; who submits it finds these."""

MOST_NICE = 2_147_483_645
"""The largest number by which a job can be set back."""

_SPREAD = r"(\*|block|cyclic)(:(\*|f?cyclic|block)){0,2}"
_DISTRIBUTION = rf"(?ai)(plane=[1-9]\d{{0,8}}|{_SPREAD})(,(no)?pack)?"
_UNITS = {"": 1.0, "M": 1.0, "K": 1 / 1024, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_MEMORY = r"(?ai)(\d{1,15})\s*([KMGTP]?)(?:B|IB)?"
_LIMIT = r"(?a)(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?"
_SIGNAL = r"(?i)([RB]{1,2}:)?(?:SIG)?([A-Z]+\d?|\d{1,2})(?:@(\d{1,5}))?"
_LATEST = 65_535  # seconds before the limit
_UNTIL: dict[str, Until] = {
    "afterok": "ok", "afterany": "any", "afternotok": "fail", "after": "begun", "aftercorr": "each",
}  # fmt: skip
_EACH = "aftercorr"
_WAITED_FOR = r"(?a)(\d{1,15})(?:_(?:(\d{1,9})|\*))?(?:\+(\d{1,7}))?"
_COUNT = r"0*[1-9]\d*"
_MAIL = "none|begin|end|fail|requeue|all|invalid_depend|stage_out|time_limit(_[589]0)?|array_tasks"
_BIND = "q|quiet|v|verbose|no|none|rank|(0x)?[0-9a-f*]+"
_UNITS_BOUND = "(socket|core|thread|ldom)s?"
_COUNTS = (
    "cores-per-socket msg-timeout ntasks-per-core ntasks-per-socket sockets-per-node thread-spec "
    "threads threads-per-core"
)
_INVALID = "{0}: error: Invalid --{1} specification"
_NO_NUMBER = '{0}: error: Invalid numeric value "{2}" for --{1}.'
_UNKNOWN = '{0}: error: unrecognized --{1} argument "{2}"'
# Options; what divides their arguments; a part of these, in small or large letters; the status of
# a command with any other; what it says, with its name, the option, the part, all, and its place.
_ARGUMENTS = (
    (_COUNTS, "", _COUNT, 1, _NO_NUMBER),
    ("core-spec wait-all-nodes", "", r"\d+", 1, _NO_NUMBER),
    ("switches", "", rf"{_COUNT}(@.*)?", 1, _NO_NUMBER),
    ("extra-node-info", ":", r"\*|\d*(-\d+)?", 1,
     '{0}: error: Invalid numeric value "{2}" for {4} arg of -B.'),
    ("wait-all-nodes", "", "[01]", 255, _INVALID),
    ("accel-bind", "", ".*[gmnv].*", 255, _INVALID),
    ("exclusive", "", "(user|mcs)?", 255, _INVALID),
    ("get-user-env", "", r"\d*[sl]?", 255, _INVALID),
    ("gres-flags", "", "(dis|en)(able|force)-binding", 255, _INVALID),
    ("mail-type", ",", rf"\s*({_MAIL})\s*", 255, _INVALID),
    ("no-kill", "", "(off|no)?", 255, _INVALID),
    ("send-libs", "", "(yes|y|no|n)?", 255, _INVALID),
    ("resv-ports", "", r"\d*", 1, '{0}: error: Invalid numeric value "{2}" for --resv-port.'),
    ("open-mode", "", "[at].*", 255, _INVALID),
    ("acctg-freq", ",", r"\d*|(task|energy|network|filesystem)=.*", 255, _INVALID + ": {3}"),
    ("priority", "", "(?!-).*", 255, "{0}: error: Priority must be >= 0"),
    ("profile", "", "(.*,)?(none|all|energy|task|lustre|filesystem|network)(,.*)?", 255,
     "{0}: error: invalid --profile={3} option"),
    ("hint", ",", "(compute|memory)_bound|(no)?multithread", 1,
     '{0}: error: unrecognized --hint argument "{3}", see --hint=help'),
    ("mem-bind", "[,:]", rf"{_BIND}|local|prefer|(no)?sort|(map|mask)_mem", 255, _UNKNOWN),
    ("cpu-bind", "[,:]", rf"{_BIND}|(map|mask)_(cpu|ldom)|rank_ldom|one_thread|{_UNITS_BOUND}", 1,
     _UNKNOWN + "\n{0}: fatal: Failed to parse --cpu-bind= values."),
    ("cpu-freq", "[-:]", r"\d.*|(lo|med|hi|co|onde|per|pow|sched|user).*", 255,
     _UNKNOWN + "\n{0}: error: Invalid --cpu-freq argument"),
    ("gpu-freq", ",", r"verbose|(memory=)?(low|medium|high|highm1|\d+)", 255,
     "{0}: error: Invalid --gpu-freq argument: gpu:{3}"),
    ("gpu-bind", "", r"(?!map_|mask_).+|map_gpu:[\d,*]+|mask_gpu:[\da-fx,*]+", 255,
     "{0}: error: Invalid --gpu-bind argument: gpu:{3}"),
)  # fmt: skip
_BEGIN_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_OF_DAY = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}


def time_limit(text: str) -> float:
    """Return a time limit in seconds; 0 for none.

    Args:
        text: ``M``, ``M:S``, ``H:M:S``, ``D-H``, ``D-H:M``, ``D-H:M:S``; 0, -1, ``UNLIMITED``.

    Raises:
        ValueError: it is not written so.
    """
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return 0.0
    match = re.fullmatch(_LIMIT, text)
    if match is None:
        raise ValueError(text)
    parts = [int(part) for part in match.groups()[1:] if part is not None]
    if match[1] is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return float(int(match[1]) * 86400 + hours * 3600 + minutes * 60 + seconds)
    if len(parts) == 3:
        return float(parts[0] * 3600 + parts[1] * 60 + parts[2])
    minutes, seconds = (*parts, 0)[:2]
    return float(minutes * 60 + seconds)


def node_count(text: str) -> int:
    """Return a number of nodes, as ``4`` or ``1k`` (1,024) or ``1m``.

    Raises:
        ValueError: it is not written so.
    """
    match = re.fullmatch(r"(?ai)(\d{1,9})([km]?)", text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20}[match[2].lower()]


def nice_value(text: str) -> int:
    """Return how far a job is set back, or, if it is negative, put forward; 100 for no number.

    Raises:
        ValueError: it is out of range.
    """
    if not re.fullmatch(r"(?a)[+-]?\d+", text):
        return 0 if text else 100  # as strtol(3) reads it
    if abs(int(text)) > MOST_NICE:
        raise ValueError(text)
    return int(text)


def distribution(text: str) -> str:
    """Return the argument of ``--distribution``, in small letters.

    Raises:
        ValueError: it is not written so, or ``arbitrary``: no file of hosts is read.
    """
    if not re.fullmatch(_DISTRIBUTION, text):
        raise ValueError(text)
    return text.lower()


def megabytes(text: str) -> float:
    """Return memory in MB, of 2**20 bytes.

    Raises:
        ValueError: it is not written so.
    """
    match = re.fullmatch(_MEMORY, text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _UNITS[match[2].upper()]


def signal_number(text: str) -> int:
    """Return the number of a signal, as ``USR1``, ``SIGUSR1`` or ``10``.

    Raises:
        ValueError: there is no such signal.
    """
    word = text.upper().removeprefix("SIG")
    if word.isdecimal():
        return int(signals.Signals(int(word)))
    try:
        return int(signals.Signals["SIG" + word])
    except KeyError:
        raise ValueError(text) from None


class Warned(NamedTuple):
    """A warning before the time limit: the signal, seconds before the limit, and who gets it."""

    signal: int
    before: float
    to: Receivers


def warning(text: str) -> Warned:
    """Return the warning of ``--signal=[[R][B]:]SIGNAL[@SECONDS]``.

    Raises:
        ValueError: it is not written so.
    """
    match = re.fullmatch(_SIGNAL, text)
    if match is None or int(match[3] or 0) > _LATEST:
        raise ValueError(text)
    to: Receivers = "script" if "B" in (match[1] or "").upper() else "steps"
    return Warned(signal_number(match[2]), float(match[3] or 60), to)


def begin_time(text: str, now: float) -> float:
    """Return the time of ``--begin``, in Unix seconds; that of ``sacct --starttime``, too.

    Args:
        text: ``now+1hour``, ``16:00``, ``2030-01-31[T12:34[:56]]``, ``tomorrow``, ``noon`` ...
        now: Unix seconds.

    Raises:
        ValueError: it is not written so.
    """
    word = text.strip().lower()
    here = time.localtime(now)
    midnight = time.mktime((here.tm_year, here.tm_mon, here.tm_mday, 0, 0, 0, 0, 0, -1))
    if match := re.fullmatch(r"now(?:([+-])(\d{1,9})([a-z]*))?", word):
        if match[1] is None:
            return now
        unit = match[3] or "second"
        found = [size for name, size in _BEGIN_UNITS.items() if name.startswith(unit.rstrip("s"))]
        if not found:
            raise ValueError(text)
        return now + int(match[2]) * found[0] * (1 if match[1] == "+" else -1)
    if word in {"today", "tomorrow"}:
        return midnight + (86400 if word == "tomorrow" else 0)
    if word in _OF_DAY:
        at = midnight + _OF_DAY[word] * 3600
        return at if at > now else at + 86400
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?", word):
        hour, minute, second = (int(part or 0) for part in match.groups()[:3])
        if not (hour <= (12 if match[4] else 23) and minute < 60 and second < 60):
            raise ValueError(text)
        if match[4]:
            hour = hour % 12 + 12 * (match[4] == "pm")
        at = midnight + hour * 3600 + minute * 60 + second
        return at if at > now else at + 86400
    return _date(text, here)


def _date(text: str, here: time.struct_time) -> float:
    match = re.fullmatch(
        r"(?:(\d{4})-(\d{1,2})-(\d{1,2})|(\d{1,2})/(\d{1,2})(?:/(\d{2,4}))?|(\d{2})(\d{2})(\d{2}))"
        r"(?:[-Tt](\d{1,2}):(\d{2})(?::(\d{2}))?)?",
        text.strip(),
        re.ASCII,
    )
    if match is None:
        raise ValueError(text)
    if match[1]:
        year, month, day = int(match[1]), int(match[2]), int(match[3])
    elif match[4]:
        year, month, day = int(match[6] or here.tm_year), int(match[4]), int(match[5])
    else:
        month, day, year = int(match[7]), int(match[8]), int(match[9])
    year += 2000 if year < 100 else 0
    hour, minute, second = (int(part or 0) for part in match.groups()[9:12])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 62):
        raise ValueError(text)
    try:
        return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except OverflowError:
        raise ValueError(text) from None


class DependencyList(NamedTuple):
    """The jobs for which a job waits.

    Attributes:
        after: dependencies on jobs by their numbers.
        any_of: True if one of them is enough.
        singleton: True to wait also for all earlier jobs of the same name.
    """

    after: tuple[Dependency, ...]
    any_of: bool = False
    singleton: bool = False


def dependencies(text: str) -> DependencyList:
    """Return the dependencies of ``-d afterok:12:13_4,after:14+5``; with ``?`` one is enough.

    Raises:
        ValueError: it is not written so.
    """
    from grain.queue.records import Dependency  # which srun in a job has no time for

    any_of, singleton, found = "?" in text, False, []
    for part in re.split("[,?]", text) if not (any_of and "," in text) else [text]:
        kind, _, numbers = part.strip().partition(":")
        if (kind, numbers, any_of) == ("singleton", "", False):
            singleton = True
            continue
        if kind not in _UNTIL or not numbers:
            raise ValueError(part)
        alike: dict[tuple[int | None, float], list[int]] = {}
        for word in numbers.split(":"):
            match = re.fullmatch(_WAITED_FOR, word)
            if match is None or (match[3] and kind != "after") or (match[2] and kind == _EACH):
                raise ValueError(word)
            task = int(match[2]) if match[2] else None
            alike.setdefault((task, 60.0 * int(match[3] or 0)), []).append(int(match[1]))
        found += [
            Dependency(jobs=tuple(some), until=_UNTIL[kind], task=task, delay=delay)
            for (task, delay), jobs in alike.items()
            for some in ([jobs] if task is None else [[job] for job in jobs])
        ]
    if any_of and len(found) > text.count("?") + 1:
        raise ValueError(text)  # of which one part has several sorts
    return DependencyList(tuple(found), any_of, singleton)


def gpus(text: str, *, gres: bool = False) -> int:
    """Return a number of GPUs, from ``2``, ``a100:2``; with `gres` from ``gpu:a100:2,gpu:1``.

    Raises:
        ValueError: it is not written so, or asks for something else.
    """
    if gres and text.lower() in {"", "none"}:
        return 0
    number = 0
    for part in text.split(","):
        words = part.split(":")
        if gres and words[0] == "gres":
            words = words[1:]
        if gres:
            if not words or words[0] != "gpu":
                raise ValueError(part)
            words = words[1:]
        count = words[-1] if words and words[-1].isdecimal() else ""
        if not count and words and re.fullmatch(r"[-.\d]+", words[-1]):
            raise ValueError(part)  # as 1.5, which is not the name of a type, either
        if not count and (not gres or len(words) > 1):
            raise ValueError(part)
        number += int(count or 1)
    return number


def gpus_of_sockets(command: str, given: Mapping[str, str]) -> int:
    """Return the GPUs of a node by ``--gpus-per-socket``; 0 without that.

    Args:
        command: its name, for messages.
        given: options by their long names.

    Raises:
        BadUse: the number of sockets is lacking.
        ValueError: a number is not written as it should be.
    """
    if "gpus-per-socket" not in given:
        return 0
    if "sockets-per-node" not in given:
        text = "--gpus-per-socket option requires --sockets-per-node specification"
        wrong = "Invalid generic resource (gres) specification"
        raise BadUse(f"{command}: error: {text}\n{command}: error: {wrong}", 1)
    return gpus(given["gpus-per-socket"]) * int(given["sockets-per-node"])


def asks_for_shards(given: Mapping[str, str]) -> bool:
    """Return True for options with a ``--gres`` for shards of a GPU, however it is written."""
    return "shard" in re.split("[,:]", given.get("gres", ""))


def shards(text: str) -> int:
    """Return a number of shards of a GPU, from ``shard``, ``shard:2``, ``shard:a100:2``.

    Raises:
        ValueError: it is not written so, or asks for something else, too.
    """
    match = re.fullmatch(r"(gres:)?shard(:[a-zA-Z]\w*)?(:(\d+))?", text, re.ASCII)
    if match is None or match[4] == "0":
        raise ValueError(text)
    return int(match[4] or 1)


def span(seconds: float) -> str:
    """Return a span as ``squeue`` shows it: ``M:SS``, ``H:MM:SS``, ``D-HH:MM:SS``."""
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def long_span(seconds: float) -> str:
    """Return a span as ``sacct`` and ``scontrol`` show it: ``[D-]HH:MM:SS``."""
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


def moment(at: float, form: str = "") -> str:
    """Return a time as Slurm shows it.

    Args:
        at: Unix seconds.
        form: the value of ``SLURM_TIME_FORMAT``.
    """
    form = "" if form in ("standard", "relative") else form
    return time.strftime(form or "%Y-%m-%dT%H:%M:%S", time.localtime(at))


def hosts(text: str) -> list[str]:
    """Return the hosts of a list as ``n[1-3,07-09],login``.

    Raises:
        BadUse: it is not written so, or names very many.
    """
    try:
        return host_names(text)
    except ValueError:
        raise BadUse(f"Invalid hostlist: {text}") from None


def hosts_of_file(text: str) -> str:
    """Return the list of hosts in the text of a file, of which ``#`` begins comments."""
    lines = [line.partition("#")[0] for line in text.split("\n")]
    return ",".join(" ".join(lines).split())


_READ_BY: Mapping[str, Callable[[str], object]] = {
    "delay-boot": time_limit, "distribution": distribution, "mem-per-gpu": megabytes,
    "signal": warning, "time-min": time_limit, "tmp": megabytes,
}  # fmt: skip


def check_arguments(command: str, given: Mapping[str, str]) -> None:
    """Refuse wrong values of options that are ignored, or have a few words only, as Slurm does.

    Args:
        command: its name, for messages.
        given: options by their long names.

    Raises:
        BadUse: a value is wrong.
    """
    for names, between, part, status, text in _ARGUMENTS:
        for name in given.keys() & set(names.split()):
            whole = given[name]
            for at, word in enumerate(re.split(between, whole) if between else [whole]):
                if not re.fullmatch(part, word, re.ASCII | re.IGNORECASE):
                    place = ("first", "second", "third")[min(at, 2)]
                    raise BadUse(text.format(command, name, word, whole, place), status)
    for name, read in _READ_BY.items():
        if name in given:
            try:
                read(given[name])
            except ValueError:
                raise BadUse(_INVALID.format(command, name), 255) from None


def check_owner(command: str, given: Mapping[str, str], user: str) -> None:
    """Refuse another user's ``--uid``, or another group's ``--gid``, as for who is not root.

    Args:
        command: its name, for messages.
        given: options by their long names.
        user: the name of this one.

    Raises:
        BadUse: it is another one.
    """
    for name, own in ("uid", (user, str(os.getuid()))), ("gid", _own_group()):
        if name in given and given[name] not in own:
            raise BadUse(_INVALID.format(command, name), 255)


def _own_group() -> tuple[str, ...]:
    """Return the number of the group of this process, and its name if it has one."""
    import grp

    number = os.getgid()
    try:
        return str(number), grp.getgrgid(number).gr_name
    except KeyError:
        return (str(number),)
