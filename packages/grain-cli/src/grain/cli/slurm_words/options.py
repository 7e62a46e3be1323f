"""Options of ``sbatch`` and ``srun``, on command lines, in variables, and in scripts.

Each is obeyed, ignored because it cannot matter here, or refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.slurm_words.grammar import BadUse, is_set, options, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

# Obeyed, or kept to be shown again. After a comma comes the short name.
_OF_BOTH = options("""
    account,A= begin,b= chdir,D= comment= cpus-per-gpu= cpus-per-task,c= dependency,d= error,e=
    export= gpus,G= gpus-per-node= gpus-per-socket= gpus-per-task= gres= hold,H input,i= job-name,J=
    mem= mem-per-cpu= mem-per-gpu= mincpus= nice=? nodes,N= ntasks,n= ntasks-per-node=
    ntasks-per-gpu= open-mode= output,o= partition,p= priority= qos,q= quiet,Q time,t= wckey= help,h
    usage version,V bb= bbf= cluster-constraint= gid= uid=
""")
_OF_SBATCH = options("""
    array,a= no-requeue parsable requeue signal= test-only wait,W wrap= export-file=
    kill-on-invalid-dep= licenses,L= nodelist,w= container= exclusive=?
    constraint,C= prefer= time-min= deadline= reboot exclude,x= nodefile,F= reservation= batch=
""")
_OF_SRUN = options("""
    accel-bind= cpu-bind= label,l unbuffered,u mpi= exact whole overlap exclusive=?
    kill-on-bad-exit,K=? wait,W= immediate,I=? multi-prog pty=? jobid= preserve-env,E relative,r=
    disable-status,X no-allocate,Z nodelist,w= constraint,C= licenses,L= container= signal=
    het-group= prolog= epilog= task-prolog= task-epilog= slurmd-debug= debugger-test test-only
    bcast=? compress=? msg-timeout= interactive launch-cmd launcher-opts= threads,T= prefer=
    time-min= deadline= reboot requeue no-requeue exclude,x= nodefile,F= reservation=
    quit-on-interrupt bcast-exclude= resv-ports=? send-libs=? x11=?
""")
# Ignored: they choose among things that there is one of, or none; or they say how, and not what.
_IGNORED = options("""
    acctg-freq= clusters,M= contiguous core-spec,S= cores-per-socket= cpu-freq= delay-boot=
    distribution,m= extra-node-info,B= get-user-env=? gpu-bind= gpu-freq= gres-flags= hint=
    ignore-pbs mail-type= mail-user= mcs-label= mem-bind= network= no-kill,k=? ntasks-per-core=
    ntasks-per-socket= overcommit,O oversubscribe,s power= profile= propagate=? share
    sockets-per-node= spread-job switches= thread-spec= threads-per-core= tmp= use-min-nodes
    verbose,v wait-all-nodes=
""")
_ALIASES = options("tasks-per-node=")
_MEANS = {"tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind"}

SBATCH = (*_OF_BOTH, *_OF_SBATCH, *_IGNORED, *_ALIASES)
SRUN = (*_OF_BOTH, *_OF_SRUN, *_IGNORED, *_ALIASES, *options("cpu_bind="))

# Variables that sbatch(1) names as input, in place of options; the first of two counts.
_VARIABLES = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ACCTG_FREQ": "acctg-freq", "SBATCH_ARRAY_INX": "array",
    "SBATCH_BATCH": "batch", "SBATCH_CLUSTERS": "clusters", "SLURM_CLUSTERS": "clusters",
    "SBATCH_COMMENT": "comment", "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_CONTAINER": "container", "SBATCH_CORE_SPEC": "core-spec",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu", "SBATCH_DEBUG": "verbose",
    "SBATCH_DELAY_BOOT": "delay-boot", "SBATCH_DISTRIBUTION": "distribution",
    "SBATCH_ERROR": "error", "SBATCH_EXCLUSIVE": "exclusive", "SBATCH_EXPORT": "export",
    "SBATCH_GET_USER_ENV": "get-user-env", "SBATCH_GPU_BIND": "gpu-bind",
    "SBATCH_GPU_FREQ": "gpu-freq", "SBATCH_GPUS": "gpus", "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task", "SBATCH_GRES": "gres",
    "SBATCH_GRES_FLAGS": "gres-flags", "SBATCH_HINT": "hint", "SLURM_HINT": "hint",
    "SBATCH_IGNORE_PBS": "ignore-pbs", "SBATCH_INPUT": "input", "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_BIND": "mem-bind", "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NETWORK": "network", "SBATCH_NO_KILL": "no-kill", "SBATCH_NO_REQUEUE": "no-requeue",
    "SBATCH_OPEN_MODE": "open-mode", "SBATCH_OUTPUT": "output", "SBATCH_OVERCOMMIT": "overcommit",
    "SBATCH_PARTITION": "partition", "SBATCH_POWER": "power", "SBATCH_PROFILE": "profile",
    "SBATCH_QOS": "qos", "SBATCH_REQ_SWITCH": "switches", "SBATCH_REQUEUE": "requeue",
    "SBATCH_RESERVATION": "reservation", "SBATCH_SIGNAL": "signal",
    "SBATCH_SPREAD_JOB": "spread-job", "SBATCH_THREAD_SPEC": "thread-spec",
    "SBATCH_THREADS_PER_CORE": "threads-per-core", "SBATCH_TIMELIMIT": "time",
    "SBATCH_USE_MIN_NODES": "use-min-nodes", "SBATCH_WAIT": "wait",
    "SBATCH_WAIT_ALL_NODES": "wait-all-nodes", "SBATCH_WCKEY": "wckey",
}  # fmt: skip
# Those of srun(1) by which it asks for a job; the ones of its steps are read in the job.
_OF_JOBS_OF_SRUN = {
    "SLURM_ACCOUNT": "account", "SLURM_CONSTRAINT": "constraint",
    "SLURM_CPUS_PER_GPU": "cpus-per-gpu", "SRUN_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_DEPENDENCY": "dependency", "SLURM_EXCLUSIVE": "exclusive", "SLURM_GPUS": "gpus",
    "SLURM_GPUS_PER_NODE": "gpus-per-node", "SLURM_GPUS_PER_TASK": "gpus-per-task",
    "SLURM_GRES": "gres", "SLURM_JOB_NAME": "job-name", "SLURM_MEM_PER_CPU": "mem-per-cpu",
    "SLURM_MEM_PER_GPU": "mem-per-gpu", "SLURM_MEM_PER_NODE": "mem", "SLURM_NNODES": "nodes",
    "SLURM_JOB_NUM_NODES": "nodes", "SLURM_NTASKS": "ntasks", "SLURM_NPROCS": "ntasks",
    "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu", "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_OVERCOMMIT": "overcommit", "SLURM_PARTITION": "partition", "SLURM_QOS": "qos",
    "SLURM_RESERVATION": "reservation", "SLURM_SIGNAL": "signal", "SLURM_TIMELIMIT": "time",
    "SLURM_WCKEY": "wckey", "SRUN_CONTAINER": "container",
}  # fmt: skip
_FLAGS = {option.name for option in SBATCH if option.takes == "no"}

# The one that is given last counts.
_INSTEAD = {"requeue", "no-requeue"}
_MEMORY = {"mem", "mem-per-cpu", "mem-per-gpu"}


def merged(
    command: str,
    words: Sequence[tuple[str, str]],
    script: Sequence[tuple[str, str]] = (),
    variables: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:
    """Return the options of a submission or a step, by their long names.

    Those of a command line replace those of variables, which replace those of a script. A variable
    with an amount of memory counts only if no option states one, of whichever of the three sorts.

    Args:
        command: its name, for messages.
        words, script, variables: options of its command line, of a script, and of variables.

    Raises:
        BadUse: there are two of which only one may be given, in the words of Slurm.
    """
    options = {_MEANS.get(name, name) for name, _ in (*script, *words)}
    if not _MEMORY.isdisjoint(options):
        variables = [one for one in variables if one[0] not in _MEMORY]
    result: dict[str, str] = {}
    for given, value in (*script, *variables, *words):
        name = _MEANS.get(given, given)
        if name in _INSTEAD:
            for other in _INSTEAD:
                result.pop(other, None)
        result[name] = value
    if why := _why_not_both(result.keys(), options):
        raise BadUse(f"{command}: fatal: {why}", 1)
    return result


def _why_not_both(given: AbstractSet[str], options: AbstractSet[str]) -> str:
    """Return why two of what is given contradict each other; "" if none do.

    Args:
        options: the names that a command line or a script has given; variables gave the others.
    """
    if len(_MEMORY & given) > 1:
        names = "--mem, --mem-per-cpu, and --mem-per-gpu"
        if _MEMORY.isdisjoint(options):
            names = "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE"
        return f"{names} are mutually exclusive."
    for other in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        if {other, "ntasks-per-gpu"} <= given:
            of_variable = "SLURM_" + other.upper().replace("-", "_")
            name = f"--{other}" if other in options else of_variable
            return f"{name} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
    return ""


def of_environment(environment: Mapping[str, str], *, srun: bool = False) -> list[tuple[str, str]]:
    """Return the options of a job that variables give.

    Args:
        environment: in which they are.
        srun: True for the variables of srun outside of a job, and not of sbatch.
    """
    found: dict[str, str] = {}
    for key, name in (_OF_JOBS_OF_SRUN if srun else _VARIABLES).items():
        value = environment.get(key)
        if value is None or (name in _FLAGS and not is_set(value)):
            continue
        found.setdefault(name, "" if name in _FLAGS else value)
    return list(found.items())


def of_script(lines: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return the options of lines ``#SBATCH``.

    Raises:
        BadUse: a line has a word that is none.
    """
    found: list[tuple[str, str]] = []
    for words in lines:
        parsed = parse("sbatch", words, SBATCH)
        found += parsed.given
        if parsed.rest:
            raise BadUse(
                f"sbatch: error: Invalid directive found in batch script: {parsed.rest[0]}", 255
            )
    return found


def directives(script: str, name: str = "") -> list[list[str]]:
    """Return the words of each line ``#SBATCH`` of a script, up to its first command.

    Args:
        script: its text.
        name: that of its file, for messages.

    Raises:
        BadUse: a line has a quote that is not closed.
    """
    from grain.cli.queue.submission import marked_lines  # which srun in a job has no time for

    lines = marked_lines(script, "#SBATCH", indented=False)
    return [words for number, line in lines if (words := _words(line, name, number))]


def _words(text: str, name: str, number: int) -> list[str]:
    """Split a line at spaces; quotes and backslashes keep them, and ``#`` begins a comment."""
    words: list[str] = []
    word: str | None = None
    quote, escaped, end = "", False, 0
    for at, letter in enumerate(text):
        if escaped:
            word, escaped = (word or "") + letter, False
        elif letter == "\\" and quote != "'":
            word, escaped = word or "", True
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word = (word or "") + letter
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter.isspace():
            if word is not None:
                words.append(word)
                end = at
            word = None
        elif letter == "#" and word is None:
            break
        else:
            word = (word or "") + letter
    if quote:
        raise BadUse(
            f"sbatch: fatal: {name}: line {number}: Unmatched `{quote}` in [{text[end:]}]", 1
        )
    if word is not None:
        words.append(word)
    return words
