"""The words of ``sbatch`` become what a submission asks for."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from grain.cli.queue.submission import (
    SubmitOptions,
    SubmittedFrom,
    expanded,
    make_job,
    passed_on,
    said,
)
from grain.cli.slurm_words import values
from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.options import directives, merged, of_script
from grain.cli.slurm_words.values import EXCLUSIVE, SINGLETON
from grain.queue.arrays import first_and_last, parse_array
from grain.queue.errors import BadInput
from grain.queue.records import KILL, ArraySpec, Job
from grain.queue.selectors import TASKS_PER_JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

_SHOWN = (
    "account", "partition", "qos", "comment", "wckey", "dependency", "nice", "gres", "constraint",
    "licenses", "nodelist", "exclude", "prefer",
)  # fmt: skip
# Kept for the variables of the job.
_TOLD = (
    "cpus-per-gpu", "cpus-per-task", "distribution", "export", "gpu-bind", "gpu-freq", "gpus",
    "gpus-per-node", "gpus-per-socket", "gpus-per-task", "hint", "ntasks-per-core",
    "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "overcommit", "threads-per-core",
)  # fmt: skip
_J = r"(?a)%\d*[jJ]"
# %j of a task is its plain number, which is that of the job and six digits.
_PLAIN = "%A%6a"
_MB_IN_GB = 2**20 / 1e9
_NO_GRES = "sbatch: error: Invalid generic resource (gres) specification"
_MOST_NODES = 10_000
_ALL = "all"  # cores of a worker
_LICENCE = r"(?a)([A-Za-z0-9][\w.-]*)(?:@[\w.-]+)?(?::([1-9]\d{0,5}))?"
_REFUSED = {
    "bb": ("Burst Buffer request invalid", "Grain has no burst buffers"),
    "bbf": ("Burst Buffer request invalid", "Grain has no burst buffers"),
    "cluster-constraint": ("Invalid feature specification", "Grain has one cluster"),
    "container": ("Unsupported option", "containers are not started here: do so in the script"),
    "export-file": ("Unsupported option", "--export-file is not supported: use --export"),
    "nodefile": ("Invalid node name specified", "no file of hosts is read: use --nodelist"),
    "reboot": ("Access/permission denied", "nodes are not rebooted"),
    "reservation": ("Requested reservation is invalid", "Grain has no reservations"),
}  # fmt: skip


class JobRefused(Exception):
    """A job that cannot be submitted, as sbatch says it, and the reason."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class NotTranslated(ValueError):
    """An option that is wrong, or that there is not here; the text is the end of a sentence."""


def slurm_job(
    given: Mapping[str, str],
    around: SubmittedFrom,
    *,
    words: Sequence[str],
    script: str = "",
    name: str = "",
    gpu_shards: int = 0,
) -> Job:
    """Return the job that options of sbatch ask for, as `submit_options` and `make_job` do.

    Raises:
        BadUse, JobRefused: as `submit_options`.
    """
    own = {
        "name": name.rpartition("/")[2] or "sbatch",
        "stdout": "slurm-%A_%a.out" if given.get("array") else "slurm-%j.out",
    }
    path = name if name.startswith("/") else ""
    options = own | submit_options(given, around, gpu_shards)
    return make_job(options, around, words=words, script=script, script_name=path)


def submit_options(
    given: Mapping[str, str], around: SubmittedFrom, gpu_shards: int = 0
) -> SubmitOptions:
    """Return what a submission asks for.

    Args:
        given: its options by their long names.
        around: who submits it.
        gpu_shards: the number of shards of a GPU; 0 if GPUs have none.

    Raises:
        BadUse: an option is not written as it should be.
        JobRefused: an option asks for what there is not here.
    """
    for option, (text, reason) in _REFUSED.items():
        if option in given:
            raise JobRefused(text, reason)
    if given.get("batch") and given["batch"] != given.get("constraint"):
        raise JobRefused(
            "Job --batch option is invalid or not a subset of --constraints",
            "all workers of a job have its one feature: name the same in both options",
        )
    after = _after(given["dependency"]) if given.get("dependency") else None
    values.check_arguments("sbatch", given)
    values.check_owner("sbatch", given, around.user)
    _check_gpus(given)
    nodes, tasks, cores = _cores(given)
    array = _array(given)
    limit = _value(given, "time", values.time_limit, 0.0)
    warned = _value(given, "signal", values.warning, None)
    has_input = given.get("input", "none").lower() != "none"
    stdin = _place(given, "input", around) if has_input else None
    stdout = _place(given, "output", around)
    stderr = _place(given, "error", around)
    if array:
        stdin, stdout, stderr = (
            text and re.sub(_J, _PLAIN, text) for text in (stdin, stdout, stderr)
        )
    hold = "hold" in given or given.get("priority") == "0"
    return said(
        name=given.get("job-name") or None,
        request=_request(given, nodes, tasks, cores, gpu_shards),
        nodes=nodes,
        timeout=limit or None,
        signal=warned.signal if warned else None,
        signal_before=warned.before if warned else None,
        signal_to=warned.to if warned else None,
        array=array,
        after=after.after or None if after else None,
        after_any=(after.any_of or None) if after else None,
        not_before=_begin(given, around.now) or None,
        deadline=_deadline(given, around.now) or None,
        held=hold or None,
        priority=-_nice(given) or None,
        requeue=False if "no-requeue" in given else None,
        directory=_place(given, "chdir", around),
        stdin=stdin,
        stdout=stdout,
        stderr=None if stderr == stdout else stderr,
        append=given.get("open-mode", "t").lower().startswith("a") or None,
        **_environment(given, around),
        limits=_limits(given, around.limits),
        options={
            **_shown(given, nodes, tasks, around),
            **({EXCLUSIVE: str(cores)} if _is_exclusive(given) else {}),
            **({KILL: "yes"} if _kills(given) else {}),
            **({SINGLETON: "yes"} if after and after.singleton else {}),
        },
    )


def options_of_script(
    script: str, name: str, around: SubmittedFrom, gpu_shards: Callable[[], int]
) -> SubmitOptions:
    """Return what the lines ``#SBATCH`` of a script ask for.

    Args:
        script: its text.
        name: that of its file, for messages.
        around: who submits it.
        gpu_shards: returns the number of shards of a GPU; called if the script asks for some.

    Raises:
        NotTranslated: there is one that is wrong, or that ``grain submit`` cannot obey.
    """
    try:
        given = merged("sbatch", of_script(directives(script, name)))
        options = submit_options(
            given, around, gpu_shards() if values.asks_for_shards(given) else 0
        )
    except BadUse as error:
        text = str(error).splitlines()[0]
        raise NotTranslated(text.removeprefix("sbatch: ").removeprefix("error: ")) from None
    except JobRefused as error:
        raise NotTranslated(f"{error} ({error.reason})") from None
    kept = options.pop("options", {})
    if SINGLETON in kept:
        raise NotTranslated("--dependency=singleton: use sbatch of `grain slurm`, or --after")
    if not options.get("timeout"):
        options.pop("signal", None)  # without a limit it is never sent
    if ranks := kept.get("ntasks"):
        options["ranks"] = int(ranks)
    if KILL in kept:
        options["options"] = {KILL: kept[KILL]}
    return options


def _shown(
    given: Mapping[str, str], nodes: int, tasks: int, around: SubmittedFrom
) -> dict[str, str]:
    """Return what is to be shown again, or is for the variables of the job."""
    shown = {name: given[name] for name in _SHOWN if given.get(name)}
    shown |= {name: given[name] for name in _TOLD if name in given}
    if given.get("hint", "").lower() == "nomultithread":
        shown["threads-per-core"] = "1"
    for name in ("mem-per-cpu", "mem-per-gpu"):
        if megabytes := _value(given, name, values.megabytes, 0.0):
            shown[name] = str(int(megabytes))
    asked = not {"ntasks-per-gpu", "gpus-per-task"}.isdisjoint(given)
    asked = asked or _tasks_per_node(given) > 0 or _tasks(given) > 0
    if nodes > 1 or asked:
        shown["ntasks"] = str(tasks)
    if nodes > 1 and not asked:
        shown["ntasks-implied"] = "yes"
    if values.asks_for_shards(given):
        shown["shards"] = str(values.shards(given["gres"]))
    shown["submit-dir"] = around.directory
    return shown


def _value(given: Mapping[str, str], name: str, read: Callable[[str], T], default: T) -> T:
    if name not in given:
        return default
    try:
        return read(given[name])
    except ValueError:
        raise BadUse(f"sbatch: error: Invalid --{name} specification", 255) from None


def _count(given: Mapping[str, str], name: str, default: int = 0) -> int:
    text = given.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not text.isascii() or not int(text):
        raise BadUse(f'sbatch: error: Invalid numeric value "{text}" for --{name}.', 1)
    return int(text)


def _nodes(given: Mapping[str, str], hosts: int) -> int:
    """Return the number of nodes; 0 for one that is not given. Of a range it is the least one.

    Args:
        hosts: the number of those in ``--nodelist``.
    """
    text = given.get("nodes", "0")
    first, _, last = text.partition("-")
    try:
        least, most = values.node_count(first), values.node_count(last or first)
    except ValueError:
        raise BadUse(f'sbatch: error: "{text}" is not a valid node count', 255) from None
    if most < least:
        text = f"Maximum node count {most} is less than minimum node count {least}"
        raise BadUse(f"sbatch: error: {text}", 255)
    if least > _MOST_NODES:
        why = f"{_MOST_NODES} nodes are the most"
        raise JobRefused("Requested node configuration is not available", why)
    if text == "0" and "nodes" in given:
        raise JobRefused("Node count specification invalid", "a job needs one node or more")
    if 0 < most < hosts:
        raise BadUse(f"sbatch: error: invalid number of nodes (-N {hosts}-{most})", 1)
    return least


def _asked_nodes(given: Mapping[str, str]) -> int:
    """Return the number of nodes that options ask for, however many tasks there are; 0 if none."""
    hosts = len(_listed_hosts(given)[0])
    nodes, tasks = _nodes(given, hosts), _count(given, "ntasks")
    per_node = _tasks_per_node(given)
    if tasks and per_node:
        nodes = nodes or -(-tasks // per_node)  # at most so many of them on each
    gpus = _gpus_asked(given)
    if gpus.in_all and gpus.per_node:
        nodes = gpus.in_all // gpus.per_node
    return max(nodes, hosts)


def nodes_warning(given: Mapping[str, str]) -> str:
    """Return what sbatch says of a job with fewer tasks than nodes; "" for any other.

    Raises:
        BadUse, JobRefused: as `submit_options`.
    """
    nodes, tasks = _asked_nodes(given), _count(given, "ntasks")
    if not 0 < tasks < nodes:
        return ""
    return f"Warning: can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"


def _tasks(given: Mapping[str, str]) -> int:
    """Return the number of tasks that is given, or follows from numbers of GPUs; 0 for none."""
    gpus = _gpus_asked(given)
    of_gpus = gpus.in_all // gpus.per_task if gpus.per_task else 0
    return _count(given, "ntasks") or of_gpus


def _tasks_per_node(given: Mapping[str, str]) -> int:
    """Return the tasks of a node, as given or by numbers of GPUs; 0 if neither says so."""
    gpus = _gpus_asked(given)
    of_gpus = gpus.per_node // gpus.per_task if gpus.per_task else 0
    return _count(given, "ntasks-per-node") or of_gpus


def _cores(given: Mapping[str, str]) -> tuple[int, int, int]:
    """Return the number of nodes, that of tasks, in Slurm's sense, and that of cores of a node."""
    nodes, tasks = _asked_nodes(given), _tasks(given)
    per_node = _tasks_per_node(given)
    if per_gpu := _count(given, "ntasks-per-gpu"):
        tasks = tasks or _gpus(given, nodes or 1, 0) * (nodes or 1) * per_gpu
    nodes = min(nodes or 1, tasks or _MOST_NODES)  # none without a task
    tasks = tasks or (per_node or 1) * nodes
    each = _count(given, "cpus-per-task", 1)
    most = max(-(-tasks // nodes), per_node)  # room for that many, as in Slurm
    of_gpus = _gpus(given, nodes, most) * _count(given, "cpus-per-gpu")
    if "overcommit" in given:
        most = 1  # as for one task on each node
    return nodes, tasks, max(most * each, _count(given, "mincpus", 1), of_gpus)


def _part_of_gpu(given: Mapping[str, str], gpu_shards: int) -> float:
    """Return the part of a GPU that a number of shards is; 0 if none is asked for.

    All shards of a job are of one GPU, and no job has both GPUs and shards:
    https://slurm.schedmd.com/gres.html#Sharding

    Raises:
        BadUse: the number is not written as it should be.
        JobRefused: a GPU has no shards, or not so many.
    """
    if not values.asks_for_shards(given):
        return 0
    try:
        number = values.shards(given["gres"])
    except ValueError:
        raise BadUse(_NO_GRES, 1) from None
    if not gpu_shards:
        raise JobRefused(
            "Invalid generic resource (gres) specification",
            "grain.toml does not say how many shards a GPU has: write gpu_shards = 4 under "
            "[worker] for four",
        )
    if number > gpu_shards:
        raise JobRefused(
            "Requested node configuration is not available",
            f"--gres=shard:{number}: a GPU has {gpu_shards}, by gpu_shards of grain.toml",
        )
    # In whole millionths, as GPUs are counted: rounded up, six sixths would not fit on a GPU.
    return 1 if number == gpu_shards else number * 1_000_000 // gpu_shards / 1_000_000


def _request(
    given: Mapping[str, str], nodes: int, tasks: int, cores: int, gpu_shards: int
) -> dict[str, object]:
    """Return what is asked for on each node; `cores` are those of a node."""
    gpus = _gpus(given, nodes, -(-tasks // nodes))
    part = _part_of_gpu(given, gpu_shards)
    if gpus and part:
        raise BadUse(_NO_GRES, 1)
    memory = (
        _value(given, "mem", values.megabytes, 0.0)
        + _value(given, "mem-per-cpu", values.megabytes, 0.0) * cores
        + _value(given, "mem-per-gpu", values.megabytes, 0.0) * gpus
    )
    request: dict[str, object] = {"Cores": _ALL if _is_exclusive(given) else cores}
    if memory:  # 0 is for all that a node has
        request["Memory"] = math.ceil(round(memory * _MB_IN_GB * 1e6, 3)) / 1e6
    if gpus or part:
        request["GPUs"] = gpus or part
    if "licenses" in given:
        if nodes > 1:
            raise JobRefused("Invalid license specification", "only jobs on one node have licenses")
        request["Licences"] = _licences(given["licenses"])
    if "constraint" in given:
        request["Token"] = _feature(given["constraint"])
    if "nodelist" in given or "exclude" in given:
        request["Host"] = _hosts(given, nodes)
    return request


def _hosts(given: Mapping[str, str], nodes: int) -> object:
    """Return what a job asks of hosts: all in ``--nodelist``, and none in ``--exclude``.

    A job on fewer nodes takes some of the former, and one on more nodes others, too.

    Raises:
        JobRefused: a list of hosts makes no sense.
    """
    wanted, avoided = _listed_hosts(given)
    if not wanted:
        return {"exclude": avoided}
    if len(wanted) >= nodes:
        return wanted if len(wanted) > 1 else wanted[0]
    more: dict[str, object] = {"names": wanted, "others": True}
    return more | ({"exclude": avoided} if avoided else {})


def _listed_hosts(given: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return the hosts in ``--nodelist`` and in ``--exclude``, each once.

    Raises:
        JobRefused: a list of hosts makes no sense.
    """
    named: dict[str, list[str]] = {}
    for option in ("nodelist", "exclude"):
        try:
            found = values.hosts(given.get(option, ""))
        except BadUse as error:
            raise JobRefused("Invalid node name specified", str(error)) from None
        named[option] = list(dict.fromkeys(name.partition(".")[0] for name in found))
        if option in given and not (found and all(re.fullmatch(r"[\w.-]+", one) for one in found)):
            why = f"--{option}={given[option]}: write hosts, as n1 or n[1-4]"
            raise JobRefused("Invalid node name specified", why)
    wanted, avoided = named["nodelist"], named["exclude"]
    if set(wanted) & set(avoided):
        why = "a host is in --nodelist and in --exclude"
        raise JobRefused("Invalid node name specified", why)
    return wanted, avoided


def _is_exclusive(given: Mapping[str, str]) -> bool:
    """Return True for a job that takes whole nodes, and not only from other users."""
    return given.get("exclusive") == ""


def _licences(text: str) -> dict[str, int]:
    """Return licences by name, from ``vasp:2,orca``.

    Raises:
        JobRefused: it is not written so.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        match = re.fullmatch(_LICENCE, part.strip())
        if match is None:
            raise JobRefused("Invalid license specification", f"{part} is not NAME or NAME:NUMBER")
        found[match[1]] = found.get(match[1], 0) + int(match[2] or 1)
    return found


def _feature(text: str) -> str:
    """Return the one feature that is asked for.

    Raises:
        JobRefused: it is several ones.
    """
    if not re.fullmatch(r"[\w.-]+", text):
        raise JobRefused(
            "Invalid feature specification",
            f"--constraint={text}: name one feature, which is the Token of workers",
        )
    return text


class _GPUsAsked(NamedTuple):
    """Numbers of GPUs as options state them; 0 for one that is not given."""

    in_all: int
    per_node: int
    per_task: int


def _gpus_asked(given: Mapping[str, str]) -> _GPUsAsked:
    """Return what options ask for of GPUs.

    Raises:
        BadUse: a number is none, or that of sockets is lacking.
    """
    gres = "" if values.asks_for_shards(given) else given.get("gres", "")
    try:
        in_all, per_node, per_task = (
            values.gpus(given[name]) if name in given else 0
            for name in ("gpus", "gpus-per-node", "gpus-per-task")
        )
        per_node = max(values.gpus(gres, gres=True), per_node)
        of_sockets = values.gpus_of_sockets("sbatch", given)
    except ValueError:
        raise BadUse(_NO_GRES, 1) from None
    if per_node and of_sockets and per_node != of_sockets:
        raise _not_valid(
            ". Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of "
            "sockets differ from --sockets-per-node."
        )
    per_node = per_node or of_sockets
    return _GPUsAsked(in_all, per_node, per_task)


def _gpus(given: Mapping[str, str], nodes: int, tasks: int) -> int:
    """Return the GPUs of a node, which has so many tasks."""
    asked = _gpus_asked(given)
    number = max(-(-asked.in_all // nodes), asked.per_node, asked.per_task * tasks)
    if per_gpu := _count(given, "ntasks-per-gpu"):
        number = number or -(-tasks // per_gpu)
    if not number and "mem-per-gpu" in given:
        raise BadUse(_NO_GRES, 1)
    return number


def _check_gpus(given: Mapping[str, str]) -> None:
    """Refuse numbers of GPUs that contradict each other, or those of nodes and tasks.

    Raises:
        BadUse: they do, in Slurm's words.
    """
    if {"cpus-per-gpu", "cpus-per-task"} <= given.keys():
        text = "--cpus-per-gpu is mutually exclusive with --cpus-per-task"
        raise BadUse(f"sbatch: error: {text}\n{_NO_GRES}", 1)
    sizes = {"gpus", "gpus-per-node", "gres", "ntasks", "nodes"}
    if "ntasks-per-gpu" in given and not sizes & given.keys():
        raise BadUse(
            "sbatch: error: gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU "
            f"specification or a node/ntask specification\n{_NO_GRES}",
            1,
        )
    asked, tasks = _gpus_asked(given), _count(given, "ntasks")
    if asked.in_all and asked.per_node:
        if asked.in_all % asked.per_node:
            raise _not_valid(", --gpus is not multiple of --gres=gpu/--gpus-per-node")
        needed, least = asked.in_all // asked.per_node, _nodes(given, 0)
        most = int(given.get("nodes", "").partition("-")[2] or least)
        if least and not least <= needed <= most:
            raise _not_valid(
                f". Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({needed}) "
                f"doesn't fall between min_nodes ({least}) and max_nodes ({most}) boundaries."
            )
    if asked.per_task:
        _check_gpus_of_tasks(given, asked, tasks)


def _check_gpus_of_tasks(given: Mapping[str, str], asked: _GPUsAsked, tasks: int) -> None:
    """Refuse a number of GPUs of each task that contradicts others, or if nothing counts tasks."""
    if asked.in_all and asked.in_all % asked.per_task:
        raise _not_valid(", --gpus not multiple of --gpus-per-task")
    if asked.in_all and tasks not in (0, asked.in_all // asked.per_task):
        raise _not_valid(
            ". Based on --gpus and --gpus-per-task number of requested tasks differ from "
            "-n/--ntasks."
        )
    if asked.per_node % asked.per_task:
        raise _not_valid(", --gres=gpu/--gpus-per-node not multiple of --gpus-per-task.")
    if asked.per_node and _tasks_per_node(given) != asked.per_node // asked.per_task:
        raise _not_valid(
            ". Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of "
            "tasks per node differ from --ntasks-per-node."
        )
    first, _, last = given.get("nodes", "").partition("-")
    one_number = first and first == (last or first)  # a task on each node
    if not (asked.in_all or tasks or one_number or "ntasks-per-node" in given):
        raise _not_valid(
            ". --gpus-per-task used without either --gpus or -n/--ntasks is not allowed."
        )


def _not_valid(why: str) -> BadUse:
    return BadUse(f"sbatch: error: Failed to validate job spec{why}\n{_NO_GRES}", 1)


def _array(given: Mapping[str, str]) -> ArraySpec | None:
    if not given.get("array"):
        return None
    wrong = "Invalid job array specification"
    # With brackets, as squeue shows it; %0 is for no limit.
    text = re.sub(r"^\[(.*)\]", r"\1", given["array"]).removesuffix("%0")
    try:
        array = parse_array(text)
    except BadInput as error:
        raise JobRefused(wrong, str(error)) from None
    if first_and_last(array)[1] >= TASKS_PER_JOB:
        raise JobRefused(wrong, f"numbers of tasks are below {TASKS_PER_JOB:,}")
    return array


def _kills(given: Mapping[str, str]) -> bool:
    word = given.get(KILL, "no").lower()
    if word not in ("yes", "y", "no", "n"):
        raise BadUse(f"sbatch: error: Invalid --{KILL} specification", 255)
    return word in ("yes", "y")


def _after(text: str) -> values.DependencyList:
    try:
        return values.dependencies(text)
    except ValueError as error:
        raise JobRefused(
            "Job dependency problem",
            f"{error} is not afterok, afterany, afternotok, after or aftercorr with numbers, or "
            "singleton",
        ) from None


def _begin(given: Mapping[str, str], now: float) -> float:
    at = _moment(given, "begin", now)
    return at if at > now else 0.0


def _deadline(given: Mapping[str, str], now: float) -> float:
    at = _moment(given, "deadline", now)
    if at and at <= now:
        raise JobRefused(
            "Requested time limit is invalid (missing or exceeds some limit)",
            f"--deadline={given['deadline']} is over",
        )
    if at and _begin(given, now) > at:
        raise BadUse("sbatch: error: Incompatible begin and deadline time specification", 1)
    return at


def _moment(given: Mapping[str, str], option: str, now: float) -> float:
    """Return the time that an option gives, in Unix seconds; 0 for none."""
    if option not in given:
        return 0.0
    try:
        return values.begin_time(given[option], now)
    except ValueError:
        text = f"sbatch: error: Invalid --{option} specification"
        if given[option]:
            text = f"Invalid time specification (pos=0): {given[option]}\n{text}"
        raise BadUse(text, 255) from None


def _nice(given: Mapping[str, str]) -> int:
    try:
        return values.nice_value(given.get("nice", "0"))
    except ValueError:
        text = f"Invalid --nice value, out of range (+/- {values.MOST_NICE})"
        raise BadUse(f"sbatch: error: {text}", 255) from None


def _environment(given: Mapping[str, str], around: SubmittedFrom) -> dict[str, Any]:
    """Return what ``--export`` lets through, as options."""
    parts = _exported(given.get("export", "ALL"))
    clean = "ALL" not in {part.upper() for part in parts}
    everything = passed_on(around.environment)
    variables = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if equals:
            variables[name] = value
        elif part.upper() not in ("ALL", "NONE", "NIL") and part in everything:
            variables[part] = everything[part]
    return {"clean": clean or None, "variables": variables or None}


def _place(given: Mapping[str, str], option: str, around: SubmittedFrom) -> str | None:
    text = given.get(option)
    try:
        return expanded(text, around.environment) if text else None
    except ValueError as error:
        raise JobRefused("Unspecified error", f"--{option}={text}: {error}") from None


def _limits(given: Mapping[str, str], limits: Mapping[str, int]) -> dict[str, int] | None:
    """Return the limits that ``--propagate`` names; None without it."""
    if "propagate" not in given:
        return None
    names = [word.strip().upper() for word in (given["propagate"] or "ALL").split(",")]
    if "NONE" in names:
        return {}
    names = [name.removeprefix("RLIMIT_") for name in names]
    for name in names if "ALL" not in names else ():
        if name not in limits:
            text = f"--propagate={given['propagate']} is not valid."
            raise BadUse(f"sbatch: error: Bad rlimit name: {name}\nsbatch: error: {text}", 1)
    return {name: limit for name, limit in limits.items() if "ALL" in names or name in names}


def _exported(text: str) -> list[str]:
    """Split the argument of ``--export`` at commas; quotes keep them."""
    parts = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^,'\"])+", text)
    return [re.sub(r"'([^']*)'|\"([^\"]*)\"", r"\1\2", part).strip() for part in parts]
