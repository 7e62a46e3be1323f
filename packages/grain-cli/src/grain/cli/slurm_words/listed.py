"""The fields of ``squeue``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from grain.cli.columns import Column
from grain.cli.slurm_words.facts import hosts_text
from grain.cli.slurm_words.formats import by_words, letters, names, same
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.values import span
from grain.queue.selectors import TASKS_PER_JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grain.cli.slurm_words.facts import SlurmStep, SlurmTask

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"

_SORTED = set("bcdefghijlmnptuvzBCDGHIJLMNOPQSTUV")  # squeue takes no others in --sort
_WRONG = "squeue: error: Invalid job format specification"
_WITH_REASON = ("PENDING", "FAILED", "TIMEOUT", "OUT_OF_MEMORY")


def _start(facts: SlurmTask) -> str:
    if not facts.began and facts.job.not_before > facts.now:
        return facts.time(facts.job.not_before)
    return facts.time(facts.began, "N/A")


def _end(facts: SlurmTask) -> str:
    if facts.ended:
        return facts.time(facts.ended)
    start = facts.began or (facts.job.not_before if facts.job.not_before > facts.now else 0.0)
    if not start:
        return "N/A"
    return facts.time(start + facts.job.timeout) if facts.job.timeout else "NONE"


def _node_or_reason(facts: SlurmTask) -> str:
    if facts.state in _WITH_REASON or (not facts.node and facts.reason != "None"):
        return f"({facts.reason})"
    return facts.nodelist


def _whole(
    name: str, value: Callable[[SlurmTask], object], text: Callable[..., str] = str
) -> Column[SlurmTask]:
    """Return a column of numbers or times, which are shown whole, whatever their width."""
    return Column(name, value, text, cut=None)


def _eligible(facts: SlurmTask) -> str:
    waits = facts.dependency or facts.reason == "JobHeldUser"
    return "N/A" if waits else facts.time(max(facts.job.at, facts.job.not_before))


_FIELDS: dict[str, Column[SlurmTask]] = by_words({
    "a account": Column("ACCOUNT", lambda f: f.option("account")),
    "F arrayjobid": Column("ARRAY_JOB_ID", lambda f: f.number),
    "K arraytaskid": Column("ARRAY_TASK_ID", lambda f: "N/A" if f.task is None else f.task),
    "B batchhost": Column("EXEC_HOST", lambda f: f.node or "n/a"),
    "o command": Column("COMMAND", lambda f: f.command or "(null)"),
    "k comment": Column("COMMENT", lambda f: f.option("comment")),
    "O contiguous": Column("CONTIGUOUS", same("0")),
    "X corespec": Column("CORE_SPEC", same("N/A")),
    "I cores": Column("CORES_PER_SOCKET", same("*")),
    "accruetime": _whole("ACCRUE_TIME", _eligible),
    "allocnodes": Column("ALLOC_NODES", lambda f: f.job.host),
    "batchflag": Column("BATCH_FLAG", same("1")),
    "cluster": Column("CLUSTER", same("grain")),
    "cpus-per-task cpuspertask": Column("CPUS_PER_TASK", lambda f: f.per_task),
    "deadline": _whole("DEADLINE", lambda f: f.time(f.job.deadline or 0.0, "N/A")),
    "eligibletime": _whole("ELIGIBLE_TIME", _eligible),
    "E dependency": Column("DEPENDENCY", lambda f: f.dependency or "(null)"),
    "e endtime": _whole("END_TIME", _end),
    "x excnodes": Column("EXC_NODES", lambda f: f.option("exclude", "")),
    "exit_code": Column("EXIT_CODE", lambda f: f.exit_code.partition(":")[0]),
    "f feature": Column("FEATURES", lambda f: f.option("constraint")),
    "G groupid": _whole("GROUP", lambda f: f.uid),
    "g groupname": _whole("GROUP", lambda f: f.job.user),
    "i jobarrayid": Column("JOBID", lambda f: f.name),
    "A jobid": Column("JOBID", lambda f: f.plain),
    "W licenses": Column("LICENSES", lambda f: f.option("licenses")),
    "c mincpus": _whole("MIN_CPUS", lambda f: f.per_task),
    "m minmemory minmemorynode": Column("MIN_MEMORY", lambda f: f.memory),
    "d mintmpdisk": Column("MIN_TMP_DISK", same("0")),
    "j name jobname": Column("NAME", lambda f: f.job.name),
    "y nice": _whole("NICE", lambda f: -f.job.priority),
    "N nodelist": Column("NODELIST", lambda f: f.nodelist),
    "C numcpus numcpu": _whole("CPUS", lambda f: f.cores),
    "D numnodes": _whole("NODES", lambda f: f.nodes),
    "ntpernode": _whole("NTASKS_PER_NODE", lambda f: f.option("ntasks-per-node", "0")),
    "numtasks": _whole("TASKS", lambda f: f.tasks),
    "h oversubscribe shared": Column("OVER_SUBSCRIBE", lambda f: f.sharing),
    "P partition": Column("PARTITION", lambda f: f.partition),
    "pendingtime": _whole(
        "PENDING_TIME", lambda f: int(max((f.began or f.ended or f.now) - f.job.at, 0.0))
    ),
    "p priority": _whole("PRIORITY", lambda f: f.job.priority, "{:.14f}".format),
    "Q prioritylong": _whole("PRIORITY", lambda f: f.job.priority),
    "q qos": Column("QOS", lambda f: f.option("qos")),
    "r reason": Column("REASON", lambda f: f.reason),
    "R reasonlist": Column("NODELIST(REASON)", _node_or_reason),
    "n reqnodes": Column("REQ_NODES", lambda f: f.option("nodelist", "")),
    "requeue": Column("REQUEUE", lambda f: int(f.job.requeue)),
    "v reservation": Column("RESERVATION", same("(null)")),
    "restartcnt": Column("RESTART_COUNT", lambda f: f.restarts),
    "s selectjobinfo": Column("SELECT_JOBINFO", same("")),
    "z s:c:t": Column("S:C:T", same("*:*:*")),
    "Y schednodes": Column("SCHEDNODES", same("(null)")),
    "H sockets": Column("SOCKETS_PER_NODE", same("*")),
    "S starttime": _whole("START_TIME", _start),
    "T state": Column("STATE", lambda f: f.state),
    "t statecompact": Column("ST", lambda f: f.compact),
    "stderr": Column("STDERR", lambda f: f.stderr),
    "stdin": Column("STDIN", lambda f: f.stdin),
    "stdout": Column("STDOUT", lambda f: f.stdout),
    "V submittime": _whole("SUBMIT_TIME", lambda f: f.time(f.job.at)),
    "J threads": Column("THREADS_PER_CORE", same("*")),
    "L timeleft": _whole("TIME_LEFT", lambda f: f.left),
    "l timelimit": _whole("TIME_LIMIT", lambda f: f.limit),
    "M timeused": _whole("TIME", lambda f: f.elapsed, span),
    "tres tres-alloc": Column("TRES_ALLOC", lambda f: f.tres),
    "b tres-per-node gres": Column(
        "TRES_PER_NODE", lambda f: f"gres:{f.gres}" if f.gres else "N/A"
    ),
    "U userid": _whole("UID", lambda f: f.uid),
    "u username user": Column("USER", lambda f: f.job.user),
    "w wckey": Column("WCKEY", lambda f: f.option("wckey")),
    "Z workdir": Column("WORK_DIR", lambda f: f.job.directory),
})  # fmt: skip


STEPS = "%.15i %.8j %.9P %.8u %.9M %N"
_OF_STEP: dict[str, Column[SlurmStep]] = by_words({
    "i stepid": Column("STEPID", lambda s: s.full_name),
    "j stepname": Column("NAME", lambda s: s.noted.name),
    "stepstate": Column("STATE", lambda s: s.state),
    "P partition": Column("PARTITION", lambda s: s.task.partition),
    "u username": Column("USER", lambda s: s.task.job.user),
    "U userid": Column("USER", lambda s: s.task.uid),
    "M timeused": Column("TIME", lambda s: s.elapsed, span, cut=None),
    "S starttime": Column("START_TIME", lambda s: s.task.time(s.noted.began), cut=None),
    "N nodes": Column("NODELIST", lambda s: hosts_text(s.noted.hosts)),
    "A numtasks": Column("TASKS", lambda s: s.noted.tasks, cut=None),
    "b tres-per-node": Column("TRES_PER_NODE", same("(null)")),
})  # fmt: skip


def of_steps(form: str, *, by_name: bool) -> list[Column[SlurmStep]]:
    """Return the columns of a format of steps, as ``%i %j`` or ``StepID,StepName``.

    Raises:
        BadUse: a letter or a name means nothing.
    """
    return (names if by_name else letters)(form, _OF_STEP, _WRONG)


def of_letters(form: str) -> list[Column[SlurmTask]]:
    """Return the columns of a format as ``%.18i %j``.

    Raises:
        BadUse: a letter means nothing.
    """
    return letters(form, _FIELDS, _WRONG)


def of_names(form: str) -> list[Column[SlurmTask]]:
    """Return the columns of a format as ``JobID:8,Name:.12,State``.

    Raises:
        BadUse: a name means nothing.
    """
    return names(form, _FIELDS, _WRONG)


def sorted_by(keys: str, tasks: Sequence[SlurmTask]) -> list[SlurmTask]:
    """Return tasks in an order as of ``--sort``: letters of a format, each with ``+`` or ``-``.

    Raises:
        BadUse: a letter means nothing.
    """
    found = list(tasks)
    for sign, letter in reversed(re.findall(r"(?s)([+-]?)([^,+-])", keys)):
        if letter not in _SORTED:
            raise BadUse(f"squeue: error: Invalid sort specification: {letter}", 1)
        found.sort(key=_sort_key(letter), reverse=sign == "-")
    return found


def _sort_key(letter: str) -> Callable[[SlurmTask], tuple[float, str]]:
    def key(facts: SlurmTask) -> tuple[float, str]:
        if letter == "i":
            return (facts.number + (facts.task or 0) / TASKS_PER_JOB, "")
        if letter in "lL":
            used = facts.elapsed if letter == "L" else 0.0
            return (facts.job.timeout - used if facts.job.timeout else math.inf, "")
        found = _FIELDS[letter].value(facts)
        if isinstance(found, int | float):
            return (found, "")
        return (0.0, "" if found == "N/A" else str(found))

    return key
