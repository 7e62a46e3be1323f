"""``sinfo``, and commands that a queue without accounts, steps and daemons does not have."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from grain.cli.columns import Column, fields
from grain.cli.slurm.here import VERSION, CommandFailed, SlurmAnswer
from grain.cli.slurm.nodes import SHORT, find_nodes, least
from grain.cli.slurm.reading import read_book
from grain.cli.slurm_words.formats import by_words, letters, names, same
from grain.cli.slurm_words.grammar import options, parse
from grain.resource.figures import hostlist

if TYPE_CHECKING:
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
_DEFAULT = "%9P %.5a %.10l %.6D %.6t %N"
_SUMMARY = "%9P %.5a %.10l %.16F %N"
_LONG = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
# %#N is as wide as the longest name.
_BY_NODE = "%#N %.6D %.9P %6t"
_LONG_BY_NODE = "%#N %.6D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
_NARROWEST = 9  # columns of these names
_INSTEAD = {
    "sattach": "a job writes to files, see scontrol show job",
    "sbcast": "workers share the directories of jobs",
    "sprio": "larger priorities go first, then smaller numbers; squeue -o '%i %Q' shows them",
    "sreport": "Grain has no accounts; sacct lists jobs",
}
_FATAL = "sinfo: fatal: Options -o(--format) and -l(--long) are mutually exclusive. Please remove "
# As Slurm lists them, and of which a word is the beginning; then shorter words for some.
_STATES = (
    "unknown,down,idle,allocated,?,mixed,future,drain,drained,draining,no_respond,reserved,perfctrs,"
    "cloud,completing,powering_down,powered_down,power_down,powering_up,fail,maint,reboot,reboot^,"
    "unknown"
)
_SHORTER = {"drng": "draining", "resv": "reserved", "futr": "future", "npc": "perfctrs"}
_REASONS = "REASON               USER      TIMESTAMP           NODELIST\n"
_FIELDS: dict[str, Column[_Group]] = by_words({
    "A nodeai": Column("NODES(A/I)", lambda one: one.nodes_by_use("{busy}/{idle}")),
    "B maxcpuspernode": Column("MAX_CPUS_PER_NODE", same("UNLIMITED")),
    "C cpusstate": Column("CPUS(A/I/O/T)", lambda one: one.cpus_by_use()),
    "D nodes": Column("NODES", lambda one: len(one.nodes)),
    "H timestamp": Column("TIMESTAMP", same("Unknown")),
    "M preemptmode": Column("PREEMPT_MODE", same("OFF")),
    "U userlong": Column("USER", same("Unknown")),
    "V cluster": Column("CLUSTER", same("N/A")),
    "E reason": Column("REASON", same("none")),
    "F nodeaiot": Column(
        "NODES(A/I/O/T)", lambda one: one.nodes_by_use("{busy}/{idle}/{other}/{all}")
    ),
    "G gres": Column("GRES", lambda one: one.gres),
    "L defaulttime": Column("DEFAULTTIME", same("n/a")),
    "N nodelist": Column("NODELIST", lambda one: one.names),
    "O cpusload": Column("CPU_LOAD", same("N/A")),
    "P partition": Column("PARTITION", lambda one: f"{one.queue}*"),
    "R partitionname": Column("PARTITION", lambda one: one.queue),
    "S allocnodes": Column("ALLOCNODES", same("all")),
    "T statelong": Column("STATE", lambda one: one.state),
    "X sockets": Column("SOCKETS", same("1")),
    "Y cores": Column("CORES", lambda one: one.cpus),
    "Z threads": Column("THREADS", same("1")),
    "a available": Column("AVAIL", same("up")),
    "b features_act": Column("ACTIVE_FEATURES", lambda one: one.features),
    "c cpus": Column("CPUS", lambda one: one.cpus),
    "d disk": Column("TMP_DISK", same("0")),
    "e freemem": Column("FREE_MEM", same("N/A")),
    "f features": Column("AVAIL_FEATURES", lambda one: one.features),
    "g groups": Column("GROUPS", same("all")),
    "comment": Column("COMMENT", same("(null)")),
    "extra": Column("EXTRA", same("(null)")),
    "gresused": Column("GRES_USED", same("(null)")),
    "h oversubscribe share": Column("OVERSUBSCRIBE", same("NO")),
    # A worker ends, but the next ones come: what a job may take is not limited by those of now.
    "l time": Column("TIMELIMIT", same("infinite")),
    "m memory": Column("MEMORY", lambda one: one.memory),
    "n nodehost": Column("HOSTNAMES", lambda one: one.names),
    "o nodeaddr": Column("NODE_ADDR", lambda one: one.names),
    "p prioritytier": Column("PRIO_TIER", same("1")),
    "priorityjobfactor": Column("PRIO_JOB_FACTOR", same("1")),
    "r root": Column("ROOT", same("no")),
    "s size": Column("JOB_SIZE", same("1-infinite")),
    "statecomplete": Column("STATECOMPLETE", lambda one: one.state),
    "t statecompact": Column("STATE", lambda one: SHORT.get(one.state, one.state)),
    "u user": Column("USER", same("Unknown")),
    "v version": Column("VERSION", same(VERSION)),
    "w weight": Column("WEIGHT", same("1")),
    "z socketcorethread": Column("S:C:T", lambda one: f"1:{one.cpus}:1"),
})  # fmt: skip


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
        return hostlist(sorted((node.name for node in self.nodes), key=_by_numbers))

    @property
    def state(self) -> str:
        return self.nodes[0].state if self.nodes else "n/a"

    def place(self, letter: str) -> tuple[float, str]:
        """Return the place of the line in the order by a field."""
        if letter in "tT":
            return (_STATES.find(self.state.strip("*")), "")
        text = _FIELDS[letter].shown(self).removesuffix("+")
        if text.isdecimal():
            return (float(text), "")
        return (0.0, _by_numbers(text))

    @property
    def gres(self) -> str:
        gpus = self._sized[0].gpus
        return f"gpu:{gpus}" if gpus else "(null)"

    @property
    def features(self) -> str:
        return self._sized[0].features or "(null)"

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


def _by_numbers(text: str) -> str:
    """Return what a text is sorted by, so that n2 comes before n10."""
    return re.sub(r"\d+", lambda number: number[0].zfill(9), text)


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
    if pause := parsed.last("iterate"):
        if not pause.isdecimal() or not int(pause):
            raise CommandFailed(f"sinfo: error: Error: invalid entry for --iterate={pause}")
        raise CommandFailed("sinfo: error: (Grain) --iterate is not supported")
    if parsed.has("long") and (parsed.has("format") or parsed.has("Format")):
        raise CommandFailed(f"{_FATAL}one and retry.")
    read_book(here)
    if parsed.has("reservation"):
        return SlurmAnswer("No reservations in the system\n")
    queue = here.environment.get("GRAIN_QUEUE") or "queue"
    if parsed.has("list-reasons"):  # for which a node is down, and none is
        return SlurmAnswer("" if parsed.has("noheader") else _REASONS)
    form = _DEFAULT
    for name, text in (("summarize", _SUMMARY), ("Node", _BY_NODE), ("long", _LONG)):
        form = text if parsed.has(name) else form
    if parsed.has("Node") and parsed.has("long"):
        form = _LONG_BY_NODE
    form = parsed.last("format", here.environment.get("SINFO_FORMAT") or form)
    wanted = parsed.last("partition")
    listed = not wanted or queue in wanted.split(",")
    groups = _groups(parsed, here, queue, _columns(parsed, form)) if listed else []
    width = max([_NARROWEST, *(len(group.names) for group in groups)])
    heads = not parsed.has("noheader")
    rows = [time.ctime()] if parsed.has("long") and heads else []
    rows += fields(_columns(parsed, form, width), groups, heads=heads)
    return SlurmAnswer("".join(f"{row}\n" for row in rows))


def _columns(parsed: Parsed, form: str, width: int = 0) -> list[Column[_Group]]:
    """Return the columns of a format; `width` is that of the longest name of a group."""
    if parsed.has("Format"):
        wrong = "sinfo: error: Invalid job format specification"
        return names(parsed.last("Format"), _FIELDS, wrong)
    wrong = "sinfo: error: Invalid node format specification"
    return letters(form.replace("%#N", f"%{width}N"), _FIELDS, wrong)


def _groups(parsed: Parsed, here: Here, queue: str, columns: list[Column[_Group]]) -> list[_Group]:
    """Return the groups of nodes that have a line each."""
    nodes, like = find_nodes(here)
    if hosts := parsed.last("nodes"):
        nodes = [node for node in nodes if node.name in hosts.split(",")]
    if states := parsed.last("states"):
        wanted = _states(states)
        nodes = [node for node in nodes if wanted & _states_of(node)]
    if parsed.has("dead"):
        nodes = [node for node in nodes if node.state == "unknown*"]
    if parsed.has("responding"):
        nodes = [node for node in nodes if node.state != "unknown*"]
    heads = {column.name for column in columns}
    groups: dict[tuple[object, ...], list[SlurmNode]] = {}
    for node in nodes:
        key = (
            node.state if "STATE" in heads else "",
            node.gpus if "GRES" in heads else 0,
            node.features if heads & {"AVAIL_FEATURES", "ACTIVE_FEATURES"} else "",
            node.name if parsed.has("Node") or heads & {"HOSTNAMES", "NODE_ADDR"} else "",
            (node.cpus, node.memory) if parsed.has("exact") else (),
        )
        groups.setdefault(key, []).append(node)
    found = [_Group(queue, tuple(group), like) for group in groups.values()]
    usual = "-t" if "STATE" in heads and not parsed.has("Node") else ""  # nodes have their order
    keys = parsed.last("sort", here.environment.get("SINFO_SORT", usual))
    for sign, letter in reversed(re.findall(r"([+-]?)([A-Za-z])", keys)):
        if letter in _FIELDS:
            found.sort(key=partial(_Group.place, letter=letter), reverse=sign == "-")
    if found or parsed.has("Node"):
        return found
    chosen = hosts or states or any(map(parsed.has, ("dead", "responding")))
    return [] if chosen and "PARTITION" not in heads else [_Group(queue, (), like)]


def _states(text: str) -> set[str]:
    """Return the states of ``--states``.

    Raises:
        CommandFailed: a word is none.
    """
    known = _STATES.split(",")
    found = set()
    for word in filter(None, text.lower().split(",")):
        meant = (state for state in known if state.startswith(_SHORTER.get(word, word)))
        state = word if word == "all" else next(meant, "")
        if not state:
            raise CommandFailed(
                f'sinfo: error: Bad state string: "{word}"\nsinfo: error: valid states: {_STATES}'
            )
        found.add(state)
    return found


def _states_of(node: SlurmNode) -> set[str]:
    """Return the states by which a node is chosen."""
    state = node.state.strip("*")
    also = {"drain"} if state.startswith("drain") else set()
    return {"all", state} | also | ({"no_respond"} if "*" in node.state else set())


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
