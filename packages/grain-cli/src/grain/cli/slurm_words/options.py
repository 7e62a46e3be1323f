"""Options of ``sbatch`` and ``srun``, on command lines, in variables, and in scripts.

Each is obeyed, ignored because it cannot matter here, or refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.cli.slurm_words.grammar import BadUse, options, parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

# Variables that sbatch(1) names as input, in place of options.
_VARIABLES = {
    "SBATCH_ACCOUNT": "account", "SBATCH_ARRAY_INX": "array", "SBATCH_COMMENT": "comment",
    "SBATCH_CONSTRAINT": "constraint", "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_EXPORT": "export", "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node", "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres", "SBATCH_JOB_NAME": "job-name", "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu", "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_OPEN_MODE": "open-mode", "SBATCH_OUTPUT": "output", "SBATCH_ERROR": "error",
    "SBATCH_INPUT": "input", "SBATCH_PARTITION": "partition", "SBATCH_QOS": "qos",
    "SBATCH_SIGNAL": "signal", "SBATCH_TIMELIMIT": "time", "SBATCH_WCKEY": "wckey",
}  # fmt: skip
_FLAGS = {
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_NO_REQUEUE": "no-requeue",
    "SBATCH_REQUEUE": "requeue",
    "SBATCH_WAIT": "wait",
}

# The one that is given last counts.
_INSTEAD = {"requeue", "no-requeue"}
_MEMORY = {"mem", "mem-per-cpu", "mem-per-gpu"}


def merged(
    words: Sequence[tuple[str, str]],
    script: Sequence[tuple[str, str]] = (),
    variables: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:
    """Return the options of a submission, by their long names.

    Those of a command line replace those of variables, which replace those of a script. A variable
    with an amount of memory counts only if no option states one, of whichever of the three sorts.
    """
    if not _MEMORY.isdisjoint(name for name, _ in (*script, *words)):
        variables = [one for one in variables if one[0] not in _MEMORY]
    result: dict[str, str] = {}
    for given, value in (*script, *variables, *words):
        name = _MEANS.get(given, given)
        if name in _INSTEAD:
            for other in _INSTEAD:
                result.pop(other, None)
        result[name] = value
    return result


def check_pairs(command: str, given: Mapping[str, str]) -> None:
    """Refuse options of which only one may be given, as sbatch and srun do by themselves.

    Args:
        command: its name, for messages.
        given: options by their long names, without those of srun's variables.

    Raises:
        BadUse: two of them are given.
    """
    if len(_MEMORY & given.keys()) > 1:
        text = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
        raise BadUse(f"{command}: fatal: {text}", 1)
    for other in ("gpus-per-task", "gpus-per-socket", "ntasks-per-node"):
        if {other, "ntasks-per-gpu"} <= given.keys():
            text = f"--{other} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"
            raise BadUse(f"{command}: fatal: {text}", 1)


def of_environment(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the options that variables ``SBATCH_*`` give."""
    found = [(name, environment[key]) for key, name in _VARIABLES.items() if key in environment]
    return found + [(name, "") for key, name in _FLAGS.items() if key in environment]


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
