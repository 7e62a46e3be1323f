"""``scancel``: cancel jobs, or send them signals."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any, Literal

from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer, user_named
from grain.cli.slurm.listing import Listing
from grain.cli.slurm.reading import read_book
from grain.cli.slurm_words.facts import is_chosen
from grain.cli.slurm_words.grammar import options, parse
from grain.cli.slurm_words.numbers import split_words
from grain.cli.slurm_words.states import OPEN, states_named
from grain.cli.slurm_words.values import signal_number
from grain.queue.errors import QueueError
from grain.queue.notes.steps import steps_of
from grain.queue.records import Wish
from grain.queue.selectors import number_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from grain.cli.slurm.here import Here
    from grain.cli.slurm_words.grammar import Parsed
    from grain.cli.slurm_words.numbers import Meant
    from grain.queue.book import Book, Entry
    from grain.queue.records import Receivers

_OPTIONS = options("""
    account,A= admin-comment= batch,b clusters,M= cron ctld full,f help usage hurry,H
    interactive,i jobname= me name,n= nodelist,w= partition,p= qos,q= quiet,Q reservation,R=
    sibling= signal,s= state,t= user,u= verbose,v version,V wckey=
""")
_FILTERS = (
    "account", "jobname", "me", "name", "nodelist", "partition", "qos", "reservation", "state",
    "user", "wckey",
)  # fmt: skip
_USAGE = """\
Usage: scancel [OPTIONS] [job_id[_array_id][.step_id]]

Cancels jobs in the queue of Grain, as scancel of Slurm does. `grain cancel` can say why, too.
"""


def scancel(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``scancel``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the queue cannot be read or written.
    """
    parsed = parse("scancel", words, _OPTIONS)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    number = 0
    if parsed.has("signal"):
        try:
            number = signal_number(parsed.last("signal"))
        except ValueError:
            raise CommandFailed(f"Unknown job signal: {parsed.last('signal')}") from None
    given = split_words(",".join(parsed.rest))
    if not given and not any(parsed.has(name) for name in _FILTERS):
        raise CommandFailed("scancel: error: No job identification provided")
    for user in parsed.last("user").split(","):
        if user and not user_named(user):
            raise CommandFailed(f"scancel: error: Invalid user name: {user}")
    if parsed.has("interactive"):
        raise CommandFailed("scancel: error: (Grain) --interactive is not supported")
    what = "scancel: error"
    listing = Listing.of(read_book(here, what), here)
    meant = []
    for word in given:
        try:
            meant.append(listing.meant(word))
        except ValueError:
            raise CommandFailed(f"scancel: error: Invalid job id {word}") from None
    try:
        return _cancel(parsed, listing, meant, number)
    except (QueueError, OSError) as error:
        raise CommandFailed(
            f"scancel: error: Kill job error: I/O error\nscancel: (Grain) {error}"
        ) from None


def _cancel(parsed: Parsed, listing: Listing, meant: list[Meant], number: int) -> SlurmAnswer:
    lines: list[str] = []
    status = 0
    steps = [one for one in meant if one.step and one.step != "batch"]
    for one in steps:
        if _ask_of_step(listing, one, number):
            continue
        name = _name(one)
        lines.append(
            f"scancel: error: Kill job error on job step id {name}.{one.step}: Invalid job id "
            "specified"
        )
        status = 1
    whole = [one for one in meant if one not in steps]
    targets = _targets(parsed, listing, whole)
    complaints, lost = _complaints(parsed, listing, whole, targets)
    lines += complaints
    status = int(status or lost)
    if targets and listing.book is not None:
        by = listing.here.by
        if number in (0, signal.SIGKILL) and not parsed.has("batch"):
            _ask(listing.book, targets, "cancel", by)
            for (job, _), chosen in targets.items():
                listing.book.cancel(job, chosen, by=by)
        else:
            to: Receivers = "steps"
            if parsed.has("batch") or parsed.has("full"):
                to = "all" if parsed.has("full") else "script"
            sent = number or int(signal.SIGTERM)
            _ask(listing.book, targets, "signal", by, signal=sent, signal_to=to)
    return SlurmAnswer("", "\n".join(lines), status)


def _complaints(
    parsed: Parsed,
    listing: Listing,
    meant: Sequence[Meant],
    targets: Mapping[tuple[int, frozenset[int]], object],
) -> tuple[list[str], bool]:
    """Return what is said of jobs that are named; True if a signal reached nothing of one."""
    lines: list[str] = []
    invalid = "scancel: error: Kill job error on job id {}: Invalid job id specified"
    lost = [one for one in meant if (one.job, one.tasks) not in targets]
    if parsed.has("verbose"):
        lines += [f"scancel: Terminating job {_name(one)}" for one in meant]
    if parsed.has("signal") or parsed.has("batch"):
        # A signal was asked for, and no job is left that could get it: say so.
        lines += [invalid.format(_name(one)) for one in lost if not parsed.has("quiet")]
        return lines, bool(lost)
    for one in lost if parsed.has("verbose") else ():
        entry = listing.entry(one.job)
        if entry is None or not all(entry.has_task(task) for task in one.tasks):
            lines.append(invalid.format(_name(one)))
        else:
            lines.append(
                f"scancel: error: Kill job error on job id {_name(one)}: Job/step already "
                "completing or completed"
            )
    return lines, False


def _ask_of_step(listing: Listing, one: Meant, number: int) -> bool:
    """Send a signal to a step, or end it; return False if it does not run."""
    entry = listing.entry(one.job)
    if entry is None or listing.book is None or not one.step.isdecimal():
        return False
    for facts in listing.tasks([entry]):
        run = facts.run
        if not one.has(entry.number, facts.task) or run is None or facts.ended:
            continue
        steps = steps_of(listing.book.queue, entry.number, facts.task, run.attempt)
        if any(step.step == int(one.step) and not step.ended for step in steps):
            tasks = frozenset() if facts.task is None else frozenset({facts.task})
            sent = number or int(signal.SIGKILL)
            targets = [(entry.number, tasks)]
            _ask(listing.book, targets, "signal", listing.here.by, signal=sent, step=int(one.step))
            return True
    return False


def _name(one: Meant) -> str:
    tasks = sorted(one.tasks)
    if not tasks:
        return str(one.job)
    return f"{one.job}_{tasks[0]}" if len(tasks) == 1 else f"{one.job}_{tasks}".replace(" ", "")


def _targets(
    parsed: Parsed, listing: Listing, meant: list[Meant]
) -> dict[tuple[int, frozenset[int]], Callable[[int | None], bool]]:
    """Return the jobs to cancel that have not ended: number, tasks, and what chooses these."""
    if listing.book is None:
        return {}
    filters = any(parsed.has(name) for name in _FILTERS)
    found: dict[tuple[int, frozenset[int]], Callable[[int | None], bool]] = {}
    if not filters:
        for one in meant:
            entry = listing.book.entries.get(one.job)
            if entry is None or entry.is_final:
                continue
            chosen = [task for task in one.tasks if entry.has_task(task)]
            if not one.tasks or any(not _has_ended(entry, task) for task in chosen):
                found[one.job, one.tasks] = _chooser(one.tasks)
        return found
    states = _states(parsed)
    if parsed.has("reservation"):
        return found
    wanted = {
        "name": parsed.words("name", "jobname"),
        "user": parsed.words("user") | ({listing.here.user} if parsed.has("me") else set()),
        "partition": parsed.words("partition"),
        "account": parsed.words("account"),
        "qos": parsed.words("qos"),
        "wckey": parsed.words("wckey"),
        "node": parsed.words("nodelist"),
    }
    for entry in listing.book.open_entries():
        if meant and not any(one.job == entry.number for one in meant):
            continue
        tasks = [
            facts.task
            for facts in listing.tasks([entry])
            if facts.state in states
            and (not meant or any(one.has(entry.number, facts.task) for one in meant))
            and is_chosen(facts, **wanted)
        ]
        if tasks:
            every = len(tasks) == entry.tasks
            some = frozenset(() if every else (task for task in tasks if task is not None))
            found[entry.number, some] = _chooser(some)
    return found


def _has_ended(entry: Entry, task: int | None) -> bool:
    return entry.standing(task, 0.0).state not in ("PENDING", "RUNNING")


def _chooser(tasks: frozenset[int]) -> Callable[[int | None], bool]:
    return lambda task: not tasks or task in tasks


def _states(parsed: Parsed) -> frozenset[str]:
    if not parsed.has("state"):
        return OPEN
    try:
        return states_named(parsed.last("state"))
    except ValueError:
        raise CommandFailed(
            f"Invalid job state specified: {parsed.last('state')}\n"
            "Valid job states are PENDING, RUNNING, and SUSPENDED"
        ) from None


def _ask(
    book: Book,
    targets: Iterable[tuple[int, frozenset[int]]],
    what: Literal["cancel", "signal"],
    by: str,
    **more: Any,
) -> None:
    """Ask something of jobs: in one wish for all whole ones, and in one for tasks of each other."""
    now = time.time()
    whole = number_ranges(number for number, tasks in targets if not tasks)
    if whole:
        book.queue.wish(Wish(what=what, jobs=whole, by=by, at=now, **more))
    for number, tasks in targets:
        if tasks:
            book.queue.wish(
                Wish(
                    what=what,
                    jobs=((number, number),),
                    tasks=number_ranges(tasks),
                    by=by,
                    at=now,
                    **more,
                )
            )
