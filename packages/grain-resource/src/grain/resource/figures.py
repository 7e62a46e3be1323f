"""Figures as text, the same in all displays: times, spans, counts, amounts, signals, hosts.

In sentences and on pages a span has its two largest units (`span`). In the columns of a terminal it
is short, and those below each other compare (`clock`).
"""

from __future__ import annotations

import math
import re
import signal
import time
from itertools import groupby
from typing import TYPE_CHECKING

from grain.resource.spans import on_clock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SECOND = "%Y-%m-%d %H:%M:%S"
_BRIEF = 0.0005  # seconds below which a span is in microseconds: no call takes 0 s


def span(seconds: float) -> str:
    """Return a span of time for a sentence, in its two largest units.

    >>> [span(s) for s in (0, 17e-6, 0.21, 4.25, 45, 600, 11_530, 200_000)]
    ['0 s', '17 µs', '0.21 s', '4.2 s', '45 s', '10 min', '3 h 12 min', '2 d 8 h']
    """
    if seconds < _BRIEF:
        return _brief(seconds)
    if seconds < 9.95:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(whole, 60, "min", "s")
    whole = round(seconds / _MINUTE)
    if whole < _DAY / _MINUTE:
        return _two(whole, 60, "h", "min")
    return _two(round(seconds / _HOUR), 24, "d", "h")


def clock(seconds: float | None) -> str:
    """Return a span of time for a column: three digits below a minute, then as on a clock.

    Args:
        seconds: the span; None where there is none, or where it is not known.

    >>> [clock(s) for s in (None, 17e-6, 0.3, 44.51, 2530.9, 183_600)]
    ['-', '17 µs', '0.3 s', '44.5 s', '00:42:10', '2-03:00:00']
    """
    if seconds is None:
        return "-"
    if seconds < _BRIEF:
        return _brief(seconds)
    if seconds < _MINUTE:
        return f"{min(seconds, 59.9):.3g} s"
    return on_clock(int(seconds))


def counted(count: int, noun: str, several: str = "") -> str:
    """Return a count with its noun.

    Args:
        several: of several; by default the noun with an s.

    >>> counted(1, "task"), counted(1234, "task"), counted(2, "batch", "batches")
    ('1 task', '1,234 tasks', '2 batches')
    """
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def rate(per_second: float) -> str:
    """Return a rate in the unit that suits it.

    >>> rate(6.12), rate(0.25), rate(0.002), rate(0)
    ('6.1/s', '15/min', '7.2/h', '0')
    """
    if not per_second:
        return "0"
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        amount = per_second * factor
        if amount >= 1 or unit == "h":
            break
    return (
        f"{amount:.1f}/{unit}" if amount < 10 and amount != int(amount) else f"{amount:.0f}/{unit}"
    )


def percent(share: float, *, down: bool = False) -> str:
    """Return a part of 1 in percent.

    Args:
        down: True to round down, so that only all is 100 %.

    >>> [percent(share) for share in (0, 0.0004, 0.004, 0.5, 0.999)], percent(0.999, down=True)
    (['0 %', '< 1 %', '0.4 %', '50 %', '100 %'], '99 %')
    """
    number = 100 * share
    if down:
        return f"{math.floor(number)} %"
    if 0 < number < 0.95:
        return "< 1 %" if number < 0.05 else f"{number:.1f} %"
    return f"{number:.0f} %"


def amount(number: float) -> str:
    """Return an amount with three digits that count, all of a whole number, and no exponent.

    >>> [amount(number) for number in (0, 1234, 1234.5, 4.8, 0.01234, 1e-9)]
    ['0', '1,234', '1,234', '4.8', '0.0123', '0']
    """
    if not math.isfinite(number):
        return "?"
    if number == round(number) or abs(number) >= 100:
        return f"{number:,.0f}"
    text = f"{number:.{min(2 - math.floor(math.log10(abs(number))), 6)}f}"
    return text.rstrip("0").rstrip(".")


def needed(enough: int, peaks: Sequence[float]) -> str:
    """Return for how many runs some memory was enough, and what they used, in GB.

    >>> needed(2, (1.0, 5.5, 1.9))
    '2 of 3 runs needed no more (median 1.9, largest 5.5)'
    """
    return (
        f"{enough:,} of {counted(len(peaks), 'run')} needed no more (median "
        f"{amount(middle(peaks))}, largest {amount(max(peaks))})"
    )


def middle(numbers: Sequence[float]) -> float:
    """Return the median of some numbers; `statistics` takes long to import.

    >>> middle([5, 1, 2]), middle([4, 1])
    (2.0, 2.5)
    """
    ordered, last = sorted(numbers), len(numbers) - 1
    return (ordered[last // 2] + ordered[len(numbers) // 2]) / 2


def too_little(attempts: int) -> str:
    """Return how many attempts had too little memory, as a clause behind another.

    >>> too_little(0), too_little(3)
    ('', '; 3 attempts had too little')
    """
    return f"; {counted(attempts, 'attempt')} had too little" if attempts else ""


def several_maxima(group: str, maxima: Sequence[float]) -> str:
    """Return that a group has several maxima, in GB; infinite for that of the largest worker.

    >>> several_maxima("opt", (8.0, math.inf))
    "the group 'opt' has two maxima, 8 GB and that of the largest worker: each task keeps to its \
own, and all learn from each other"
    """
    *others, last = (
        "that of the largest worker" if most == math.inf else f"{most:g} GB" for most in maxima
    )
    number = "two" if len(maxima) == 2 else "several"
    return (
        f"the group {group!r} has {number} maxima, {', '.join(others)} and {last}: each task keeps "
        "to its own, and all learn from each other"
    )


def size_text(count: float) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> [size_text(count) for count in (999, 1400, 25e3, 3.2e6, 0.4e9, 7e9)]
    ['999 B', '1.4 kB', '25 kB', '3.2 MB', '400 MB', '7.0 GB']
    """
    for unit in ("B", "kB", "MB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 9.95 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def moment(at: float, now: float | None = None) -> str:
    """Return Unix seconds as local time, with the date unless it is of today.

    Args:
        now: Unix seconds; by default those of now.
    """
    then, today = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else _SECOND, then)


def minute(at: float) -> str:
    """Return Unix seconds as local time to the minute, with the date; "?" for no such time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
    except (OverflowError, OSError, ValueError):
        return "?"


def second(at: float) -> str:
    """Return Unix seconds as local time, with the date.

    Raises:
        OverflowError, OSError, ValueError: there is no such time.
    """
    return time.strftime(_SECOND, time.localtime(at))


def signal_name(number: int) -> str:
    """Return the name of a signal.

    >>> signal_name(9), signal_name(40)
    ('SIGKILL', 'signal 40')
    """
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _brief(seconds: float) -> str:
    """Return a span in microseconds; one that is shorter, or negative, is none."""
    return f"{1e6 * seconds:.3g} µs" if seconds >= 5e-8 else "0 s"


def _two(whole: int, large: int, large_unit: str, small_unit: str) -> str:
    first, rest = divmod(whole, large)
    return f"{first} {large_unit} {rest} {small_unit}" if rest else f"{first} {large_unit}"


def hostlist(names: Iterable[str]) -> str:
    """Return names of hosts as one word, as Slurm has them (scontrol(1), "show hostlist").

    Those with the same beginning and ascending numbers join; the order stays.

    >>> hostlist(["n1", "n2", "n4", "login"])
    'n[1-2,4],login'
    """
    words: list[str] = []
    for (prefix, is_numbered), group in groupby(map(_parts, names), lambda part: part[:2]):
        spans: list[list[str]] = []
        for _, _, digits in group:
            if spans and digits == str(int(spans[-1][-1]) + 1).zfill(len(spans[-1][0])):
                spans[-1][1:] = [digits]
            else:
                spans.append([digits])
        if not is_numbered:
            words += [prefix] * len(spans)
        elif spans == [spans[0][:1]]:
            words.append(prefix + spans[0][0])
        else:
            words.append(f"{prefix}[{','.join(map('-'.join, spans))}]")
    return ",".join(words)


def _parts(name: str) -> tuple[str, bool, str]:
    """Return a name without the number at its end, whether there is one, and the number."""
    match = _NUMBERED.fullmatch(name)
    return (name, False, "-1") if match is None else (match[1], True, match[2])


def repeated(numbers: Iterable[int]) -> str:
    """Return numbers of several nodes as one word, as variables of Slurm have them (sbatch(1)).

    >>> repeated([8, 8, 8, 4])
    '8(x3),4'
    """
    counted = [(number, len(list(group))) for number, group in groupby(numbers)]
    return ",".join(
        f"{number}(x{count})" if count > 1 else f"{number}" for number, count in counted
    )
