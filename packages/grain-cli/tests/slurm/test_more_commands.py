"""``sacct``, ``scontrol``, ``srun``, ``sinfo`` and others on a queue."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import tools_of_slurm as tools

from grain.cli.slurm.here import CommandFailed, Here
from grain.cli.slurm.reading import PATIENCE, exit_status, patiently
from grain.eventlog.usage import Usage
from grain.files.processes import user_name
from grain.queue.book import Book
from grain.queue.errors import CannotWrite
from grain.queue.folder import Queue
from grain.queue.notes.steps import SCRIPT, StepRecord, note_steps
from grain.queue.records import Begun
from grain_testkit.programs import run

if TYPE_CHECKING:
    from slurm_site import SlurmSite

    from grain.queue.records import Wish

USER = user_name(os.getuid())
UID = os.getuid()


@pytest.mark.parametrize("tool", tools.ACCOUNTS)
def test_accounts_have_the_form_that_tools_read(site: SlurmSite, tool: str) -> None:
    words, form = tools.ACCOUNTS[tool]
    number = str(site.submit("-J", "name", "--wrap=x"))
    site.run(1, status=3, usage=Usage(peak_memory=1.0))
    given = [word.replace("JOB", number) for word in words if word != "--format=JobIdRaw,State"]
    given += ["--format=JobIdRaw,State"] * ("--format=JobIdRaw,State" in words)
    found = site.out("sacct", *given)
    pattern = re.sub(r"JOB", number, form)
    assert re.fullmatch(pattern + r"\n?", found) or re.match(pattern, found), found


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, "1|COMPLETED|0:0 1.batch|COMPLETED|0:0"),
        ({"status": 3}, "1|FAILED|3:0 1.batch|FAILED|3:0"),
        # In the database of Slurm, any step that a signal has ended is cancelled.
        ({"how": "signal", "signal": 9}, "1|FAILED|0:9 1.batch|CANCELLED|0:9"),
        ({"how": "timeout", "signal": 15}, "1|TIMEOUT|0:0 1.batch|CANCELLED|0:15"),
        ({"how": "memory", "signal": 9}, "1|OUT_OF_MEMORY|0:125 1.batch|OUT_OF_MEMORY|0:125"),
        ({"how": "cancelled"}, f"1|CANCELLED_by_{UID}|0:0 1.batch|CANCELLED|0:15"),
        ({"how": "lost"}, "1|NODE_FAIL|0:0 1.batch|NODE_FAIL|0:0"),
    ],
)
def test_states_and_exit_codes(site: SlurmSite, fields: dict[str, Any], lines: str) -> None:
    site.submit("--no-requeue", "--wrap=x")
    site.run(1, **fields)
    found = site.out("sacct", "-n", "-P", "-j", "1", "-o", "JobID,State,ExitCode")
    assert found.replace(" ", "_").split() == lines.split()


def test_the_default_table(site: SlurmSite) -> None:
    site.submit("-J", "a-long-name", "-A", "acct", "--wrap=x")
    site.run(1)
    site.submit("--wrap=x")
    assert site.out("sacct").splitlines() == [
        "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode ",
        "------------ ---------- ---------- ---------- ---------- ---------- -------- ",
        "1            a-long-na+      queue       acct          1  COMPLETED      0:0 ",
        "1.batch           batch                  acct          1  COMPLETED      0:0 ",
        "2                  wrap      queue                     0    PENDING      0:0 ",
    ]


def test_columns(site: SlurmSite) -> None:
    site.submit("-J", "a-long-name", "--wrap=x")
    assert site.out("sacct", "-X", "-n", "-o", "jobid%5,jobname%-14,state%4,jobn%0") == (
        "    1 a-long-name    PEN+  \n"
    )
    assert site.out("sacct", "-X", "-p", "-o", "JobID,nnodes") == "JobID|NNodes|\n1|1|\n"
    assert site.out("sacct", "-XnP", "--delimiter=;", "-o", "JobID,User") == f"1;{USER}\n"
    assert site.out("sacct", "-n", "--brief", "-X").split() == ["1", "PENDING", "0:0"]
    found = site.answer("sacct", "-o", "no-such")
    assert (found.out, found.status) == ("", 1)
    assert "JobIDRaw" in site.out("sacct", "--helpformat").split()


def test_tasks_steps_and_names(site: SlurmSite) -> None:
    site.submit("-a", "0-2", "-J", "a", "--wrap=x")
    site.submit("-J", "b", "--wrap=x")
    site.run(1, 1)

    def listed(*words: str) -> list[str]:
        return site.out("sacct", "-n", "-P", "-o", "JobID", *words).split()

    assert listed("-j", "1") == ["1_0", "1_1", "1_1.batch", "1_2"]
    assert listed("-j", "1_1") == listed("-j1000001") == ["1_1", "1_1.batch"]
    assert listed("-j", "1_1.batch") == ["1_1.batch"]
    assert listed("-j", "1.0,2.0") == []
    assert listed("-X", "--name", "b") == listed("-j", "2,99") == ["2"]
    assert listed("-X", "-s", "CD") == ["1_1"]
    assert listed("-X", "-u", "no-such-user") == [] or USER == "root"
    # As Snakemake looks for the tasks that it has submitted.
    assert site.out("sacct", "-nPX", "-j", "1_1,2", "-o", "JobIDRaw") == "1_1\n2\n"
    assert site.answer("sacct", "-j", "x").status == 1


def test_what_ended_before_the_time_that_is_asked_for_is_left_out(site: SlurmSite) -> None:
    for ago in (86400.0, 0.0):
        number = site.submit("--wrap=x")
        site.run(number, at=time.time() - ago)

    def listed(*words: str) -> list[str]:
        return site.out("sacct", "-XnP", "-o", "JobID", *words).split()

    assert listed("-S", "now-2hours") == ["2"]
    assert listed("-S", "2020-01-01") == listed("-j", "1,2") == ["1", "2"]
    assert listed("-S", "2020-01-01", "-E", "2020-01-02") == []
    assert site.answer("sacct", "-S", "soon").status == 1


def test_a_record_of_a_job(site: SlurmSite) -> None:
    site.submit("-J", "two words", "-n2", "-t10", "--mem=100", "--comment", "c", "--wrap=x")
    site.begin(1)
    record = site.out("scontrol", "show", "job", "1")
    assert record.endswith("\n   Power=\n   \n\n")
    lines = [line.strip() for line in record.splitlines()]
    assert lines[0] == "JobId=1 JobName=two words"
    for line in (
        "JobState=RUNNING Reason=None Dependency=(null)",
        "Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0",
        "NodeList=n7",
        "BatchHost=n7",
        "NumNodes=1 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*",
        "TRES=cpu=2,mem=100M,node=1,billing=2",
        "Command=(null)",
        f"WorkDir={site.folder}",
        "Comment=c",
        f"StdOut={site.folder}/slurm-1.out",
    ):
        assert line in lines
    one = site.out("scontrol", "show", "job", "-o", "1")
    assert one.count("\n") == 1
    assert one == site.out("scontrol", "-o", "show", "job", "1")
    assert re.search(r" RunTime=00:00:1\d TimeLimit=00:10:00 ", one)


def test_records_of_tasks(site: SlurmSite) -> None:
    site.submit("-a", "0-1", "--wrap=x")
    found = site.out("scontrol", "-o", "show", "job", "1").splitlines()
    assert [line.partition(" JobName")[0] for line in found] == [
        "JobId=1000000 ArrayJobId=1 ArrayTaskId=0",
        "JobId=1000001 ArrayJobId=1 ArrayTaskId=1",
    ]
    assert site.out("scontrol", "-o", "show", "job", "1_1") == found[1] + "\n"


def test_a_command_that_fails_prints_its_output(site: SlurmSite) -> None:
    done = site.process("scontrol", "show", "part", "nix")
    assert ("Partition nix not found\n", "", 1) == (done.stdout, done.stderr, done.returncode)


def test_wrong_words_of_scontrol(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    for words, text in {
        "show job 99": "slurm_load_jobs error: Invalid job id specified",
        "show job x": "scontrol_print_job error: Invalid job id specified",
        "show": "too few arguments for keyword:show",
        "show nix": "invalid entity:nix for keyword:show ",
        "show h n1": "invalid entity:h for keyword:show ",
        "hol 1": "invalid keyword: hol",
        "ver": "invalid keyword: ver",
        "show step 99.0": "slurm_get_job_steps error: Invalid job id specified",
        "nix": "invalid keyword: nix",
        "show version": "invalid entity:version for keyword:show ",
        "requeue 99": "Invalid job id specified for job 99",
        "requeue 1": "Job is pending execution for job 1",
        "hold 99": "Invalid job id specified for job 99\n"
        "slurm_suspend error: Invalid job id specified",
        "release 99": "Invalid job id specified for job 99\n"
        "slurm_suspend error: Invalid job id specified",
    }.items():
        assert site.answer("scontrol", *words.split()) == ("", text, 1)
    # A real scontrol says these on standard output.
    for what in "Partition nix", "Node n1", "Job step 1.7":
        found = site.answer("scontrol", "show", what.split()[-2].lower(), what.split()[-1])
        assert (f"{what} not found\n", "", 1) == found


@pytest.mark.parametrize(
    ("words", "long"),
    [
        ("SHOW hostname n[1-2]", "show hostnames n[1-2]"), ("sho Hostna n1", "show hostnames n1"),
        ("show JobId 1", "show job 1"), ("show jobid=1", "show job 1"), ("show j", "show jobs"),
        ("show part", "show partition"), ("show PartitionName=queue", "show partition queue"),
        ("show hostlists n2,n1", "show hostlistsorted n2,n1"), ("pin", "ping"),
        ("-o show JO 1", "show -o job 1"),
    ],
)  # fmt: skip
def test_words_of_scontrol_may_be_short_and_in_any_case(
    site: SlurmSite, words: str, long: str
) -> None:
    site.submit("--wrap=x")
    assert site.out("scontrol", *words.split()) == site.out("scontrol", *long.split()) != ""


@pytest.mark.parametrize("command", ["sattach", "sbcast", "sprio", "sreport"])
def test_commands_that_there_are_not_say_so(site: SlurmSite, command: str) -> None:
    found = site.answer(command, "-j", "1")
    assert found.status == 1
    assert found.err.startswith(f"{command}: error: (Grain) not supported: ")
    assert site.out(command, "-V") == "slurm 22.05.8\n"


def test_the_efficiency_of_a_job(site: SlurmSite) -> None:
    site.submit("-c", "2", "--mem=100", "--wrap=x")
    assert "Efficiency not available for jobs in the PENDING state." in site.out("seff", "1")
    site.begin(1)
    assert "WARNING: Efficiency statistics may be misleading for RUNNING" in site.out("seff", "1")
    usage = Usage(user=9.0, peak_memory=50 * 2**20 / 1e9)
    site.end(1, how="exit", status=3, elapsed=10.0, usage=usage)
    assert [
        "Job ID: 1", "Cluster: grain", f"User/Group: {USER}/{USER}", "State: FAILED (exit code 3)",
        "Nodes: 1", "Cores per node: 2", "CPU Utilized: 00:00:09",
        "CPU Efficiency: 45.00% of 00:00:20 core-walltime", "Job Wall-clock time: 00:00:10",
        "Memory Utilized: 50.00 MB", "Memory Efficiency: 50.00% of 100.00 MB",
    ] == site.out("seff", "1").splitlines()  # fmt: skip
    assert site.answer("seff", "9") == ("", "Job not found.", 2)


def test_a_list_as_json(site: SlurmSite) -> None:
    site.submit("-a", "1-2", "-t", "5", "--mem=100", "-J", "js", "--wrap=x")
    site.begin(1, 1)
    found = json.loads(site.out("squeue", "--json"))
    assert found["meta"]["Slurm"]["release"] == "22.05.8"
    first, second = sorted(found["jobs"], key=lambda job: job["job_id"])
    expected = {
        "array_job_id": 1, "array_task_id": 1, "job_id": 1000001, "job_state": "RUNNING",
        "memory_per_node": 100, "name": "js", "nodes": "n7", "time_limit": 5, "user_name": USER,
        "cpus": 1,
    }  # fmt: skip
    assert expected == {name: first[name] for name in expected}
    assert first["end_time"] == first["start_time"] + 300
    assert (second["job_state"], second["state_reason"]) == ("PENDING", "Resources")
    assert len(json.loads(site.out("squeue", "--json", "-t", "R"))["jobs"]) == 1


@pytest.mark.parametrize("words", [["-u"], ["-u", ""], ["--user="], ["-u", "-h"], ["--user", "-l"]])
def test_an_empty_name_of_the_user_is_the_user(site: SlurmSite, words: list[str]) -> None:
    site.submit("--wrap=x")
    assert site.out("squeue", *words).count("wrap") == 1


def test_hosts(site: SlurmSite) -> None:
    names = ["n1", "n2", "n07", "n08", "n09", "a", "x3-y"]
    found = site.out("scontrol", "show", "hostnames", "n[1-2,07-09],a,x[3]-y")
    assert found.split() == names
    assert site.out("scontrol", "show", "hostnames", SLURM_JOB_NODELIST="n7") == "n7\n"
    found = site.out("scontrol", "show", "hostnames", "r[1-2]n[08-09,1]x,b")
    assert found.split() == ["r1n08x", "r1n09x", "r1n1x", "r2n08x", "r2n09x", "r2n1x", "b"]


@pytest.mark.parametrize("text", ["n[1", "n[003-001]", "n[]", "n[1-400]m[1-400]", "n[1-2]]"])
def test_a_list_of_hosts_that_makes_no_sense_is_refused(site: SlurmSite, text: str) -> None:
    answer = site.answer("scontrol", "show", "hostnames", text)
    assert ("", f"Invalid hostlist: {text}", 1) == (answer.out, answer.err.strip(), answer.status)


def test_the_configuration(site: SlurmSite) -> None:
    found = site.out("scontrol", "show", "config")
    assert "\nMinJobAge               = 300 sec\n" in found
    assert found.endswith(" is UP\n")


def test_the_version_of_scontrol(site: SlurmSite) -> None:
    assert "slurm 22.05.8\n" == site.out("scontrol", "version") == site.out("sbatch", "-V")


def state_of(site: SlurmSite, *names: str) -> list[str]:
    """Return the limit, the nice value and the dependency of tasks."""
    found = site.out("squeue", "-h", "-o", "%i %l %y %E")
    known = dict(line.split(" ", 1) for line in found.splitlines())
    return [known[name] for name in names]


def test_a_job_that_waits_is_updated(site: SlurmSite) -> None:
    first, second = site.submit("-t10", "--wrap=x"), site.submit("-J", "wrap", "--wrap=x")
    update = ("scontrol", "update")
    for words, found in {
        f"JobId={second} TimeLimit=1-0 Nice=7": "1-00:00:00 7 (null)",
        f"JobID={second} TIMELIM=90 nic=-3": "1:30:00 -3 (null)",
        f"jobid={second} Nice Dependency=afterok:{first}": "1:30:00 100 afterok:1(unfulfilled)",
        f"job {second} timelimit 9:30 dep=": "9:30 100 (null)",
        f"job={second} TimeLimit=+5": "14:30 100 (null)",
        f"job={second} TimeLimit=-4": "10:30 100 (null)",
        f"JobId={second} TimeLimit=UNLIMITED Nice=abc": "UNLIMITED 0 (null)",
        f"JobId={second} TimeLimit=-4 d=singleton": "UNLIMITED 0 afterany:1(unfulfilled)",
        f"JobId={second} D=after:1?afterok:1": "UNLIMITED 0 "
        "after:1(unfulfilled)?afterok:1(unfulfilled)",
    }.items():
        assert "" == site.out(*update, *words.split())
        assert [found] == state_of(site, "2"), words
    assert ["10:00 0 (null)"] == state_of(site, "1")
    assert "Nice=0 " in site.out("scontrol", "show", "job", "2")


def test_several_jobs_and_tasks_are_updated(site: SlurmSite) -> None:
    site.submit("-t10", "-a1-4", "--wrap=x")
    site.submit("-t10", "--wrap=x")
    site.out("scontrol", "update", "JobId=1_[1-2],2", "TimeLimit=20")
    site.out("scontrol", "update", "JobId=1_2", "TimeLimit=+10")
    site.out("scontrol", "update", "JobId=1", "Nice=5")
    assert ["20:00 5", "30:00 5", "10:00 5", "20:00 0"] == [
        one.removesuffix(" (null)") for one in state_of(site, "1_1", "1_2", "1_3", "2")
    ]


def test_of_a_job_that_runs_only_a_shorter_limit_is_obeyed(site: SlurmSite) -> None:
    site.submit("-t10", "-a1-4", "--wrap=x")
    site.begin(1, 1)
    site.begin(1, 2)
    site.begin(1, 3)
    site.end(1, 3)
    site.out("scontrol", "update", "JobId=1_1", "TimeLimit=9")
    found = site.answer("scontrol", "update", "JobId=1", "TimeLimit=9:30")
    denied = "1_1: Access/permission denied"
    assert ("", f"{denied}\n1_3: Job has already finished", 1) == found
    assert ["9:00 0 (null)", "9:30 0 (null)", "9:30 0 (null)"] == state_of(
        site, "1_1", "1_2", "1_4"
    )
    assert "00:10:00" in site.out("sacct", "-n", "-X", "-j", "1_3", "-o", "TimeLimit")
    waits = site.answer("scontrol", "update", "JobId=1_[1-3]", "Dependency=singleton")
    ended = "1_3: Job has already finished"
    assert f"1_[1-2]: Job is no longer pending execution\n{ended}" == waits.err


def test_a_job_that_begins_as_it_is_updated_has_the_new_limit_or_an_error(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has made its receipt before the wish does not look for it in time."""
    ask = Queue.wish

    def begins(queue: Queue, wish: Wish) -> int:
        site.begin(1)
        return ask(queue, wish)

    site.submit("-t10", "--wrap=x")
    monkeypatch.setattr(Queue, "wish", begins)
    found = site.answer("scontrol", "update", "JobId=1", "TimeLimit=20")
    assert ("", "Access/permission denied for job 1", 1) == found


def test_updates_that_make_no_sense_are_refused_as_by_slurm(site: SlurmSite) -> None:
    """The words are those of a real Slurm, but for what is said to be Grain's."""
    site.submit("-t10", "--wrap=x")
    site.submit("-a1-2", "--wrap=x")
    site.submit("--wrap=x")
    site.run(3)
    site.submit("-t10", "--wrap=x")
    site.begin(4)
    invalid = "Invalid job id specified"
    aborted = "Request aborted"
    for words, text in {
        "": "too few arguments for update keyword",
        "JobId=1": "No changes specified",
        "TimeLimit=+5 JobId=1": "scontrol: error: JobId must precede TimeLimit increment or "
        "decrement",
        "JobId=1 Time=0": f"Update of this parameter is not supported: Time=0\n{aborted}",
        "JobId=1 NumCPUs=2": f"Update of this parameter is not supported: NumCPUs=2\n{aborted}",
        "JobId=1 foo": f"Invalid input: foo\n{aborted}",
        "JobId=1 TimeLimit=abc": "scontrol: error: Invalid TimeLimit value",
        "JobId=1 TimeLimit=-30": "scontrol: error: TimeLimit decrement larger than current time "
        "limit (30 > 10)",
        "JobId=1 Nice=99999999999": "scontrol: error: Nice value out of range (+/- 2147483645). "
        "Value ignored",
        "JobId=1 Dependency=x": "Job dependency problem for job 1\nscontrol: (Grain) x",
        "JobId=1 Dependency=afterok:99": "Job dependency problem for job 1\nscontrol: (Grain) job "
        "1 cannot wait for job 99, which is not before it",
        "JobId=2 TimeLimit=+5": "scontrol: error: TimeLimit increment/decrement not supported for "
        "job arrays",
        "JobId=2_[1-2] TimeLimit=+5": "scontrol: error: Invalid job ID 2_[1-2]",
        "JobId=99 TimeLimit=+5": "scontrol: error: Could not load state information for job 99: "
        + invalid,
        "JobId=99 TimeLimit=5": f"{invalid} for job 99",
        "JobId=abc Nice=5": f"{invalid} for job abc",
        "JobId=2_9 Nice=5": f"2_9: {invalid}",
        "JobId=1,99 Nice=5": f"{invalid} for job 99",
        "JobId=2_1 Nice=5": "Requested operation not supported on this system for job 2_1\n"
        "scontrol: (Grain) an array has one Nice and one Dependency: hold 2_1 instead",
        "JobId=3 Nice=5": "Job has already finished for job 3",
        "JobId=4 Dependency=afterok:1": "Job is no longer pending execution for job 4",
        "JobId=4 TimeLimit=0": "Access/permission denied for job 4",
        "TimeLimit=5": "No valid entity in update command\nInput line must include "
        '"NodeName", "PartitionName", "Reservation", "JobId", or "SlurmctldDebug"',
        "NodeName=n1 State=DRAIN": "scontrol: error: (Grain) `scontrol update nodename` is not "
        "there",
    }.items():
        assert ("", text, 1) == site.answer("scontrol", "update", *words.split()), words
    assert ("", "", 1) == site.answer("scontrol", "-Q", "update", "JobId=99", "Nice=5")


def test_what_steps_use_that_run(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.submit("-a1-2", "--wrap=x")
    site.begin(1)
    site.begin(2, 1)
    step = StepRecord(0, "xtb", 2, 2, ("n7",), 1.0, cpu=130.0, memory=0.053358592)
    other = StepRecord(1, "y", 1, 1, ("n7",), 1.0)
    ended = StepRecord(2, "z", 1, 1, ("n7",), 1.0, ended=2.0)
    script = StepRecord(SCRIPT, "batch", 1, 1, ("n7",), 1.0, cpu=140.0, memory=0.1)
    note_steps(site.queue, 1, None, 1, [step, other, ended, script])
    note_steps(site.queue, 2, 1, 1, [step])
    assert site.out("sstat", "-j", "1").splitlines() == [
        "JobID            MaxRSS MaxRSSNode     AveRSS     AveCPU   NTasks ",
        "------------ ---------- ---------- ---------- ---------- -------- ",
        "1.0              52108K         n7     52108K   00:01:05        2 ",
    ]
    form = ("-P", "-n", "-o", "JobID,maxrss,avecpu")
    assert "1.0|52108K|00:01:05\n" == site.out("sstat", "1.0", *form)
    assert "1.batch|97656K|00:02:20\n1.0|52108K|00:01:05\n1.1|0|00:00:00\n" == site.out(
        "sstat", "-a", "-j", "1", *form
    )
    assert "1.batch|97656K|00:02:20\n" == site.out("sstat", "-j", "1.batch", *form)
    assert "2_1.0|52108K|00:01:05\n" == site.out("sstat", "-j", "2", *form)
    assert "1.0|53358592|\n" == site.out("sstat", "-np", "--noconvert", "-j1", "-oJobID,MaxRSS")
    # The batch script is listed as well, and srun did not start that.
    assert ["1.0", "1.1", "2_1.0", "1.batch", "2_1.batch"] == sorted(
        (line.split()[0] for line in site.out("squeue", "-hs").splitlines()),
        key=lambda name: ("batch" in name, name),
    )
    assert "1|1.batch|1.0|1.1|1.2" == "|".join(
        site.out("sacct", "-nP", "-j", "1", "-o", "JobID").split()
    )
    assert "TRESUsageInAve" in site.out("sstat", "-e")


def test_what_does_not_run_has_nothing_for_sstat(site: SlurmSite) -> None:
    """Such is success to Slurm."""
    site.submit("--wrap=x")
    for words, text in {
        "-j 1": "sstat: error: No steps running for job 1",
        "-j 1.7": "sstat: error: StepId=1.7 not found running.",
        "-j 99": "sstat: error: couldn't get steps for job 99",
    }.items():
        assert ("", text, 0) == site.answer("sstat", "-n", *words.split())
    for words, text in {
        "": "sstat: error: You didn't give me any jobs to stat.",
        "-j abc": "sstat: fatal: Bad job/step specified: abc",
        "-j 1 -o foo": 'sstat: error: Invalid field requested: "foo"',
        "-j 1 -o State": 'sstat: error: Invalid field requested: "State"',
        "-i -j 1": "sstat: error: (Grain) --pidformat is not supported",
    }.items():
        assert ("", text, 1) == site.answer("sstat", *words.split())


def test_a_job_has_a_deadline(site: SlurmSite) -> None:
    at = time.time() + 3600
    site.submit("--deadline=now+1hour", "--wrap=x")
    site.submit("--deadline=now+1hour", "-t", "30", "--begin=now+10", "--wrap=x")
    deadlines = [site.queue.job(number).deadline for number in (1, 2)]
    assert all(at <= one <= time.time() + 3600 for one in deadlines)
    shown = time.strftime("Deadline=%Y-%m-%dT%H:%M:%S\n", time.localtime(deadlines[0]))
    assert shown in site.out("scontrol", "show", "job", "1")
    # As the dispatcher cancels it.
    cancelled = Begun(at=time.time(), host="h", cancelled="--deadline")
    assert site.queue.cancel_waiting(2, [(None, 1)], cancelled)
    asked = ("-h", "-t", "all", "-o", "%i %T %t %r %N")
    assert "2 DEADLINE DL DeadLine \n" in site.out("squeue", *asked)
    assert "" == site.out("squeue", *asked[:1], "-t", "CA")
    assert "2 " in site.out("squeue", *asked[:1], "-t", "DL")
    assert "2|DEADLINE|0:0\n" == site.out(
        "sacct", "-n", "-P", "-X", "-j", "2", "-o", "JobID,State,ExitCode"
    )
    # Without a limit, it has the time until then.
    begun = Begun(at=deadlines[0] - 90.5, host="n7", worker="w", pid=1)
    assert site.queue.begin(1, None, 1, begun)
    assert "1 R 1:30\n" == site.out("squeue", "-h", "-t", "R", "-o", "%i %t %l")
    site.end(1, how="timeout")
    assert "1 DEADLINE DeadLine\n" == site.out("squeue", "-h", "-t", "DL", "-o", "%i %T %r", "-j1")


def test_wrong_deadlines_are_refused_as_by_slurm(site: SlurmSite) -> None:
    over = "Requested time limit is invalid (missing or exceeds some limit)"
    invalid = "sbatch: error: Invalid --deadline specification"
    for words, (text, status) in {
        "--deadline=now-1hour": (f"sbatch: error: Batch job submission failed: {over}", 1),
        "--deadline=x": (f"Invalid time specification (pos=0): x\n{invalid}", 255),
        "--deadline=": (invalid, 255),
        "--deadline=now+1hour --begin=now+2hour": (
            "sbatch: error: Incompatible begin and deadline time specification",
            1,
        ),
    }.items():
        found = site.answer("sbatch", *words.split(), "--wrap=x")
        assert ("", status) == (found.out, found.status)
        assert text == found.err.partition("\nsbatch: (Grain) ")[0]


def test_tasks_in_brackets_stand_in_lists(site: SlurmSite) -> None:
    site.submit("-a", "0-4", "--wrap=x")
    site.submit("--wrap=x")
    site.out("scontrol", "hold", "1_[1,3],2")
    held = site.out("squeue", "-h", "-o", "%i", "-j", "1_[0-1,3],2").split()
    assert held == ["1_0", "1_1", "1_3", "2"]
    assert site.out("squeue", "-h", "-o", "%i %r").count("JobHeldUser") == 3
    assert site.out("sacct", "-nPX", "-o", "JobID", "-j", "1_[1,3],2").split() == [
        "1_1", "1_3", "2",
    ]  # fmt: skip
    assert site.answer("scancel", "1_[1").status == 1


def test_hold_and_release(site: SlurmSite) -> None:
    site.submit("-a", "0-1", "--wrap=x")
    site.out("scontrol", "hold", "1_1")
    assert site.out("squeue", "-h", "-o", "%i %r").split("\n")[:2] == [
        "1_0 Resources", "1_1 JobHeldUser",
    ]  # fmt: skip
    site.out("scontrol", "release", "1")
    assert "JobHeldUser" not in site.out("squeue", "-h", "-o", "%i %r")
    site.submit("-H", "--wrap=x")
    site.out("scontrol", "release", "2")
    assert site.out("squeue", "-h", "-j", "2", "-o", "%r") == "Resources\n"


def test_jobs_are_held_and_released_by_their_name(site: SlurmSite) -> None:
    def held() -> int:
        return site.out("squeue", "-h", "-o", "%j %r").count("a JobHeldUser")

    for name in ("a", "b", "a"):
        site.submit("-J", name, "--wrap=x")
    site.out("scontrol", "hold", "jobname=a")
    assert 2 == held() == site.out("squeue", "-h", "-o", "%r").count("JobHeldUser")
    site.out("scontrol", "release", "Name=a")
    assert 0 == held()
    assert ("", "", 0) == site.answer("scontrol", "hold", "JobName=none")


def test_the_script_of_a_job_is_written_to_a_file(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.folder)
    long = "#!/bin/sh\n" + "true\n" * 20_000
    for script in ("#!/bin/sh\ntrue\n", long):
        (site.folder / "job.sh").write_text(script)
        number = site.submit("job.sh")
        write = ("scontrol", "write", "batch_script", str(number))
        name = f"slurm-{number}.sh"
        said = f"batch script for job {number} written to "
        assert f"{said}{name}\n" == site.out(*write)
        assert f"{said}own.sh\n" == site.out(*write, "own.sh")
        assert script == site.out(*write, "-")
        for written in (name, "own.sh"):
            assert script == (site.folder / written).read_text()
    lost = "job script retrieval failed: Invalid job id specified"
    assert ("", lost, 1) == site.answer("scontrol", "write", "batch_script", "9")
    wrong = "invalid write argument:nope"
    assert ("", wrong, 1) == site.answer("scontrol", "write", "nope", "1")


def test_memory_of_a_cpu_is_shown_as_that(site: SlurmSite) -> None:
    site.submit("--mem-per-cpu=2G", "-c", "2", "--wrap=x")
    assert " MinMemoryCPU=2G " in site.out("scontrol", "show", "job", "1")


def test_empty_words_of_squeue(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    every = ("squeue", "-h", "-o", "%i")
    assert "" == site.out(*every, "-j", "") == site.out(*every, "-j", ",")
    for option in ("-t", "-n", "-p", "-A", "-q", "-w"):
        assert "" == site.out(*every, option, "")
    assert "1\n" == site.out(*every, "-u", "")
    assert "1 wrap\n" == site.out("squeue", "-h", "-O", "JobID: ,Name:")


def test_whatever_is_asked_of_a_large_array_is_one_wish(site: SlurmSite) -> None:
    # A wish for each task would take minutes, and all readers hours.
    site.submit("-a", "0-999", "--wrap=x")
    site.run(1, 7)
    site.out("scontrol", "hold", "1")
    site.out("scontrol", "release", "1_[3-5]")
    site.begin(1, 3)
    site.begin(1, 4)
    site.out("scontrol", "requeuehold", "1_[3-4,6]")
    assert [
        ("hold", ((0, 6), (8, 999)), 0),
        ("release", ((3, 5),), 0),
        ("hold", ((3, 4),), 0),
        ("again", ((3, 4),), 2),
    ] == [(wish.what, wish.tasks, wish.attempt) for _, wish in site.queue.wishes_from(1)]


def test_a_job_that_may_not_run_twice_is_not_put_on_hold_instead(site: SlurmSite) -> None:
    site.submit("--no-requeue", "--wrap=x")
    site.begin(1)
    assert site.answer("scontrol", "requeuehold", "1").status == 1
    assert [] == list(site.queue.wishes_from(1))


def test_a_wrong_number_beside_others_does_not_leave_them_without_a_dispatcher(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(
        "grain.cli.slurm.scontrol.wake_dispatcher", lambda queue: woken.append(queue.name)
    )
    site.submit("-H", "--wrap=x")
    assert site.answer("scontrol", "release", "1", "99").status == 1
    assert ["queue"] == woken


def test_a_job_that_runs_is_ended_and_runs_again_by_one_wish(site: SlurmSite) -> None:
    # The command may be a part of the job. With two wishes, the first one could end it.
    site.submit("--wrap=x")
    site.begin(1)
    site.out("scontrol", "requeue", "1")
    assert [("again", 2)] == [(wish.what, wish.attempt) for _, wish in site.queue.wishes_from(1)]
    site.end(1, how="cancelled")
    standing = Book.read(site.queue).standing(1, None, time.time())
    assert (standing.state, standing.attempt) == ("PENDING", 2)
    site.begin(1, attempt=2)
    assert "Restarts=1" in site.out("scontrol", "show", "job", "1")


@pytest.mark.parametrize(
    ("command", "in_job", "expected"),
    [
        ("scontrol", True, signal.SIG_IGN),
        ("scancel", True, signal.SIG_IGN),
        ("scontrol", False, signal.SIG_DFL),
        ("squeue", True, signal.SIG_DFL),
    ],
)
def test_a_command_that_ends_its_own_job_has_a_status(
    command: str, in_job: bool, expected: signal.Handlers
) -> None:
    program = (
        "import signal, sys\n"
        "from grain.cli.slurm.__main__ import main\n"
        f"main([{command!r}, '', '--version'])\n"
        "print(int(signal.getsignal(signal.SIGTERM)))\n"
    )
    environ = {**os.environ, "SLURM_JOB_ID": "1"}
    if not in_job:
        del environ["SLURM_JOB_ID"]
    assert run("-c", program, env=environ).stdout.splitlines()[-1] == str(int(expected))


def test_a_job_that_has_ended_runs_again(site: SlurmSite) -> None:
    site.submit("--wrap=x")
    site.run(1)
    site.out("scontrol", "requeue", "1")
    assert site.out("squeue", "-h", "-o", "%t %r") == "PD Resources\n"
    site.submit("--no-requeue", "--wrap=x")
    site.run(2)
    assert site.answer("scontrol", "requeue", "2").status == 1


def test_partitions_and_accounts(site: SlurmSite) -> None:
    found = site.out("sinfo", "-a", "-o", "%P %G %l %p %c %m")
    assert found == "PARTITION GRES TIMELIMIT PRIO_TIER CPUS MEMORY\nqueue* (null) infinite 1 0 0\n"
    assert site.out("sinfo").splitlines() == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "queue*       up   infinite      0    n/a ",
    ]
    assert site.out("sinfo", "-h", "-p", "other") == ""
    assert site.out("sacctmgr", "-n", "-s", "list", "user", USER, "format=account%256") == ""
    assert site.out("sshare", "-U", "-u", USER) == ""
    assert site.answer("sacctmgr", "add", "user", "x").status == 1
    refused = site.answer("salloc", "-n", "1")
    assert refused.status == 1
    assert "salloc: (Grain) no terminal reaches a worker: use `srun COMMAND`, which" in refused.err


@pytest.mark.parametrize(
    ("ended", "of_shell"),
    [
        ({"how": "exit", "status": 7}, 7),
        ({"how": "signal", "signal": 9}, 137),
        ({"how": "start", "status": 127}, 127),
        ({"how": "timeout", "signal": 15}, 1),
    ],
)
def test_sbatch_tells_only_the_status_with_which_a_job_exits(
    site: SlurmSite, ended: dict[str, Any], of_shell: int
) -> None:
    site.submit("--wrap=x")
    site.run(1, **ended)
    entry = Book.read(site.queue).entries[1]
    assert of_shell == exit_status(entry)
    assert (7 if of_shell == 7 else 1) == exit_status(entry, otherwise=1)


@pytest.mark.parametrize(
    ("words", "text", "status"),
    [
        (("-t", "abc"), "Invalid --time specification", 255),
        (("-m", "nope"), "Invalid --distribution specification", 255),
        (("-r", "x"), 'Invalid numeric value "x" for --relative.', 1),
        (("-W", "x"), 'Invalid numeric value "x" for --wait.', 1),
        (("--mpi=nope",), "Invalid MPI type 'nope', --mpi=list for acceptable types", 1),
    ],
)
def test_a_wrong_option_of_a_step_does_not_become_a_job(
    site: SlurmSite, words: tuple[str, ...], text: str, status: int
) -> None:
    assert site.answer("srun", *words, "hostname") == ("", f"srun: error: {text}", status)
    assert site.queue.jobs.end() == 1


@pytest.mark.parametrize(
    "words", [("--jobid=1", "hostname"), ("--het-group=1", "hostname"), ("--pty", "bash")]
)
def test_a_step_that_there_is_not_does_not_become_a_job(
    site: SlurmSite, words: tuple[str, ...]
) -> None:
    found = site.answer("srun", *words)
    assert found.status == 1
    assert "srun: (Grain) " in found.err or "srun: error: (Grain) " in found.err
    assert site.queue.jobs.end() == 1


def step(number: int, **fields: Any) -> StepRecord:
    return StepRecord(number, "prog", 2, 4, ("n7", "n8"), 100.0, **fields)


def test_accounts_have_the_steps_of_a_job(site: SlurmSite) -> None:
    number = site.submit("--wrap=x")
    site.begin(number)
    steps = [
        step(0, ended=105.0, statuses=(0, 0), memory=0.001024),
        step(1, ended=105.0, statuses=(0, 3)),
        step(2, ended=105.0, statuses=(1, -9)),
        step(3, ended=105.0, statuses=(-15,), state="TIMEOUT"),
        step(4),
    ]
    note_steps(site.queue, number, None, 1, steps)
    form = "JobID,JobName,State,ExitCode,NTasks,AllocCPUS,NodeList,MaxRSS"
    lines = site.out("sacct", "-nP", "-j", "1", "-o", form).splitlines()[2:]
    assert [
        "1.0|prog|COMPLETED|0:0|2|4|n[7-8]|1000K",
        "1.1|prog|FAILED|3:0|2|4|n[7-8]|0",
        "1.2|prog|CANCELLED|0:9|2|4|n[7-8]|0",
        "1.3|prog|CANCELLED|0:15|2|4|n[7-8]|0",
        "1.4|prog|RUNNING|0:0|2|4|n[7-8]|0",
    ] == lines
    assert "5\n" == site.out("sacct", "-nP", "-j", "1.0", "-o", "ElapsedRaw")
    assert "1.1|FAILED\n" == site.out("sacct", "-nP", "-j", "1.1", "-o", "JobID,State")
    assert "1\n" == site.out("sacct", "-nPX", "-j", "1", "-o", "JobID")
    # Nothing runs when the job has ended, whatever was noted.
    site.end(number)
    assert "1.4|CANCELLED\n" == site.out("sacct", "-nP", "-j", "1.4", "-o", "JobID,State")


def test_a_step_has_the_user_who_has_ended_it_and_not_its_whole_job(site: SlurmSite) -> None:
    steps = [step(0, ended=105.0, statuses=(-15,), state="CANCELLED")]
    shown = []
    for how in ("exit", "cancelled"):
        number = site.submit("--wrap=x")
        site.begin(number)
        note_steps(site.queue, number, None, 1, steps)
        site.end(number, how=how)
        shown.append(site.out("sacct", "-nP", "-j", f"{number}.0", "-o", "State"))
    assert [f"CANCELLED by {os.getuid()}\n", "CANCELLED\n"] == shown


def test_steps_that_end_with_a_job_that_is_out_of_memory_have_its_state(site: SlurmSite) -> None:
    number = site.submit("--wrap=x")
    site.begin(number)
    at = time.time()
    steps = [
        step(0, ended=at - 900, statuses=(-15,), state="CANCELLED"),
        step(1, ended=at - 900, statuses=(-9,)),
        step(2, ended=at - 900, statuses=(-11,)),
        step(3, ended=at - 2, statuses=(-15,), state="CANCELLED"),
        step(4, ended=at - 2, statuses=(1,)),
        step(5),
    ]
    note_steps(site.queue, number, None, 1, steps)
    site.end(number, how="memory", signal=9, at=at)
    lines = site.out("sacct", "-nP", "-j", "1", "-o", "State,ExitCode").splitlines()[2:]
    out = "OUT_OF_MEMORY|0:125"
    assert ["CANCELLED|0:15", out, "CANCELLED|0:11", out, "FAILED|1:0", out] == lines


@pytest.mark.parametrize(
    ("statuses", "code"), [((0,), "0:0"), ((2, -9), "2:0"), ((-9, 0), "0:9"), ((), "0:0")]
)
def test_a_job_has_the_highest_exit_code_of_its_steps(
    site: SlurmSite, statuses: tuple[int, ...], code: str
) -> None:
    number = site.submit("--wrap=x")
    site.begin(number)
    steps = [step(at, ended=105.0, statuses=(one,)) for at, one in enumerate(statuses)]
    note_steps(site.queue, number, None, 1, [*steps, step(7)])
    assert f"{code}\n" == site.out("sacct", "-nPX", "-j", "1", "-o", "DerivedExitCode")


def test_steps_that_run_are_listed(site: SlurmSite) -> None:
    assert "No job steps in the system\n" == site.out("scontrol", "show", "step")
    for _ in range(3):
        site.submit("--wrap=x")
    for number in (1, 2):
        site.begin(number)
    note_steps(site.queue, 1, None, 1, [step(0, ended=time.time()), step(1)])
    site.end(2)
    form = "%i|%j|%P|%N|%A|%b"
    one, script = "1.1|prog|queue|n[7-8]|2|(null)\n", "1.batch|batch|queue|n7|1|(null)\n"
    assert one + script == site.out("squeue", "-s", "-h", "-o", form)
    assert one == site.out("squeue", "-h", "-o", form, "-s", "1.1")
    assert "" == site.out("squeue", "-s", "-h", "-j", "3")
    assert "STEPID              STATE               \n" == site.out(
        "squeue", "-s", "1.7", "-O", "StepID,StepState"
    )
    head, line, _ = site.out("squeue", "-s").splitlines()
    assert "         STEPID     NAME PARTITION     USER      TIME NODELIST" == head
    assert line.split()[0:3] == ["1.1", "prog", "queue"]
    shown = site.out("scontrol", "-o", "show", "step", "1.1")
    assert "StepId=1.1 UserId=" in shown
    assert (
        " State=RUNNING Partition=queue NodeList=n[7-8] Nodes=2 CPUs=4 Tasks=2 Name=prog" in shown
    )
    assert site.out("scontrol", "show", "step", "1").count("StepId=1.") == 2


def test_one_step_is_ended_or_gets_a_signal(site: SlurmSite) -> None:
    number = site.submit("--wrap=x")
    site.begin(number)
    note_steps(site.queue, number, None, 1, [step(0, ended=time.time()), step(1)])
    assert "" == site.out("scancel", "1.1")
    assert "" == site.out("scancel", "-s", "USR1", "1.1")
    wishes = [wish for _, wish in site.queue.wishes_from(1)]
    assert [(1, signal.SIGKILL), (1, signal.SIGUSR1)] == [(one.step, one.signal) for one in wishes]
    assert {"signal"} == {one.what for one in wishes}
    for name in ("1.0", "1.2", "9.0"):
        found = site.answer("scancel", name)
        why = f"scancel: error: Kill job error on job step id {name}: Invalid job id specified"
        assert (why, 1) == (found.err.strip(), found.status)


def test_steps_begin_where_the_worker_can_be_asked(site: SlurmSite) -> None:
    found = site.answer("srun", "hostname", GRAIN_JOB_ID="12", SLURM_JOB_ID="12")
    assert ("", 1) == (found.out, found.status)
    assert "steps begin in the job's script" in found.err


def test_what_cannot_be_read_is_tried_again_for_half_a_minute() -> None:
    here, now, tries = Here("squeue"), [0.0], [0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def read(failures: int) -> str:
        tries[0] += 1
        if tries[0] <= failures:
            raise CannotWrite("stale", 116)
        return "all"

    found = patiently(here, "x", lambda: read(5), clock=lambda: now[0], sleep=sleep)
    assert (found, tries[0]) == ("all", 6)
    began = now[0]
    with pytest.raises(CommandFailed) as caught:
        patiently(here, "x error", lambda: read(10**6), clock=lambda: now[0], sleep=sleep)
    assert now[0] - began == PATIENCE
    assert str(caught.value) == (
        "x error: Unable to contact slurm controller (connect failure)\nsqueue: (Grain) stale"
    )
