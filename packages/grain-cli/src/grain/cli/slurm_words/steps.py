"""The options of ``srun`` in a job: what it asks for, and how its processes run.

It is read for each step, so it imports little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from grain.cli.slurm_words.grammar import BadUse, is_set

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MPI = ("none", "openmpi", "pmi1", "pmi2", "pmix", "cray_shasta")
_ONE_PART = "Grain has no heterogeneous jobs"
_REFUSED = {
    "het-group": _ONE_PART,
    "no-allocate": "--no-allocate is not supported",
    "container": "containers are not started here: do so in the command",
    "bcast": "--bcast is not supported: use a directory that all nodes share",
    "x11": "no X11 is forwarded",
}
# srun(1), "INPUT ENVIRONMENT VARIABLES". Those of the job come first: options go before them.
_VARIABLES = {
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node", "SRUN_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_GPUS_PER_TASK": "gpus-per-task", "SLURM_STDINMODE": "input",
    "SLURM_STDOUTMODE": "output", "SLURM_STDERRMODE": "error", "SLURM_OPEN_MODE": "open-mode",
    "SLURM_MPI_TYPE": "mpi", "SLURM_DISTRIBUTION": "distribution", "SLURM_WAIT": "wait",
    "SLURM_KILL_BAD_EXIT": "kill-on-bad-exit", "SRUN_EXPORT_ENV": "export",
    "SLURM_EXPORT_ENV": "export", "SLURM_WORKING_DIR": "chdir", "SLURM_REMOTE_CWD": "chdir",
    "SLURM_CPU_BIND": "cpu-bind", "SLURM_STEP_GRES": "gres", "SLURM_TIMELIMIT": "time",
}  # fmt: skip
_FLAGS = {
    "SLURM_EXACT": "exact", "SLURM_EXCLUSIVE": "exclusive", "SLURM_OVERLAP": "overlap",
    "SLURM_WHOLE": "whole", "SLURM_LABELIO": "label", "SLURM_OVERCOMMIT": "overcommit",
}  # fmt: skip
# Such steps are not kept by reading how the arguments of other options are written.
_USUAL = {
    "chdir", "cpus-per-task", "distribution", "error", "exact", "export", "gres", "input", "label",
    "mem", "mem-per-cpu", "mpi", "nodes", "ntasks", "ntasks-per-node", "output", "overlap", "quiet",
}  # fmt: skip
# They choose nothing here, but a wrong value is refused.
_CHECKED = {"SLURM_HINT": "hint", "SLURM_THREADS_PER_CORE": "threads-per-core"}
_HOSTS = {"nodelist": "hosts", "exclude": "excluded"}
_MEMORY = {"mem": "memory", "mem-per-cpu": "memory_per_cpu"}
_GPUS = {
    "gres": "gpus", "gpus-per-node": "gpus", "gpus": "gpus_in_all",
    "gpus-per-task": "gpus_per_task",
}  # fmt: skip


class StepRefused(Exception):
    """A step that cannot be started; the text is for the user."""


class StepNumbers(NamedTuple):
    """The size of a step.

    Attributes:
        tasks, nodes, per_node: numbers; 0 for one that is not given.
        warnings: the lines of srun on numbers that it does not obey.
    """

    tasks: int = 0
    nodes: int = 0
    per_node: int = 0
    warnings: tuple[str, ...] = ()


class SrunWords(NamedTuple):
    """The ways in which srun runs the processes of a step.

    Attributes:
        directory: where they run; "" for that of srun.
        stdin: "all" if each process gets the standard input of srun; else the number of the only
            process that does, or the pattern of the file that each reads.
        append: True to append to output files.
        label: True for the number of the process before each line.
        kills: True to end all when one has failed.
        wait: seconds after the end of the first one to the end of all; 0 for any time.
        export: the argument of ``--export``.
        multi: True if the command is a file with the programs of the processes.
        quiet: True for fewer messages.
        pty: True for a terminal of its own.
        bound: False for processes that share the CPUs of the step.
        mpi: the argument of ``--mpi``; "" if there is none.
        name: that of the step, if it was given.
        states: False for the first Ctrl-C to end the processes, and not to show their states.
        quits: True for the first Ctrl-C to end the step.
    """

    directory: str = ""
    stdin: str = "all"
    append: bool = False
    label: bool = False
    kills: bool = False
    wait: float = 0.0
    export: str = "ALL"
    multi: bool = False
    quiet: bool = False
    pty: bool = False
    bound: bool = True
    mpi: str = ""
    name: str = ""
    states: bool = True
    quits: bool = False


def of_memory(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the amounts of memory that variables of srun give, as options."""
    names = {"SLURM_MEM_PER_NODE": "mem", "SLURM_MEM_PER_CPU": "mem-per-cpu"}
    return [(name, environment[key]) for key, name in names.items() if key in environment]


def with_variables(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return options; an option that is not given has the value of srun's variable."""
    of_variables = {
        name: environment[key] for key, name in _VARIABLES.items() if environment.get(key)
    }
    of_variables |= {name: "" for key, name in _FLAGS.items() if is_set(environment.get(key, "0"))}
    if {"exact", "exclusive", "overlap", "whole"} & given.keys():
        for name in ("exact", "exclusive", "overlap", "whole"):
            of_variables.pop(name, None)
    return {**of_variables, **given}


def srun_words(given: Mapping[str, str]) -> SrunWords:
    """Return what srun does with processes.

    Raises:
        BadUse: a value is not written as it should be.
    """
    stdin = given.get("input", "all")
    wait = given.get("wait", "0")
    kills = given.get("kill-on-bad-exit", "0") or "1"
    for name, text in ("wait", wait), ("kill-on-bad-exit", kills):
        if not text.isdecimal():
            raise BadUse(f'srun: error: Invalid numeric value "{text}" for --{name}.', 1)
    return SrunWords(
        directory=given.get("chdir", ""),
        stdin=_file(stdin) or "all",
        append=given.get("open-mode", "t").lower().startswith("a"),
        label="label" in given,
        kills=kills != "0",
        wait=float(wait),
        export=given.get("export", "ALL"),
        multi="multi-prog" in given,
        quiet="quiet" in given,
        pty="pty" in given,
        bound=not given.get("cpu-bind", "").lower().endswith(("none", "no")),
        mpi=given.get("mpi", ""),
        name=given.get("job-name", ""),
        states="disable-status" not in given,
        quits="quit-on-interrupt" in given,
    )


def step_numbers(given: Mapping[str, str], environment: Mapping[str, str]) -> StepNumbers:
    """Return how large a step is; where numbers contradict each other, as srun decides.

    Args:
        given: options by their long names.
        environment: the variables of srun.

    Raises:
        BadUse: a number is none.
    """
    per_node = _count(given, "ntasks-per-node")
    # The number of tasks of the job counts where no option says how many there are.
    of_job = environment.get("SLURM_NTASKS") or environment.get("SLURM_NPROCS", "")
    tasks = _count(given, "ntasks") or _count({"ntasks": of_job}, "ntasks")
    least = given.get("nodes", "").partition("-")[0]
    if least and not least.isdecimal():
        from grain.cli.slurm_words.values import node_count  # which takes its time

        try:
            least = str(node_count(least))
        except ValueError:
            raise BadUse(f'srun: error: "{given["nodes"]}" is not a valid node count') from None
    if least and not int(least):
        raise BadUse('srun: error: "0" is not a valid node count', 1)
    nodes = int(least or 0)
    on = nodes or _count({"nodes": environment.get("SLURM_NNODES", "")}, "nodes")
    said: list[str] = []
    if 0 < tasks < on:
        said.append(f"can't run {tasks} processes on {on} nodes, setting nnodes to {tasks}")
        nodes, on = nodes and tasks, tasks
    if on and 0 < per_node < tasks and tasks != per_node * on:
        said.append(
            f"can't honor --ntasks-per-node set to {per_node} which doesn't match the requested "
            f"tasks {tasks} with the number of requested nodes {on}. Ignoring --ntasks-per-node."
        )
        per_node = 0
    return StepNumbers(tasks, nodes, per_node, tuple(f"srun: Warning: {text}" for text in said))


def step_order(
    given: Mapping[str, str],
    environment: Mapping[str, str],
    command: Sequence[str],
    directory: str,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what srun asks for, as `grain.worker.steps.orders.StepOrder` reads it, and warnings.

    Args:
        given: options by their long names.
        environment: the variables of srun.
        command: its words.
        directory: in which its processes run.

    Raises:
        BadUse: a value is not written as it should be.
        StepRefused: there is no such step here; the text is what srun prints.
    """
    refuse(given, environment.get("SLURM_JOB_ID", ""), command)
    if given.get("mpi", "none").partition("_v")[0] not in _MPI:
        raise StepRefused(
            f"srun: error: Invalid MPI type '{given['mpi']}', --mpi=list for acceptable types"
        )
    checked = {name: environment[key] for key, name in _CHECKED.items() if key in environment}
    if checked or not given.keys() <= _USUAL:
        from grain.cli.slurm_words.values import check_arguments, check_owner

        check_owner("srun", given, environment.get("SLURM_JOB_USER", ""))
        # The distribution of a job may be a plane whose size is in another variable.
        told = {n: v for n, v in given.items() if n != "distribution"}
        check_arguments("srun", checked | told)
    numbers = step_numbers(given, environment)
    relative = given.get("relative", "0")
    if not relative.isdecimal():
        raise BadUse(f'srun: error: Invalid numeric value "{relative}" for --relative.', 1)
    each = _count(given, "cpus-per-task")
    exact = bool(each) or not {"exact", "exclusive", "threads-per-core"}.isdisjoint(given)
    order: dict[str, Any] = {
        "name": given.get("job-name") or command[0].rpartition("/")[2],
        "directory": directory,
        "environment": {
            key: value
            for key, value in environment.items()
            if key.startswith(("SLURM_", "SLURMD_"))
        },
        "tasks": numbers.tasks,
        "nodes": numbers.nodes,
        "tasks_per_node": numbers.per_node,
        "each": each,
        "relative": int(relative),
        "exact": exact and "whole" not in given,
        "overlap": "overlap" in given,
        "overcommit": "overcommit" in given,
        "distribution": _distribution(given, environment),
        "immediate": "immediate" in given,
        "quiet": "quiet" in given,
        "stdin": _file(given.get("input", "")),
        "stdout": _file(given.get("output", "")),
        "stderr": _file(given.get("error", "")),
    }
    return order | _with_units(given, environment), numbers.warnings


def _distribution(given: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return how processes are spread over nodes; "" if no option says so."""
    if "distribution" not in given:
        return ""
    from grain.cli.slurm_words import values

    text = given["distribution"]
    if text == "plane":  # as a job has it
        text += f"={environment.get('SLURM_DIST_PLANESIZE', '')}"
    try:
        return values.distribution(text)
    except ValueError:
        raise BadUse("srun: error: Invalid --distribution specification") from None


def _with_units(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what is asked for in options whose values take long to read, if there are any."""
    job = environment.get("SLURM_JOB_ID", "")
    no_step = f"srun: error: Unable to create step for job {job}"
    # A plain number, as most jobs have, is read without what takes long.
    found: dict[str, Any] = {
        field: float(given[option])
        for option, field in _MEMORY.items()
        if given.get(option, "").isdecimal()
    }
    memory = {option for option, field in _MEMORY.items() if field not in found}
    if not given.keys() & {*memory, *_GPUS, "gpus-per-socket", "time", *_HOSTS}:
        return found
    from grain.cli.slurm_words import values

    if "time" in given:
        try:
            found["limit"] = values.time_limit(given["time"])
        except ValueError:
            raise BadUse("srun: error: Invalid --time specification") from None
    found |= _hosts(given, no_step)
    for option in memory & given.keys():
        try:
            found[_MEMORY[option]] = values.megabytes(given[option])
        except ValueError:
            raise BadUse(f"srun: error: Invalid --{option} specification") from None
    try:
        return found | _gpus(given, environment)
    except ValueError:
        raise StepRefused(f"{no_step}: Invalid generic resource (gres) specification") from None


def _hosts(given: Mapping[str, str], no_step: str) -> dict[str, Any]:
    """Return the hosts of ``-w`` and those of ``-x``, as `StepOrder` names them.

    Raises:
        StepRefused: they are not written as they should be, or a host is in both.
    """
    from grain.cli.slurm_words import values

    found: dict[str, Any] = {}
    for option, field in _HOSTS.items():
        if option in given:
            try:
                found[field] = values.hosts(given[option])
            except BadUse:
                text = f"{no_step}: Requested node configuration is not available"
                raise StepRefused(text) from None
    for host in found.get("excluded", ()):
        if host in found.get("hosts", ()):
            raise StepRefused(
                f"srun: error: Requested node {host} is also in the excluded list.\n"
                "srun: error: Job not submitted."
            )
    return found


def _gpus(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what is asked for of GPUs: nothing, which is all, of one with shards of a GPU.

    Raises:
        ValueError: it is not written as it should be, or the job has fewer shards.
    """
    from grain.cli.slurm_words import values

    found: dict[str, Any] = {}
    for option, field in _GPUS.items():
        if option not in given:
            continue
        if option != "gres" or not values.asks_for_shards(given):
            found[field] = values.gpus(given[option], gres=option == "gres")
        elif "SLURM_JOB_ID" in environment:
            has = int(environment.get("SLURM_SHARDS_ON_NODE", "0"))
            if values.shards(given[option]) > has:
                raise ValueError(option)
    if of_sockets := values.gpus_of_sockets("srun", given):
        found["gpus"] = of_sockets
    return found


def refuse(given: Mapping[str, str], job: str, command: Sequence[str]) -> None:
    """Refuse options of a step that there are not here.

    Args:
        given: options by their long names.
        job: the number of the job in which ``srun`` runs; "" for none.
        command: the words of its command; one that is a colon divides the parts of a step.

    Raises:
        StepRefused: the text is what srun prints.
    """
    for name, reason in (*_REFUSED.items(), (":", _ONE_PART)):
        if name in given or (name == ":" and name in command):
            raise StepRefused(f"srun: error: (Grain) {reason}")
    if given.get("jobid", job) != job:
        raise StepRefused(
            f"srun: error: Unable to confirm allocation for job {given['jobid']}: Invalid job id "
            f"specified\nsrun: Check SLURM_JOB_ID environment variable. Expired or invalid job "
            f"{given['jobid']}\nsrun: (Grain) a step begins in its own job only"
        )


def _file(pattern: str) -> str:
    return {"none": "/dev/null", "all": ""}.get(pattern.lower(), pattern)


def _count(given: Mapping[str, str], name: str) -> int:
    text = given.get(name, "")
    if not text:
        return 0
    if not text.isdecimal() or not text.isascii() or not int(text):
        raise BadUse(f'srun: error: Invalid numeric value "{text}" for --{name}.', 1)
    return int(text)


def programs(text: str, tasks: int, name: str) -> list[list[str]]:
    """Return the words of each process, from a file of ``--multi-prog``.

    Args:
        text: of the file: in each line the numbers of processes, and a command, in which ``%t`` is
            the number of the process, and ``%o`` its place among these, but in single quotes.
        tasks: the number of processes.
        name: of the file, for messages.

    Raises:
        StepRefused: it is not written so, or has nothing for a process.
    """
    found: dict[int, list[str]] = {}
    all_others = False
    for at, line in enumerate(text.replace("\\\n", "\\\0").split("\n"), 1):
        numbers, *command = line.split(maxsplit=1) or ["#"]
        if numbers.startswith("#"):
            continue
        (words, closed), why = _words_of("".join(command)), ""
        ranks = _ranks(numbers, tasks)
        if all_others and numbers != "*":
            why = "Task range specification with asterisk must be last"
        elif not ranks:
            why = f"Invalid task range specification ({numbers})"
        elif numbers != "*":
            why = _why_not(ranks, tasks, found)
        if not closed:
            why = "No executable program specified for this task"
        all_others = numbers == "*"
        if why or not words:
            said = f"{why}\nsrun: error: " if why else ""
            raise StepRefused(f"srun: error: {said}Line {at} of configuration file {name} invalid")
        for place, number in enumerate(ranks):
            if number not in found:  # an asterisk means all others
                found[number] = _words_of(command[0], number, place)[0]
    for number in range(tasks):
        if number not in found:
            raise StepRefused(
                f"srun: error: Configuration file {name} invalid, no record for task id {number}"
            )
    return [found[number] for number in range(tasks)]


def _why_not(ranks: Sequence[int], tasks: int, found: Mapping[int, object]) -> str:
    """Return why processes cannot have a line of a file; "" if they can."""
    if max(ranks, default=0) >= tasks:
        return f"Invalid task id, {max(ranks)} >= ntasks"
    twice = found.keys() & set(ranks)
    return f"Duplicate record for task {min(twice)}" if twice else ""


def _ranks(text: str, tasks: int) -> list[int]:
    """Return the numbers in a list of ranges; [] if it is not written so."""
    if text == "*":
        return list(range(tasks))
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return []
        end = int(last or first)
        if end >= tasks:
            return [end]  # that there is not
        found += range(int(first), end + 1)
    return found


def _words_of(line: str, rank: int = 0, place: int = 0) -> tuple[list[str], bool]:
    """Return the words of a line, and False if a quote is not closed.

    As in Slurm, single quotes keep all letters and a backslash keeps the next one. Double quotes
    are letters, and a percent sign goes with the letter behind it.
    """
    words: list[str] = []
    word: str | None = None
    quoted = False
    letters = iter(line)
    for letter in letters:
        if not quoted and letter.isspace():
            words += [] if word is None else [word]
            word = None
            continue
        word = word or ""
        if letter == "'":
            quoted = not quoted
        elif quoted:
            word += letter
        elif letter == "\\":
            word += next(letters, "").strip("\0")  # it stands for the end of a line
        elif letter == "%":
            word += {"t": str(rank), "o": str(place)}.get(next(letters, ""), "")
        else:
            word += letter
    return words if word is None else [*words, word], not quoted
