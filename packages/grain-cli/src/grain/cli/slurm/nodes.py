"""The nodes of ``sinfo``: the hosts of workers, or what a worker will have by the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli import show
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.submission import JobRefused
from grain.cli.slurm_words.values import EXCLUSIVE, asks_for_shards, hosts_of_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grain.cli.slurm.here import Here
    from grain.config import Config, Script
    from grain.edge.questions import StateAnswer
    from grain.queue.records import Job

_MIB = 1 << 20  # bytes
_LOOK, _ANSWER = 1.0, 2.0  # seconds to look for a scheduler, and for its answer
# Long and short, as sinfo(1) has them, "NODE STATE CODES".
SHORT = {
    "idle": "idle",
    "mixed": "mix",
    "allocated": "alloc",
    "draining": "drng",
    "drained": "drain",
    "unknown*": "unk*",
}


def with_hosts_of_files(command: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return options; those of ``-w`` and ``-x`` that name a file, by a slash, have its hosts.

    Raises:
        BadUse: the file cannot be read, or names none.
    """
    found = dict(given)
    for option in ("nodelist", "exclude"):
        if "/" not in (path := given.get(option, "")):
            continue
        try:
            found[option] = hosts_of_file(Path(path).read_text(errors="surrogateescape"))
        except OSError as error:
            why = f"slurm_allocate_resources error opening file {path}, {error.strerror}"
            raise BadUse(f"{command}: error: {why}", 1) from None
        if not found[option]:
            raise BadUse(f"{command}: error: Hostlist is empty!", 1)
    return found


class SlurmNode(NamedTuple):
    """A host with workers.

    Attributes:
        cpus: cores of its workers.
        busy: those that tasks have.
        memory: MiB of its workers.
        gpus: of its workers.
        state: a key of `SHORT`.
        features: the tokens of its workers, with commas.
    """

    name: str
    cpus: int
    busy: int
    memory: int
    gpus: int
    state: str
    features: str = ""

    def joined(self, other: SlurmNode) -> SlurmNode:
        """Return a node with what both have, which are workers of one host."""
        cpus, busy = self.cpus + other.cpus, self.busy + other.busy
        one = self.state if self.state == other.state else _use(cpus, busy)
        return SlurmNode(
            name=self.name,
            cpus=cpus,
            busy=busy,
            memory=self.memory + other.memory,
            gpus=self.gpus + other.gpus,
            state=one,
            features=_features({*self.features.split(","), *other.features.split(",")}),
        )


def find_nodes(here: Here) -> tuple[list[SlurmNode], SlurmNode]:
    """Return the nodes by their names, and one that the configuration describes.

    There are no nodes if no scheduler answers within some seconds, or there are no workers.
    """
    from grain.cli.query import NoScheduler, ask_state
    from grain.config import ConfigError, load
    from grain.edge.errors import EdgeError

    try:
        config = load(env=dict(here.environment))
    except (ConfigError, OSError):
        return [], SlurmNode("", 0, 0, 0, 0, "idle")
    try:
        found = nodes_of(ask_state(config, patience=_LOOK, answer=_ANSWER))
    except (NoScheduler, EdgeError, OSError):
        found = []
    return found, expected(config)


def node_record(node: SlurmNode, partition: str, *, one_line: bool) -> str:
    """Return the record of a host of workers, as ``scontrol show node`` has it."""
    state = {"unknown*": "DOWN*", "draining": "MIXED+DRAIN", "drained": "IDLE+DRAIN"}
    shown = state.get(node.state, node.state.upper())
    all_of = f"cpu={node.cpus},mem={node.memory}M,billing={node.cpus}"
    all_of += f",gres/gpu={node.gpus}" * bool(node.gpus)
    used = f"cpu={node.busy}" * bool(node.busy)
    lines = [
        f"NodeName={node.name} CoresPerSocket={node.cpus} ",
        f"CPUAlloc={node.busy} CPUEfctv={node.cpus} CPUTot={node.cpus} CPULoad=N/A",
        f"AvailableFeatures={node.features or '(null)'}",
        f"ActiveFeatures={node.features or '(null)'}",
        f"Gres={f'gpu:{node.gpus}' if node.gpus else '(null)'}",
        f"NodeAddr={node.name} NodeHostName={node.name}",
        f"RealMemory={node.memory} AllocMem=N/A FreeMem=N/A Sockets=1 Boards=1",
        f"State={shown} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A",
        f"Partitions={partition} ",
        f"CfgTRES={all_of}",
        f"AllocTRES={used}",
    ]
    lines = [show.one_line(line) for line in lines]
    return " ".join(lines) + "\n" if one_line else "\n   ".join(lines) + "\n\n"


def gpu_shards(given: Mapping[str, str], here: Here) -> int:
    """Return the number of shards of a GPU, if options ask for some; else 0.

    Raises:
        JobRefused: the configuration makes no sense.
    """
    asked = asks_for_shards(given)
    return _configured(here).worker.gpu_shards if asked else 0


def _configured(here: Here) -> Config:
    """Return the configuration.

    Raises:
        JobRefused: it makes no sense.
    """
    from grain.config import ConfigError, load

    try:
        return load(env=dict(here.environment))
    except (ConfigError, OSError) as error:
        raise JobRefused("Unspecified error", str(error)) from None


def check_offered(job: Job, here: Here) -> None:
    """Refuse a job that asks for what the configuration does not describe.

    Raises:
        JobRefused: it asks for licences or a feature that nothing has, for hosts where no worker
            tells its own, or for whole workers, of which some may be too small.
    """
    asked = job.first_choice
    least = int(job.options.get(EXCLUSIVE, "1"))
    prefers = "prefer" in job.options
    if not (asked.keys() & {"Licences", "Token", "Host"} or prefers) and least == 1:
        return
    config = _configured(here)
    where = config.source or "grain.toml"
    workers = _offers(config)
    known = [config.head.res.get("Licences"), *(one.get("Licences") for one in workers)]
    names = asked.get("Licences", {})
    for name in names if isinstance(names, dict) else ():
        if not any(_has_licence(one, name) for one in known):
            raise JobRefused(
                "Invalid license specification",
                f"{where} has no {name} under [head.res], as in Licences = {{{name} = 2}}",
            )
    features = {"Invalid feature specification": asked.get("Token")}
    features["Invalid preferred feature specification"] = job.options.get("prefer")
    for text, feature in features.items():
        if feature is None or feature in [token(one) for one in workers]:
            continue
        raise JobRefused(
            text,
            f'no worker of {where} has Token = "{feature}" under [worker.res], or in a [[shape]]',
        )
    if "Host" in asked and not any("Host" in one for one in workers):
        raise JobRefused(
            "Invalid node name specified",
            f'workers of {where} do not offer their hosts: write Host = "auto" under [worker.res], '
            "or in the res of a [[shape]]",
        )
    scripts: list[Script] = [*config.shape] or [config.worker.script]
    too_small = [one.cores for one in scripts if one.cores is not None and one.cores < least]
    if too_small:
        raise JobRefused(
            "Requested node configuration is not available",
            f"with --exclusive, all workers of {where} must have the {least} cores, and some have "
            f"{min(too_small)}",
        )


def _has_licence(data: object, name: str) -> bool:
    """Return True if the configuration states licences of a name, or a command that may do so."""
    from grain.config import with_counts
    from grain.resource import Licences, from_data

    if data is None:
        return False
    if isinstance(data, dict) and "command" in data:
        return True
    stated = from_data({"Licences": with_counts(data, lambda _: 1)}).get(Licences)
    return stated is not None and name in stated.counts


def token(res: Mapping[str, Any]) -> str:
    """Return the token in plain data of resources, in either form that it may have; "" for none."""
    from grain.resource import Token, from_data

    found = from_data({"Token": res["Token"]}).get(Token) if "Token" in res else None
    return "" if found is None else found.token


def nodes_of(state: StateAnswer) -> list[SlurmNode]:
    """Return the nodes of a scheduler's answer."""
    nodes: dict[str, SlurmNode] = {}
    for worker in state.workers:
        if worker.state == "joining":
            continue
        cpus, free = _count(worker.total, "Cores"), _count(worker.free, "Cores")
        one = _use(cpus, cpus - free)
        if worker.state == "draining":
            one = "draining" if worker.running else "drained"
        elif worker.state == "away":
            one = "unknown*"
        memory = int(_amount(worker.total.get("Memory")) * 1e9 / _MIB)
        gpus = _count(worker.total, "GPUs")
        features = token(worker.total)
        node = SlurmNode(worker.host, cpus, cpus - free, memory, gpus, one, features)
        known = nodes.get(node.name)
        nodes[node.name] = node if known is None else known.joined(node)
    return [nodes[name] for name in sorted(nodes)]


def expected(config: Config) -> SlurmNode:
    """Return the largest worker that a configuration describes; 0 is what it leaves open."""
    from grain.cli.scaling.configured import gpus_asked

    scripts: list[Script] = [*config.shape] or [config.worker.script]
    gpus = [
        getattr(one, "gpus", None)
        or gpus_asked(one.extra_args)
        or _count(config.worker.res, "GPUs")
        for one in scripts
    ]
    return SlurmNode(
        name="",
        cpus=max(one.cores or 0 for one in scripts),
        busy=0,
        memory=max(int((one.memory or 0.0) * 1e9 / _MIB) for one in scripts),
        gpus=max(gpus),
        state="idle",
        features=_features({token(res) for res in _offers(config)}),
    )


def _offers(config: Config) -> list[dict[str, Any]]:
    """Return the resources of each sort of worker that a configuration describes."""
    return [{**config.worker.res, **shape.res} for shape in config.shape] or [config.worker.res]


def _features(names: Iterable[str]) -> str:
    return ",".join(sorted(filter(None, names)))


def _use(cpus: int, busy: int) -> str:
    if not busy:
        return "idle"
    return "mixed" if busy < cpus else "allocated"


def _count(parts: dict[str, Any], kind: str) -> int:
    return int(_amount(parts.get(kind)))


def _amount(data: Any) -> float:
    """Return the amount of a resource from its plain data: a number, or ids."""
    if isinstance(data, list):
        return float(len(data))
    return float(data) if isinstance(data, int | float) else 0.0


def least(numbers: Sequence[int]) -> str:
    """Return numbers of several nodes as one, as Slurm does: ``16+`` is 16 or more."""
    return f"{min(numbers)}{'+' * (min(numbers) < max(numbers))}"
