"""``sinfo``, ``sacctmgr`` and ``sshare``: a queue has one partition, and no accounts."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.reading import read_book
from grain.cli.slurm_words.grammar import options, parse

if TYPE_CHECKING:
    from grain.cli.slurm.here import Here

_SINFO = options("""
    all,a clusters,M= dead,d exact,e federation,F= format,o= Format,O= future help hide iterate,i=
    list-reasons,R local long,l Node,N noconvert nodes,n= noheader,h partition,p= responding,r
    reservation,T sort,S= states,t= summarize,s usage verbose,v version,V
""")
_USAGE = """\
Usage: sinfo [OPTIONS]

Shows the one partition of the queue of Grain, which has its name. `grain ls` lists the workers.
"""
_LETTER = re.compile(r"%(\.?)(\d{0,4})([A-Za-z])")
_DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
_SUMMARY = "%9P %.5a %.10l %.16F %N"
_LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
_BY_NODE = "%10N %.6D %.9P %6t"
# The workers are the scheduler's to know: the files of the queue do not have them.
_FIELDS = {
    "A": ("NODES(A/I)", "0/0"), "B": ("MAX_CPUS_PER_NODE", "UNLIMITED"),
    "C": ("CPUS(A/I/O/T)", "0/0/0/0"), "D": ("NODES", "0"), "E": ("REASON", "none"),
    "F": ("NODES(A/I/O/T)", "0/0/0/0"), "G": ("GRES", "(null)"), "L": ("DEFAULTTIME", "n/a"),
    "N": ("NODELIST", ""), "O": ("CPU_LOAD", "N/A"), "P": ("PARTITION", "{queue}*"),
    "R": ("PARTITION", "{queue}"), "S": ("ALLOCNODES", "all"), "T": ("STATE", "n/a"),
    "X": ("SOCKETS", "0"), "Y": ("CORES", "0"), "Z": ("THREADS", "0"), "a": ("AVAIL", "up"),
    "b": ("ACTIVE_FEATURES", "(null)"), "c": ("CPUS", "0"), "d": ("TMP_DISK", "0"),
    "e": ("FREE_MEM", "N/A"), "f": ("AVAIL_FEATURES", "(null)"), "g": ("GROUPS", "all"),
    "h": ("OVERSUBSCRIBE", "NO"), "l": ("TIMELIMIT", "infinite"), "m": ("MEMORY", "0"),
    "n": ("HOSTNAMES", ""), "o": ("NODE_ADDR", ""), "p": ("PRIO_TIER", "1"),
    "r": ("ROOT", "no"), "s": ("JOB_SIZE", "1"), "t": ("STATE", "n/a"), "w": ("WEIGHT", "0"),
    "z": ("S:C:T", "0:0:0"),
}  # fmt: skip


def sinfo(words: list[str], here: Here) -> SlurmAnswer:
    """SlurmAnswer ``sinfo``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the queue cannot be read.
    """
    parsed = parse("sinfo", words, _SINFO)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    if parsed.has("Format") or parsed.has("iterate") or parsed.rest:
        raise CommandFailed(
            "sinfo: error: (Grain) --Format and --iterate are not supported: use --format"
        )
    read_book(here)
    queue = here.environment.get("GRAIN_QUEUE") or "queue"
    form = _DEFAULT
    for name, text in (("summarize", _SUMMARY), ("Node", _BY_NODE), ("long", _LONG)):
        form = text if parsed.has(name) else form
    form = parsed.last("format", here.environment.get("SINFO_FORMAT") or form)
    rows = [] if parsed.has("noheader") else [_line(form, 0, queue)]
    wanted = parsed.last("partition")
    nodes = parsed.has("Node") or parsed.has("nodes") or parsed.has("states")
    if not nodes and (not wanted or queue in wanted.split(",")):
        rows.append(_line(form, 1, queue))
    if parsed.has("long"):
        rows.insert(0, time.ctime())
    return SlurmAnswer("".join(f"{row}\n" for row in rows))


def _line(form: str, which: int, queue: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[3] not in _FIELDS:
            raise CommandFailed(f"sinfo: error: Invalid node format specification: {match[3]}")
        text, width = _FIELDS[match[3]][which].format(queue=queue), int(match[2] or 0)
        if not width:
            return text
        return (text.rjust(width) if match[1] else text.ljust(width))[:width]

    return _LETTER.sub(value, form)


def sacctmgr(words: list[str], here: Here) -> SlurmAnswer:
    """SlurmAnswer ``sacctmgr``: there are no accounts, and nothing to change.

    Raises:
        CommandFailed: it is to change something.
    """
    plain = [word for word in words if not word.startswith("-")]
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    if plain and plain[0] not in ("list", "show"):
        raise CommandFailed(f"{here.command}: error: (Grain) there are no accounts to change")
    return SlurmAnswer()


def sshare(words: list[str], here: Here) -> SlurmAnswer:
    """SlurmAnswer ``sshare``: there are no accounts."""
    del here
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    return SlurmAnswer()
