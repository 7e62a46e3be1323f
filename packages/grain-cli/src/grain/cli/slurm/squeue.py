"""``squeue``: list the jobs that wait or run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from grain.cli.columns import fields
from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer, user_named
from grain.cli.slurm.listing import MIN_JOB_AGE, Listing
from grain.cli.slurm.reading import read_book
from grain.cli.slurm_words import listed
from grain.cli.slurm_words.facts import is_chosen
from grain.cli.slurm_words.grammar import options, parse
from grain.cli.slurm_words.numbers import split_words
from grain.cli.slurm_words.records import job_data
from grain.cli.slurm_words.states import OPEN, VALID, states_named
from grain.cli.streams import write_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.columns import Column
    from grain.cli.slurm.here import Here
    from grain.cli.slurm_words.facts import SlurmTask
    from grain.cli.slurm_words.grammar import Parsed
    from grain.cli.slurm_words.numbers import Meant
    from grain.queue.book import Entry

_OPTIONS = options("""
    account,A= all,a array,r array-unique clusters,M= federation format,o= Format,O= help usage hide
    iterate,i= jobs,j=? json licenses,L= local long,l me name,n= noconvert nodelist,w= noheader,h
    only-job-state partition,p= priority,P qos,q= reservation,R= sibling sort,S= start states,t=
    steps,s=? user,u= verbose,v version,V
""")
# --only-job-state is of Slurm 23.11. Tools give it to spare the controller, and there is none.
_USAGE = """\
Usage: squeue [OPTIONS]

Lists the jobs in the queue of Grain, as squeue of Slurm does for a cluster. Its options are those
of squeue(1). `grain jobs` shows more.
"""


def squeue(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``squeue``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the queue cannot be read, or there is no such job.
    """
    parsed = parse("squeue", _with_user(words, here.user), _OPTIONS)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    # The argument of --jobs may be left out, so what follows as a word of its own is one.
    named = 1 if parsed.has("jobs") or parsed.has("steps") else 0
    if len(parsed.rest) > named:
        wrong = parsed.rest[named]
        raise CommandFailed(
            f"squeue: error: Unrecognized option: {wrong}\n{_USAGE.splitlines()[0]}"
        )
    text = _list(parsed, here)
    pause = parsed.last("iterate")
    while pause:
        if not pause.isdecimal() or not int(pause):
            raise CommandFailed(f"squeue: error: --iterate={pause}\n")
        lost = write_answer("squeue: error: (Grain)", f"{time.ctime()}\n{text}\n")
        if lost is not None:
            return SlurmAnswer(status=lost)
        time.sleep(int(pause))
        text = _list(parsed, here)
    return SlurmAnswer(text)


def _with_user(words: list[str], user: str) -> list[str]:
    """Return words in which ``-u $USER`` names the user even if that variable is empty."""
    found = []
    for word, before, after in zip(words, ["", *words], [*words[1:], "-"], strict=False):
        found.append(word or (user if before in ("-u", "--user") else ""))
        if word in ("-u", "--user") and after.startswith("-"):
            found.append(user)
    return [f"{word}{user}" if word == "--user=" else word for word in found]


def _list(parsed: Parsed, here: Here) -> str:
    if parsed.has("steps"):
        return _list_steps(parsed, here)
    columns = _columns(parsed, here)
    states = _states(parsed, here)
    listing = Listing.of(read_book(here), here)
    wanted = _wanted(parsed, listing)
    recent = list(listing.recent())
    if wanted is not None:
        known = {entry.number: entry for entry in recent}
        # Slurm knows no single job that ended long ago; of several, it leaves such ones out.
        if len(wanted) == 1 and not _is_known(wanted[0], known):
            raise CommandFailed("slurm_load_jobs error: Invalid job id specified")
        recent = [known[n] for n in dict.fromkeys(one.job for one in wanted) if n in known]
    tasks = listing.tasks(recent, _chooser(wanted))
    tasks = [
        one
        for one in tasks
        if one.state in states and (one.state in OPEN or one.ended > listing.now - MIN_JOB_AGE)
    ]
    tasks = _filtered(parsed, here, tasks)
    tasks.sort(key=lambda one: (one.partition, one.compact, -one.job.priority))
    if keys := parsed.last("sort", here.environment.get("SQUEUE_SORT", "")):
        tasks = listed.sorted_by(keys, tasks)
    if parsed.has("json"):
        return _json([job_data(one) for one in tasks])
    heads = not parsed.has("noheader")
    date = [time.ctime(listing.now)] if parsed.has("long") and heads else []
    lines = [*date, *fields(columns, tasks, heads=heads)]
    return "".join(f"{text}\n" for text in lines)


def _list_steps(parsed: Parsed, here: Here) -> str:
    """Return the list of steps that run."""
    form, by_name = parsed.last("format", listed.STEPS), False
    if parsed.has("Format"):
        form, by_name = parsed.last("Format"), True
    columns = listed.of_steps(form, by_name=by_name)
    listing = Listing.of(read_book(here), here)
    wanted = _wanted(parsed, listing)
    tasks = _filtered(parsed, here, listing.tasks(listing.recent(), _chooser(wanted)))
    steps = listing.running_steps(tasks, wanted or ())
    lines = fields(columns, steps, heads=not parsed.has("noheader"))
    return "".join(f"{text}\n" for text in lines)


def _json(jobs: list[dict[str, Any]]) -> str:
    import json  # which few lists need

    major, minor, micro = map(int, VERSION.split("."))
    version = {"major": major, "minor": minor, "micro": micro}
    plugin = {"type": "openapi/v0.0.38", "name": "Slurm OpenAPI v0.0.38"}
    meta = {"plugin": plugin, "Slurm": {"version": version, "release": VERSION}}
    return json.dumps({"meta": meta, "errors": [], "jobs": jobs}, indent=2) + "\n"


def _is_known(one: Meant, known: dict[int, Entry]) -> bool:
    entry = known.get(one.job)
    return entry is not None and all(entry.has_task(task) for task in one.tasks)


def _chooser(wanted: list[Meant] | None) -> Callable[[int, int | None], bool]:
    if wanted is None:
        return lambda *_: True
    by_job: dict[int, list[Meant]] = {}
    for one in wanted:
        by_job.setdefault(one.job, []).append(one)
    return lambda job, task: any(one.has(job, task) for one in by_job.get(job, ()))


def _columns(parsed: Parsed, here: Here) -> list[Column[SlurmTask]]:
    for name, value in reversed(parsed.given):
        if name == "format":
            return listed.of_letters(value)
        if name == "Format":
            return listed.of_names(value)
    if parsed.has("long"):
        return listed.of_letters(listed.LONG)
    if form := here.environment.get("SQUEUE_FORMAT"):
        return listed.of_letters(form)
    if form := here.environment.get("SQUEUE_FORMAT2"):
        return listed.of_names(form)
    return listed.of_letters(listed.START if parsed.has("start") else listed.DEFAULT)


def _states(parsed: Parsed, here: Here) -> frozenset[str]:
    text = parsed.last("states", here.environment.get("SQUEUE_STATES", ""))
    if parsed.has("start"):
        text = "PD"
    if not text:
        return frozenset() if parsed.has("states") else OPEN
    try:
        return states_named(text)
    except ValueError as error:
        lowered = {word.upper(): word for word in text.split(",")}
        raise CommandFailed(
            f"squeue: error: Invalid job state specified: {lowered[str(error)]}\n"
            f"squeue: error: Valid job states include: {VALID}\n"
        ) from None


def _wanted(parsed: Parsed, listing: Listing) -> list[Meant] | None:
    """Return the jobs that ``-j`` names; None for all, also if it names none by no word at all."""
    given = [*filter(None, parsed.all("jobs") + parsed.all("steps")), *parsed.rest]
    try:
        return [listing.meant(w) for w in split_words(",".join(given))] if given else None
    except ValueError as error:
        raise CommandFailed(f"squeue: error: Invalid job id: {error}") from None


def _filtered(parsed: Parsed, here: Here, tasks: list[SlurmTask]) -> list[SlurmTask]:
    def words(option: str, variable: str) -> set[str]:
        return parsed.words(option, otherwise=here.environment.get(variable, ""))

    users = {here.user} if parsed.has("me") else words("user", "SQUEUE_USERS")
    for word in users:
        if not user_named(word):
            raise CommandFailed(f"squeue: error: Invalid user: {word}\n")
    wanted = {
        "user": set(map(user_named, users)),
        "partition": words("partition", "SQUEUE_PARTITION"),
        "name": words("name", "SQUEUE_NAMES"),
        "account": words("account", "SQUEUE_ACCOUNT"),
        "qos": words("qos", "SQUEUE_QOS"),
        "node": parsed.words("nodelist"),
    }
    # An empty list of names chooses no job.
    nothing = (
        parsed.has("reservation")
        or parsed.has("licenses")
        or any(
            parsed.has(option) and not parsed.words(option)
            for option in ("partition", "name", "account", "qos", "nodelist")
        )
    )
    return [one for one in tasks if not nothing and is_chosen(one, **wanted)]
