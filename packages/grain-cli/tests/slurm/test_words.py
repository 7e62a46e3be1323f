"""Slurm's words: command lines, directives, values. Messages are those of Slurm 22.05."""

from __future__ import annotations

import os
import time

import pytest

from grain.cli.queue.submission import SubmitOptions, SubmittedFrom, make_job, said
from grain.cli.slurm_words import values
from grain.cli.slurm_words.grammar import BadUse, SlurmOption, parse
from grain.cli.slurm_words.numbers import Meant, meant, split_words
from grain.cli.slurm_words.options import (
    SBATCH,
    SRUN,
    directives,
    merged,
    of_environment,
    of_script,
)
from grain.cli.slurm_words.submission import (
    JobRefused,
    NotTranslated,
    options_of_script,
    submit_options,
)
from grain.queue.records import ArraySpec, Dependency


def read(*words: str) -> list[tuple[str, str]]:
    return parse("sbatch", words, SBATCH, permute=False).given


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--time=5"], [("time", "5")]),
        (["--time", "5"], [("time", "5")]),
        (["-t5"], [("time", "5")]),
        (["-t", "5"], [("time", "5")]),
        (["-o=x"], [("output", "=x")]),
        (["--job=x"], [("job-name", "x")]),
        (["--part", "x"], [("partition", "x")]),
        (["-HW"], [("hold", ""), ("wait", "")]),
        (["--get-user-env"], [("get-user-env", "")]),
        (["--get-user-env=L"], [("get-user-env", "L")]),
        (["-k", "-J", "x"], [("no-kill", ""), ("job-name", "x")]),
    ],
)
def test_options_are_read_as_getopt_does(words: list[str], given: list[tuple[str, str]]) -> None:
    assert read(*words) == given


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nosuch"], "sbatch: unrecognized option '--nosuch'"),
        (["--nosuch=3"], "sbatch: unrecognized option '--nosuch=3'"),
        (["-7"], "sbatch: invalid option -- '7'"),
        (["--mem"], "sbatch: option '--mem' requires an argument"),
        (["-J"], "sbatch: option requires an argument -- 'J'"),
        (["--parsable=3"], "sbatch: option '--parsable' doesn't allow an argument"),
        (
            ["--mem-per=3"],
            (
                "sbatch: option '--mem-per=3' is ambiguous; possibilities: '--mem-per-cpu' "
                "'--mem-per-gpu'"
            ),
        ),
    ],
)
def test_wrong_options_are_refused_as_getopt_does(words: list[str], text: str) -> None:
    with pytest.raises(BadUse) as caught:
        read(*words)
    assert str(caught.value) == f'{text}\nTry "sbatch --help" for more information'


def test_the_first_word_ends_the_options_of_sbatch() -> None:
    parsed = parse("sbatch", ["-J", "x", "job.sh", "-J", "y"], SBATCH, permute=False)
    assert (parsed.given, parsed.rest) == ([("job-name", "x")], ["job.sh", "-J", "y"])
    assert parse("x", ["a", "-J", "y", "--", "-b"], SBATCH).rest == ["a", "-b"]


@pytest.mark.parametrize("table", [SBATCH, SRUN])
def test_no_two_options_have_one_name_or_letter(table: tuple[tuple[str, str, str], ...]) -> None:
    for place in (0, 1):
        names = [option[place] for option in table if option[place]]
        assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#SBATCH -J a", ["-J", "a"]),
        ('#SBATCH --job-name="two words"   # comment', ["--job-name=two words"]),
        ("#SBATCH --array               0-1", ["--array", "0-1"]),
        ("#SBATCH\t--wait                ", ["--wait"]),
        ("#SBATCH --comment 'it''s'", ["--comment", "its"]),
        (r"#SBATCH -J two\ words", ["-J", "two words"]),
        ("#SBATCH -J a#b", ["-J", "a#b"]),
        ("##SBATCH -J a", None),
        (" #SBATCH -J a", None),
    ],
)
def test_directives_of_a_line(line: str, words: list[str] | None) -> None:
    assert directives(f"#!/bin/sh\n\n{line}\n") == ([words] if words else [])


def test_directives_end_with_the_first_command() -> None:
    script = "#!/bin/sh\n#SBATCH -J a\n\n# comment\n#SBATCH -t 5\necho\n#SBATCH -n 3\n"
    assert of_script(directives(script)) == [("job-name", "a"), ("time", "5")]


def test_an_indented_comment_is_neither_a_directive_nor_a_command() -> None:
    script = "#!/bin/sh\n #SBATCH -J a\n\t# comment\n#SBATCH -n 2\n  : x\n#SBATCH -t 5\n"
    assert of_script(directives(script)) == [("ntasks", "2")]


def test_a_form_feed_in_a_comment_is_no_line_break() -> None:
    script = "#!/bin/sh\n# old\x0c page\n#SBATCH -J a\n"
    assert of_script(directives(script)) == [("job-name", "a")]


def test_wrong_directives() -> None:
    with pytest.raises(BadUse, match="^sbatch: error: Invalid directive found in batch script: X$"):
        of_script(directives("#!/bin/sh\n#SBATCHX -n 2\n"))
    with pytest.raises(BadUse) as caught:
        directives('#!/bin/sh\n#SBATCH -J "a\n', "job.sh")
    assert str(caught.value) == 'sbatch: fatal: job.sh: line 2: Unmatched `"` in [ "a]'
    with pytest.raises(BadUse, match=r"^sbatch: error: Invalid directive found in batch script: b"):
        of_script([["-J", "a", "b"]])


# The long options by the manuals of 22.05.8, section "Options".
_OF_BOTH = """
    account acctg-freq bb bbf begin chdir cluster-constraint clusters comment constraint
    container contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline
    delay-boot dependency distribution error exclude exclusive export extra-node-info gid
    gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint
    hold input job-name licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
    mem-per-gpu mincpus network nice no-kill nodefile nodelist nodes ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe
    partition power prefer priority profile propagate qos quiet reboot reservation signal
    sockets-per-node spread-job switches test-only thread-spec threads-per-core time time-min
    tmp uid usage use-min-nodes verbose version wait wckey
"""
_OF_SBATCH = """
    array batch export-file get-user-env ignore-pbs kill-on-invalid-dep no-requeue parsable
    requeue wait-all-nodes wrap
"""
_OF_SRUN = """
    accel-bind bcast bcast-exclude compress cpu-bind disable-status epilog exact het-group
    immediate jobid kill-on-bad-exit label mpi msg-timeout multi-prog no-allocate overlap
    preserve-env prolog pty quit-on-interrupt relative resv-ports send-libs slurmd-debug
    task-epilog task-prolog threads unbuffered x11
"""


@pytest.mark.parametrize(
    ("command", "table", "names"),
    [("sbatch", SBATCH, _OF_BOTH + _OF_SBATCH), ("srun", SRUN, _OF_BOTH + _OF_SRUN)],
)
def test_no_option_of_the_manuals_is_unknown(
    command: str, table: tuple[SlurmOption, ...], names: str
) -> None:
    taken = {option.name: option.takes for option in table}
    for name in names.split():
        argument = "=1" if taken[name] == "one" else ""
        assert [(name, argument[1:])] == parse(command, [f"--{name}{argument}"], table).given


def test_the_command_line_replaces_variables_which_replace_the_script() -> None:
    script = [("mem", "1"), ("requeue", ""), ("time", "5"), ("qos", "a")]
    variables = [("time", "6"), ("qos", "b")]
    assert merged("sbatch", [("no-requeue", ""), ("qos", "c")], script, variables) == {
        "mem": "1", "time": "6", "no-requeue": "", "qos": "c",
    }  # fmt: skip


def test_memory_of_a_variable_counts_only_if_no_option_states_any() -> None:
    cpu, gpu = ("mem-per-cpu", "2"), ("mem-per-gpu", "3")
    assert merged("sbatch", [], [("time", "5")], [cpu]) == {"time": "5", "mem-per-cpu": "2"}
    assert (
        merged("sbatch", [gpu], [], [cpu])
        == merged("sbatch", [], [gpu], [cpu])
        == {"mem-per-gpu": "3"}
    )


_ONE_MEMORY = "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive."
_NO_PAIR = "--{} is mutually exclusive with --ntasks-per-gpu and SLURM_NTASKS_PER_GPU"


# A real sbatch refuses both, also where one is in the script and the other on the command line.
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("mem mem-per-cpu", _ONE_MEMORY),
        ("mem-per-gpu mem", _ONE_MEMORY),
        ("ntasks-per-gpu gpus-per-socket", _NO_PAIR.format("gpus-per-socket")),
        ("gpus-per-task ntasks-per-gpu", _NO_PAIR.format("gpus-per-task")),
    ],
)
def test_options_of_which_only_one_may_be_given(given: str, text: str) -> None:
    first, second = given.split()
    with pytest.raises(BadUse) as refused:
        merged("srun", [(first, "1")], [(second, "1")])
    assert (f"srun: fatal: {text}", 1) == (str(refused.value), refused.value.status)
    assert {first: "1"} == merged("srun", [(first, "1")])


_MEMORIES = "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive."


# In the words of a real sbatch, which calls its variables SLURM_ here.
@pytest.mark.parametrize(
    ("words", "variables", "text"),
    [
        ("", "mem mem-per-cpu", _MEMORIES),
        ("", "mem-per-gpu mem-per-cpu", _MEMORIES),
        ("mem", "mem-per-gpu mem-per-cpu", ""),
        ("ntasks-per-gpu", "gpus-per-task", _NO_PAIR.format("gpus-per-task")),
    ],
)
def test_variables_that_contradict_each_other_are_named(
    words: str, variables: str, text: str
) -> None:
    given = [(name, "1") for name in words.split()]
    found = ""
    try:
        merged("sbatch", given, [], [(name, "1") for name in variables.split()])
    except BadUse as error:
        found = str(error).removeprefix("sbatch: fatal: ")
    assert text.replace("--gpus-per-task", "SLURM_GPUS_PER_TASK") == found


# The variables of sbatch(1), "INPUT ENVIRONMENT VARIABLES", that set an option.
_INPUTS = """
    SBATCH_ACCOUNT SBATCH_ACCTG_FREQ SBATCH_ARRAY_INX SBATCH_BATCH SBATCH_CLUSTERS SLURM_CLUSTERS
    SBATCH_CONSTRAINT SBATCH_CONTAINER SBATCH_CORE_SPEC SBATCH_CPUS_PER_GPU SBATCH_DEBUG
    SBATCH_DELAY_BOOT SBATCH_DISTRIBUTION SBATCH_ERROR SBATCH_EXCLUSIVE SBATCH_EXPORT
    SBATCH_GET_USER_ENV SBATCH_GPU_BIND SBATCH_GPU_FREQ SBATCH_GPUS SBATCH_GPUS_PER_NODE
    SBATCH_GPUS_PER_TASK SBATCH_GRES SBATCH_GRES_FLAGS SBATCH_HINT SLURM_HINT SBATCH_IGNORE_PBS
    SBATCH_INPUT SBATCH_JOB_NAME SBATCH_MEM_BIND SBATCH_MEM_PER_CPU SBATCH_MEM_PER_GPU
    SBATCH_MEM_PER_NODE SBATCH_NETWORK SBATCH_NO_KILL SBATCH_NO_REQUEUE SBATCH_OPEN_MODE
    SBATCH_OUTPUT SBATCH_OVERCOMMIT SBATCH_PARTITION SBATCH_POWER SBATCH_PROFILE SBATCH_QOS
    SBATCH_REQ_SWITCH SBATCH_REQUEUE SBATCH_RESERVATION SBATCH_SIGNAL SBATCH_SPREAD_JOB
    SBATCH_THREAD_SPEC SBATCH_THREADS_PER_CORE SBATCH_TIMELIMIT SBATCH_USE_MIN_NODES SBATCH_WAIT
    SBATCH_WAIT_ALL_NODES SBATCH_WCKEY
"""


@pytest.mark.parametrize("name", _INPUTS.split())
def test_each_input_variable_of_the_manual_is_an_option(name: str) -> None:
    [(option, value)] = of_environment({name: "1"})
    [takes] = [one.takes for one in SBATCH if one.name == option]
    assert ("" if takes == "no" else "1") == value


@pytest.mark.parametrize(
    ("value", "is_set"),
    [
        ("", True), ("yes", True), ("YES", True), ("1", True), ("-2", True), ("3x", True),
        ("0", False), ("no", False), ("x", False), ("00x", False),
    ],
)  # fmt: skip
def test_a_flag_is_given_by_some_values_of_its_variable(value: str, is_set: bool) -> None:
    assert ([("wait", "")] if is_set else []) == of_environment({"SBATCH_WAIT": value})
    assert [("exclusive", value)] == of_environment({"SBATCH_EXCLUSIVE": value})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("5:30", 330), ("0:600", 600), ("00:10:00", 600), ("1:0:0", 3600),
        ("0-0:10:0", 600), ("1-0", 86400), ("1-2", 93600), ("1-2:3", 93780), ("1-2:3:4", 93784),
        ("UNLIMITED", 0), ("infinite", 0), ("-1", 0), ("0", 0),
    ],
)  # fmt: skip
def test_time_limits(text: str, seconds: float) -> None:
    assert values.time_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "1h", "1:2:3:4", "-5", "1-", "1-2:3:4:5", "1.5"])
def test_wrong_time_limits(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        values.time_limit(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("100", 100), ("1024K", 1), ("1g", 1024), ("1GB", 1024), ("2T", 2097152), ("954M", 954)],
)
def test_memory(text: str, size: float) -> None:
    assert values.megabytes(text) == size


def test_warnings() -> None:
    assert values.warning("B:USR2@30") == (12, 30.0, "script")
    assert values.warning("SIGUSR1") == (10, 60.0, "steps")
    assert values.warning("10@90") == (10, 90.0, "steps")
    for text in ("NO", "", "USR2@", "X:USR2"):
        with pytest.raises(ValueError, match=r"^"):
            values.warning(text)


def test_dependencies() -> None:
    found = values.dependencies("afterok:1:2,afterany:3_*,afternotok:4,after:5,aftercorr:6")
    assert (False, False) == found[1:]
    assert found.after == (
        Dependency(jobs=(1, 2)),
        Dependency(jobs=(3,), until="any"),
        Dependency(jobs=(4,), until="fail"),
        Dependency(jobs=(5,), until="begun"),
        Dependency(jobs=(6,), until="each"),
    )
    found = values.dependencies("afterok:1:8_1:2,after:1+5:2_3+5,singleton")
    assert (False, True) == found[1:]
    assert found.after == (
        Dependency(jobs=(1, 2)),
        Dependency(jobs=(8,), task=1),
        Dependency(jobs=(1,), until="begun", delay=300.0),
        Dependency(jobs=(2,), until="begun", task=3, delay=300.0),
    )
    found = values.dependencies("afterok:1:2?afternotok:3")
    assert found == ((Dependency(jobs=(1, 2)), Dependency(jobs=(3,), until="fail")), True, False)
    for text in (
        "afterok:1,afterok:2?afterok:3", "afterok:1?singleton", "afterok:1+5", "aftercorr:1_2",
        "afterok:x", "1", "afterok:1:2_3?afterok:4",
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"^"):
            values.dependencies(text)


def test_times() -> None:
    now = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))

    def at(*when: int) -> float:
        return time.mktime((*when, 0, 0, -1))  # type: ignore[arg-type]

    for text, expected in {
        "now": now,
        "now+1hour": now + 3600,
        "now+60": now + 60,
        "now-2days": now - 172800,
        "16:00": at(2026, 3, 4, 16, 0, 0),
        "8:30": at(2026, 3, 5, 8, 30, 0),
        "4pm": None,
        "4:15 pm": at(2026, 3, 4, 16, 15, 0),
        "12:30am": at(2026, 3, 5, 0, 30, 0),
        "12:30pm": at(2026, 3, 4, 12, 30, 0),
        "23:59:59": at(2026, 3, 4, 23, 59, 59),
        "13:00pm": None,
        "24:00": None,
        "25:61": None,
        "12:60": None,
        "tomorrow": at(2026, 3, 5, 0, 0, 0),
        "midnight": at(2026, 3, 5, 0, 0, 0),
        "2030-01-31": at(2030, 1, 31, 0, 0, 0),
        "2030-01-31T12:34": at(2030, 1, 31, 12, 34, 0),
        "01/31/30-12:34:56": at(2030, 1, 31, 12, 34, 56),
        "2030-13-01": None,
        "soon": None,
    }.items():
        if expected is None:
            with pytest.raises(ValueError, match=r"^"):
                values.begin_time(text, now)
        else:
            assert values.begin_time(text, now) == expected


def test_gpus() -> None:
    assert values.gpus("2") == values.gpus("a100:2") == 2
    assert values.gpus("gpu", gres=True) == 1
    assert values.gpus("gpu:a100:2,gres:gpu:1", gres=True) == 3
    assert values.gpus("none", gres=True) == 0
    for text in ("fpga:1", "x", "gpu:1.5", "gpu:-1"):
        with pytest.raises(ValueError, match=r"^"):
            values.gpus(text, gres=True)


def test_spans() -> None:
    assert [values.span(n) for n in (0, 61, 3600, 90061)] == [
        "0:00",
        "1:01",
        "1:00:00",
        "1-01:01:01",
    ]
    assert [values.long_span(n) for n in (0, 90061)] == ["00:00:00", "1-01:01:01"]


def test_lists_of_jobs() -> None:
    assert split_words("1_[1-2,4%2],3  5,") == ["1_[1-2,4%2]", "3", "5"]
    assert split_words("1],2,1_[3,4") == ["1]", "2", "1_[3,4"]
    assert split_words("") == []


@pytest.mark.parametrize(
    ("word", "job", "tasks", "step"),
    [
        ("12", 12, set(), ""),
        ("12_3", 12, {3}, ""),
        ("12_[1-3,7%2]", 12, {1, 2, 3, 7}, ""),
        ("12_*", 12, set(), ""),
        ("12000003", 12, {3}, ""),
        ("12.batch", 12, set(), "batch"),
        ("12_3.0", 12, {3}, "0"),
        ("999999", 999999, set(), ""),
    ],
)
def test_numbers(word: str, job: int, tasks: set[int], step: str) -> None:
    assert meant(word, 20) == Meant(job, frozenset(tasks), step)


def test_a_number_that_was_given_is_that_of_a_job() -> None:
    assert meant("12000003", 12000003) == Meant(12000003)


@pytest.mark.parametrize("word", ["", "x", "12_x", "12_", "12_[]", "12_[3-1]", "1 2", "-1"])
def test_words_that_are_no_jobs(word: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        meant(word, 20)


HERE = SubmittedFrom("/work", {"HOME": "/home/ann"}, 0, "login1", "ann", 0.0)


def asked(script: str, around: SubmittedFrom = HERE) -> SubmitOptions:
    return options_of_script(script, "job.sh", around, lambda: 4)


def test_directives_become_options_of_grain_submit() -> None:
    script = (
        "#!/bin/sh\n#SBATCH -J a -n 2 -c 3 --mem=1000 -t 10 -a 1-3%2 -d afterany:4:5\n"
        "#SBATCH --signal=B:USR2@30 -o %j.log --export=ALL,A=b -A acct -p main --no-requeue\n"
    )
    assert asked(script) == said(
        name="a", nodes=1, ranks=2, request={"Cores": 6, "Memory": 1.048576}, timeout=600.0,
        signal=12, signal_before=30.0, signal_to="script", stdout="%A%6a.log", requeue=False,
        array=ArraySpec(ranges=((1, 3, 1),), at_once=2), variables={"A": "b"},
        after=(Dependency(jobs=(4, 5), until="any"),),
    )  # fmt: skip
    plain = said(nodes=1, request={"Cores": 1})
    assert asked("#!/bin/sh\n#SBATCH -A acct\n") == plain
    on_nodes = asked("#!/bin/sh\n#SBATCH -N 4 -n 32 --mem=1000\n")
    assert on_nodes == said(nodes=4, ranks=32, request={"Cores": 8, "Memory": 1.048576})
    bare = asked("#!/bin/sh\n#SBATCH --export=NONE,A=b,HOME\n")
    assert bare == plain | said(clean=True, variables={"A": "b", "HOME": "/home/ann"})


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("--reservation=x", r"Requested reservation is invalid \(Grain has no reservations\)"),
        ("--time=x", "Invalid --time specification"),
        ("--no-such", "unrecognized option '--no-such'"),
    ],
)
def test_directives_that_grain_submit_cannot_obey(line: str, text: str) -> None:
    with pytest.raises(NotTranslated, match=f"^{text}"):
        asked(f"#!/bin/sh\n#SBATCH {line}\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"NOFILE": 1024, "STACK": -1}),
        ({"propagate": ""}, {"NOFILE": 1024, "STACK": -1, "MEMLOCK": 64, "RSS": -1}),
        ({"propagate": "ALL"}, {"NOFILE": 1024, "STACK": -1, "MEMLOCK": 64, "RSS": -1}),
        ({"propagate": "none"}, {}),
        ({"propagate": "STACK,RLIMIT_MEMLOCK"}, {"STACK": -1, "MEMLOCK": 64}),
    ],
)
def test_limits_of_the_shell_go_along(given: dict[str, str], expected: dict[str, int]) -> None:
    limits = {"NOFILE": 1024, "STACK": -1, "MEMLOCK": 64, "RSS": -1}
    around = HERE._replace(limits=limits)
    assert expected == make_job(submit_options(given, around), around, words=[]).limits


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"mail-type": "NOPE"}, "Invalid --mail-type specification"),
        ({"mail-type": ""}, "Invalid --mail-type specification"),
        ({"mail-type": "BEGIN, end,TIME_LIMIT_80"}, ""),
        ({"hint": "nope"}, 'unrecognized --hint argument "nope", see --hint=help'),
        ({"hint": "Compute_bound,nomultithread"}, ""),
        ({"distribution": "nope"}, "Invalid --distribution specification"),
        ({"distribution": "arbitrary"}, "Invalid --distribution specification"),
        ({"distribution": "Block:fcyclic:*,NoPack"}, ""),
        ({"time-min": "x"}, "Invalid --time-min specification"),
        ({"tmp": "x"}, "Invalid --tmp specification"),
        ({"cores-per-socket": "x"}, 'Invalid numeric value "x" for --cores-per-socket.'),
        ({"wait-all-nodes": "0"}, ""),
        ({"uid": "no-such-user"}, "Invalid --uid specification"),
        ({"uid": str(os.getuid())}, ""),
        ({"dependency": "", "array": ""}, ""),
        ({"nodes": "4-2"}, "Maximum node count 2 is less than minimum node count 4"),
        ({"gid": "no-such-group"}, "Invalid --gid specification"),
        ({"gid": str(os.getgid())}, ""),
        ({"priority": "-1"}, "Priority must be >= 0"),
        ({"signal": "USR1@65536"}, "Invalid --signal specification"),
        ({"wait-all-nodes": "2"}, "Invalid --wait-all-nodes specification"),
        ({"threads-per-core": "0"}, 'Invalid numeric value "0" for --threads-per-core.'),
        ({"switches": "x"}, 'Invalid numeric value "x" for --switches.'),
        ({"switches": "1@10"}, ""),
        ({"extra-node-info": "1:x"}, 'Invalid numeric value "x" for second arg of -B.'),
        ({"extra-node-info": "1-2:*"}, ""),
        ({"get-user-env": "x"}, "Invalid --get-user-env specification"),
        ({"get-user-env": "10L", "no-kill": "off", "exclusive": "user"}, ""),
        ({"no-kill": "x"}, "Invalid --no-kill specification"),
        ({"gres-flags": "x"}, "Invalid --gres-flags specification"),
        ({"gres-flags": "enforce-binding", "profile": "none,task"}, ""),
        ({"profile": "x"}, "invalid --profile=x option"),
        ({"acctg-freq": "task=30,x=1"}, "Invalid --acctg-freq specification: task=30,x=1"),
        ({"acctg-freq": "30,energy=5"}, ""),
        ({"mem-bind": "v,x"}, 'unrecognized --mem-bind argument "x"'),
        ({"mem-bind": "v,prefer,map_mem:0,0x1"}, ""),
        ({"gpu-freq": "12x"}, "Invalid --gpu-freq argument: gpu:12x"),
        ({"gpu-freq": "highm1,memory=700,verbose", "gpu-bind": "single:2"}, ""),
        ({"gpu-bind": "map_gpu:x"}, "Invalid --gpu-bind argument: gpu:map_gpu:x"),
        (
            {"cpu-freq": "low-x"},
            'unrecognized --cpu-freq argument "x"\nsbatch: error: Invalid --cpu-freq argument',
        ),
        ({"cpu-freq": "low-high:Performance"}, ""),
    ],
)
def test_wrong_values_of_options_that_are_ignored_are_refused_as_by_sbatch(
    given: dict[str, str], text: str
) -> None:
    if not text:
        assert submit_options(given, HERE).get("array") is None
        return
    with pytest.raises(BadUse) as refused:
        submit_options(given, HERE)
    assert str(refused.value) == f"sbatch: error: {text}"


@pytest.mark.parametrize("text", ["[1-3]", "1-3%0", "[1-3]%0"])
def test_an_array_may_stand_in_brackets_and_have_no_limit(text: str) -> None:
    assert submit_options({"array": text}, HERE)["array"] == ArraySpec(ranges=((1, 3, 1),))


def test_a_limit_that_there_is_not_is_refused_as_by_sbatch() -> None:
    with pytest.raises(BadUse, match="Bad rlimit name: SPEED\n.*--propagate=SPEED is not valid"):
        submit_options({"propagate": "SPEED"}, HERE)


def test_no_tilde_and_no_variable_becomes_the_name_of_a_directory() -> None:
    around = HERE._replace(environment={"HOME": "/home/ann", "SCRATCH": "/scratch"})
    given = {"output": "~/logs/%j", "error": "$SCRATCH/%j", "input": "${SCRATCH}/in", "chdir": "~"}
    job = make_job(submit_options(given, around), around, words=[])
    assert ("/home/ann/logs/%j", "/scratch/%j") == (job.stdout, job.stderr)
    assert ("/scratch/in", "/home/ann") == (job.stdin, job.directory)
    for option in given:
        with pytest.raises(JobRefused) as refused:
            submit_options({option: "$WORK/x"}, around)
        assert f"--{option}=$WORK/x: the environment variable WORK" in refused.value.reason


def test_a_variable_in_a_directive_is_filled_in_once() -> None:
    script = "#!/bin/sh\n#SBATCH -o $A/x\n#SBATCH -D $A\n"
    options = asked(script, HERE._replace(environment={"A": "/$HOME"}))
    assert ("/$HOME/x", "/$HOME") == (options["stdout"], options["directory"])
