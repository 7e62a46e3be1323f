"""``sbatch``, ``squeue`` and ``scancel`` on a queue; messages are those of Slurm 22.05."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tools_of_slurm as tools
from msgspec.structs import replace

from grain.cli.slurm.in_job import step
from grain.cli.slurm.setup.folder import make_commands
from grain.files.processes import user_name
from grain.queue.book import Book
from grain.queue.dispatchers import Dispatchers, this_dispatcher
from grain.queue.records import ArraySpec, Dependency

if TYPE_CHECKING:
    from slurm_site import SlurmSite

SCRIPT = "#!/bin/sh\n#SBATCH -J of-script -t 5\necho x\n"
USER = user_name(os.getuid())


def state(site: SlurmSite, number: int, task: int | None = None) -> str:
    return Book.read(site.queue).standing(number, task, time.time()).state


@pytest.fixture
def script(site: SlurmSite) -> str:
    (site.folder / "job.sh").write_text(SCRIPT)
    return "job.sh"


def test_a_script_becomes_a_job(site: SlurmSite, script: str) -> None:
    assert site.out("sbatch", script, "a", "-b") == "Submitted batch job 1\n"
    job = site.queue.job(1)
    assert (job.name, job.script, job.command) == ("of-script", SCRIPT, ("a", "-b"))
    assert (job.timeout, job.request, job.stdout) == (300.0, {"Cores": 1}, "slurm-%j.out")
    assert job.script_name == str(site.folder / "job.sh")
    assert job.directory == str(site.folder)


@pytest.mark.parametrize("words", [("--wrap", "true"), ("--parsable", "--wrap", "true")])
def test_a_number_that_cannot_be_written_is_told_to_the_user(
    site: SlurmSite, words: tuple[str, ...]
) -> None:
    done = redirected(site, ">/dev/full", "sbatch", *words)
    assert done.returncode == 1
    assert done.stderr == (
        "sbatch: error: (Grain) job 1 was submitted, but its number could not be written: "
        "No space left on device\n"
    )
    assert state(site, 1) == "PENDING"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("squeue", ()),
        ("squeue", ("-i", "1")),
        ("sacct", ()),
        ("sinfo", ("--version",)),
        ("scontrol", ("show", "job", "1")),
        ("salloc", ("--version",)),
    ],
)
def test_an_answer_that_cannot_be_written_is_one_line(
    site: SlurmSite, command: str, words: tuple[str, ...]
) -> None:
    site.submit("--wrap", "true")
    done = redirected(site, ">/dev/full", command, *words)
    assert (done.returncode, done.stderr) == (
        1,
        f"{command}: error: (Grain) the answer could not be written: No space left on device\n",
    )


def test_a_repeated_display_ends_with_its_reader(site: SlurmSite) -> None:
    site.submit("--wrap", "true")
    done = redirected(site, "| head -1", "squeue", "-i", "1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_number_is_printed_though_a_warning_is_lost(site: SlurmSite) -> None:
    """A script that believed that nothing was submitted would do it again."""
    words = ("-a", "1-2", "-o", "all.txt", "--wait", "--wrap", "true")
    make_commands(site.folder / "commands", site.environment)
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [site.folder / "commands/sbatch", *words],
            env=site.environment, cwd=site.folder, stdout=subprocess.PIPE, stderr=full, text=True,
        ) as sbatch,
    ):  # fmt: skip
        assert sbatch.stdout is not None
        assert sbatch.stdout.readline() == "Submitted batch job 1\n"
        assert site.out("scancel", "1") == ""
        assert (sbatch.stdout.read(), sbatch.wait()) == ("", 1)


@pytest.mark.parametrize(
    "words", [("sbatch", "--wrap", "true"), ("squeue",), ("sacct",), ("srun", "--version")]
)
def test_a_command_does_its_work_without_standard_output(
    site: SlurmSite, words: tuple[str, ...]
) -> None:
    done = redirected(site, "<&- >&-", *words)
    assert (done.returncode, done.stderr) == (0, "")


def test_srun_cancels_a_job_whose_output_cannot_be_written(site: SlurmSite) -> None:
    make_commands(site.folder / "commands", site.environment)
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [site.folder / "commands/srun", "true"],
            env=site.environment, cwd=site.folder, stdin=subprocess.DEVNULL, stdout=full,
            stderr=subprocess.PIPE, text=True,
        ) as srun,
    ):  # fmt: skip
        while not site.queue.jobs.has(1):
            assert srun.poll() is None
            time.sleep(0.02)
        Path(site.queue.job(1).stdout).write_text("a result\n")
        assert srun.stderr is not None
        assert srun.stderr.read() == (
            "srun: error: (Grain) its output could not be written: No space left on device; "
            "job 1 is cancelled\n"
        )
    assert srun.returncode == 1
    assert state(site, 1) == "CANCELLED"


def redirected(
    site: SlurmSite, how: str, command: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a command from the directory of commands, with redirections of the shell."""
    folder = site.folder / "commands"
    make_commands(folder, site.environment)
    return subprocess.run(
        ["sh", "-c", f'"$@" {how}', "sh", str(folder / command), *words],
        env=site.environment, cwd=site.folder, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip


def test_options_go_before_variables_and_these_before_the_script(
    site: SlurmSite, script: str
) -> None:
    variables = {"SBATCH_JOB_NAME": "of-variable", "SBATCH_TIMELIMIT": "6"}
    site.submit("-J", "of-option", script, **variables)
    job = site.queue.job(1)
    assert (job.name, job.timeout) == ("of-option", 360.0)


def test_scripts_from_standard_input_and_wrapped(site: SlurmSite) -> None:
    done = site.process("sbatch", "--parsable", stdin=SCRIPT.replace("-J of-script", ""))
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)
    assert site.queue.job(1).name == "sbatch"
    site.submit("--wrap", "echo $X")
    job = site.queue.job(2)
    assert job.name == "wrap"
    assert job.script == "#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho $X\n"


def test_resources(site: SlurmSite) -> None:
    site.submit("-n", "3", "-c", "2", "--mem-per-cpu=1G", "--gpus-per-task=1", "--wrap=x")
    job = site.queue.job(1)
    assert job.request == {"Cores": 6, "Memory": 6.442451, "GPUs": 3}
    assert job.options["ntasks"] == "3"
    assert job.options["cpus-per-task"] == "2"
    assert site.out("squeue", "-h", "-o", "%C %m %b") == "6 6G gres:gpu:3\n"


def gang(count: int, **of: float) -> dict[str, Any]:
    return {"Gang": {"count": count, "of": of}}


@pytest.mark.parametrize(
    ("words", "asked", "tasks"),
    [
        ("-N 1", {"Cores": 1}, None),
        ("-N 4", gang(4, Cores=1), "4"),
        ("-N 4 -n 32", gang(4, Cores=8), "32"),
        ("-N 4 --ntasks-per-node=8 -n 32 --mem=1000", gang(4, Cores=8, Memory=1.048576), "32"),
        ("-N 4 --ntasks-per-node=8 -c 2", gang(4, Cores=16), "32"),
        ("-n 32 --ntasks-per-node=8", gang(4, Cores=8), "32"),
        ("-n 32", {"Cores": 32}, "32"),
        ("-N 3 -n 7", gang(3, Cores=3), "7"),
        ("-N 2-4 -n 8", gang(2, Cores=4), "8"),
        ("-N 2 --gpus=4", gang(2, Cores=1, GPUs=2), "2"),
        ("-N 2 --gres=gpu:4", gang(2, Cores=1, GPUs=4), "2"),
        ("-N 2 -n 4 --gpus-per-task=1", gang(2, Cores=2, GPUs=2), "4"),
        ("-N 2 -n 4 --mem-per-cpu=1000", gang(2, Cores=2, Memory=2.097152), "4"),
    ],
)
def test_several_nodes(
    site: SlurmSite, words: str, asked: dict[str, Any], tasks: str | None
) -> None:
    site.submit(*words.split(), "--wrap=x")
    job = site.queue.job(1)

    assert (asked, tasks) == (job.request, job.options.get("ntasks"))


def test_a_job_on_several_nodes_is_listed_with_them(site: SlurmSite) -> None:
    site.submit("-N", "3", "-n", "6", "--mem=1G", "--gres=gpu:1", "-J", "a", "--wrap=x")
    form = "%D|%C|%N|%R|%m|%b"
    assert "3|6||(Resources)|1G|gres:gpu:1\n" == site.out("squeue", "-h", "-o", form)

    site.begin(1, others=("n8.site", "n9.site"), cpus=6)

    assert "3|6|n[7-9]|n[7-9]|1G|gres:gpu:1\n" == site.out("squeue", "-h", "-o", form)
    assert "1\n" == site.out("squeue", "-h", "-o", "%i", "-w", "n9")
    assert "" == site.out("squeue", "-h", "-o", "%i", "-w", "n1")
    record = site.out("scontrol", "show", "job", "1")
    assert "NodeList=n[7-9]\n" in record
    assert "BatchHost=n7\n" in record
    assert "NumNodes=3 NumCPUs=6 NumTasks=6 " in record
    assert "TRES=cpu=6,mem=3G,node=3,billing=6,gres/gpu=3\n" in record
    assert "MinCPUsNode=2 " in record
    site.end(1)
    fields = "JobID,NNodes,AllocNodes,NCPUS,NodeList"
    assert ["1|3|3|6|n[7-9]", "1.batch|1|1|2|n7"] == site.out(
        "sacct", "-nP", "-o", fields
    ).splitlines()
    names = site.out("scontrol", "show", "hostnames", "n[7-9]").split()
    assert ["n7", "n8", "n9"] == names
    assert "n[7-9]\n" == site.out("scontrol", "show", "hostlist", ",".join(names))
    assert "n[8,7]\n" == site.out("scontrol", "show", "hostlist", "n8,n7")
    assert "n[7-8]\n" == site.out("scontrol", "show", "hostlistsorted", "n8,n7")
    assert " MaxNodes=UNLIMITED " in site.out("scontrol", "show", "partition")


def test_a_job_that_asks_for_all_cores_is_listed_with_those_that_it_has(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.begin(1, cpus=16)

    assert "16\n" == site.out("squeue", "-h", "-o", "%C")


def test_of_an_array_each_task_has_its_own_files(site: SlurmSite) -> None:
    site.submit("-a", "1-9:2%3", "-o", "%x-%j.out", "-e", "%A.%a", "-i", "in.%a", "--wrap=x")
    site.submit("-a", "1", "--wrap=x")
    job = site.queue.job(1)
    assert job.array == ArraySpec(ranges=((1, 9, 2),), at_once=3)
    assert (job.stdout, job.stderr) == ("%x-%A%6a.out", "%A.%a")
    listed = site.out("squeue", "-h", "-j", "1_3", "-O", "JobID:10,StdOut:200,StdIn:200").split()
    assert listed == ["1000003", *(str(site.folder / one) for one in ("wrap-1000003.out", "in.3"))]
    assert site.queue.job(2).stdout == "slurm-%A_%a.out"


def test_what_else_a_job_may_have(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.submit(
        "-d", "afterok:1", "-H", "--no-requeue", "--signal=B:USR2@30", "-t", "10", "-D", "sub",
        "-i", "in", "-o", "out", "-e", "out", "--open-mode=a", "--nice=5", "--wrap=x",
    )  # fmt: skip
    job = site.queue.job(2)
    assert job.after == (Dependency(jobs=(1,)),)
    assert (job.held, job.requeue, job.append, job.priority) == (True, False, True, -5)
    assert (job.signal, job.signal_before, job.signal_to) == (12, 30.0, "script")
    assert (job.directory, job.stdin) == (str(site.folder / "sub"), "in")
    assert (job.stdout, job.stderr) == ("out", "")  # one file is opened once
    assert job.options["submit-dir"] == str(site.folder)


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("ALL", {"A": "a", "B": "b"}),
        ("ALL,B=x,C='y,z'", {"A": "a", "B": "x", "C": "y,z"}),
        ("A", {"A": "a"}),
        ("NONE", {}),
    ],
)
def test_variables(site: SlurmSite, export: str, expected: dict[str, str]) -> None:
    site.submit(f"--export={export}", "--wrap=x", A="a", B="b")
    found = site.queue.job(1).environment
    assert {name: found[name] for name in "ABC" if name in found} == expected
    assert found["PATH"].startswith("/opt/grain/slurm:")
    assert found["HOME"] == str(site.folder)


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["-t", "bad"], 255, "sbatch: error: Invalid --time specification"),
        (["--mem=bad"], 255, "sbatch: error: Invalid --mem specification"),
        (["-n", "x"], 1, 'sbatch: error: Invalid numeric value "x" for --ntasks.'),
        (["-c", "0"], 1, 'sbatch: error: Invalid numeric value "0" for --cpus-per-task.'),
        (["-N", "x"], 255, 'sbatch: error: "x" is not a valid node count'),
        (["--signal=NO"], 255, "sbatch: error: Invalid --signal specification"),
        (["--open-mode=x"], 255, "sbatch: error: Invalid --open-mode specification"),
        (["--begin=soon"], 255, ("Invalid time specification (pos=0): soon\n"
                                "sbatch: error: Invalid --begin specification")),
        (["--gres=x:1"], 1, "sbatch: error: Invalid generic resource (gres) specification"),
    ],
)  # fmt: skip
def test_wrong_values(site: SlurmSite, words: list[str], status: int, text: str) -> None:
    assert site.answer("sbatch", *words, "--wrap=x") == ("", text, status)
    assert site.queue.jobs.end() == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-N", "20000"], "Requested node configuration is not available"),
        (["-a", "x"], "Invalid job array specification"),
        (["-a", "0-1000000"], "Invalid job array specification"),
        (["-a", "1000000"], "Invalid job array specification"),
        (["-d", "foo:1"], "Job dependency problem"),
        (["-d", "afterok:99"], "Job dependency problem"),
        (["-w", "n1"], "Invalid node name specified"),
        (["-x", "n1"], "Invalid node name specified"),
        (["-L", "x"], "Invalid license specification"),
        (["-C", "x"], "Invalid feature specification"),
        (["--reservation=x"], "Requested reservation is invalid"),
        (["-d", "afterok:99_1"], "Job dependency problem"),
    ],
)
def test_what_there_is_not_is_refused(site: SlurmSite, words: list[str], text: str) -> None:
    found = site.answer("sbatch", *words, "--wrap=x")
    assert (found.out, found.status) == ("", 1)
    first, second = found.err.splitlines()
    assert first == f"sbatch: error: Batch job submission failed: {text}"
    assert second.startswith("sbatch: (Grain) ")
    assert site.queue.jobs.end() == 1


OFFERED = """
head.res.Licences = {vasp = 2}
worker.gpu_shards = 4
[[shape]]
name = "small"
cores = 4
[[shape]]
name = "gpu"
cores = 8
res = {Token = "a100", Host = "auto"}
"""


@pytest.mark.parametrize(
    ("words", "request_", "refused"),
    [
        ("-L vasp:2", {"Cores": 1, "Licences": {"vasp": 2}}, ""),
        ("-L orca", None, "has no orca under [head.res], as in Licences = {orca = 2}"),
        ("-C a100", {"Cores": 1, "Token": "a100"}, ""),
        ("-C v100", None, 'has Token = "v100" under [worker.res], or in a [[shape]]'),
        ("--prefer=a100", {"Cores": 1}, ""),
        ("--prefer=v100", None, "Invalid preferred feature specification"),
        ("-C a100 --batch=a100", {"Cores": 1, "Token": "a100"}, ""),
        ("-w n1", {"Cores": 1, "Host": "n1"}, ""),
        ("--gres=shard:2", {"Cores": 1, "GPUs": 0.5}, ""),
        ("--gres=shard:5", None, "a GPU has 4, by gpu_shards of grain.toml"),
        ("--exclusive -n 4", {"Cores": "all"}, ""),
        ("--exclusive -n 5", None, "must have the 5 cores, and some have 4"),
    ],
)
def test_what_is_asked_for_by_name_and_whole_nodes_are_those_of_the_configuration(
    site: SlurmSite, words: str, request_: dict[str, Any] | None, refused: str
) -> None:
    (site.folder / "grain.toml").write_text(OFFERED)
    found = site.answer("sbatch", *words.split(), "--wrap=x")
    assert refused in found.err
    assert bool(refused) == bool(found.status)
    if request_:
        assert request_ == site.queue.job(1).request
        assert "-n 4" not in words or "4" == site.out("squeue", "-h", "-o", "%C").strip()


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        ('worker.res.Token = "fast"', "-C fast"),
        ('worker.res.Token = {token = "fast"}', "-C fast"),
        ("head.res.Licences = {vasp = 2}", "-L vasp"),
        ('head.res.Licences = "vasp:2"', "-L vasp"),
        ('head.res.Licences = {vasp = {command = "lmstat"}}', "-L vasp"),
        ('head.res.Licences = {command = "lmstat"}', "-L vasp"),
        ('worker.res.Host = "auto"', "-w n1"),
        ("worker.res.Host = {names = 'n1'}", "-w n1"),
    ],
)
def test_a_resource_is_offered_in_each_form_that_the_configuration_may_have(
    site: SlurmSite, offered: str, words: str
) -> None:
    (site.folder / "grain.toml").write_text(offered)
    assert 1 == site.submit(*words.split(), "--wrap=x")


def test_hosts_that_a_job_takes_or_not_are_shown_again(site: SlurmSite) -> None:
    (site.folder / "grain.toml").write_text(OFFERED)
    site.submit("-w", "n7", "-x", "n[1-2]", "--wrap=x")
    assert "n7|n[1-2]\n" == site.out("squeue", "-h", "-o", "%n|%x")
    assert "ReqNodeList=n7 ExcNodeList=n[1-2]\n" in site.out("scontrol", "show", "job", "1")


def test_shards_are_shown_as_slurm_does(site: SlurmSite) -> None:
    (site.folder / "grain.toml").write_text(OFFERED)
    site.submit("--gres=shard:2", "--wrap=x")
    assert "gres:shard:2\n" == site.out("squeue", "-h", "-o", "%b")
    assert "gres/shard=2\n" in site.out("scontrol", "show", "job", "1")


def test_a_singleton_waits_for_earlier_jobs_of_its_name(site: SlurmSite) -> None:
    site.submit("-J", "a", "--wrap=x")
    site.submit("-J", "b", "--wrap=x")
    site.submit("-J", "a", "-d", "singleton", "--wrap=x")
    site.submit("-J", "a", "-d", "singleton", "--wrap=x")
    site.submit("-J", "c", "-d", "singleton", "--wrap=x")
    assert [(), (), (1,), (1, 3), ()] == [
        sum((one.jobs for one in site.queue.job(number).after), ()) for number in range(1, 6)
    ]
    assert "any" == site.queue.job(3).after[0].until


def test_dependencies_are_shown_as_they_were_given(site: SlurmSite) -> None:
    site.submit("-a", "0-1", "--wrap=x")
    site.submit("-d", "afterok:1_1,after:1+5", "--wrap=x")
    site.submit("-d", "afterok:1?afternotok:1", "--wrap=x")
    site.submit("-d", "afterok:1", "--kill-on-invalid-dep=yes", "--wrap=x")
    assert [
        "(null)", "(null)", "afterok:1_1(unfulfilled),after:1+5(unfulfilled)",
        "afterok:1(unfulfilled)?afternotok:1(unfulfilled)", "afterok:1(unfulfilled)",
    ] == site.out("squeue", "-h", "-o", "%E").splitlines()  # fmt: skip
    assert "yes" == site.queue.job(4).options["kill-on-invalid-dep"]


def test_words_that_change_nothing_are_taken(site: SlurmSite) -> None:
    site.submit("--tasks-per-node=2", "--share", "--wait-all-nodes=1", "--wrap=x")
    assert {"Cores": 2} == site.queue.job(1).request


def test_a_job_with_fewer_tasks_than_nodes_has_fewer_nodes_and_says_so(site: SlurmSite) -> None:
    said = site.answer("sbatch", "-N", "3-4", "-n", "2", "--wrap=x")

    text = "sbatch: Warning: can't run 2 processes on 3 nodes, setting nnodes to 2\n"
    assert ("Submitted batch job 1\n", text, 0) == said
    assert gang(2, Cores=1) == site.queue.job(1).request
    assert "" == site.answer("sbatch", "-N", "2", "-n", "2", "--wrap=x").err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "sbatch: error: Batch script is empty!"),
        (b"  \n", "sbatch: error: Batch script contains only whitespace!"),
        (b"echo", ("sbatch: error: This does not look like a batch script.  The first\n"
                  "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
                  "sbatch: error: For instance: #!/bin/sh")),
        (b"#!/bin/sh\r\n", ("sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n"
                           "sbatch: error: instead of expected UNIX line breaks (\\n).")),
        (b"#!/bin/sh\n\0", ("sbatch: error: The Slurm controller does not allow scripts that\n"
                           "sbatch: error: contain a NULL character '\\0'.")),
    ],
)  # fmt: skip
def test_files_that_are_no_scripts(site: SlurmSite, content: bytes, text: str) -> None:
    (site.folder / "x").write_bytes(content)
    assert site.answer("sbatch", "x") == ("", text, 1)
    assert site.answer("sbatch", "none").err == "sbatch: error: Unable to open file none"
    name = "n" * 300  # longer than that of any file
    assert site.answer("sbatch", name).err == f"sbatch: error: Unable to open file {name}"


def test_the_environment_of_a_wrong_queue_is_said(site: SlurmSite) -> None:
    found = site.answer("sbatch", "--wrap=x", GRAIN_QUEUE="a/b")
    assert found.status == 1
    assert "Unable to contact slurm controller" in found.err


@pytest.mark.parametrize("tool", tools.SUBMISSIONS)
def test_command_lines_of_tools_are_accepted(site: SlurmSite, script: str, tool: str) -> None:
    words = tools.SUBMISSIONS[tool]
    wrapped = any(word.startswith("--wrap") for word in words)
    number = "1\n" if "--parsable" in words else "Submitted batch job 1\n"
    assert site.out("sbatch", *words, *([] if wrapped else [script])) == number


@pytest.mark.parametrize("tool", tools.SCRIPTS)
def test_scripts_of_tools_are_accepted(site: SlurmSite, tool: str) -> None:
    text = tools.SCRIPTS[tool].replace("#SBATCH --wait\n", "")
    (site.folder / "x").write_text(f"{text}\ntrue\n")
    assert site.out("sbatch", "x") == "Submitted batch job 1\n"
    name = re.search(r'(?:-J|--job-name)[= ]+"?([^"\n]*)', text)
    assert site.queue.job(1).name == (name[1] if name else "x")


@pytest.mark.parametrize("tool", tools.LISTS)
def test_lists_have_the_form_that_tools_read(site: SlurmSite, tool: str) -> None:
    words, form = tools.LISTS[tool]
    number = str(site.submit("-J", "name", "-p", "main", "-c2", "-t10", "--mem=97", "--wrap=x"))
    site.begin(int(number))
    given = [word.replace("JOB,JOB", f"{number},{number}") for word in words]
    given = [number if word == "JOB" else re.sub(r"\bME\b", USER, word) for word in given]
    found = site.out("squeue", *given)
    pattern = re.sub(r"\bME\b", USER, re.sub(r"JOB(?!ID)", number, form))
    assert re.fullmatch(pattern + "\n", found), found


def test_a_job_that_did_not_succeed_has_its_reason_where_others_have_their_node(
    site: SlurmSite,
) -> None:
    ends: dict[str, dict[str, Any]] = {
        "good": {},
        "bad": {"status": 3},
        "late": {"how": "timeout"},
        "large": {"how": "memory"},
    }
    for name, end in ends.items():
        site.run(site.submit("-J", name, "--wrap=x"), **end)
    assert site.out("squeue", "-h", "-t", "all", "-S", "i", "-o", "%t %R").splitlines() == [
        "CD n7", "F (NonZeroExitCode)", "TO (TimeLimit)", "OOM (OutOfMemory)",
    ]  # fmt: skip


def test_the_default_list(site: SlurmSite) -> None:
    site.submit("-J", "a-long-name", "--wrap=x")
    site.submit("-a", "0-1%1", "--wrap=x")
    site.submit("-H", "--wrap=x")
    site.submit("-d", "afterok:3", "--wrap=x")
    site.submit("--begin", "now+1hour", "--wrap=x")
    site.begin(2, 0)
    lines = [line.split() for line in site.out("squeue").splitlines()]
    assert [(line[0], line[4], line[-1]) for line in lines[1:]] == [
        ("1", "PD", "(Resources)"),
        ("2_1", "PD", "(JobArrayTaskLimit)"),
        ("3", "PD", "(JobHeldUser)"),
        ("4", "PD", "(Dependency)"),
        ("5", "PD", "(BeginTime)"),
        ("2_0", "R", "n7"),
    ]
    assert site.out("squeue").splitlines()[:2] == [
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)",
        f"                 1     queue a-long-n {USER[:8]:>8} PD       0:00      1 (Resources)",
    ]


@pytest.mark.parametrize(
    ("fields", "short", "reason"),
    [
        ({}, "CD", "None"),
        ({"status": 3}, "F", "NonZeroExitCode"),
        ({"how": "signal", "signal": 9}, "F", "JobLaunchFailure"),
        ({"how": "timeout", "signal": 15}, "TO", "TimeLimit"),
        ({"how": "memory", "signal": 9}, "OOM", "OutOfMemory"),
        ({"how": "cancelled", "by": "ann"}, "CA", "None"),
        ({"how": "lost"}, "NF", "NodeDown"),
        ({"how": "start", "status": 127}, "F", "JobLaunchFailure"),
    ],
)
def test_ends(site: SlurmSite, fields: dict[str, Any], short: str, reason: str) -> None:
    site.submit("--no-requeue", "--wrap=x")
    site.run(1, **fields)
    assert (
        site.out("squeue", "-h", "-t", "all", "-o", "%i %t %r %M") == f"1 {short} {reason} 0:09\n"
    )
    assert site.out("squeue", "-h") == site.out("squeue", "-h", "-j", "1") == ""


def test_ended_jobs_are_known_for_five_minutes(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    site.submit("--wrap=x")
    site.submit("--wrap=x")
    site.run(1, at=now - 299)
    site.run(2, at=now - 301)
    assert site.out("squeue", "-h", "-t", "all", "-o", "%i") == "1\n"
    found = site.answer("squeue", "-t", "all", "-j", "2")
    assert found == ("", "slurm_load_jobs error: Invalid job id specified", 1)


def test_unknown_numbers(site: SlurmSite) -> None:
    wrong = ("", "slurm_load_jobs error: Invalid job id specified", 1)
    assert site.answer("squeue", "-j", "99") == site.answer("squeue", "-j99") == wrong
    assert site.out("squeue", "-h", "-j", "98,99") == ""
    assert site.answer("squeue", "-j", "x") == ("", "squeue: error: Invalid job id: x", 1)
    assert site.answer("squeue", "x").status == 1


def test_tasks_by_their_numbers(site: SlurmSite) -> None:
    site.submit("-a", "0-3", "--wrap=x")
    for words in (["-j", "1_2"], ["-j", "1000002"], ["-j", "1_[2]"], ["-j1_2,1_7"]):
        assert site.out("squeue", "-h", "-o", "%i %A %F %K", *words) == "1_2 1000002 1 2\n"
    assert site.out("squeue", "-h", "-r", "-o", "%i", "-S", "-i").split() == [
        "1_3",
        "1_2",
        "1_1",
        "1_0",
    ]


def test_filters(site: SlurmSite) -> None:
    site.submit("-J", "a", "-p", "long,short", "-A", "x", "--wrap=x")
    site.submit("-J", "b", "--wrap=x")
    site.begin(2)

    def listed(*words: str, **environment: str) -> str:
        return " ".join(site.out("squeue", "-h", "-o", "%i", *words, **environment).split())

    assert listed("-n", "a,c") == listed("-p", "short") == listed("-A", "x") == "1"
    assert listed("-t", "r") == listed("--states=RUNNING") == listed("-p", "queue") == "2"
    assert listed(SQUEUE_STATES="PD") == "1"
    assert listed("-u", "root,nobody" if USER != "root" else "nobody") == ""
    assert listed("-w", "n7") == "2"
    assert listed("-t", "CG,PD") == "1"


def test_wrong_words_of_squeue(site: SlurmSite) -> None:
    assert site.answer("squeue", "-t", "no").err.startswith(
        "squeue: error: Invalid job state specified: no\nsqueue: error: Valid job states include: "
    )
    assert site.answer("squeue", "-u", "no-such").err == "squeue: error: Invalid user: no-such\n"
    wrong = "squeue: error: Invalid job format specification: !"
    assert site.answer("squeue", "-o", "%i%!") == ("", wrong, 1)
    for keys, letter in ("nope", "o"), ("t i", " "), ("i,~", "~"), ("X", "X"):
        wrong = f"squeue: error: Invalid sort specification: {letter}"
        assert site.answer("squeue", "-S", keys) == ("", wrong, 1)
    assert site.answer("squeue", "-O", "JobID,no").err.endswith("specification: no")
    assert site.answer("squeue", "--yaml").err.startswith("squeue: unrecognized option '--yaml'\n")


def test_without_a_dispatcher_lists_are_the_same_but_for_the_reason(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    dispatchers = Dispatchers(site.queue.files)
    dispatchers.say_farewell(dispatchers.take_charge(replace(this_dispatcher(), pid_began=1)))
    assert site.out("squeue", "-h", "-o", "%i %r") == "1 QueueNotRunning\n"


@pytest.mark.parametrize("words", [("squeue",), ("sacct",), ("scontrol", "show", "job", "1")])
def test_whoever_asks_for_jobs_starts_a_dispatcher_where_none_ever_began(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.delenv("GRAIN_JOB_ID", raising=False)
    started: list[str] = []
    monkeypatch.setattr(
        "grain.cli.jobs.dispatcher._start", lambda queue, _: started.append(queue.name)
    )
    site.submit("--wrap=x")
    for name in ("1", "1.alive"):
        (site.queue.folder / "dispatchers" / name).unlink()
    site.out(*words)
    assert started == ["queue"]


def test_of_a_queue_that_was_never_used_lists_are_empty(site: SlurmSite) -> None:
    assert site.out("squeue", "-h", GRAIN_QUEUE="other") == ""
    assert site.answer("squeue", "-j", "1", GRAIN_QUEUE="other").status == 1
    assert site.out("scancel", "1", GRAIN_QUEUE="other") == ""
    assert not (site.queue.folder.parent / "other").exists()


def test_a_queue_that_cannot_be_read_gives_no_list(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    (site.queue.folder / "format").write_text('{"version": 99, "mission": ""}')
    done = site.process("squeue", "-h")
    assert (done.stdout, done.returncode) == ("", 1)
    first, second = done.stderr.splitlines()
    assert first == "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    assert second.startswith("squeue: (Grain) the queue in ")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("sbatch none", 9), ("sbatch -L none --wrap x", 9), ("srun --pty true", 9),
        ("sbatch -t bad --wrap x", 255), ("sbatch -n bad --wrap x", 1), ("srun", 1),
        ("scontrol none", 1),
    ],
)  # fmt: skip
def test_a_variable_gives_the_status_of_what_is_refused(
    site: SlurmSite, words: str, status: int
) -> None:
    assert status == site.answer(*words.split(), SLURM_EXIT_ERROR="9").status
    assert site.answer(*words.split(), SLURM_EXIT_ERROR="x").status in (1, 255)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"SLURM_TIMELIMIT": "bad"}, "srun: error: Invalid --time specification"),
        ({"SLURM_NTASKS": "x"}, 'srun: error: Invalid numeric value "x" for --ntasks.'),
        ({"SLURM_GPUS_PER_TASK": "1"}, "--gpus-per-task used without either --gpus or -n/--ntasks"),
        ({"SLURM_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "1"}, "srun: fatal: SLURM_MEM_PER_CPU,"),
        ({"SLURM_RESERVATION": "x"}, "Requested reservation is invalid"),
        ({"SRUN_CONTAINER": "x"}, "containers are not started here"),
    ],
)
def test_srun_outside_of_a_job_reads_its_variables(
    site: SlurmSite, variables: dict[str, str], text: str
) -> None:
    found = site.answer("srun", "--test-only", "true", **variables)
    assert found.status
    assert text in found.err
    # In a batch job whose system has no srun, they tell what that job has.
    inner = site.answer("srun", "--test-only", "true", SLURM_JOB_ID="7", PATH="", **variables)
    assert 0 == inner.status


def test_a_step_that_is_refused_has_the_status_of_a_variable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    environment = {"SLURM_JOB_ID": "1", "SLURM_EXIT_ERROR": "9"}
    assert 9 == step.main(["--jobid=2", "true"], environment)
    assert 1 == step.main([], environment)
    assert "Unable to confirm allocation" in capsys.readouterr().err


def test_what_waits_and_is_cancelled_never_begins(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.submit("-a", "0-3", "--wrap=x")
    assert site.out("scancel", "1", "2_1", "2000002", "99") == ""
    assert state(site, 1) == state(site, 2, 1) == state(site, 2, 2) == "CANCELLED"
    assert state(site, 2, 0) == state(site, 2, 3) == "PENDING"
    site.out("scancel", "2_[0-1,3]")
    assert state(site, 2, 0) == state(site, 2, 3) == "CANCELLED"


def test_what_runs_is_completing_until_it_has_ended(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.begin(1)
    site.out("scancel", "1")
    assert site.out("squeue", "-h", "-o", "%t %T") == "CG COMPLETING\n"
    site.end(1, how="cancelled")
    assert site.out("squeue", "-h", "-t", "all", "-o", "%t") == "CA\n"


def test_scancel_knows_who_is_no_user(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    found = site.answer("scancel", "-u", "no-such")
    assert found == ("", "scancel: error: Invalid user name: no-such", 1)
    assert site.out("scancel", "-u", str(os.getuid())) == ""
    assert site.out("squeue", "-h") == ""


def test_scancel_says_more_if_asked(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.submit("--wrap=x")
    site.run(2)
    found = site.answer("scancel", "-v", "1", "2", "99")
    assert (found.out, found.status) == ("", 0)
    assert found.err.splitlines() == [
        "scancel: Terminating job 1",
        "scancel: Terminating job 2",
        "scancel: Terminating job 99",
        "scancel: error: Kill job error on job id 2: Job/step already completing or completed",
        "scancel: error: Kill job error on job id 99: Invalid job id specified",
    ]


def test_whoever_sends_a_signal_learns_that_no_job_hears_it(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.run(1)
    text = "scancel: error: Kill job error on job id {}: Invalid job id specified"
    for words in (["-s", "USR1"], ["-s", "KILL"], ["-b"]):
        assert site.answer("scancel", *words, "1") == ("", text.format(1), 1)
        assert site.answer("scancel", *words, "9_2") == ("", text.format("9_2"), 1)
        assert site.answer("scancel", *words, "-Q", "9") == ("", "", 1)
    assert site.answer("scancel", "-f", "9") == ("", "", 0)


def test_scancel_by_filters(site: SlurmSite) -> None:
    for name in "aab":
        site.submit("-J", name, "--wrap=x")
    site.begin(1)
    site.out("scancel", "-n", "a", "-t", "PD")
    assert [state(site, number) for number in (1, 2, 3)] == ["RUNNING", "CANCELLED", "PENDING"]
    assert site.out("squeue", "-h", "-o", "%t", "-j", "1,1") == "R\n"
    site.out("scancel", "--me")
    assert state(site, 3) == "CANCELLED"


@pytest.mark.parametrize(
    ("words", "number", "to"),
    [
        (["--signal=TERM", "1"], 15, "steps"),
        (["1", "--signal", "USR2"], 12, "steps"),
        (["-b", "-s", "USR1", "1"], 10, "script"),
        (["-f", "-s", "10", "1"], 10, "all"),
        (["-b", "1"], 15, "script"),
    ],
)
def test_signals(site: SlurmSite, words: list[str], number: int, to: str) -> None:
    site.submit("--wrap=x")
    site.begin(1)
    site.out("scancel", *words)
    [(_, wish)] = list(site.queue.wishes_from(1))
    assert (wish.what, wish.signal, wish.signal_to) == ("signal", number, to)


def test_many_jobs_are_cancelled_by_one_wish(site: SlurmSite) -> None:
    for _ in range(5):
        site.submit("--wrap=x")
    site.out("scancel", "-Q", "1", "2", "3", "5")
    [(_, wish)] = list(site.queue.wishes_from(1))
    assert wish.jobs == ((1, 3), (5, 5))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "scancel: error: No job identification provided"),
        (["x"], "scancel: error: Invalid job id x"),
        (["2_x"], "scancel: error: Invalid job id 2_x"),
        (["-s", "NO", "1"], "Unknown job signal: NO"),
        (["99.0"], "scancel: error: Kill job error on job step id 99.0: Invalid job id specified"),
    ],
)
def test_wrong_words_of_scancel(site: SlurmSite, words: list[str], text: str) -> None:
    assert site.answer("scancel", *words) == ("", text, 1)


@pytest.mark.parametrize("command", ["sbatch", "squeue", "scancel"])
def test_versions_and_help(site: SlurmSite, command: str) -> None:
    assert site.out(command, "--version") == "slurm 22.05.8\n"
    assert site.out(command, "--help").startswith(f"Usage: {command} ")


def test_an_output_that_all_tasks_share_is_named(site: SlurmSite) -> None:
    done = site.process("sbatch", "-a", "1-40", "-o", "same.txt", "--wrap=x")
    assert ("Submitted batch job 1\n", 0) == (done.stdout, done.returncode)
    assert done.stderr.startswith(
        f"sbatch: warning: (Grain) all 40 tasks write to {site.folder}/same.txt, as task 1 and "
    )
    quiet = site.process("sbatch", "-a", "1-40", "-o", "same.txt", "--open-mode=a", "--wrap=x")
    assert "" == quiet.stderr
    clash = site.process("sbatch", "-a", "1-3", "-o", "2", "-e", "%a", "--wrap=x")
    assert 1 == clash.returncode
    assert "standard error of task 2" in clash.stderr
