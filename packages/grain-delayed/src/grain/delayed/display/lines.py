"""The lines about the progress of a mission and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grain.delayed.display.failures import causes_text
from grain.resource.figures import percent, rate, span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.delayed.display.progress import Progress
    from grain.facts.rows import Causes
    from grain.head import Statistics

_LEAST_BAR, _MOST_BAR = 8, 30  # characters
_BAR_RANK = 3  # of the bar among the parts of a live line
_NARROW = 100  # columns below which a live line has fewer fields, and the estimate fewer words
_FAILED = "bold red"


class LinePart(NamedTuple):
    """A part of a line.

    Attributes:
        style: its style, as rich calls it.
    """

    text: str
    style: str = ""


def log_line(progress: Progress) -> str:
    """Return a line on the progress for a log."""
    now = progress.now
    parts = [f"{_done(now)}, {now.running} running, {now.queued} queued, {now.failed} failed"]
    if progress.share is not None:
        parts.insert(0, _percent(progress))
    parts.append(f"{span(round(progress.elapsed))} elapsed")
    if progress.ended:
        parts.append(_rate(progress))
    parts += [part.text for part in cores_parts(now)]
    if now.stuck and now.absent:
        parts.append(f"no worker is there: grain why {now.stuck_task}")
    elif now.stuck:
        count = "none" if now.stuck >= now.queued else f"{now.stuck}"
        fits = "fit" if 1 < now.stuck < now.queued else "fits"
        which = "a worker" if count == "none" else "no worker"
        parts.append(f"{count} of those queued {fits} {which}: grain why {now.stuck_task}")
    elif _others_first(now):
        parts.append("other missions have the cores")
    if left := left_text(progress):
        parts.append(left)
    return ", ".join(parts)


def _rate(progress: Progress) -> str:
    # A bare 0 says nothing outside of a table.
    return rate(progress.rate) if progress.rate else "0/min"


def left_text(progress: Progress, *, short: bool = False) -> str:
    """Return the time that is left, as what it is; empty if nothing is known of it."""
    left = progress.left
    if left is None or (left.least and round(left.seconds) < 1):
        return ""
    time = f"{'at least' if left.least else 'about'} {span(round(left.seconds))}"
    if left.without and not short:
        others = " and other functions" if left.functions > 1 else ""
        time += f" (not counting {left.without} of {left.function}{others})"
    if progress.now.stuck:
        return f"the others: {time}"
    if progress.is_whole:
        return f"left: {time}"
    return f"so far: {time}" if short else f"submitted so far: {time}"


def cores_parts(now: Statistics, of: str = " of ") -> list[LinePart]:
    """Return the cores that tasks were given, and those on which something is computed.

    Args:
        of: stands between the given ones and all.
    """
    if not now.cores:
        return []
    parts = [LinePart(f"{now.given:g}{of}{now.cores:g} cores given", "dim")]
    if now.computing is not None and now.given:
        parts.append(LinePart(f"{cores_text(now.computing)} computing", "cyan"))
    return parts


def cores_text(cores: float) -> str:
    """Return a measured number of cores: with a decimal where it is small.

    >>> cores_text(0.92), cores_text(0.0), cores_text(48.3)
    ('0.9', '0.0', '48')
    """
    return f"{cores:.1f}" if cores < 9.95 else f"{cores:.0f}"


def live_line(progress: Progress, width: int, bar: tuple[str, str] = ("━", "─")) -> list[LinePart]:
    """Return the line on the progress that fits a terminal.

    What is there to be known first stays when there is little room: failures and the estimate. The
    counts have fixed places, also where they are zero; below 100 columns they leave no room for
    more, so that fields do not come and go with the length of others.

    Args:
        width: the columns of the terminal.
        bar: a character for what is done, and one for the rest.
    """
    now = progress.now
    wide = width >= _NARROW
    end, elapsed = _end(progress, width), LinePart(f"{span(round(progress.elapsed))} elapsed")
    share = progress.share
    # In the order of the line, each with its rank: the smaller, the more important.
    ranked = [
        (1, LinePart("" if share is None else _percent(progress), "bold")),
        (2, LinePart(f"{now.done} done", "green" if now.done else "")),
        (0 if now.failed else 5, LinePart(f"{now.failed} failed", _FAILED if now.failed else "")),
        (4, LinePart(f"{now.cancelled} cancelled" if now.cancelled else "")),
        (5, LinePart(f"{now.running} running")),
        (6, LinePart("" if now.stuck else f"{now.queued} queued")),
        (8, LinePart(_rate(progress) if wide and progress.ended else "")),
        # The cores that tasks hold; wide terminals also show the cores that compute.
        *((7 + at, part) for at, part in enumerate(cores_parts(now, "/")) if wide or not at),
        (9, elapsed if wide or not end.text else LinePart("")),
        (0, end),
        (3, LinePart(left_text(progress) if now.stuck else "")),
    ]
    ranked = [(rank, part) for rank, part in ranked if part.text]
    kept, with_bar = {0}, False
    for rank in sorted({rank for rank, _ in ranked} - {0}):
        if rank > _BAR_RANK and share is not None and not with_bar:
            with_bar = _width_of(ranked, kept) + _LEAST_BAR + 1 <= width
        if _width_of(ranked, kept | {rank}) + with_bar * (_LEAST_BAR + 1) <= width:
            kept.add(rank)
    ranked = [(rank, part) for rank, part in ranked if rank in kept] or ranked[:1]
    if _width(ranked) > width:
        ranked = ranked[-1:]
    line: list[LinePart] = []
    for i, (_, part) in enumerate(ranked):
        line += [LinePart(", ", "dim"), part] if i else [part]
    if with_bar and share is not None:
        room = min(_MOST_BAR, width - _width(ranked) - 1)
        full = int(room * share)
        line = [
            LinePart(bar[0] * full, "green"),
            LinePart(bar[1] * (room - full) + " ", "dim"),
            *line,
        ]
    return line


def summary(progress: Progress, now: Statistics, failures: Causes, seconds: float | None) -> str:
    """Return the summary of a mission; empty if it had no tasks.

    Args:
        seconds: how long it took; None if another line says that.
    """
    parts = [_done(now)] if now.done else []
    if now.failed:
        parts.append(f"{now.failed} failed ({causes_text(failures)})")
    parts += _unfinished(now)
    if not parts:
        return ""
    if seconds is not None:
        parts.append(span(round(seconds)))
    if progress.given is not None:
        parts.append(f"cores {percent(progress.given)} given")
        if progress.computing is not None:
            parts.append(f"{percent(progress.computing)} of that computing")
    return ", ".join(parts)


def interruption(now: Statistics, away: int) -> str:
    """Return the line on a mission that was interrupted.

    Args:
        away: the number of tasks that a scheduler is to end which cannot be reached.
    """
    ended = now.done + now.failed
    some = [f"{now.cached} from the cache"] if now.cached else []
    some += [f"{now.failed} failed"] if now.failed else []
    failed = f" ({', '.join(some)})" if some else ""
    parts = [f"{ended} {'task' if ended == 1 else 'tasks'} ended{failed}", *_unfinished(now)]
    left = "nothing is left running"
    if away:
        left = (
            f"{away} may still run: the scheduler cannot be reached, and ends them when this "
            "mission has been away for its grace period"
        )
    return f"interrupted: {', '.join(parts)}; {left}"


def _done(now: Statistics) -> str:
    """Return the count of the tasks with a value."""
    return f"{now.done} done" + (f" ({now.cached} from the cache)" if now.cached else "")


def _unfinished(now: Statistics) -> list[str]:
    """Return the counts of the tasks that were cancelled."""
    stopped = now.cancelled - now.not_begun
    parts = [f"{stopped} stopped"] if stopped else []
    return parts + ([f"{now.not_begun} not begun"] if now.not_begun else [])


def _end(progress: Progress, width: int) -> LinePart:
    """Return the end of a live line: the estimate, or why there is none."""
    now = progress.now
    if now.stuck:
        text = _stuck(now)
        if len(text) > width - 20:
            wait = f"{_wait(now.stuck)} for a worker" if now.absent else "fit nowhere"
            text = f"{now.stuck} {wait}: grain why {now.stuck_task}"
        return LinePart(text, "yellow")
    if _others_first(now):
        return LinePart("other missions have the cores", "yellow")
    return LinePart(left_text(progress, short=width < _NARROW))


def _percent(progress: Progress) -> str:
    """Return the part of all calls that have ended, and how many these are."""
    return f"{percent(progress.share or 0.0, down=True)} of {progress.calls}"


def _others_first(now: Statistics) -> bool:
    """Return True if nothing of a mission runs, as cores are in use that are not by its tasks."""
    return bool(now.queued and not now.running and now.others)


def _stuck(now: Statistics) -> str:
    if now.absent:
        none = f"which {_wait(now.queued)} for a worker"
    elif now.stuck >= now.queued:
        none = "and none fits a worker"
    else:
        none = f"but {now.stuck} {'fits' if now.stuck == 1 else 'fit'} no worker"
    return f"{now.queued} queued, {none}: grain why {now.stuck_task}"


def _wait(tasks: int) -> str:
    return "waits" if tasks == 1 else "wait"


def _width_of(ranked: Iterable[tuple[int, LinePart]], kept: set[int]) -> int:
    return _width([(rank, part) for rank, part in ranked if rank in kept])


def _width(ranked: Iterable[tuple[int, LinePart]]) -> int:
    return sum(len(part.text) + 2 for _, part in ranked) - 2
