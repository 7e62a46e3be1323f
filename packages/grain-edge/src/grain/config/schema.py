"""Every key of the configuration: its type, its kind, its default, its meaning.

The tables of the file are classes here, so the schema can be read beside the reference. Values are
in the form that the program needs: seconds, GB, absolute paths, None for what the user leaves to
others. Use `load`: a `Config()` made by hand lacks the values that follow from other keys.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from grain.config import kinds as kind
from grain.config.expansion import split_defer


class ConfigTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file."""


class Option(NamedTuple):
    """The option of ``grain-worker`` that a key is, too.

    Attributes:
        metavar: stands for the value in the manual; unused for a flag.
        name: its name without dashes; empty for that of the key.
    """

    metavar: str
    help: str
    name: str = ""


class Script(ConfigTable, frozen=True, kw_only=True):
    """``[script]``: the request of a job to the batch system, and the commands around it.

    Attributes:
        queue: queue or partition; empty leaves it to the batch system.
        walltime: the longest run time of the job, in seconds; None leaves it to the batch system.
        nodes: the number of nodes of a job, with a worker on each. A mission's job has one.
        cores: CPU cores of each node; None leaves it to the batch system.
        memory: Memory of each node, in GB; None leaves it to the batch system.
        parallel_environment: Grid Engine: the parallel environment for more than one core; empty
            for the environment that gives slots of one node, or the same number on each node.
        memory_resource: Grid Engine and OAR: the resource or property that counts memory; empty for
            the usual one.
        extra_args: further options for the batch system, one directive each.
        setup_cleanup: shell commands as written, those for the end marked with ``defer``.
    """

    shebang: Annotated[str, kind.SHEBANG] = "#!/bin/bash"
    queue: Annotated[str, kind.LINE] = ""
    walltime: Annotated[int | None, kind.WALLTIME] = None
    nodes: Annotated[int, kind.POSITIVE] = 1
    cores: Annotated[int | None, kind.CORES] = None
    memory: Annotated[float | None, kind.MEMORY] = None
    parallel_environment: Annotated[str, kind.LINE] = ""
    memory_resource: Annotated[str, kind.LINE] = ""
    extra_args: Annotated[tuple[str, ...], kind.STRINGS] = ()
    setup_cleanup: Annotated[tuple[str, ...], kind.COMMANDS] = ()

    @property
    def setup(self) -> tuple[str, ...]:
        """The shell commands to run before the job's main command."""
        return split_defer(self.setup_cleanup)[0]

    @property
    def cleanup(self) -> tuple[str, ...]:
        """The shell commands to run after it, last deferred first."""
        return split_defer(self.setup_cleanup)[1]


class Shape(Script, frozen=True, kw_only=True):
    """``[[shape]]``: one sort of worker, where there are several.

    It is ``[worker.script]`` with the settings of the shape over it, key by key: what it does not
    say is as in ``[script]``.

    Attributes:
        name: the word for it, as in ``grain up -s gpu``.
        max: the largest number of such workers that ``grain scale --auto`` keeps; None for no limit
            of its own.
        charge: the cost of such a worker for as long as it runs, in any unit; None for its cores
            and 16 for each of its GPUs.
        gpus: GPUs of a node, which its job asks for unless ``extra_args`` does; None for the number
            that these ask for.
        res: resources of such a worker, over those of ``worker.res``, kind by kind.
    """

    name: Annotated[str, kind.WORD] = ""
    max: Annotated[int | None, kind.LIMIT] = None
    charge: Annotated[float | None, kind.CHARGE] = None
    gpus: Annotated[int | None, kind.COUNT] = None
    res: Annotated[dict[str, Any], kind.RESOURCES] = {}


class Gnaw(ConfigTable, frozen=True, kw_only=True):
    """``[head.gnaw]``: the scheduler in the background that missions share.

    Attributes:
        enabled: True if missions use it; otherwise each hosts its own scheduler.
        log_file: its log; empty for the standard output of the process that starts it.
        max_conn: the largest number of missions that may be connected at a time.
        idle_timeout: seconds without a mission after which it leaves.
        grace: seconds for which it waits for missions and workers whose connection is lost.
        max_silence: seconds for which it waits for a mission that does not run its event loop,
            while its process, or over a network its host, is there.
        metrics: where it serves metrics, see `grain.config.parse_metrics`; empty for nowhere.
        pool: the number of workers that it keeps alive; ``"auto"`` for as many as the tasks need;
            0 leaves that to the user.
        extra_args: further arguments for its command line.
    """

    enabled: Annotated[bool, kind.FLAG] = True
    log_file: Annotated[str, kind.FILE] = "$HOME/.local/share/grain-gnaw.log"
    max_conn: Annotated[int, kind.POSITIVE] = 8
    idle_timeout: Annotated[int, kind.SPAN] = 1800
    grace: Annotated[int, kind.SPAN] = 60
    max_silence: Annotated[int, kind.SPAN] = 43200
    metrics: Annotated[str, kind.METRICS] = ""
    pool: Annotated[int | Literal["auto"], kind.POOL] = 0
    extra_args: Annotated[tuple[str, ...], kind.STRINGS] = ()


class EventLog(ConfigTable, frozen=True, kw_only=True):
    """``[head.event_log]``: the logs of missions, for ``grain history`` and the like.

    Attributes:
        enabled: True if missions write one.
        folder: the directory of the logs; empty for ``grain`` in the user's state directory.
        keep: seconds for which a log is kept after its end.
        keep_size: GB of all logs together; the oldest go first.
    """

    enabled: Annotated[bool, kind.FLAG] = True
    folder: Annotated[str, kind.DIRECTORY] = ""
    keep: Annotated[int, kind.SPAN] = 2592000
    keep_size: Annotated[float, kind.GIGABYTES] = 1.0


class Head(ConfigTable, frozen=True, kw_only=True):
    """``[head]``: the mission's side.

    Attributes:
        name: name of the mission's job, where it is submitted as one.
        log_file: log of the mission's local worker; empty for standard output.
        cache: the directory of cached results; empty for .grain-cache where a mission is started.
        listen: the address at which the scheduler listens; `Config.address` unless set.
        contextmod: context module of the local worker; `Config.contextmod` unless set.
        cmd: shell command that starts the mission in its job; empty if it never runs as one.
        res: the resources of the whole cluster, which the scheduler owns: kind -> plain data. In
            the place of a number may be a command that tells it, see `grain.config.with_counts`.
        script: ``[script]`` with ``[head.script]`` over it, key by key.
    """

    name: Annotated[str, kind.NAME] = "grain_head"
    main_log_file: Annotated[str, kind.STAMPED_FILE] = "./grain_head{{HHMMSS}}.log"
    log_file: Annotated[str, kind.STAMPED_FILE] = ""
    cache: Annotated[str, kind.DIRECTORY] = ""
    listen: Annotated[str, kind.OTHER_ADDRESS] = ""
    contextmod: Annotated[str, kind.FILE_BESIDE] = ""
    cmd: Annotated[str, kind.TEXT] = ""
    res: Annotated[dict[str, Any], kind.SHARED] = {}
    script: Script = Script()
    gnaw: Gnaw = Gnaw()
    event_log: EventLog = EventLog()


class Reserve(ConfigTable, frozen=True, kw_only=True):
    """``[worker.reserve]``: the part of a job that the worker keeps from the tasks.

    Attributes:
        memory: GB for the worker's own processes.
        walltime: seconds before the job's end at which the worker has to be done with its tasks,
            for reporting the last results and for the clean-up commands.
    """

    memory: Annotated[float, kind.GIGABYTES] = 0.5
    walltime: Annotated[int, kind.SPAN] = 60


class WorkerSettings(ConfigTable, frozen=True, kw_only=True):
    """The keys of ``[worker]`` that the worker itself has to know.

    They travel whole, so a key is added here and read where it is needed. `grain.config.options`
    makes options of ``grain-worker`` of them, both in the script of a job and for the command. From
    there the agent and each runner get this object.

    Attributes:
        cwd: the directory in which a worker runs all programs; empty for that of each mission,
            where the node has it. "." is the directory in which the job runs.
        cluster: the display name of the cluster; empty for its name in the batch system.
        contextmod: context module of the workers; `Config.contextmod` unless set.
        hyperthreads: False to offer one CPU of each core, where cores have several.
        enforce: True to end each program that has more memory than its task asked for.
    """

    cwd: Annotated[
        str,
        kind.DIRECTORY,
        Option(
            "DIR",
            "the directory to work in, and to run all programs in (by default each mission's own, "
            "where this host has it, else the directory in which the worker is started)",
        ),
    ] = ""
    cluster: Annotated[
        str,
        kind.CLUSTER,
        Option("NAME", "the display name of its cluster (its name in the batch system)"),
    ] = ""
    contextmod: Annotated[
        str,
        kind.FILE_BESIDE,
        Option("MODULE", "context module, a file or a module's name", "context"),
    ] = ""
    hyperthreads: Annotated[
        bool,
        kind.FLAG,
        Option("", "offer one CPU of each core, where cores have several hardware threads"),
    ] = True
    enforce: Annotated[
        bool,
        kind.FLAG,
        Option("", "end each program that has more memory than its task asked for"),
    ] = False


class Worker(WorkerSettings, frozen=True, kw_only=True):
    """``[worker]``: the worker on each node, and its job.

    Attributes:
        dial: the address at which workers look for the scheduler; `Config.address` unless set.
        cli_dial: the address at which the ``grain`` command looks for it; ``dial`` unless set.
        env: environment variables of the workers and their programs.
        gpu_shards: the shards of each GPU, for jobs of sbatch with ``--gres=shard:N``; 0 to refuse
            these.
        res: the resources of a worker besides cores, memory and walltime: kind -> plain data.
        script: ``[script]`` with ``[worker.script]`` over it, key by key.
    """

    name: Annotated[str, kind.NAME] = "w{{HHMMSS}}"
    log_file: Annotated[str, kind.STAMPED_FILE] = "./w{{HHMMSS}}.log"
    dial: Annotated[str, kind.OTHER_ADDRESS] = ""
    cli_dial: Annotated[str, kind.OTHER_ADDRESS] = ""
    gpu_shards: Annotated[int, kind.COUNT] = 0
    env: Annotated[dict[str, str], kind.ENVIRONMENT] = {}
    res: Annotated[dict[str, Any], kind.RESOURCES] = {}
    reserve: Reserve = Reserve()
    script: Script = Script()


class CustomSystem(ConfigTable, frozen=True, kw_only=True):
    """``[custom_system]``: a batch system that Grain does not know, for ``system = "custom"``.

    Attributes:
        submit_cmd: shell command that submits a script; the script's path is its last argument.
        directory: the directory in which scripts are written and submitted.
        id_pattern: regular expression for the job's id in the output of ``submit_cmd``: its first
            group, or all of it. Empty for the last line.
        status_cmd: shell command that prints id, word and reason of jobs, a line each; their ids
            are its last arguments. Empty if there is none: the state of a job is unknown then.
        phases: the phase that each word means.
        cancel_cmd: shell command that cancels jobs; their ids are its last arguments.
    """

    submit_cmd: Annotated[str, kind.LINE] = ""
    directory: Annotated[str, kind.DIRECTORY] = ""
    template: Annotated[str, kind.TEXT] = ""
    id_pattern: Annotated[str, kind.PATTERN] = ""
    status_cmd: Annotated[str, kind.LINE] = ""
    phases: Annotated[dict[str, str], kind.PHASES_BY_WORD] = {}
    cancel_cmd: Annotated[str, kind.LINE] = ""


class Config(ConfigTable, frozen=True, kw_only=True):
    """Everything that can be configured, complete and checked.

    Attributes:
        source: absolute path of the file that was read; None for the defaults.
        system: batch system: ``local`` (plain processes on this machine), one of those in
            `grain.files.batch_systems`, ``ssh`` (plain processes on ``hosts``) or ``custom``.
        hosts: for ``system = "ssh"``: the hosts, each with its number of workers unless that is 1.
        address: the place where missions, workers and commands meet, expanded; its syntax is
            checked where it is used.
        contextmod: absolute path of the context module, or empty.
        script: only ``[script]``. No job is made from it: see ``worker.script``, ``head.script``.
        shape: the sorts of workers, each complete; empty where ``worker.script`` is the only one.
    """

    source: str | None = None
    system: Annotated[str, kind.SYSTEM] = "local"
    hosts: Annotated[tuple[str, ...], kind.HOSTS] = ()
    address: Annotated[str, kind.ADDRESS] = "edge://$HOME/.local/share/edge-file-default"
    contextmod: Annotated[str, kind.FILE_BESIDE] = ""
    head: Head = Head()
    worker: Worker = Worker()
    script: Script = Script()
    shape: tuple[Shape, ...] = ()
    custom_system: CustomSystem = CustomSystem()
