"""``sacct``: list jobs of the last 30 days, with how they ended.

``seff`` tells what one has used, and ``sstat`` what steps use that run.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

from grain.cli.columns import fields
from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.listing import Listing
from grain.cli.slurm.reading import patiently, read_book
from grain.cli.slurm_words import accounts
from grain.cli.slurm_words.facts import SlurmStep, is_chosen
from grain.cli.slurm_words.grammar import BadUse, options, parse
from grain.cli.slurm_words.numbers import split_words
from grain.cli.slurm_words.states import states_named
from grain.cli.slurm_words.values import begin_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grain.cli.columns import Column
    from grain.cli.slurm.here import Here
    from grain.cli.slurm_words.facts import SlurmTask
    from grain.cli.slurm_words.grammar import Parsed
    from grain.cli.slurm_words.numbers import Meant
    from grain.queue.book import Entry

_OPTIONS = options("""
    accounts,A= allclusters,L allocations,X allusers,a array batch-script,B brief,b clusters,M=
    completion,c constraints,C= delimiter= duplicates,D endtime,E= env-vars federation file,f=
    flags,F= format,o= gid,g= group= help,h helpformat,e user,u= uid= jobs,j= local long,l name=
    ncpus,I= nnodes,i= noconvert nodelist,N= noheader,n parsable,p parsable2,P partition,r= qos,q=
    reason,R= starttime,S= state,s= timelimit-max,K= timelimit-min,k= truncate,T units= usage
    use-local-uid verbose,v version,V wckeys,W= associations,x=
""")
_UNSUPPORTED = ("batch-script", "env-vars", "file", "completion")
_USAGE = """\
Usage: sacct [OPTIONS]

Lists jobs in the queue of Grain, also those that ended within 30 days, as sacct of Slurm does. Its
options are those of sacct(1). `grain history` and `grain report` show more.
"""
_SSTAT = options("""
    allsteps,a helpformat,e format,o= fields= help,h jobs,j= noconvert noheader,n parsable,p
    parsable2,P pidformat,i usage verbose,v version,V
""")
_SSTAT_USAGE = """\
Usage: sstat [OPTIONS] -j JOB[.STEP]

Shows what steps that run have used so far, as sstat of Slurm does. Grain looks each half a minute,
and more rarely at what runs for long.
"""
_PACKED_AFTER = 86400.0  # seconds; nothing that ended later is packed


def sacct(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``sacct``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the queue cannot be read.
    """
    parsed = parse("sacct", words, _OPTIONS)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    if parsed.has("helpformat"):
        return SlurmAnswer(accounts.help_text())
    for name in _UNSUPPORTED:
        if parsed.has(name):
            raise CommandFailed(f"sacct: error: (Grain) --{name} is not supported")
    separator = _separator(parsed)
    columns = accounts.columns(
        _format(parsed, here), separator=separator, units=parsed.last("units")
    )
    columns = _ended(columns, parsed)
    now = time.time()
    first = _time(parsed, "starttime", now)
    last = _time(parsed, "endtime", now)
    states = _states(parsed)
    book = read_book(here, "sacct: error")
    listing = Listing(book, now, here)
    wanted = _wanted(parsed, listing)
    if wanted is None and first is None:
        here_now = time.localtime(now)
        first = time.mktime((*here_now[:3], 0, 0, 0, 0, 0, -1))
    entries = patiently(here, "sacct: error", lambda: list(_entries(listing, wanted, first)))
    tasks = listing.tasks(entries)
    wanted_facts = {
        "user": parsed.words("user", "uid"),
        "name": parsed.words("name"),
        "account": parsed.words("accounts"),
        "partition": parsed.words("partition"),
        "qos": parsed.words("qos"),
        "node": parsed.words("nodelist"),
        "wckey": parsed.words("wckeys"),
    }
    derived = any(column.name == "DerivedExitCode" for column in columns)

    def with_steps(facts: SlurmTask) -> SlurmTask:
        if derived or not parsed.has("allocations"):
            facts.steps = listing.steps(facts)
        return facts

    lines = [
        line
        for one in tasks
        if _in_time(one, first or 0.0, now if last is None else last)
        and (not states or one.state in states)
        and is_chosen(one, **wanted_facts)
        for line in _lines(with_steps(one), allocations=parsed.has("allocations"))
        if wanted is None or any(_is_meant(meant, line) for meant in wanted)
    ]
    text = fields(columns, lines, heads=not parsed.has("noheader"), rule=not separator)
    return SlurmAnswer(
        "".join(f"{line}\n" for line in text),
        "\n".join(f"sacct: (Grain) {sentence}" for sentence in (book.damaged if book else ())),
    )


def _separator(parsed: Parsed) -> str:
    """Return what stands between fields; "" for a table."""
    if parsed.has("parsable") or parsed.has("parsable2"):
        return parsed.last("delimiter", "|")
    return ""


def _ended(columns: list[Column[accounts.Line]], parsed: Parsed) -> list[Column[accounts.Line]]:
    """Return columns of which the last one has nothing behind it, if that is asked for."""
    if not parsed.has("parsable2"):
        return columns
    return [*columns[:-1], *(replace(one, after="") for one in columns[-1:])]


def _format(parsed: Parsed, here: Here) -> str:
    if parsed.has("format"):
        return ",".join(parsed.all("format"))
    if parsed.has("brief"):
        return accounts.BRIEF
    if parsed.has("long"):
        return accounts.LONG
    return here.environment.get("SACCT_FORMAT") or accounts.DEFAULT


def _time(parsed: Parsed, option: str, now: float) -> float | None:
    text = parsed.last(option)
    if not text:
        return None
    try:
        return begin_time(text, now)
    except ValueError:
        raise CommandFailed(f"Invalid time specification (pos=0): {text}") from None


def _states(parsed: Parsed) -> frozenset[str]:
    if not parsed.has("state"):
        return frozenset()
    try:
        return states_named(parsed.last("state"))
    except ValueError as error:
        raise CommandFailed(
            f"sacct: fatal: unrecognized job state value {str(error).lower()}"
        ) from None


def _wanted(parsed: Parsed, listing: Listing) -> list[Meant] | None:
    words = split_words(",".join(parsed.all("jobs")))
    if not words:
        return None
    try:
        return [listing.meant(word) for word in words]
    except ValueError as error:
        raise CommandFailed(f"sacct: fatal: Bad job/step specified: {error}") from None


def _entries(listing: Listing, wanted: list[Meant] | None, first: float | None) -> Iterator[Entry]:
    """Yield the jobs that may be shown, ascending; also those that are packed."""
    if listing.book is None:
        return
    if wanted is not None:
        for number in sorted({one.job for one in wanted}):
            entry = listing.entry(number)
            if entry is not None:
                yield entry
        return
    if first is None or first < listing.now - _PACKED_AFTER:
        queue = listing.book.queue
        for bucket in queue.jobs.listed_buckets():
            for number in queue.buckets.numbers(bucket):
                if number in listing.book.entries or number >= listing.book.next_job:
                    break
                entry = listing.book.find(number)
                if entry is not None:
                    yield entry
    for number in sorted(listing.book.entries):
        yield listing.book.entries[number]


def _in_time(facts: SlurmTask, first: float, last: float) -> bool:
    return facts.job.at <= last and not 0 < facts.ended < first


def _lines(facts: SlurmTask, *, allocations: bool) -> Iterator[accounts.Line]:
    yield facts
    if facts.run is not None and not allocations:
        yield SlurmStep.of_script(facts, facts.run)
        yield from facts.steps


def _is_meant(meant: Meant, line: accounts.Line) -> bool:
    if isinstance(line, SlurmStep):
        return line.is_meant(meant)
    return meant.has(line.number, line.task) and not meant.step


def sstat(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``sstat``; as of Slurm, it succeeds for what does not run, and says so.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: it names no job, or the queue cannot be read.
    """
    parsed = parse("sstat", words, _SSTAT)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_SSTAT_USAGE)
    if parsed.has("helpformat"):
        return SlurmAnswer(accounts.help_text(accounts.OF_STEPS))
    if parsed.has("pidformat"):
        raise CommandFailed("sstat: error: (Grain) --pidformat is not supported")
    named = split_words(",".join([*parsed.all("jobs"), *parsed.rest]))
    if not named:
        raise CommandFailed("sstat: error: You didn't give me any jobs to stat.")
    separator = _separator(parsed)
    form = ",".join([*parsed.all("format"), *parsed.all("fields")]) or accounts.USED
    units = "B" if parsed.has("noconvert") else ""
    try:
        columns = _ended(
            accounts.columns(form, separator=separator, units=units, known=accounts.OF_STEPS),
            parsed,
        )
    except BadUse as error:
        raise BadUse(f"sstat: error: {error}") from None
    listing = Listing.of(read_book(here, "sstat: error"), here)
    steps: list[SlurmStep] = []
    errors = []
    for word in named:
        found, none = _running(listing, word, every=parsed.has("allsteps"))
        steps += found
        errors += [f"sstat: error: {none}"] * bool(none)
    text = fields(columns, steps, heads=not parsed.has("noheader"), rule=not separator)
    return SlurmAnswer("".join(f"{line}\n" for line in text), "\n".join(errors))


def _running(listing: Listing, word: str, *, every: bool) -> tuple[list[SlurmStep], str]:
    """Return the steps that run and that a word means, and why there are none.

    Args:
        every: True for all steps of a job, False for the first one of srun.

    Raises:
        CommandFailed: the word makes no sense.
    """
    try:
        meant = listing.meant(word)
    except ValueError:
        raise CommandFailed(f"sstat: fatal: Bad job/step specified: {word}") from None
    entry = None if listing.book is None else listing.book.entries.get(meant.job)
    if entry is None:
        return [], f"couldn't get steps for job {word}"
    found: list[SlurmStep] = []
    for facts in listing.tasks([entry], meant.has):
        running = listing.running_steps([facts], [meant])
        if not meant.step:
            # The script is last here, and first in Slurm, which shows it only with all steps.
            running = [*running[-1:], *running[:-1]] if every else running[:-1][:1]
        found += running
    none = f"StepId={word} not found running." if meant.step else f"No steps running for job {word}"
    return found, "" if found else none


def seff(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``seff``.

    Raises:
        CommandFailed: it names no job, or the queue cannot be read.
    """
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    named = [word for word in words if not word.startswith("-")]
    if len(named) != 1:
        raise CommandFailed("Usage: seff [Options] <Jobid>")
    listing = Listing.of(read_book(here, "seff: error"), here)
    try:
        meant = listing.meant(named[0])
        entry = listing.entry(meant.job)
    except ValueError:
        entry = None
    tasks = [] if entry is None else listing.tasks([entry], meant.has)
    if not tasks:
        raise CommandFailed("Job not found.", 2)
    return SlurmAnswer("\n".join(map(accounts.efficiency, tasks)))
