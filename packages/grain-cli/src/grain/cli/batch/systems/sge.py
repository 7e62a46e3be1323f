"""Grid Engine, by qsub, qstat, qdel and qconf; the texts are those of Grid Engine 8.1.9.

Grid Engine counts slots: cores of one node are slots of a parallel environment whose allocation
rule is ``$pe_slots``, and a consumable memory resource is asked for by slot. The site names both,
so the script of a job needs what ``qconf`` prints.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch.answers import by_name, complains_only, last_line, or_gone, unreadable
from grain.cli.batch.base import BatchSystem, JobPhase, JobState, SubmittedJob
from grain.cli.batch.command import Commands
from grain.cli.batch.errors import BatchError
from grain.cli.batch.scripts.directives import check, options, plain_name, refuse_gpus, whole
from grain.cli.batch.scripts.shell import body, interpreter
from grain.files.processes import user_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

    from grain.cli.batch.base import BatchJob
    from grain.config import Script

_SILENT = ("unable to send message to qmaster", "unable to contact qmaster", "got select error")
_REMEDIES = (
    *((text, "Grid Engine's qmaster does not answer; try again later.") for text in _SILENT),
    ("unknown queue", "Set script.queue to a queue that there is; `qconf -sql` lists them."),
    (
        "parallel environment",
        "Set script.parallel_environment to an existing one; `qconf -spl` lists them.",
    ),
    (
        "no suitable queues",
        (
            "Lower script.cores, script.memory or script.walltime, or change script.queue; "
            "`qhost -q` shows hosts and queues, `qconf -sq QUEUE` a queue's limits."
        ),
    ),
    (
        "unknown resource",
        "Correct script.memory_resource, or the -l in script.extra_args; `qconf -sc` lists them.",
    ),
    ("valid object name", "Choose another worker.name: letters, digits, '-', '_' and '.'."),
    ("requested project", "Name your project in script.extra_args, as in '-P chem'."),
    ("jobs are allowed per", "Start fewer workers at a time: your site limits the number of jobs."),
    ("job with more than", "Start fewer workers at a time: your site limits the tasks of a job."),
    ("is not a time value", "Correct the -l in script.extra_args."),
    ("no submit host", "Run this on a submit host; `qconf -ss` lists them."),
    ("invalid option argument", "Correct script.extra_args, or what you wrote after `--`."),
)
COMMANDS = Commands(
    "sge",
    ("qsub", "qstat", "qdel", "qconf"),
    ("qstat",),
    _REMEDIES,
    _SILENT,
    tried="Grid Engine 8.1.9",
)

MEMORY_RESOURCES = ("h_vmem", "mem_free", "virtual_free", "h_rss")
"""The resources that may count memory, the usual one first."""

_ENDED = "does not exist|has registered|has deleted|already in deletion"  # of a job, by qdel
_COUNTED = ("YES", "JOB")
_LISTED = "`qconf -sc` lists the resources of your site."


class SiteResource(NamedTuple):
    """A resource of a site.

    Attributes:
        consumable: ``YES``: counted by slot; ``JOB``: counted once for a job; ``NO``: not counted.
    """

    name: str
    shortcut: str
    consumable: str


def resources(output: str) -> dict[str, SiteResource]:
    """Read ``qconf -sc``; the resources by name."""
    lines = (line.split() for line in output.splitlines() if not line.startswith("#"))
    read = [SiteResource(one[0], one[1], one[5]) for one in lines if len(one) >= 8]
    return {one.name: one for one in read}


def memory_option(asked: Script, site: Mapping[str, SiteResource]) -> str:
    """Return the request for memory, as in ``h_vmem=3840M``.

    Raises:
        BatchError: the site has no such resource, or counts memory by none that Grain recognises.
    """
    assert asked.memory is not None
    name = asked.memory_resource
    if name:
        by_any_name = {**{one.shortcut: one for one in site.values()}, **site}
        if name not in by_any_name:
            raise BatchError(
                f"script.memory_resource: this Grid Engine has no resource {name!r}", remedy=_LISTED
            )
        resource = by_any_name[name]
    else:
        counted = [
            one for one in MEMORY_RESOURCES if one in site and site[one].consumable in _COUNTED
        ]
        if not counted:
            raise BatchError(
                f"script.memory: this Grid Engine counts memory by none of "
                f"{', '.join(MEMORY_RESOURCES)}",
                remedy="Name the resource to ask for in script.memory_resource, as in "
                '"mem_free", or leave script.memory unset. ' + _LISTED,
            )
        resource = site[counted[0]]
    shares = (asked.cores or 1) if resource.consumable == "YES" else 1
    return f"{name or resource.name}={max(1, math.ceil(asked.memory * 1024 / shares))}M"


def fits(environment: str, asked: Script) -> bool:
    """Return True for the text of a parallel environment that gives a job the slots it needs.

    These are slots of one node, or the same number on each of several, where ``qrsh -inherit`` may
    start something (sge_pe(5), "allocation_rule" and "control_slaves").
    """
    fields = dict(line.split(None, 1) for line in environment.splitlines() if " " in line.strip())
    rule = fields.get("allocation_rule", "").strip()
    if asked.nodes == 1:
        return rule == "$pe_slots"
    slaves = fields.get("control_slaves", "").strip().upper() == "TRUE"
    return slaves and rule == str(asked.cores or 1)


def choose_environment(names: list[str], asked: Script) -> str:
    """Return the one parallel environment that gives a job the slots it needs.

    Raises:
        BatchError: there is none, or there are several.
    """
    if len(names) == 1:
        return names[0]
    key, slots, rule = "script.cores", "slots of one node", "allocation_rule $pe_slots"
    remedy = "Set script.cores to 1, or name"
    if asked.nodes > 1:
        cores = asked.cores or 1
        key, slots = "script.nodes", f"{cores} slots on each of several nodes"
        rule, remedy = f"allocation_rule {cores}, control_slaves TRUE", "Name"
    if names:
        raise BatchError(
            f"{key}: several parallel environments of this Grid Engine give {slots}: "
            f"{', '.join(names)}",
            remedy=f'Choose one, as in script.parallel_environment = "{names[0]}".',
        )
    raise BatchError(
        f"{key}: no parallel environment of this Grid Engine gives {slots} ({rule})",
        remedy=f"{remedy} the parallel environment to use in script.parallel_environment; `qconf "
        "-spl` lists them.",
    )


def script(job: BatchJob, environment: str = "", memory: str = "") -> str:
    """Return the script of one job.

    Args:
        environment: its parallel environment; needed for more than one core.
        memory: its request for memory, from `memory_option`; empty for none.
    """
    refuse_gpus(
        job,
        "sites of Grid Engine name GPUs differently, so Grain cannot ask for them",
        "Ask for them in extra_args of the shape, as in '-l gpu=2'; `qconf -sc` lists the names.",
    )
    directives = (*_directives(job, environment, memory), *options(job, quote=word))
    return whole(job, "#$", directives, body(job, restarts="RESTARTED"))


def _directives(job: BatchJob, environment: str, memory: str) -> Iterator[str]:
    asked = job.script
    yield f"-N {word(job_name(job.name))}"
    # Grid Engine starts the queue's shell, whatever the first line says.
    yield f"-S {word(interpreter(asked.shebang))}"
    yield "-cwd"
    yield "-j y"
    if job.log_file:
        yield f"-o {word(_path(job.log_file))}"
    # A request that no queue can ever meet is refused and does not wait without end.
    yield "-w e"
    # Without it, a job gets no signal before SIGKILL; with it, SIGUSR2 to each of its processes.
    yield "-notify"
    if (slots := _slots(asked)) > 1:
        yield f"-pe {word(environment)} {slots}"
    if asked.cores is not None:
        yield f"-binding linear:{asked.cores}"
    if memory:
        yield f"-l {word(memory)}"
    if asked.walltime is not None:
        yield f"-l h_rt={asked.walltime}"
    if asked.queue:
        yield f"-q {word(asked.queue)}"


def _slots(asked: Script) -> int:
    return (asked.cores or 1) * asked.nodes


def job_name(name: str) -> str:
    """Return a name that Grid Engine takes: it begins with no digit, and has no special characters.

    >>> job_name("093015/a:b")
    'w093015_a_b'
    """
    plain = plain_name(name)
    return f"w{plain}" if plain[:1].isdigit() else plain


def _path(path: str) -> str:
    """Return a path as the value of ``-o``, which is a list, and may begin with a host.

    Raises:
        BatchError: the path has a comma, which separates the entries of that list.
    """
    if "," in path:
        raise BatchError(
            f"Grid Engine takes no comma in the path of an output: {path!r}",
            remedy="Change worker.log_file, or the directory in which you are.",
        )
    return f":{path}" if ":" in path else path


def word(text: str) -> str:
    """Quote a word as qsub reads it: quotes join words, and nothing stands for a quote.

    Raises:
        BatchError: the text has a quote, or a "#", at which qsub ends the line.
    """
    check(text)
    if bad := re.search("[\"'#]", text):
        raise BatchError(f"Grid Engine takes no {bad[0]} in a request: {text!r}")
    return f'"{text}"' if re.search(r"\s", text) or not text else text


def submitted_id(output: str) -> str:
    """Read the job's number from the output of ``qsub -terse``."""
    number = last_line(output)
    return number if number.isascii() and number.isdigit() else ""


def named(output: str) -> list[tuple[str, str]]:
    """Read ``qstat -xml``: ids and names of jobs."""
    return [
        (entry.findtext("JB_job_number", "").strip(), entry.findtext("JB_name", "").strip())
        for entry in _listed(output)
    ]


def states(output: str, ids: Iterable[str]) -> dict[str, JobState]:
    """Read ``qstat -xml``; a job that is not listed has ended."""
    by_id: dict[str, JobState] = {}
    for entry in _listed(output):
        number = entry.findtext("JB_job_number", "").strip()
        letters = entry.findtext("state", "").strip()
        node = (entry.findtext("queue_name") or "").partition("@")[2].strip()
        phase = _phase(letters)
        plain = letters in {"r", "t", "qw"}
        by_id[number] = JobState(phase, "" if plain else letters, node)
    return or_gone(by_id, ids)


def _listed(output: str) -> list[Element]:
    """Return the jobs of ``qstat -xml``."""
    from xml.etree import ElementTree

    try:
        root = ElementTree.fromstring(output.strip())  # noqa: S314 - of the site's own command
    except ElementTree.ParseError:
        raise unreadable("qstat -xml", output) from None
    if root.tag != "job_info":
        raise unreadable("qstat -xml", output)
    return list(root.iter("job_list"))


def _phase(letters: str) -> JobPhase:
    """Return the phase for a state, which is one letter for each thing that is so (qstat(1)).

    d: being deleted; E: an error; h: held; r, t: running; s, S, T: suspended; R: a second start;
    q, w: queued and waiting.
    """
    if not letters or not set(letters) <= set("dEhrtRsSTNPqwo"):
        return JobPhase.UNKNOWN
    if "d" in letters:
        return JobPhase.ENDING
    if "E" in letters:
        return JobPhase.STUCK
    if set(letters) & set("rtsSTN"):
        return JobPhase.RUNNING
    return JobPhase.STUCK if "h" in letters else JobPhase.PENDING


def error_reasons(output: str) -> dict[str, str]:
    """Read ``qstat -j``: why jobs are in error, by number."""
    reasons: dict[str, str] = {}
    number = ""
    for line in output.splitlines():
        key, _, value = line.partition(":")
        if key == "job_number":
            number = value.strip()
        elif key.startswith("error reason"):
            # It begins with the time, and the ids of user and process in brackets.
            reasons[number] = re.sub(r"^[\d/ :.]*\[[\d:]*\]:\s*", "", value.strip())
    return reasons


class System(BatchSystem):
    """Grid Engine in its many makes: Son of Grid Engine, Univa's, Altair's."""

    def script(self, job: BatchJob, n: int) -> str:
        """Return the script of the first job."""
        return script(job.members(n)[0], self._environment(job), self._memory(job))

    def submit(self, job: BatchJob, n: int) -> Iterator[SubmittedJob]:
        """Submit one by one: a task of an array has no name of its own."""
        environment, memory = self._environment(job), self._memory(job)
        for member in job.members(n):
            text = script(member, environment, memory)
            number = COMMANDS.accepted(["qsub", "-terse"], [member], submitted_id, stdin=text)
            yield SubmittedJob(number, member.name, member.log_file)

    def _environment(self, job: BatchJob) -> str:
        """Return the parallel environment of a job; empty if it needs none."""
        if _slots(job.script) == 1:
            return ""
        if job.script.parallel_environment:
            return job.script.parallel_environment
        names = [
            name
            for name in COMMANDS.answer(["qconf", "-spl"]).split()
            if fits(COMMANDS.answer(["qconf", "-sp", name]), job.script)
        ]
        return choose_environment(names, job.script)

    def _memory(self, job: BatchJob) -> str:
        """Return the request for memory of a job; empty if it has none."""
        if job.script.memory is None:
            return ""
        return memory_option(job.script, resources(COMMANDS.answer(["qconf", "-sc"])))

    def states(self, ids: Sequence[str]) -> dict[str, JobState]:
        """Query qstat for all jobs of this user, and for the causes of errors."""
        listed = states(COMMANDS.answer(["qstat", "-xml", "-g", "d", "-u", user_name()]), ids)
        in_error = [
            one
            for one, state in listed.items()
            if state.phase is JobPhase.STUCK and "E" in state.reason
        ]
        if in_error:
            # A job may have been deleted meanwhile, which is not an error.
            done = COMMANDS.run(["qstat", "-j", ",".join(in_error)])
            for one, reason in error_reasons(done.out).items():
                if one in listed:
                    listed[one] = listed[one]._replace(reason=f"Eqw: {reason}")
        return listed

    def find(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Query qstat for all jobs of this user, which lists none that has ended."""
        listed = named(COMMANDS.answer(["qstat", "-xml", "-g", "d", "-u", user_name()]))
        return by_name(listed, names, job_name)

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel jobs: SIGUSR2 to all their processes, and SIGKILL after the queue's `notify`."""
        # qdel takes names and patterns as well, which may be those of other jobs.
        if asked := [one for one in ids if re.fullmatch(r"\d+", one)]:
            command = ["qdel", *asked]
            COMMANDS.answer(command, lambda done: complains_only(_ENDED, done.out + done.err))
