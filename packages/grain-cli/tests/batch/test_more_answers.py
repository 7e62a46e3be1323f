"""What Grid Engine, LSF, HTCondor, Flux, OAR and other hosts are asked, and what they answer."""

from __future__ import annotations

import pickle
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import BatchError, BatchJob, JobPhase, JobState, SubmissionUnknown
from grain.cli.batch.command import Commands
from grain.cli.batch.systems import custom, flux, htcondor, lsf, oar, sge, slurm, ssh
from grain.config import Script
from grain_testkit.local_processes import alive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

JOB = BatchJob("w", "", Script(), "true")
# As Grid Engine 8.1.9 printed it, less what is not read.
QSTAT = """\
<?xml version='1.0'?>
<job_info  xmlns:xsd="http://arc.liv.ac.uk/repos/darcs/sge/qstat.xsd">
  <queue_info>
    <job_list state="running">
      <JB_job_number>3</JB_job_number>
      <JAT_prio>0.25000</JAT_prio>
      <state>r</state>
      <queue_name>main.q@n1.site</queue_name>
      <slots>1</slots>
    </job_list>
    <job_list state="running">
      <JB_job_number>4</JB_job_number>
      <state>dr</state>
      <queue_name>main.q@n2</queue_name>
    </job_list>
  </queue_info>
  <job_info>
{waiting}
  </job_info>
</job_info>
"""
QCONF = """\
#name               shortcut   type      relop requestable consumable default  urgency
#--------------------------------------------------------------------------------------
h_rss               h_rss      MEMORY    <=    YES         JOB        0        0
h_vmem              h_vmem     MEMORY    <=    YES         {h_vmem}        1G       0
mem_free            mf         MEMORY    <=    YES         NO         0        0
# >#< starts a comment but comments are not saved across edits --------
"""
STATES = [
    ("qw", JobPhase.PENDING), ("hqw", JobPhase.STUCK), ("Eqw", JobPhase.STUCK),
    ("t", JobPhase.RUNNING), ("Rq", JobPhase.PENDING), ("Rr", JobPhase.RUNNING),
    ("Rt", JobPhase.RUNNING), ("s", JobPhase.RUNNING), ("S", JobPhase.RUNNING),
    ("hr", JobPhase.RUNNING), ("dqw", JobPhase.ENDING), ("x?", JobPhase.UNKNOWN),
]  # fmt: skip


def test_the_letters_of_grid_engine_become_states() -> None:
    """A job that is not listed has ended; one letter more or less may mean all."""
    waiting = "".join(
        f"<job_list><JB_job_number>{number}</JB_job_number><state>{letters}</state>"
        "<queue_name></queue_name></job_list>"
        for number, (letters, _) in enumerate(STATES, 10)
    )
    ids = ["3", "4", "99", *map(str, range(10, 10 + len(STATES)))]

    states = sge.states(QSTAT.format(waiting=waiting), ids)

    assert JobState(JobPhase.RUNNING, "", "n1.site") == states["3"]
    assert JobState(JobPhase.ENDING, "dr", "n2") == states["4"]
    assert JobState(JobPhase.GONE) == states["99"]
    assert [phase for _, phase in STATES] == [state.phase for state in states.values()][3:]


def test_the_cause_of_an_error_is_read_from_qstat() -> None:
    output = (
        "job_number:                 4\n"
        "error reason          1:      11/22/2026 04:58:26 [1000:18]: error: can't open output "
        'file "/x": Permission denied\n'
    )

    assert {"4": 'error: can\'t open output file "/x": Permission denied'} == sge.error_reasons(
        output
    )


@pytest.mark.parametrize(
    ("h_vmem", "asked", "request_"),
    [
        ("YES", Script(memory=60.0, cores=16), "h_vmem=3840M"),
        ("YES", Script(memory=1.0, cores=3), "h_vmem=342M"),
        ("YES", Script(memory=2.5), "h_vmem=2560M"),
        ("JOB", Script(memory=60.0, cores=16), "h_vmem=61440M"),
        ("NO", Script(memory=60.0, cores=16), "h_rss=61440M"),
        ("YES", Script(memory=60.0, cores=16, memory_resource="mem_free"), "mem_free=61440M"),
        ("YES", Script(memory=60.0, cores=16, memory_resource="mf"), "mf=61440M"),
    ],
)
def test_memory_is_asked_for_as_the_site_counts_it(
    h_vmem: str, asked: Script, request_: str
) -> None:
    """By slot, rounded up, or once for the job; by the first resource that is counted."""
    site = sge.resources(QCONF.format(h_vmem=h_vmem))

    assert request_ == sge.memory_option(asked, site)


def test_a_site_without_memory_that_is_counted_says_what_to_set() -> None:
    site = sge.resources(QCONF.format(h_vmem="NO").replace("JOB", "NO "))

    with pytest.raises(BatchError, match="counts memory by none of h_vmem") as info:
        sge.memory_option(Script(memory=1.0), site)
    assert "script.memory_resource" in info.value.remedy
    with pytest.raises(BatchError, match="this Grid Engine has no resource 'ram'"):
        sge.memory_option(Script(memory=1.0, memory_resource="ram"), site)


def test_the_parallel_environment_is_the_one_that_gives_slots_of_one_node() -> None:
    one = Script(cores=4)

    assert sge.fits("pe_name            smp\nallocation_rule    $pe_slots\n", one)
    assert not sge.fits("pe_name            mpi\nallocation_rule    $fill_up\n", one)
    assert "smp" == sge.choose_environment(["smp"], one)
    with pytest.raises(BatchError, match="give slots of one node: smp, threads"):
        sge.choose_environment(["smp", "threads"], one)
    with pytest.raises(BatchError, match="no parallel environment of this Grid Engine"):
        sge.choose_environment([], one)


def test_that_of_several_nodes_gives_each_the_same_and_has_qrsh_start_workers() -> None:
    several = Script(nodes=3, cores=4)
    four = "allocation_rule    4\ncontrol_slaves     {}\n"

    assert sge.fits(four.format("TRUE"), several)
    assert not sge.fits(four.format("FALSE"), several)
    assert not sge.fits(four.format("TRUE"), Script(nodes=3, cores=8))
    assert not sge.fits("allocation_rule $fill_up\ncontrol_slaves TRUE\n", several)
    assert sge.fits("allocation_rule 1\ncontrol_slaves TRUE\n", Script(nodes=3))
    with pytest.raises(BatchError, match="gives 4 slots on each of several nodes") as info:
        sge.choose_environment([], several)
    assert info.value.what.startswith("script.nodes: ")


@pytest.mark.parametrize("path", ["/a,b", '/a"b', "/a'b", "/a#b"])
def test_an_output_that_grid_engine_would_cut_is_refused(
    path: str, job_of: Callable[..., BatchJob]
) -> None:
    with pytest.raises(BatchError, match="Grid Engine takes no "):
        sge.script(replace(job_of(""), log_file=path))


def test_bjobs_records_become_states() -> None:
    output = """{"COMMAND": "bjobs", "JOBS": 4, "RECORDS": [
        {"JOBID": "1", "STAT": "RUN", "EXEC_HOST": "16*n1", "PEND_REASON": ""},
        {"JOBID": "2", "STAT": "PEND", "EXEC_HOST": "", "PEND_REASON": "New job"},
        {"JOBID": "3", "STAT": "PSUSP", "EXEC_HOST": "", "PEND_REASON": "by its owner"},
        {"JOBID": "4", "STAT": "UNKWN", "EXEC_HOST": "n1:n1", "PEND_REASON": ""},
        {"JOBID": "5", "STAT": "NEW", "EXEC_HOST": "", "PEND_REASON": ""},
        {"JOBID": "9", "ERROR": "Job <9> is not found"}]}"""

    assert {
        "1": JobState(JobPhase.RUNNING, "", "n1"),
        "2": JobState(JobPhase.PENDING, "New job"),
        "3": JobState(JobPhase.STUCK, "PSUSP by its owner"),
        "4": JobState(JobPhase.RUNNING, "UNKWN", "n1"),
        "5": JobState(JobPhase.UNKNOWN, "NEW"),
        "9": JobState(JobPhase.GONE),
    } == lsf.states(output, ["1", "2", "3", "4", "5", "9"])


def test_condor_q_prints_nothing_for_no_jobs() -> None:
    output = """[
        {"ClusterId": 1, "ProcId": 0, "JobStatus": 2, "RemoteHost": "slot1_2@n1.site"},
        {"ClusterId": 2, "ProcId": 0, "JobStatus": 5, "HoldReason": "via condor_hold"},
        {"ClusterId": 3, "ProcId": 0, "JobStatus": 12}]"""
    ids = ["1.0", "2.0", "3.0", "4.0"]

    assert {
        "1.0": JobState(JobPhase.RUNNING, "", "n1.site"),
        "2.0": JobState(JobPhase.STUCK, "via condor_hold"),
        "3.0": JobState(JobPhase.UNKNOWN),
        "4.0": JobState(JobPhase.GONE),
    } == htcondor.states(output, ids)
    assert dict.fromkeys(ids, JobState(JobPhase.GONE)) == htcondor.states("", ids)


def test_the_submit_description_of_htcondor(job_of: Callable[..., BatchJob]) -> None:
    """Quotes are doubled; lines of the user come after Grain's."""
    job = job_of(
        "[script]\ncores = 4\nmemory = 2.5\n"
        "extra_args = ['accounting_group = chem', '+Short = True']"
    )

    assert (
        "batch_name = w093015\n"
        "executable = /bin/sh\n"
        "transfer_executable = False\n"
        "arguments = \"'-c' 'exec \"\"$0\"\"' '/a/it''s.sh'\"\n"
        "initialdir = /home/me/run\n"
        "getenv = False\n"
        "should_transfer_files = IF_NEEDED\n"
        "output = /home/me/run/w093015.log\n"
        "error = /home/me/run/w093015.log\n"
        "stream_output = True\n"
        "stream_error = True\n"
        "want_graceful_removal = True\n"
        "job_max_vacate_time = 60\n"
        "request_cpus = 4\n"
        "request_memory = 2560\n"
        "accounting_group = chem\n"
        "+Short = True\n"
        "queue\n"
    ) == htcondor.description(job, "/a/it's.sh", "/home/me/run")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("queue = 'x'", "script.queue: HTCondor has no queues, so it cannot be 'x'"),
        ("extra_args = ['--nope']", "script.extra_args: found '--nope', expected a line of a sub"),
    ],
)
def test_htcondor_refuses_what_it_does_not_have(
    text: str, message: str, job_of: Callable[..., BatchJob]
) -> None:
    with pytest.raises(BatchError) as info:
        htcondor.description(job_of(f"[script]\n{text}"), "/x.sh", "/")

    assert info.value.what.startswith(message)


def test_flux_prints_one_job_or_several() -> None:
    """Ids are numbers there; urgency 0 means held."""
    one = '{"id": 99, "state": "RUN", "nodelist": "n1", "urgency": 16}'
    held = '{"id": 1, "state": "SCHED", "urgency": 0}'
    ended = '{"id": 2, "state": "INACTIVE", "result": "TIMEOUT"}'

    assert {"f2i": JobState(JobPhase.RUNNING, "", "n1")} == flux.states(one, ["f2i"])
    assert {
        "ƒ2": JobState(JobPhase.STUCK, "held (urgency 0)"),
        "ƒ3": JobState(JobPhase.GONE, "TIMEOUT"),
        "ƒ4": JobState(JobPhase.GONE),
    } == flux.states(f'{{"jobs": [{held}, {ended}]}}', ["ƒ2", "ƒ3", "ƒ4"])
    assert ["ƒM7Zq9", "fM7Zq9", ""] == [
        flux.submitted_id(text) for text in ("ƒM7Zq9\n", "note\nfM7Zq9\n", "oops 0\n")
    ]


def test_oarstat_lists_known_jobs_and_prints_nothing_for_others() -> None:
    output = """{"9": {"state": "Running", "assigned_network_address": ["n1"]},
        "10": {"state": "Hold"}, "11": {"state": "Error"}, "12": {"state": "toLaunch"}}"""

    assert {
        "9": JobState(JobPhase.RUNNING, "", "n1"),
        "10": JobState(JobPhase.STUCK, "Hold"),
        "11": JobState(JobPhase.GONE, "Error"),
        "12": JobState(JobPhase.PENDING, "toLaunch"),
        "13": JobState(JobPhase.GONE),
    } == oar.states(output, ["9", "10", "11", "12", "13"])
    assert {"13": JobState(JobPhase.GONE)} == oar.states("", ["13"])
    assert ["5", "", ""] == [
        oar.submitted_id(text)
        for text in ("[ADMISSION RULE] x\nOAR_JOB_ID=5\n", "OAR_JOB_ID=-5\n", "")
    ]


@pytest.mark.parametrize("read", [sge.states, lsf.states, htcondor.states, flux.states, oar.states])
@pytest.mark.parametrize(
    "output", ["Bitte warten", "<html><body/></html>", "[1, 2]", '{"jobs": 3, "RECORDS": 3}', "{"]
)
def test_an_answer_in_another_form_is_an_error_and_no_end(
    read: Callable[[str, list[str]], object], output: str
) -> None:
    """A job that is alive would be submitted again."""
    with pytest.raises(BatchError, match="printed something that Grain cannot read"):
        read(output, ["1"])


def test_hosts_share_their_cpus_and_answers_are_complete() -> None:
    """An answer that was cut off is none."""
    ids = ["n1:7:100", "n1:8:100"]

    assert ssh.StartedProcess(7, "100", (0, 2)) == ssh.started(
        "n1", "motd\ngrain-started 7 100 0,2\ngrain-end\n"
    )
    assert [JobPhase.RUNNING, JobPhase.GONE] == [
        state.phase for state in ssh.states("n1", "7 100\n8 200\ngrain-end\n", ids).values()
    ]
    with pytest.raises(BatchError, match="printed something that Grain cannot read"):
        ssh.states("n1", "7 100\n", ids)
    with pytest.raises(BatchError, match="1 CPU of n1 is free, too few for a worker with 2"):
        ssh.started("n1", "grain-few 1 2\n")


def test_the_cpus_of_other_workers_are_not_given_again(job_of: Callable[..., BatchJob]) -> None:
    job = job_of("[script]\ncores = 1")
    taken = {cpu for cpu in range(4096) if cpu}
    place = ssh.SharedHost("n1", 1)

    text = ssh.start(job, "/nonexistent", place, taken | {0})

    done = subprocess.run(["sh", "-s"], input=text, capture_output=True, text=True, check=False)
    assert "grain-few 0 1\n" == done.stdout


@pytest.mark.parametrize(
    ("pattern", "output", "number"),
    [
        ("", "a banner\n 7 \n", "7"),
        (r"Job (\d+) submitted", "[INFO] PJM 0000 pjsub Job 239 submitted.", "239"),
        (r"\d+\.site", "x 5.site y", "5.site"),
    ],
)
def test_the_id_of_a_custom_job_is_what_its_pattern_matches(
    pattern: str, output: str, number: str
) -> None:
    assert number == custom.submitted_id(output, pattern)


def test_a_custom_job_whose_id_is_not_printed_is_an_error() -> None:
    with pytest.raises(BatchError, match="custom_system.submit_cmd printed no job id"):
        custom.submitted_id("queued", r"Job (\d+)")


def test_custom_states_are_lines_of_id_word_and_reason() -> None:
    """Headings and others' jobs do not matter; an unexplained word tells nothing."""
    output = "JOB ST\n1 QUE it waits\n2 running\n3 HUH\n4 QUE\n"

    assert {
        "1": JobState(JobPhase.PENDING, "it waits"),
        "2": JobState(JobPhase.RUNNING),
        "3": JobState(JobPhase.UNKNOWN, "custom_system.phases does not have 'HUH'"),
        "5": JobState(JobPhase.GONE),
    } == custom.states(output, {"QUE": "pending"}, ["1", "2", "3", "5"])


@pytest.mark.parametrize("reason", ["JobHeldUser", "QOSMaxCpuPerJobLimit", "PartitionConfig"])
def test_slurm_jobs_that_never_start_are_stuck(reason: str) -> None:
    [state] = slurm.states(f"1|PENDING|{reason}|\n", ["1"]).values()

    assert JobState(JobPhase.STUCK, reason) == state


@pytest.mark.parametrize(
    "text",
    [
        "Broken pipe",
        *(
            f"sbatch: error: Batch job submission failed: {error}"
            for error in (
                "Socket timed out on send/recv operation",
                "Zero Bytes were transmitted or received",
                "Transport endpoint is not connected",
                "Unexpected message received",
                "Communication connection failure",
                "Communication shutdown failure",
                "Message send failure",
                "Message receive failure",
                "Insane message length",
                "Header lengths are longer than data received",
            )
        ),
    ],
)
def test_a_connection_that_breaks_leaves_a_submission_in_doubt(text: str) -> None:
    """An error that says no is none."""
    submission = Commands().submission

    with pytest.raises(SubmissionUnknown, match="failed"):
        submission(["sh", "-c", f"echo {text!r} >&2; exit 1"], [JOB])
    with pytest.raises(SubmissionUnknown, match="failed"):
        submission(["sh", "-c", "kill -9 $$"], [JOB])
    with pytest.raises(BatchError, match="no such partition") as info:
        submission(["sh", "-c", "echo no such partition >&2; exit 1"], [JOB])
    assert not isinstance(info.value, SubmissionUnknown)


@pytest.mark.parametrize("read", [sge.named, lsf.named, htcondor.named, oar.named])
@pytest.mark.parametrize("output", ["Bitte warten", "<html><body/></html>", "[1, 2]", "{"])
def test_a_list_of_names_in_another_form_is_an_error_and_not_empty(
    read: Callable[[str], object], output: str
) -> None:
    """A job that it hides would be submitted again."""
    with pytest.raises(BatchError, match="printed something that Grain cannot read"):
        read(output)


def test_a_list_of_scripts_that_was_cut_off_is_an_error() -> None:
    whole = "grain-job- 7 100 w-0\ngrain-end\n"

    assert [("n1:7:100", "w-0")] == ssh.named("n1", whole)
    with pytest.raises(BatchError, match="printed something that Grain cannot read"):
        ssh.named("n1", whole.removesuffix("grain-end\n"))


def test_names_are_read_with_ids() -> None:
    named = slurm.named("6_0|w093015\n6_1|w093015\n7|w093016-0\n")

    assert [("6_0", "w093015-0"), ("6_1", "w093015-1"), ("7", "w093016-0")] == list(named)
    assert [("3", "")] == sge.named(QSTAT.format(waiting=""))[:1]
    assert [] == lsf.named("") == htcondor.named("") == oar.named("") == flux.named("")
    assert [("ƒ2", "w 1"), ("f2i", "w")] == flux.named("ƒ2 w 1\nf2i w\nof none\n")


def test_a_command_that_hangs_is_ended_with_what_it_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission may have been one, and the message says so."""
    monkeypatch.setattr("grain.cli.batch.command.SECONDS", 3.0)
    script = tmp_path / "hangs"
    script.write_text(f"#!/bin/sh\nsleep 1000 & echo $! > '{tmp_path}/pid'; wait\n")
    script.chmod(0o755)

    with pytest.raises(SubmissionUnknown, match="did not end within 3 s") as info:
        Commands().run([str(script)], submits=[JOB])

    assert (JOB,) == info.value.jobs
    assert "It is unknown whether the batch system has w now" in info.value.remedy
    assert str(info.value) == str(pickle.loads(pickle.dumps(info.value)))
    pid = int((tmp_path / "pid").read_text())
    while alive(pid):  # it was killed, and that takes its time
        time.sleep(0.01)


def test_queries_are_in_english_and_submissions_as_the_user_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job may inherit the language of its submission."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    run = Commands().run
    command = ["sh", "-c", "echo $LC_ALL"]

    assert "C\n" == run(command).out
    assert "de_DE.UTF-8\n" == run(command, submits=[JOB]).out
