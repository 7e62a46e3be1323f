"""The lines about the progress of a mission and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grain.delayed.times import span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grain.delayed.display.failures import Failures
    from grain.delayed.display.progress import Progress
    from grain.head import Statistics

_LEAST_BAR, _MOST_BAR = 8, 30  # characters


class Part(NamedTuple):
    """A part of a line.

    Attributes:
        text: its text.
        style: its style, as rich calls it.
    """

    text: str
    style: str = ""


def log_line(progress: Progress) -> str:
    """Return a line on the progress for a log."""
    now = progress.now
    parts = [f"{_done(now)}, {now.running} running, {now.queued} queued, {now.failed} failed"]
    parts.append(f"{span(progress.elapsed)} elapsed")
    if progress.ended:
        parts.append(rate_text(progress.rate))
    if now.cores:
        parts.append(f"{now.busy:g} of {now.cores:g} cores busy")
    if now.stuck and now.absent:
        parts.append(f"no worker is there: grain why {now.stuck_task}")
    elif now.stuck:
        count = "none" if now.stuck >= now.queued else f"{now.stuck}"
        fits = "fit" if 1 < now.stuck < now.queued else "fits"
        which = "a worker" if count == "none" else "no worker"
        parts.append(f"{count} of those queued {fits} {which}: grain why {now.stuck_task}")
    elif _others_first(now):
        parts.append("other missions have the cores")
    elif progress.seconds_left is not None:
        parts.append(f"about {span(progress.seconds_left)} left")
    return ", ".join(parts)


def live_line(progress: Progress, width: int, bar: tuple[str, str] = ("━", "─")) -> list[Part]:
    """Return the line on the progress that fits a terminal.

    What is there to be known first stays when there is little room: failures and the estimate.

    Args:
        progress: the progress.
        width: the columns of the terminal.
        bar: a character for what is done, and one for the rest.

    Returns:
        The parts of the line, to be joined.
    """
    now = progress.now
    end = _end(progress, width)
    has_tasks = bool(progress.ended or progress.left)
    # In the order of the line, each with its rank: the smaller, the more important.
    ranked = [
        (1, Part(f"{int(100 * progress.share)} %" if has_tasks else "", "bold")),
        (2, Part(f"{now.done} done", "green" if now.done else "")),
        (0, Part(f"{now.failed} failed" if now.failed else "", "bold red")),
        (4, Part(f"{now.cancelled} cancelled" if now.cancelled else "")),
        (7, Part(f"{now.running} running")),
        (8, Part("" if now.stuck else f"{now.queued} queued")),
        (6, Part(rate_text(progress.rate) if progress.ended else "")),
        (5, Part(f"{now.busy:g}/{now.cores:g} cores" if now.cores else "")),
        (9, Part(f"{span(progress.elapsed)} elapsed")),
        (0, end),
    ]
    ranked = [(rank, part) for rank, part in ranked if part.text]
    bar_rank = 3
    with_bar = has_tasks
    while len(ranked) > 1 and _width(ranked) + with_bar * (_LEAST_BAR + 1) > width:
        worst = max(rank for rank, _ in ranked)
        if with_bar and worst < bar_rank:
            with_bar = False
        elif worst:
            ranked = [(rank, part) for rank, part in ranked if rank != worst]
        else:
            ranked = ranked[-1:]
    line: list[Part] = []
    for i, (_, part) in enumerate(ranked):
        line += [Part(", ", "dim"), part] if i else [part]
    if with_bar:
        room = min(_MOST_BAR, width - _width(ranked) - 1)
        full = int(room * progress.share)
        line = [Part(bar[0] * full, "green"), Part(bar[1] * (room - full) + " ", "dim"), *line]
    return line


def summary(progress: Progress, now: Statistics, failures: Failures, seconds: float) -> str:
    """Return the summary of a mission; empty if it had no tasks.

    Args:
        progress: its progress.
        now: its statistics.
        failures: the causes of failures.
        seconds: the time that it took.
    """
    parts = [_done(now)] if now.done else []
    if now.failed:
        parts.append(f"{now.failed} failed ({failures})")
    parts += _unfinished(now)
    if not parts:
        return ""
    parts.append(span(seconds))
    if progress.busy is not None:
        parts.append(f"cores {100 * progress.busy:.0f} % busy")
    return ", ".join(parts)


def interruption(now: Statistics, away: int) -> str:
    """Return the line on a mission that was interrupted.

    Args:
        now: its statistics.
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


def rate_text(per_second: float) -> str:
    """Return a rate in the unit that suits it.

    >>> rate_text(6.12), rate_text(0.25), rate_text(0.002)
    ('6.1/s', '15/min', '7.2/h')
    """
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        rate = per_second * factor
        if rate >= 1 or unit == "h":
            break
    return f"{rate:.1f}/{unit}" if rate < 10 and rate != int(rate) else f"{rate:.0f}/{unit}"


def _done(now: Statistics) -> str:
    """Return the count of the tasks with a value."""
    return f"{now.done} done" + (f" ({now.cached} from the cache)" if now.cached else "")


def _unfinished(now: Statistics) -> list[str]:
    """Return the counts of the tasks that were cancelled."""
    stopped = now.cancelled - now.not_begun
    parts = [f"{stopped} stopped"] if stopped else []
    return parts + ([f"{now.not_begun} not begun"] if now.not_begun else [])


def _end(progress: Progress, width: int) -> Part:
    """Return the end of a live line: the estimate, or why there is none."""
    now = progress.now
    if now.stuck:
        text = _stuck(now)
        if len(text) > width - 20:
            wait = f"{_wait(now.stuck)} for a worker" if now.absent else "fit nowhere"
            text = f"{now.stuck} {wait}: grain why {now.stuck_task}"
        return Part(text, "yellow")
    if _others_first(now):
        return Part("other missions have the cores", "yellow")
    if progress.seconds_left is not None:
        return Part(f"{span(progress.seconds_left)} left")
    return Part("")


def _others_first(now: Statistics) -> bool:
    """Return True if nothing of a mission runs, as cores are in use that are not by its tasks."""
    return bool(now.queued and not now.running and now.busy)


def _stuck(now: Statistics) -> str:
    if now.absent:
        none = f"which {_wait(now.queued)} for a worker"
    elif now.stuck >= now.queued:
        none = "none of which fits a worker"
    else:
        none = f"of which {now.stuck} {'fits' if now.stuck == 1 else 'fit'} no worker"
    return f"{now.queued} queued, {none}: grain why {now.stuck_task}"


def _wait(tasks: int) -> str:
    return "waits" if tasks == 1 else "wait"


def _width(ranked: Iterable[tuple[int, Part]]) -> int:
    return sum(len(part.text) + 2 for _, part in ranked) - 2
