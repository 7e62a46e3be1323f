"""The formats of ``squeue``, and lines in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.show import one_line
from grain.cli.slurm_words import values
from grain.cli.slurm_words.grammar import BadUse
from grain.queue.selectors import TASKS_PER_JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from grain.cli.slurm_words.facts import SlurmTask

# Numbers and times are shown whole, whatever the width of their column.
_NEVER_CUT = frozenset(
    {"CPUS", "END_TIME", "GROUP", "MIN_CPUS", "NICE", "NODES", "PRIORITY", "START_TIME",
     "SUBMIT_TIME", "TASKS", "TIME", "TIME_LEFT", "TIME_LIMIT", "UID"}
)  # fmt: skip

DEFAULT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"


class Field(NamedTuple):
    """A property of a task, under a title."""

    title: str
    of: Callable[[SlurmTask], str]


class ListColumn(NamedTuple):
    """A field in a format.

    Attributes:
        field: None for text only.
        width: 0 for as wide as it is; longer values are cut.
        right: True to have it at the right.
        after: the text behind it.
    """

    field: Field | None
    width: int = 0
    right: bool = False
    after: str = ""

    def text(self, value: str, *, title: bool = False) -> str:
        """Return a value in this column, or its title."""
        if self.width:
            value = value.rjust(self.width) if self.right else value.ljust(self.width)
            if title or self.field is None or self.field.title not in _NEVER_CUT:
                value = value[: self.width]
        return value + self.after


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


_WITH_REASON = ("PENDING", "FAILED", "TIMEOUT", "OUT_OF_MEMORY")


def _node_or_reason(facts: SlurmTask) -> str:
    if facts.state in _WITH_REASON or (not facts.node and facts.reason != "None"):
        return f"({facts.reason})"
    return facts.nodelist


def _array_task(facts: SlurmTask) -> str:
    return "N/A" if facts.task is None else str(facts.task)


def _gpus(facts: SlurmTask) -> str:
    return f"gres:gpu:{facts.gpus}" if facts.gpus else "N/A"


def _same(text: str) -> Callable[[SlurmTask], str]:
    return lambda _: text


_FIELDS = {
    "account": Field("ACCOUNT", lambda f: f.option("account")),
    "arrayjobid": Field("ARRAY_JOB_ID", lambda f: str(f.number)),
    "arraytaskid": Field("ARRAY_TASK_ID", _array_task),
    "batchhost": Field("EXEC_HOST", lambda f: f.node or "n/a"),
    "command": Field("COMMAND", lambda f: f.command or "(null)"),
    "comment": Field("COMMENT", lambda f: f.option("comment")),
    "contiguous": Field("CONTIGUOUS", _same("0")),
    "corespec": Field("CORE_SPEC", _same("N/A")),
    "cores": Field("CORES_PER_SOCKET", _same("*")),
    "cpus-per-task": Field("CPUS_PER_TASK", lambda f: str(f.per_task)),
    "dependency": Field("DEPENDENCY", lambda f: f.dependency or "(null)"),
    "endtime": Field("END_TIME", _end),
    "excnodes": Field("EXC_NODES", _same("")),
    "exit_code": Field("EXIT_CODE", lambda f: f.exit_code.partition(":")[0]),
    "feature": Field("FEATURES", lambda f: f.option("constraint")),
    "groupid": Field("GROUP", lambda f: str(f.uid)),
    "groupname": Field("GROUP", lambda f: f.job.user),
    "jobarrayid": Field("JOBID", lambda f: f.name),
    "jobid": Field("JOBID", lambda f: str(f.plain)),
    "licenses": Field("LICENSES", lambda f: f.option("licenses")),
    "mincpus": Field("MIN_CPUS", lambda f: str(f.per_task)),
    "minmemory": Field("MIN_MEMORY", lambda f: f.memory),
    "mintmpdisk": Field("MIN_TMP_DISK", _same("0")),
    "name": Field("NAME", lambda f: f.job.name),
    "nice": Field("NICE", lambda f: str(-f.job.priority)),
    "nodelist": Field("NODELIST", lambda f: f.nodelist),
    "numcpus": Field("CPUS", lambda f: str(f.cores)),
    "numnodes": Field("NODES", lambda f: str(f.nodes)),
    "numtasks": Field("TASKS", lambda f: str(f.tasks)),
    "oversubscribe": Field("OVER_SUBSCRIBE", lambda f: f.sharing),
    "partition": Field("PARTITION", lambda f: f.partition),
    "priority": Field("PRIORITY", lambda f: f"{f.job.priority:.14f}"),
    "prioritylong": Field("PRIORITY", lambda f: str(f.job.priority)),
    "qos": Field("QOS", lambda f: f.option("qos")),
    "reason": Field("REASON", lambda f: f.reason),
    "reasonlist": Field("NODELIST(REASON)", _node_or_reason),
    "reqnodes": Field("REQ_NODES", _same("")),
    "requeue": Field("REQUEUE", lambda f: str(int(f.job.requeue))),
    "reservation": Field("RESERVATION", _same("(null)")),
    "restartcnt": Field("RESTART_COUNT", lambda f: str(f.restarts)),
    "s:c:t": Field("S:C:T", _same("*:*:*")),
    "schednodes": Field("SCHEDNODES", _same("(null)")),
    "sockets": Field("SOCKETS_PER_NODE", _same("*")),
    "starttime": Field("START_TIME", _start),
    "state": Field("STATE", lambda f: f.state),
    "statecompact": Field("ST", lambda f: f.compact),
    "stderr": Field("STDERR", lambda f: f.stderr),
    "stdin": Field("STDIN", lambda f: f.stdin),
    "stdout": Field("STDOUT", lambda f: f.stdout),
    "submittime": Field("SUBMIT_TIME", lambda f: f.time(f.job.at)),
    "threads": Field("THREADS_PER_CORE", _same("*")),
    "timeleft": Field("TIME_LEFT", lambda f: f.left),
    "timelimit": Field("TIME_LIMIT", lambda f: f.limit),
    "timeused": Field("TIME", lambda f: values.span(f.elapsed)),
    "tres-per-node": Field("TRES_PER_NODE", _gpus),
    "userid": Field("UID", lambda f: str(f.uid)),
    "username": Field("USER", lambda f: f.job.user),
    "wckey": Field("WCKEY", lambda f: f.option("wckey")),
    "workdir": Field("WORK_DIR", lambda f: f.job.directory),
}
_FIELDS |= {
    "gres": _FIELDS["tres-per-node"],
    "jobname": _FIELDS["name"],
    "minmemorynode": _FIELDS["minmemory"],
    "numcpu": _FIELDS["numcpus"],
    "tres": Field("TRES_ALLOC", lambda f: tres(f)),
    "tres-alloc": Field("TRES_ALLOC", lambda f: tres(f)),
    "user": _FIELDS["username"],
    "shared": _FIELDS["oversubscribe"],
}
_LETTERS = {
    "A": "jobid", "B": "batchhost", "C": "numcpus", "D": "numnodes", "E": "dependency",
    "F": "arrayjobid", "G": "groupid", "H": "sockets", "I": "cores", "J": "threads",
    "K": "arraytaskid", "L": "timeleft", "M": "timeused", "N": "nodelist", "O": "contiguous",
    "P": "partition", "Q": "prioritylong", "R": "reasonlist", "S": "starttime", "T": "state",
    "U": "userid", "V": "submittime", "W": "licenses", "X": "corespec", "Y": "schednodes",
    "Z": "workdir", "a": "account", "b": "tres-per-node", "c": "mincpus", "d": "mintmpdisk",
    "e": "endtime", "f": "feature", "g": "groupname", "h": "oversubscribe", "i": "jobarrayid",
    "j": "name", "k": "comment", "l": "timelimit", "m": "minmemory", "n": "reqnodes",
    "o": "command", "p": "priority", "q": "qos", "r": "reason", "t": "statecompact",
    "u": "username", "v": "reservation", "w": "wckey", "x": "excnodes", "y": "nice", "z": "s:c:t",
}  # fmt: skip
_LETTER = r"(?s)%(\.?)(\d{0,4})(.)"
_NAME = r"(?s)([A-Za-z_:-]*?[A-Za-z_-])(?::(\.?)(\d{0,4})(.*))?"


def letters(form: str) -> list[ListColumn]:
    """Return the columns of a format as ``%.18i %j``.

    Raises:
        BadUse: a letter means nothing.
    """
    columns: list[ListColumn] = []
    end = 0
    for match in re.finditer(_LETTER, form):
        before = form[end : match.start()]
        if not columns:
            columns.append(ListColumn(None, after=before))
        else:
            columns[-1] = columns[-1]._replace(after=before)
        name = _LETTERS.get(match[3])
        if name is None:
            raise BadUse(f"squeue: error: Invalid job format specification: {match[3]}")
        columns.append(ListColumn(_FIELDS[name], int(match[2] or 0), bool(match[1])))
        end = match.end()
    if not columns:
        return [ListColumn(None, after=form)]
    columns[-1] = columns[-1]._replace(after=form[end:])
    return columns


def names(form: str) -> list[ListColumn]:
    """Return the columns of a format as ``JobID:8,Name:.12,State``.

    Raises:
        BadUse: a name means nothing.
    """
    columns = []
    for part in form.split(","):
        match = re.fullmatch(_NAME, part.strip())
        field = _FIELDS.get(match[1].lower()) if match else None
        if match is None or field is None:
            raise BadUse(f"squeue: error: Invalid job format specification: {part}")
        given = match[3] is not None
        width = int(match[3] or 0) if given else 20
        columns.append(ListColumn(field, width, bool(match[2]), match[4] or ""))
    return columns


def head(columns: Iterable[ListColumn]) -> str:
    """Return the line of titles."""
    return "".join(one.text(one.field.title if one.field else "", title=True) for one in columns)


def line(columns: Iterable[ListColumn], facts: SlurmTask) -> str:
    """Return the line of a task."""
    return "".join(one.text(one_line(one.field.of(facts)) if one.field else "") for one in columns)


def sorted_by(keys: str, tasks: Sequence[SlurmTask]) -> list[SlurmTask]:
    """Return tasks in an order as of ``--sort``: letters of a format, each with ``+`` or ``-``.

    Raises:
        BadUse: a letter means nothing.
    """
    found = list(tasks)
    for key in reversed([key.strip() for key in keys.split(",") if key.strip()]):
        name = _LETTERS.get(key[-1])
        if name is None:
            raise BadUse(f"squeue: error: Invalid sort specification: {key}")
        found.sort(key=_sort_key(_FIELDS[name]), reverse=key.startswith("-"))
    return found


def _sort_key(field: Field) -> Callable[[SlurmTask], tuple[float, str]]:
    def key(facts: SlurmTask) -> tuple[float, str]:
        text = field.of(facts)
        if field is _FIELDS["jobarrayid"]:
            return (facts.number + (facts.task or 0) / TASKS_PER_JOB, "")
        return (float(text), "") if text.lstrip("-").isdecimal() else (0.0, text)

    return key


def tres(facts: SlurmTask) -> str:
    """Return the resources of a task in one word, as ``cpu=2,mem=100M,node=1``."""
    parts = [f"cpu={facts.cores}"]
    parts += [f"mem={facts.memory_of_all}"] if facts.memory != "0" else []
    parts += [f"node={facts.nodes}", f"billing={facts.cores}"]
    parts += [f"gres/gpu={facts.gpus * facts.nodes}"] if facts.gpus else []
    return ",".join(parts)
