"""``scontrol``: show jobs, hosts and the configuration; hold, release, run again, update."""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.listing import Listing
from grain.cli.slurm.reading import after_namesakes, read_book, takes_jobs, wake_dispatcher
from grain.cli.slurm_words.grammar import options, parse
from grain.cli.slurm_words.numbers import split_words
from grain.cli.slurm_words.records import config_text, job_record, step_record
from grain.cli.slurm_words.states import OPEN
from grain.cli.slurm_words.values import MOST_NICE, dependencies, hosts, nice_value, time_limit
from grain.queue.errors import BadInput, QueueError, Settled
from grain.queue.records import JobUpdate, Wish
from grain.queue.selectors import number_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grain.cli.slurm.here import Here
    from grain.cli.slurm_words.facts import SlurmTask
    from grain.cli.slurm_words.numbers import Meant
    from grain.queue.book import Book

_OPTIONS = options("""
    all,a cluster= clusters,M= details,d federation,F future help,h hide local oneliner,o quiet,Q
    sibling uid,u= usage verbose,v version,V
""")
_USAGE = """\
Usage: scontrol [OPTIONS] show job [ID] | show config | show hostnames [LIST] | show partition
                          show step [ID] | show node [LIST] | ping | hold IDS | release IDS
                          requeue IDS | update JobId=IDS [TimeLimit=T] [Nice=N] [Dependency=D]
                          write batch_script ID [FILE]

Speaks to the queue of Grain, as scontrol of Slurm does to a cluster.
"""
_DOWN = f"{'*' * 41}\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n{'*' * 41}\n"
# The words of a command with the fewest letters that mean each, as Slurm 22.05 has them.
_KEYWORDS = {
    "show": 3, "hold": 4, "uhold": 5, "release": 3, "requeue": 3, "requeuehold": 8, "ping": 3,
    "version": 4, "update": 1, "help": 2, "suspend": 2, "resume": 3, "reconfigure": 3, "create": 2,
    "delete": 3, "notify": 1, "top": 3, "listpids": 1, "wait_job": 2, "write": 5, "completing": 3,
    "reboot": 3, "shutdown": 8, "takeover": 8, "token": 3, "setdebug": 5, "cancel_reboot": 6,
}  # fmt: skip
_CHANGES = ("hold", "uhold", "release", "requeue", "requeuehold")
_ENTITIES = {
    "jobs": 1, "jobid": 1, "config": 1, "hostnames": 5, "hostlist": 5, "hostlistsorted": 9,
    "nodes": 1, "nodename": 1, "partitions": 2, "partitionname": 2, "licenses": 2,
    "reservations": 1, "reservationname": 1, "steps": 2, "stepid": 2, "topology": 1,
    "aliases": 1, "daemons": 1, "federation": 1, "frontend": 1, "assoc_mgr": 2, "bbstat": 2,
    "burstbuffer": 2, "slurmd": 2,
}  # fmt: skip
_NONE = {
    "licenses": "No licenses configured in Slurm.\n",
    "reservations": "No reservations in the system\n",
    "burstbuffer": "",
}
_INVALID = "Invalid job id specified"
_PROPERTIES = {"jobid": 3, "timelimit": 5, "nice": 2, "dependency": 1}
# Others that scontrol can update, which there are not here, or which Grain's own commands change.
_OTHER_ENTITIES = {
    "nodename": 1, "partitionname": 1, "reservationname": 1, "stepid": 2, "slurmctlddebug": 1,
}  # fmt: skip
_NO_ENTITY = (
    'No valid entity in update command\nInput line must include "NodeName", '
    '"PartitionName", "Reservation", "JobId", or "SlurmctldDebug"'
)


def scontrol(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``scontrol``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the queue cannot be read or written, or there is no such job.
    """
    parsed = parse("scontrol", words, _OPTIONS)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    if not parsed.rest:
        raise CommandFailed("scontrol: error: (Grain) give a command, as in: scontrol show job 12")
    word, *rest = parsed.rest
    keyword = _meant_by(word, _KEYWORDS)
    if keyword == "show":
        return _show(rest, here, one_line=parsed.has("oneliner"))
    if keyword == "version":
        return SlurmAnswer(f"slurm {VERSION}\n")
    if keyword == "help":
        return SlurmAnswer(_USAGE)
    if keyword == "ping":
        return _ping(here)
    if keyword in _CHANGES:
        if not rest:
            raise CommandFailed(f"too few arguments for keyword:{word}")
        return _change(keyword, rest, here)
    if keyword in ("update", "write"):
        found = (_update if keyword == "update" else _write)(rest, here)
        return found._replace(err="") if parsed.has("quiet") else found
    if keyword:
        raise CommandFailed(f"scontrol: error: (Grain) `scontrol {keyword}` is not supported")
    raise CommandFailed(f"invalid keyword: {word}")


def _meant_by(word: str, table: Mapping[str, int]) -> str:
    """Return the word of a table that an abbreviation in any case means; "" for none.

    Args:
        table: the words, each with the fewest letters that mean it.
    """
    low = word.lower()
    return next((one for one, least in table.items() if one[: max(len(low), least)] == low), "")


def _ping(here: Here) -> SlurmAnswer:
    """Say whether jobs are taken, or would be from the next submission on."""
    book = read_book(here)
    up = book is None or takes_jobs(book.queue)
    text = f"Slurmctld(primary) at {here.host} is {'UP' if up else 'DOWN'}\n"
    return SlurmAnswer(text + _DOWN * (not up), status=int(not up))


def _write(words: list[str], here: Here) -> SlurmAnswer:
    """Write the script of a job to a file, or to standard output for ``-``."""
    if words[:1] != ["batch_script"] or len(words) not in (2, 3):
        raise CommandFailed(f"invalid write argument:{''.join(words[:1])}")
    listing = Listing.of(read_book(here), here)
    one = _meant(listing, words[1], "job script retrieval failed")
    entry = listing.entry(one.job)
    if entry is None or listing.book is None:
        raise CommandFailed(f"job script retrieval failed: {_INVALID}")
    name = words[2] if words[2:] else f"slurm-{words[1]}.sh"
    queue = listing.book.queue
    try:
        job = queue.job(entry.number)  # in the book it has no script
        text = job.script
        if job.script_blob and (path := queue.script(job)):
            text = path.read_text(errors="surrogateescape")
        if name == "-":
            return SlurmAnswer(text)
        Path(name).write_text(text, errors="surrogateescape")
    except OSError as error:
        raise CommandFailed(f"failed to open file `{name}`: {error.strerror}") from None
    except QueueError as error:
        raise CommandFailed(f"job script retrieval failed: {error}") from None
    return SlurmAnswer(f"batch script for job {words[1]} written to {name}\n")


def _show(words: list[str], here: Here, *, one_line: bool) -> SlurmAnswer:
    if not words:
        raise CommandFailed("too few arguments for keyword:show")
    word, *rest = words
    word, equals, value = word.partition("=")
    rest = [value] * bool(equals) + rest
    entity = _meant_by(word, _ENTITIES)
    if entity in ("jobs", "jobid"):
        return _show_jobs(rest, here, one_line=one_line)
    if entity == "config":
        values = _config(here)
        return SlurmAnswer(config_text(time.time(), values, here.host))
    if entity in ("hostnames", "hostlist", "hostlistsorted"):
        return _show_hosts(entity, ",".join(rest), here)
    if entity in ("partitions", "partitionname"):
        name = _queue_name(here)
        if rest and rest[0] != name:
            return SlurmAnswer(f"Partition {rest[0]} not found\n", status=1)
        return SlurmAnswer(
            f"PartitionName={name}\n   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL\n"
            "   AllocNodes=ALL Default=YES QoS=N/A\n   DefaultTime=NONE MaxNodes=UNLIMITED "
            "MaxTime=UNLIMITED MinNodes=0\n   State=UP\n\n"
        )
    if entity in ("nodes", "nodename"):
        return _show_nodes(rest, here, one_line=one_line)
    if entity in ("steps", "stepid"):
        return _show_steps(rest, here, one_line=one_line)
    if entity in _NONE:
        return SlurmAnswer(_NONE[entity])
    if entity:
        raise CommandFailed(f"scontrol: error: (Grain) `scontrol show {entity}` is not supported")
    raise CommandFailed(f"invalid entity:{word} for keyword:show ")


def _show_hosts(entity: str, text: str, here: Here) -> SlurmAnswer:
    """Show a list of hosts in its other form."""
    if entity == "hostnames":
        text = text or here.environment.get("SLURM_JOB_NODELIST", "")
        text = text or here.environment.get("SLURM_NODELIST", "")
        if not text:
            raise CommandFailed("scontrol: error: host list is empty")
        return SlurmAnswer("".join(f"{name}\n" for name in hosts(text)))
    from grain.resource.figures import hostlist

    names = hosts(text)
    return SlurmAnswer(f"{hostlist(sorted(names) if entity != 'hostlist' else names)}\n")


def _show_nodes(words: list[str], here: Here, *, one_line: bool) -> SlurmAnswer:
    """Show the hosts of workers."""
    from grain.cli.slurm.nodes import find_nodes, node_record

    nodes = {node.name: node for node in find_nodes(here)[0]}
    wanted = [name for text in words for name in hosts(text)] or list(nodes)
    # Slurm shows those before the first that there is not.
    shown = list(itertools.takewhile(nodes.__contains__, wanted))
    records = [node_record(nodes[name], _queue_name(here), one_line=one_line) for name in shown]
    missing = f"Node {wanted[len(shown)]} not found\n" if len(shown) < len(wanted) else ""
    none = "" if wanted else "No nodes in the system\n"
    return SlurmAnswer("".join(records) + none + missing, status=int(bool(missing)))


def _queue_name(here: Here) -> str:
    return here.environment.get("GRAIN_QUEUE") or "queue"


def _config(here: Here) -> dict[str, str]:
    return {
        "AccountingStorageType": "accounting_storage/grain",
        "ClusterName": "grain",
        "JobRequeue": "1",
        "KillWait": "30 sec",
        "MaxArraySize": "100001",
        "MaxJobCount": "1000000",
        "MinJobAge": "300 sec",
        "MpiDefault": "none",
        "NEXT_JOB_ID": str(Listing.of(read_book(here), here).newest + 1),
        "PriorityType": "priority/basic",
        "SchedulerType": "sched/grain",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CORE_MEMORY",
        "SLURM_VERSION": VERSION,
        "SlurmctldHost[0]": here.host,
    }


def _show_jobs(words: list[str], here: Here, *, one_line: bool) -> SlurmAnswer:
    listing = Listing.of(read_book(here), here)
    recent = {entry.number: entry for entry in listing.recent()}
    if not words:
        tasks = listing.tasks(recent.values())
        if not tasks:
            return SlurmAnswer("No jobs in the system\n")
    else:
        meant = [_meant(listing, word) for text in words for word in split_words(text)]
        tasks = []
        for one in meant:
            entry = recent.get(one.job)
            found = listing.tasks([entry], one.has) if entry is not None else []
            if not found:
                raise CommandFailed(f"slurm_load_jobs error: {_INVALID}")
            tasks += found
    return SlurmAnswer("".join(job_record(one, one_line=one_line) for one in tasks))


def _show_steps(words: list[str], here: Here, *, one_line: bool) -> SlurmAnswer:
    """Show the steps that run."""
    listing = Listing.of(read_book(here), here)
    what = "slurm_get_job_steps error"
    meant = [_meant(listing, word, what) for text in words for word in split_words(text)]
    known = {entry.number: entry for entry in listing.recent()}
    if any(one.job not in known for one in meant):
        raise CommandFailed(f"{what}: {_INVALID}")
    steps = listing.running_steps(listing.tasks(known.values()), meant)
    if not steps and meant:
        return SlurmAnswer(f"Job step {' '.join(words)} not found\n", status=1)
    if not steps:
        return SlurmAnswer("No job steps in the system\n")
    return SlurmAnswer("".join(step_record(one, one_line=one_line) for one in steps))


def _meant(listing: Listing, word: str, error: str = "scontrol_print_job error") -> Meant:
    try:
        return listing.meant(word)
    except ValueError:
        raise CommandFailed(f"{error}: {_INVALID}") from None


class _Properties(NamedTuple):
    """The properties that ``scontrol update`` is to replace; None leaves one as it is.

    Attributes:
        jobs: the words that name jobs.
        limit: the time limit: ``""`` and its seconds, or ``+`` or ``-`` and the seconds by which it
            changes.
        nice: how far jobs are set back.
        after: dependencies, as users write them.
    """

    jobs: str
    limit: tuple[str, float] | None = None
    nice: int | None = None
    after: str | None = None


def _properties(words: Sequence[str]) -> _Properties:
    """Return what words as ``JobId=12 TimeLimit=60`` replace.

    Raises:
        CommandFailed: they make no sense.
    """
    if not words:
        raise CommandFailed("too few arguments for update keyword")
    given: dict[str, str] = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        tag, equals, value = word.partition("=")
        name = _meant_by(tag, _PROPERTIES)
        if other := _meant_by(tag, _OTHER_ENTITIES) if not given and not name else "":
            raise CommandFailed(f"scontrol: error: (Grain) `scontrol update {other}` is not there")
        if not name and not equals:
            raise CommandFailed(f"Invalid input: {word}\nRequest aborted")
        if not name:
            raise CommandFailed(
                f"Update of this parameter is not supported: {word}\nRequest aborted"
            )
        if not equals and name != "nice":
            value = rest.pop() if rest else ""
        if name == "timelimit" and value[:1] in ("+", "-") and "jobid" not in given:
            raise CommandFailed(
                "scontrol: error: JobId must precede TimeLimit increment or decrement"
            )
        given[name] = value
    if "jobid" not in given:
        raise CommandFailed(_NO_ENTITY)
    if len(given) == 1:
        raise CommandFailed("No changes specified")
    return _Properties(
        given["jobid"],
        _limit(given["timelimit"]) if "timelimit" in given else None,
        _nice(given["nice"]) if "nice" in given else None,
        given.get("dependency"),
    )


def _limit(text: str) -> tuple[str, float]:
    sign = text[:1] if text[:1] in ("+", "-") else ""
    try:
        return sign, time_limit(text.removeprefix(sign))
    except ValueError:
        raise CommandFailed("scontrol: error: Invalid TimeLimit value") from None


def _nice(text: str) -> int:
    try:
        return nice_value(text)
    except ValueError:
        raise CommandFailed(
            f"scontrol: error: Nice value out of range (+/- {MOST_NICE}). Value ignored"
        ) from None


def _update(words: Sequence[str], here: Here) -> SlurmAnswer:
    """Replace properties of jobs; errors are those of Slurm, one for each job."""
    asked = _properties(words)
    listing = Listing.of(read_book(here), here)
    if asked.limit is not None and asked.limit[0]:
        asked = asked._replace(limit=("", _moved_limit(asked.jobs, *asked.limit, listing)))
    errors: list[str] = []
    for word in split_words(asked.jobs):
        tasks, is_task = _named(listing, word)
        if not tasks:
            errors.append(f"{word}: {_INVALID}" if is_task else f"{_INVALID} for job {word}")
            continue
        try:
            errors += _update_tasks(listing, word, tasks, asked)
        except (QueueError, OSError) as error:
            raise _unwritten(error) from None
    if listing.book is not None:
        wake_dispatcher(listing.book.queue)
    return SlurmAnswer("", "\n".join(errors), int(bool(errors)))


def _named(listing: Listing, word: str) -> tuple[list[SlurmTask], bool]:
    """Return the tasks that a word names, and whether it names tasks of a job that is there."""
    try:
        one = listing.meant(word)
    except ValueError:
        return [], False
    entry = None if listing.book is None else listing.book.entries.get(one.job)
    return ([], False) if entry is None else (listing.tasks([entry], one.has), bool(one.tasks))


def _unwritten(error: Exception) -> CommandFailed:
    """Return the error of a wish that could not be written, in Slurm's words."""
    return CommandFailed(
        f"scontrol: error: I/O error writing script/environment to file\nscontrol: (Grain) {error}"
    )


def _moved_limit(jobs: str, sign: str, seconds: float, listing: Listing) -> float:
    """Return the limit of the one job that is named, longer or shorter by some seconds.

    Raises:
        CommandFailed: it is not one job, or its limit is not so long.
    """
    try:
        one = listing.meant(jobs)
    except ValueError:
        one = None
    if one is None or len(one.tasks) > 1:
        raise CommandFailed(f"scontrol: error: Invalid job ID {jobs}")
    entry = None if listing.book is None else listing.book.entries.get(one.job)
    if entry is None:
        raise CommandFailed(
            f"scontrol: error: Could not load state information for job {jobs}: {_INVALID}"
        )
    if entry.job.array is not None and not one.tasks:
        raise CommandFailed(
            "scontrol: error: TimeLimit increment/decrement not supported for job arrays"
        )
    before = entry.job_of(next(iter(one.tasks), None)).timeout
    if sign == "-" and before and before < seconds:
        minutes = f"{seconds // 60:.0f} > {before // 60:.0f}"
        raise CommandFailed(
            f"scontrol: error: TimeLimit decrement larger than current time limit ({minutes})"
        )
    after = before + seconds if sign == "+" else before - seconds
    if before and not after:
        raise CommandFailed("scontrol: error: Invalid TimeLimit value")
    return after if before else 0.0


def _update_tasks(
    listing: Listing, word: str, tasks: Sequence[SlurmTask], asked: _Properties
) -> list[str]:
    """Replace properties of tasks of a job, and return the errors, as Slurm says them.

    Args:
        word: that names them.

    Raises:
        grain.queue.errors.QueueError, OSError: nothing was asked, or not all.
    """
    book, entry = listing.book, tasks[0].entry
    assert book is not None  # as it has the tasks
    limit = None if asked.limit is None else asked.limit[1]
    update = JobUpdate(priority=None if asked.nice is None else -asked.nice)
    if asked.after is not None:
        try:
            listed = dependencies(asked.after) if asked.after else None
        except ValueError as error:
            return [f"Job dependency problem for job {word}", f"scontrol: (Grain) {error}"]
        after = listed.after if listed else ()
        if listed and listed.singleton:
            after = (*after, *after_namesakes(book, entry.job.name, entry.number))
        update = JobUpdate(
            priority=update.priority, after=after, after_any=bool(listed and listed.any_of)
        )
    problems = {one: _update_problem(one, limit, asked) for one in tasks}
    errors = _errors(word, problems)
    good = [one for one, why in problems.items() if not why]
    if good and update != JobUpdate() and len(tasks) < entry.tasks:
        return [
            f"Requested operation not supported on this system for job {word}",
            f"scontrol: (Grain) an array has one Nice and one Dependency: hold {word} instead",
        ]
    try:
        if good and update != JobUpdate():
            _wish(book, good, listing.here.by, "update", update=update, whole=True)
        if good and limit is not None:
            _wish(book, good, listing.here.by, "update", update=JobUpdate(timeout=limit))
    except BadInput as error:
        return [f"Job dependency problem for job {word}", f"scontrol: (Grain) {error}"]
    if errors or not good:
        return errors
    # One that has begun meanwhile goes on as it was, if its receipt was made before the wish.
    book.refresh()
    again = listing.tasks([entry], lambda _, task: task in {one.task for one in good})
    began = [one for one in again if one.state != "PENDING"]
    late = {one.task: one for one in good if one.state == "PENDING"}
    return _errors(
        word,
        {
            one: _update_problem(one, limit, asked, before=late[one.task].job.timeout)
            for one in began
            if one.task in late and one.state in OPEN
        },
    )


def _update_problem(
    facts: SlurmTask, limit: float | None, asked: _Properties, *, before: float | None = None
) -> str:
    """Return why a task cannot be updated, in Slurm's words; "" if it can.

    Args:
        limit: its new time limit.
        before: the limit with which it runs; None if that is the one in the book.
    """
    if facts.state not in OPEN:
        return "Job has already finished"
    if facts.state == "PENDING":
        return ""
    if asked.after is not None:
        return "Job is no longer pending execution"
    now = facts.job.timeout if before is None else before
    if limit is not None and (now or math.inf) < (limit or math.inf):
        return "Access/permission denied"  # as for all but administrators
    if limit is not None and facts.job.warn and limit != now:
        return "Requested operation is presently disabled"  # its warning would come too late
    return ""


def _errors(word: str, problems: Mapping[SlurmTask, str]) -> list[str]:
    """Return the errors of tasks, those of an array together."""
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    for facts, why in problems.items():
        if why and facts.task is None:
            return [f"{why} for job {word}"]
        if why and facts.task is not None:
            by_text[why].append(facts.task)
    if len(by_text) == 1 and all(problems.values()):
        return [f"{why} for job {word}" for why in by_text]
    number = next((one.number for one in problems), 0)
    return [f"{number}_{_tasks_text(tasks)}: {why}" for why, tasks in by_text.items()]


def _tasks_text(tasks: Sequence[int]) -> str:
    ranges = number_ranges(tasks)
    text = ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in ranges)
    return text if len(tasks) == 1 else f"[{text}]"


def _change(keyword: str, words: list[str], here: Here) -> SlurmAnswer:
    """Ask something of jobs; errors are those of Slurm, one for each job."""
    listing = Listing.of(read_book(here), here)
    errors = []
    asked = False
    for text in words:
        for word, tasks in _targets(keyword, text, listing):
            if not tasks or listing.book is None:
                errors.append(f"{_INVALID} for job {word}")
                continue
            # Of an array, those tasks count for which it makes sense.
            meant = [facts for facts in tasks if not _problem(keyword, facts)]
            if not meant:
                errors.append(f"{_problem(keyword, tasks[0])} for job {word}")
                continue
            try:
                _ask(listing.book, keyword, meant, here.by)
                asked = True
            except Settled:
                errors.append(f"{_INVALID} for job {word}")
            except (QueueError, OSError) as error:
                raise _unwritten(error) from None
    if asked and keyword not in ("hold", "uhold") and listing.book is not None:
        wake_dispatcher(listing.book.queue)
    if not errors:
        return SlurmAnswer()
    if not keyword.startswith("requeue"):
        errors.append(f"slurm_suspend error: {errors[-1].partition(' for job ')[0]}")
    return SlurmAnswer("", "\n".join(errors), 1)


def _targets(
    keyword: str, text: str, listing: Listing
) -> Iterator[tuple[str, Sequence[SlurmTask]]]:
    """Yield the words of numbers in a text with their tasks, or the jobs of a ``JobName=``."""
    tag, equals, value = text.partition("=")
    if equals and tag.lower() in ("jobname", "name") and not keyword.startswith("requeue"):
        entries = listing.book.open_entries() if listing.book is not None else []
        for entry in entries:
            if entry.job.name == value:
                yield str(entry.number), listing.tasks([entry])
        return
    for word in split_words(value or text):
        yield word, _named(listing, word)[0]


def _problem(keyword: str, facts: SlurmTask) -> str:
    """Return why something cannot be asked of a task, in Slurm's words; "" if it can."""
    if not keyword.startswith("requeue"):
        return "" if facts.state in OPEN else "Job/step already completing or completed"
    if facts.state == "PENDING":
        return "Job is pending execution"
    return "" if facts.job.requeue else "Requested operation is presently disabled"


def _ask(book: Book, keyword: str, tasks: Sequence[SlurmTask], by: str) -> None:
    """Ask something of tasks of a job, by as few wishes as can say it: an array has many tasks."""
    if keyword in ("hold", "uhold", "requeuehold"):
        _wish(book, tasks, by, "hold")
    elif keyword == "release":
        _wish(book, tasks, by, "release")
    if keyword.startswith("requeue"):
        # What runs is ended before, by the same wish: this process may be a part of it.
        by_attempt: defaultdict[int, list[SlurmTask]] = defaultdict(list)
        for facts in tasks:
            by_attempt[facts.standing.attempt + 1].append(facts)
        for attempt, some in by_attempt.items():
            _wish(book, some, by, "again", attempt)


def _wish(
    book: Book,
    tasks: Sequence[SlurmTask],
    by: str,
    what: Literal["hold", "release", "again", "update"],
    attempt: int = 0,
    update: JobUpdate | None = None,
    *,
    whole: bool = False,
) -> None:
    number, entry = tasks[0].number, tasks[0].entry
    whole = whole or len(tasks) == entry.tasks
    some = [] if whole else [one.task for one in tasks if one.task is not None]
    book.queue.wish(
        Wish(
            what=what,
            jobs=((number, number),),
            tasks=number_ranges(some),
            by=by,
            at=time.time(),
            attempt=attempt,
            update=update,
        )
    )
