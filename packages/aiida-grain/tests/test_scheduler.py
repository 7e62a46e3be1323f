"""Job scripts and command lines, which Grain's own commands read."""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("aiida")

from aiida.common.datastructures import CodeRunMode
from aiida.common.exceptions import FeatureNotAvailable
from aiida.schedulers import SchedulerError
from aiida.schedulers.datastructures import JobTemplate, JobTemplateCodeInfo

from aiida_grain.resources import GrainJobResource
from aiida_grain.scheduler import GrainScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from grain.queue.records import Job
    from grain_testkit.job_commands import JobCommands

    Typed = Callable[[str], tuple[int, str, str]]

SCHEDULER = GrainScheduler()


def template(mpirun: tuple[str, ...] = (), **fields: Any) -> JobTemplate:
    """A job as AiiDA describes it."""
    code = JobTemplateCodeInfo()
    code.prepend_cmdline_params = list(mpirun)
    code.cmdline_params = ["/bin/true"]
    job = JobTemplate()
    job.codes_info = [code]
    job.codes_run_mode = CodeRunMode.SERIAL
    job.job_name = "aiida-12"
    resources = fields.pop("resources", {"num_machines": 1, "num_mpiprocs_per_machine": 1})
    job.job_resource = GrainJobResource(**resources)
    for name, value in fields.items():
        job[name] = value
    return job


def submitted(jobs: JobCommands, job: JobTemplate) -> Job:
    """Submit the script of a job, and return the job of Grain."""
    (jobs.home / "_aiidasubmit.sh").write_text(SCHEDULER.get_submit_script(job))
    done = jobs.grain("submit", "--json", "--", "_aiidasubmit.sh")
    assert done.exit_code == 0, done.output
    return jobs.queue.job(jobs.queue.jobs.end() - 1)


def test_aiida_finds_the_plug_in() -> None:
    [found] = entry_points(group="aiida.schedulers", name="grain")
    assert found.load() is GrainScheduler


def test_a_job_on_several_machines_asks_for_so_many_workers(jobs: JobCommands) -> None:
    resources = {"num_machines": 2, "num_mpiprocs_per_machine": 4, "memory": 3}

    job = submitted(jobs, template(resources=resources))

    assert {"Gang": {"count": 2, "of": {"Cores": 4, "Memory": 3}}} == job.request
    assert "8" == job.options["ntasks"]


def test_a_script_as_it_is_written() -> None:
    job = template(
        sched_output_path="_scheduler-stdout.txt", sched_error_path="_scheduler-stderr.txt",
        max_wallclock_seconds=600, max_memory_kb=97 * 1024, account="acct", qos="high",
        custom_scheduler_commands="#GRAIN --retries 2", job_environment={"A": "b"},
    )  # fmt: skip
    assert SCHEDULER.get_submit_script(job).rstrip() == (
        "#!/bin/bash\n"
        "#GRAIN --name aiida-12\n"
        "#GRAIN --res Cores=1,Memory=0.101712\n"
        "#GRAIN --time 600s\n"
        "#GRAIN --no-requeue\n"
        "#GRAIN --stdout _scheduler-stdout.txt\n"
        "#GRAIN --stderr _scheduler-stderr.txt\n"
        "#SBATCH --account=acct\n"
        "#SBATCH --qos=high\n"
        "#GRAIN --retries 2\n"
        "\n"
        "# ENVIRONMENT VARIABLES BEGIN ###\n"
        "export A='b'\n"
        "# ENVIRONMENT VARIABLES END ###\n"
        "\n"
        "'/bin/true'"
    )


def test_options_reach_the_job(jobs: JobCommands) -> None:
    job = submitted(
        jobs,
        template(
            resources={"cores": 4, "memory": 2.5, "gpus": 1}, max_memory_kb=1, priority="7",
            max_wallclock_seconds=90, submit_as_hold=True, sched_output_path="a b%j.txt",
            sched_error_path="err", import_sys_environment=True, account="x y", qos="z",
            custom_scheduler_commands="#GRAIN --retries 2",
        ),
    )  # fmt: skip
    assert ("aiida-12", {"Cores": 4, "Memory": 2.5, "GPUs": 1}) == (job.name, job.request)
    assert (7, 90.0, True, 2) == (job.priority, job.timeout, job.held, job.retries)
    # As AiiDA looks for them.
    assert ("a b%%j.txt", "err") == (job.stdout, job.stderr)
    assert not job.requeue
    assert "XDG_STATE_HOME" in job.environment


def test_a_job_may_run_again_and_may_have_a_clean_environment(jobs: JobCommands) -> None:
    job = submitted(jobs, template(rerunnable=True, import_sys_environment=False))
    assert job.requeue
    assert "XDG_STATE_HOME" not in job.environment


def test_one_file_for_both_outputs(jobs: JobCommands) -> None:
    job = submitted(
        jobs, template(sched_output_path="out", sched_error_path="out", sched_join_files=True)
    )
    assert ("out", "") == (job.stdout, job.stderr)


def test_memory_of_a_group_is_at_most_what_was_asked_for(jobs: JobCommands) -> None:
    job = submitted(jobs, template(resources={"cores": 2, "memory": 4, "memory_group": "opt"}))
    assert {"Cores": 2, "Memory": {"M": 4, "group": "opt"}} == job.request
    job = submitted(jobs, template(resources={"cores": 2, "memory_group": "opt"}))
    assert {"Cores": 2, "Memory": {"group": "opt"}} == job.request


def test_memory_is_not_less_than_was_asked_for(jobs: JobCommands) -> None:
    job = submitted(jobs, template(max_memory_kb=1))
    assert {"Cores": 1, "Memory": 0.000002} == job.request
    assert {"Cores": 1} == submitted(jobs, template(max_memory_kb=0)).request


@pytest.mark.parametrize(
    ("resources", "mpirun", "ranks"),
    [
        ({"num_mpiprocs_per_machine": 4}, (), "4"),
        ({"cores": 4}, ("mpirun", "-np", "4"), "4"),
        # A program with threads, for all that is known.
        ({"cores": 4}, (), None),
        ({"cores": 4, "num_mpiprocs_per_machine": 1}, ("mpirun", "-np", "1"), None),
    ],
)
def test_ranks_are_those_of_the_user_or_of_mpirun(
    jobs: JobCommands, resources: dict[str, int], mpirun: tuple[str, ...], ranks: str | None
) -> None:
    job = submitted(jobs, template(mpirun, resources=resources))
    assert (4, ranks) == (job.request["Cores"], job.options.get("ntasks"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_wallclock_seconds": 0}, "max_wallclock_seconds: 0 is not more than 0"),
        ({"max_memory_kb": -1}, "max_memory_kb: -1 is not more than 0"),
        ({"priority": "high"}, "priority: 'high' is not a whole number"),
    ],
)
def test_options_that_make_no_sense(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        SCHEDULER.get_submit_script(template(**fields))


def test_a_job_is_submitted_once_though_the_command_is_typed_twice(
    jobs: JobCommands, typed: Typed
) -> None:
    (jobs.home / "a b.sh").write_text(SCHEDULER.get_submit_script(template(queue_name="night")))
    line = SCHEDULER._get_submit_command("'a b.sh'")
    first = SCHEDULER._parse_submit_output(*typed(line))
    second = SCHEDULER._parse_submit_output(*typed(line))

    assert "night:1" == first == second
    assert "there is no job 2" in jobs.refused("jobs", "night:2")


def test_a_submission_that_failed_is_tried_again(jobs: JobCommands, typed: Typed) -> None:
    script = SCHEDULER.get_submit_script(template())
    (jobs.home / "job.sh").write_text(script.replace("--res", "--no-such-option"))
    line = SCHEDULER._get_submit_command("job.sh")
    with pytest.raises(SchedulerError, match="in a line #GRAIN: No such option"):
        SCHEDULER._parse_submit_output(*typed(line))
    (jobs.home / "job.sh").write_text(script)

    assert "queue:1" == SCHEDULER._parse_submit_output(*typed(line))


def test_jobs_of_two_queues_are_listed_and_cancelled(jobs: JobCommands, typed: Typed) -> None:
    for _ in range(4):
        jobs.submit()
    jobs.done("submit", "--queue", "night", "true")
    ids = ["night:1", *(f"queue:{number}" for number in (4, 1, 2))]

    found = SCHEDULER._parse_joblist_output(*typed(SCHEDULER._get_joblist_command(ids)))
    assert sorted(ids) == sorted(one.job_id for one in found)
    assert SCHEDULER._parse_kill_output(*typed(SCHEDULER._get_kill_command("night:1")))
    assert "  by " in jobs.done("jobs", "night:1")
    assert SCHEDULER._parse_kill_output(*typed(SCHEDULER._get_kill_command("night:1")))


def test_an_answer_without_a_job_that_was_asked_for_is_an_error(
    jobs: JobCommands, typed: Typed
) -> None:
    """AiiDA would fetch its files at once."""
    jobs.submit()
    jobs.submit()
    jobs.done("submit", "--queue", "night", "true")
    for asked in (["queue:1", "queue:2", "queue:3"], ["night:3", "queue:1"]):
        line = SCHEDULER._get_joblist_command(asked)
        with pytest.raises(SchedulerError, match="there is no job 3: the last one is"):
            SCHEDULER._parse_joblist_output(*typed(line))


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        (["queue:12"], "queue:12"),
        (["queue:12", "queue:13", "queue:14"], "queue:12-13,14"),
        (["queue:20", "queue:3", "queue:1", "queue:2", "queue:20"], "queue:1-3,20"),
        (["queue:7", "queue:9", "queue:11"], "queue:7,9,11"),
        (["12"], "12"),
        ([], ""),
    ],
)
def test_the_last_job_is_named_by_itself(jobs: list[str], words: str) -> None:
    line = SCHEDULER._get_joblist_command(jobs)
    assert f'"$grain" jobs --json {words}'.rstrip() == line.rpartition("; ")[2]


def test_ten_thousand_jobs_fit_into_a_command_line() -> None:
    line = SCHEDULER._get_joblist_command([f"queue:{number}" for number in range(1, 10_001)])
    assert line.endswith('"$grain" jobs --json queue:1-9999,10000')


def test_a_queue_has_the_jobs_of_one_user() -> None:
    assert not SCHEDULER.get_feature("can_query_by_user")
    with pytest.raises(FeatureNotAvailable):
        SCHEDULER._get_joblist_command(user="ann")


def test_where_nothing_was_submitted_the_list_is_empty(
    jobs: JobCommands, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(jobs.home / "other"))
    assert [] == SCHEDULER._parse_joblist_output(*typed(SCHEDULER._get_joblist_command()))


def test_without_a_link_the_path_of_a_login_shell_counts(jobs: JobCommands, typed: Typed) -> None:
    jobs.submit()
    (jobs.home / ".local/bin").rename(jobs.home / "programs")
    (jobs.home / ".bash_profile").write_text('PATH="$HOME/programs:$PATH"\n')

    [found] = SCHEDULER._parse_joblist_output(*typed(SCHEDULER._get_joblist_command(["queue:1"])))
    assert "queue:1" == found.job_id


def test_a_grain_that_is_not_found_comes_with_a_remedy(jobs: JobCommands, typed: Typed) -> None:
    (jobs.home / ".local/bin/grain").unlink()
    for line, parse in (
        (SCHEDULER._get_joblist_command(), SCHEDULER._parse_joblist_output),
        (SCHEDULER._get_submit_command("job.sh"), SCHEDULER._parse_submit_output),
    ):
        with pytest.raises(SchedulerError, match=r"mkdir -p ~/.local/bin && ln -s"):
            parse(*typed(line))


def test_a_job_that_cannot_be_cancelled_is_an_error(
    jobs: JobCommands, typed: Typed, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.submit()
    assert not SCHEDULER._parse_kill_output(*typed(SCHEDULER._get_kill_command("queue:2")))
    assert "there is no job 2" in caplog.text


def test_how_a_job_ended_is_read_from_what_is_known_of_it(jobs: JobCommands, typed: Typed) -> None:
    jobs.end(jobs.submit(), how="timeout")
    retval, stdout, stderr = typed(SCHEDULER._get_detailed_job_info_command("queue:1"))
    code = SCHEDULER.parse_output({"retval": retval, "stdout": stdout, "stderr": stderr}, "", "")
    assert code is not None
    assert "The job ran out of walltime." == code.message
    assert SCHEDULER.parse_output(None, "", "") is None


def test_a_job_that_waits_without_a_dispatcher_is_logged(
    jobs: JobCommands, caplog: pytest.LogCaptureFixture
) -> None:
    done = jobs.grain("submit", "--json", "--queue", "night", "true")
    with caplog.at_level(logging.WARNING):
        assert "night:1" == SCHEDULER._parse_submit_output(0, done.stdout, done.stderr)
    assert "job 1 waits: no dispatcher could be started" in caplog.text
