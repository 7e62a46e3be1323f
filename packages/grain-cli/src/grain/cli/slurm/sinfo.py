"""``sinfo``, and commands that a queue without accounts, steps and daemons does not have."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.nodes import SHORT, find_nodes, least
from grain.cli.slurm.reading import read_book
from grain.cli.slurm_words.grammar import options, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.cli.slurm.here import Here
    from grain.cli.slurm.nodes import SlurmNode
    from grain.cli.slurm_words.grammar import Parsed

_SINFO = options("""
    all,a clusters,M= dead,d exact,e federation,F= format,o= Format,O= future help hide iterate,i=
    list-reasons,R local long,l Node,N noconvert nodes,n= noheader,h partition,p= responding,r
    reservation,T sort,S= states,t= summarize,s usage verbose,v version,V
""")
_USAGE = """\
Usage: sinfo [OPTIONS]

Shows the one partition of the queue of Grain, which has its name; its nodes are hosts of workers.
"""
_LETTER = re.compile(r"%(\.?)(\d{0,4})([A-Za-z])")
_DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
_SUMMARY = "%9P %.5a %.10l %.16F %N"
_LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
# %#N is as wide as the longest name.
_BY_NODE = "%#N %.6D %.9P %6t"
_LONG_BY_NODE = "%#N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
_NARROWEST = 9  # columns of these names
_INSTEAD = {
    "sstat": "sacct shows what a job has used when it has ended",
    "sattach": "a job writes to files, see scontrol show job",
    "sbcast": "workers share the directories of jobs",
    "sprio": "larger priorities go first, then smaller numbers; squeue -o '%i %Q' shows them",
    "sreport": "Grain has no accounts; sacct lists jobs",
}
_REASONS = "REASON               USER      TIMESTAMP           NODELIST\n"
# The names of --Format, with their letters.
_NAMES = {
    "allocnodes": "S", "available": "a", "cores": "Y", "cpus": "c", "cpusload": "O",
    "cpusstate": "C", "defaulttime": "L", "disk": "d", "features": "f", "features_act": "b",
    "freemem": "e", "gres": "G", "groups": "g", "maxcpuspernode": "B", "memory": "m",
    "nodeaddr": "o", "nodeai": "A", "nodeaiot": "F", "nodehost": "n", "nodelist": "N",
    "nodes": "D", "oversubscribe": "h", "partition": "P", "partitionname": "R",
    "prioritytier": "p", "reason": "E", "root": "r", "size": "s", "socketcorethread": "z",
    "sockets": "X", "statecompact": "t", "statelong": "T", "threads": "Z", "time": "l",
    "weight": "w",
}  # fmt: skip
_NAME = re.compile(r"([A-Za-z_]+)(?::(\.?\d{0,4})(.*))?", re.DOTALL)
# Of a group of nodes; the partition and the nodes that there will be stand beside them.
_FIELDS: dict[str, tuple[str, Callable[[_Group], str]]] = {
    "A": ("NODES(A/I)", lambda one: one.nodes_by_use("{busy}/{idle}")),
    "B": ("MAX_CPUS_PER_NODE", lambda _: "UNLIMITED"),
    "C": ("CPUS(A/I/O/T)", lambda one: one.cpus_by_use()),
    "D": ("NODES", lambda one: str(len(one.nodes))),
    "E": ("REASON", lambda _: "none"),
    "F": ("NODES(A/I/O/T)", lambda one: one.nodes_by_use("{busy}/{idle}/{other}/{all}")),
    "G": ("GRES", lambda one: one.gres),
    "L": ("DEFAULTTIME", lambda _: "n/a"),
    "N": ("NODELIST", lambda one: one.names),
    "O": ("CPU_LOAD", lambda _: "N/A"),
    "P": ("PARTITION", lambda one: f"{one.queue}*"),
    "R": ("PARTITION", lambda one: one.queue),
    "S": ("ALLOCNODES", lambda _: "all"),
    "T": ("STATE", lambda one: one.state),
    "X": ("SOCKETS", lambda _: "1"),
    "Y": ("CORES", lambda one: one.cpus),
    "Z": ("THREADS", lambda _: "1"),
    "a": ("AVAIL", lambda _: "up"),
    "b": ("ACTIVE_FEATURES", lambda _: "(null)"),
    "c": ("CPUS", lambda one: one.cpus),
    "d": ("TMP_DISK", lambda _: "0"),
    "e": ("FREE_MEM", lambda _: "N/A"),
    "f": ("AVAIL_FEATURES", lambda _: "(null)"),
    "g": ("GROUPS", lambda _: "all"),
    "h": ("OVERSUBSCRIBE", lambda _: "NO"),
    # A worker ends, but the next ones come: what a job may take is not limited by those of now.
    "l": ("TIMELIMIT", lambda _: "infinite"),
    "m": ("MEMORY", lambda one: one.memory),
    "n": ("HOSTNAMES", lambda one: one.names),
    "o": ("NODE_ADDR", lambda one: one.names),
    "p": ("PRIO_TIER", lambda _: "1"),
    "r": ("ROOT", lambda _: "no"),
    "s": ("JOB_SIZE", lambda _: "1-infinite"),
    "t": ("STATE", lambda one: SHORT.get(one.state, one.state)),
    "w": ("WEIGHT", lambda _: "1"),
    "z": ("S:C:T", lambda one: f"1:{one.cpus}:1"),
}


@dataclass(frozen=True)
class _Group:
    """Nodes that share a line.

    Attributes:
        queue: the name of the partition.
        nodes: none where there are no workers.
        like: a node whose size stands there then.
    """

    queue: str
    nodes: tuple[SlurmNode, ...]
    like: SlurmNode

    @property
    def _sized(self) -> tuple[SlurmNode, ...]:
        return self.nodes or (self.like,)

    @property
    def names(self) -> str:
        return ",".join(node.name for node in self.nodes)

    @property
    def state(self) -> str:
        return self.nodes[0].state if self.nodes else "n/a"

    @property
    def gres(self) -> str:
        gpus = self._sized[0].gpus
        return f"gpu:{gpus}" if gpus else "(null)"

    @property
    def cpus(self) -> str:
        return least([node.cpus for node in self._sized])

    @property
    def memory(self) -> str:
        return least([node.memory for node in self._sized])

    def nodes_by_use(self, form: str) -> str:
        states = [node.state for node in self.nodes]
        idle = states.count("idle")
        busy = states.count("mixed") + states.count("allocated")
        return form.format(busy=busy, idle=idle, other=len(states) - busy - idle, all=len(states))

    def cpus_by_use(self) -> str:
        whole = sum(node.cpus for node in self.nodes)
        busy = sum(node.busy for node in self.nodes)
        other = sum(
            node.cpus - node.busy for node in self.nodes if node.state in ("unknown*", "drained")
        )
        return f"{busy}/{whole - busy - other}/{other}/{whole}"


def sinfo(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``sinfo``.

    Raises:
        BadUse: its words make no sense.
        CommandFailed: the queue cannot be read.
    """
    parsed = parse("sinfo", words, _SINFO)
    if parsed.has("version"):
        return SlurmAnswer(f"slurm {VERSION}\n")
    if parsed.has("help") or parsed.has("usage"):
        return SlurmAnswer(_USAGE)
    if parsed.has("iterate") or parsed.rest:
        raise CommandFailed("sinfo: error: (Grain) --iterate is not supported")
    read_book(here)
    queue = here.environment.get("GRAIN_QUEUE") or "queue"
    if parsed.has("list-reasons"):  # for which a node is down, and none is
        return SlurmAnswer("" if parsed.has("noheader") else _REASONS)
    form = _DEFAULT
    for name, text in (("summarize", _SUMMARY), ("Node", _BY_NODE), ("long", _LONG)):
        form = text if parsed.has(name) else form
    if parsed.has("Node") and parsed.has("long"):
        form = _LONG_BY_NODE
    form = parsed.last("format", here.environment.get("SINFO_FORMAT") or form)
    if parsed.has("Format"):
        form = _letters(parsed.last("Format"))
    wanted = parsed.last("partition")
    listed = not wanted or queue in wanted.split(",")
    groups = _groups(parsed, here, queue, form) if listed else []
    width = max([_NARROWEST, *(len(group.names) for group in groups)])
    form = form.replace("%#N", f"%{width}N")
    rows = [] if parsed.has("noheader") else [_LETTER.sub(_head, form)]
    rows += [_LETTER.sub(partial(_value, group), form) for group in groups]
    if parsed.has("long"):
        rows.insert(0, time.ctime())
    return SlurmAnswer("".join(f"{row}\n" for row in rows))


def _letters(names: str) -> str:
    """Return a format of letters for one of names, as ``NodeList:10,CPUs:.5``.

    Raises:
        CommandFailed: a name means nothing.
    """
    form = ""
    for part in names.split(","):
        match = _NAME.fullmatch(part.strip())
        letter = _NAMES.get(match[1].lower()) if match else None
        if match is None or letter is None:
            raise CommandFailed(f"sinfo: error: Invalid job format specification: {part}")
        form += f"%{'20' if match[2] is None else match[2]}{letter}{match[3] or ''}"
    return form


def _groups(parsed: Parsed, here: Here, queue: str, form: str) -> list[_Group]:
    """Return the groups of nodes that have a line each."""
    nodes, like = find_nodes(here)
    names, states = parsed.last("nodes"), parsed.last("states")
    if names:
        nodes = [node for node in nodes if node.name in names.split(",")]
    if states:
        wanted = {state.lower() for state in states.split(",")}
        nodes = [
            node
            for node in nodes
            if "all" in wanted or wanted & {node.state.strip("*"), SHORT[node.state].strip("*")}
        ]
    if parsed.has("dead"):
        nodes = [node for node in nodes if node.state == "unknown*"]
    if parsed.has("responding"):
        nodes = [node for node in nodes if node.state != "unknown*"]
    letters = {match[3] for match in _LETTER.finditer(form)}
    groups: dict[tuple[object, ...], list[SlurmNode]] = {}
    for node in nodes:
        key = (
            node.state if letters & {"t", "T"} else "",
            node.gpus if "G" in letters else 0,
            node.name if parsed.has("Node") or letters & {"n", "o"} else "",
            (node.cpus, node.memory) if parsed.has("exact") else (),
        )
        groups.setdefault(key, []).append(node)
    found = [_Group(queue, tuple(group), like) for group in groups.values()]
    chosen = names or states or any(map(parsed.has, ("Node", "dead", "responding")))
    return found or ([] if chosen else [_Group(queue, (), like)])


def _head(match: re.Match[str]) -> str:
    return _padded(match, _field(match[3])[0])


def _value(group: _Group, match: re.Match[str]) -> str:
    return _padded(match, _field(match[3])[1](group))


def _field(letter: str) -> tuple[str, Callable[[_Group], str]]:
    if letter not in _FIELDS:
        raise CommandFailed(f"sinfo: error: Invalid node format specification: {letter}")
    return _FIELDS[letter]


def _padded(match: re.Match[str], text: str) -> str:
    width = int(match[2] or 0)
    if not width:
        return text
    return (text.rjust(width) if match[1] else text.ljust(width))[:width]


def sacctmgr(words: list[str], here: Here) -> SlurmAnswer:
    """Answer ``sacctmgr`` as a site without accounts, where nothing can be changed.

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
    """Answer ``sshare`` as a site without accounts."""
    del here
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    return SlurmAnswer()


def unsupported(words: list[str], here: Here) -> SlurmAnswer:
    """Answer a command of Slurm that there is not here, so that no tool takes the system's.

    Raises:
        CommandFailed: always, but for its version.
    """
    if "--version" in words or "-V" in words:
        return SlurmAnswer(f"slurm {VERSION}\n")
    instead = _INSTEAD[here.command]
    raise CommandFailed(f"{here.command}: error: (Grain) not supported: {instead}")
