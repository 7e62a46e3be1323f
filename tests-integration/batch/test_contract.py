"""The behaviour of Slurm that Grain relies on, the same for the fake and for a real one."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_batch.start import Batch, until

# It takes both signals, logs them, and goes on until there is a file.
STUBBORN = """\
#!/bin/bash
trap 'echo shell TERM' TERM
trap 'echo shell USR1' USR1
bash -c 'trap "echo child TERM" TERM; trap "echo child USR1" USR1; echo $$ > part; mv part ready
    until [ -e stop ]; do sleep 0.1; done' &
until [ -e stop ]; do wait; done
"""

# What a real Slurm shows soon is compared by day, the rest by night.
REAL_TOO = pytest.mark.parametrize("slurm", ["fake", "real"], indirect=True)
# Seconds from SIGTERM to SIGKILL in the fake.
KILL_WAIT = 30


def submit(slurm: Batch, folder: Path, script: str, *options: str) -> str:
    """Submit a script that writes to ``out`` in its folder; the job's id."""
    words = ["sbatch", "--parsable", "--output=out", *options]
    return slurm.out(*words, cwd=folder, stdin=script)


def shown(slurm: Batch, job: str) -> dict[str, str]:
    """The fields of ``scontrol show job``."""
    words = slurm.out("scontrol", "show", "job", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def state(slurm: Batch, job: str) -> str:
    return shown(slurm, job)["JobState"]


def text(folder: Path, name: str = "out") -> str:
    try:
        return (folder / name).read_text()
    except FileNotFoundError:
        return ""


def command_of(pid: str) -> str:
    """The command line of a process; empty if there is none."""
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@REAL_TOO
def test_job_runs_and_is_known_afterwards(slurm: Batch, tmp_path: Path) -> None:
    """A script runs in the folder of submission, with its id and node, and its end is recorded."""
    script = "#!/bin/bash\necho $SLURM_JOB_ID $SLURMD_NODENAME $SLURM_CPUS_ON_NODE\npwd\nexit 3\n"

    job = submit(slurm, tmp_path, script, "--cpus-per-task=2", "--nodes=1", "--ntasks=1")
    until(lambda: state(slurm, job) == "FAILED")

    words = text(tmp_path).split()
    assert [job, "2", str(tmp_path)] == [words[0], words[2], words[3]]
    assert words[1] in {"n1", "n2", "n3"}
    assert "3:0" == shown(slurm, job)["ExitCode"]
    assert f"{job}|FAILED|NonZeroExitCode" == slurm.out(
        "squeue", "-h", "-t", "all", "-o", "%i|%T|%r", "-j", job
    )
    assert "" == slurm.out("squeue", "-h", "-j", job)


REFUSALS = [
    (
        ["--partition=nope"],
        1,
        (
            "sbatch: error: invalid partition specified: nope\n"
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
        ),
    ),
    (
        ["--mem=9999G"],
        1,
        (
            "sbatch: error: Memory specification can not be satisfied\n"
            "sbatch: error: Batch job submission failed: "
            "Requested node configuration is not available\n"
        ),
    ),
    (
        ["--array=0-99999"],
        1,
        "sbatch: error: Batch job submission failed: Invalid job array specification\n",
    ),
    (["--nope"], 255, "sbatch: unrecognized option '--nope'\n"),
    (["--time=5x"], 255, "sbatch: error: Invalid --time specification\n"),
    (["/nonexistent.sh"], 1, "sbatch: error: Unable to open file /nonexistent.sh\n"),
]


@REAL_TOO
@pytest.mark.parametrize(("options", "code", "message"), REFUSALS)
def test_an_impossible_request_is_refused_on_standard_error(
    slurm: Batch, options: list[str], code: int, message: str
) -> None:
    """An impossible request is refused at once, on standard error."""
    done = slurm.run("sbatch", *options, stdin="#!/bin/sh\n")

    assert code == done.returncode
    assert done.stderr.startswith(message)
    assert "" == done.stdout


@REAL_TOO
def test_a_text_without_a_shebang_is_refused(slurm: Batch) -> None:
    """A text without a first line of a script is refused."""
    done = slurm.run("sbatch", stdin="echo hi\n")

    assert 1 == done.returncode
    assert done.stderr.startswith("sbatch: error: This does not look like a batch script.")


@REAL_TOO
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--partition=short", "--time=10"], "PartitionTimeLimit"),
        (["--nodes=9"], "PartitionNodeLimit"),
        (["--cpus-per-task=99"], "PartitionConfig"),
    ],
)
def test_accepted_for_ever(slurm: Batch, tmp_path: Path, options: list[str], reason: str) -> None:
    """Some requests are accepted and never start; squeue shows the reason."""
    job = submit(slurm, tmp_path, "#!/bin/sh\n", *options)

    until(lambda: slurm.out("squeue", "-h", "-o", "%T|%r", "-j", job) == f"PENDING|{reason}")
    slurm.out("scancel", job)
    until(lambda: state(slurm, job) == "CANCELLED")


@REAL_TOO
def test_output_into_a_missing_folder(slurm: Batch, tmp_path: Path) -> None:
    """It is accepted, and fails without a trace but for its record."""
    job = submit(slurm, tmp_path, "#!/bin/sh\necho hi\n", "--output=missing/out")

    until(lambda: state(slurm, job) == "FAILED")
    assert ("0:53", "JobLaunchFailure") == (
        shown(slurm, job)["ExitCode"],
        shown(slurm, job)["Reason"],
    )


@REAL_TOO
def test_unknown_ids(slurm: Batch) -> None:
    """scancel passes over them, squeue and scontrol fail, and none takes what is not an id."""
    cancelled = slurm.run("scancel", "99999")
    listed = slurm.run("squeue", "-j", "99999")
    both = slurm.run("squeue", "-h", "-j", "99998,99999")
    requeued = slurm.run("scontrol", "requeue", "99999")
    bad = slurm.run("squeue", "-j", "abc")

    assert (0, "", "") == (cancelled.returncode, cancelled.stdout, cancelled.stderr)
    assert (1, "slurm_load_jobs error: Invalid job id specified\n") == (
        listed.returncode,
        listed.stderr,
    )
    assert (0, "") == (both.returncode, both.stdout)
    assert (1, "Invalid job id specified for job 99999\n") == (requeued.returncode, requeued.stderr)
    assert (1, "squeue: error: Invalid job id: abc\n") == (bad.returncode, bad.stderr)


@REAL_TOO
def test_array_tasks_have_their_own_ids_and_outputs(slurm: Batch, tmp_path: Path) -> None:
    """Tasks have ids of their own, the last one the array's; %a keeps their outputs apart."""
    script = "#!/bin/bash\necho $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_JOB_ID\n"

    job = submit(slurm, tmp_path, script, "--array=0-2", "--output=out.%A.%a", "--mem=100")
    listed = slurm.out("squeue", "-h", "-r", "-t", "all", "-o", "%i", "-j", job).split()
    names = [f"out.{job}.{index}" for index in range(3)]
    until(lambda: all(text(tmp_path, name).strip() for name in names))

    lines = [text(tmp_path, name).split() for name in names]
    assert [f"{job}_{index}" for index in range(3)] == sorted(listed)
    assert [[job, str(index)] for index in range(3)] == [words[:2] for words in lines]
    assert 3 == len({words[2] for words in lines})
    assert job in {words[2] for words in lines}


@REAL_TOO
def test_waiting_tasks_of_an_array_are_one_line(slurm: Batch, tmp_path: Path) -> None:
    """Unless each is asked for."""
    job = submit(slurm, tmp_path, "#!/bin/sh\n", "--array=0-2%1", "-p", "short", "-t", "9")

    assert f"{job}_[0-2%1]" == slurm.out("squeue", "-h", "-o", "%i", "-j", job)
    assert 3 == len(slurm.out("squeue", "-h", "-r", "-o", "%i", "-j", job).split())
    slurm.out("scancel", job)


def test_cancelled_job_has_its_say(slurm: Batch, tmp_path: Path) -> None:
    """SIGTERM goes to all processes of a job; those that go on are killed after KillWait."""
    job = submit(slurm, tmp_path, STUBBORN)
    until((tmp_path / "ready").exists)

    slurm.out("scancel", job)
    until(lambda: "child TERM" in text(tmp_path) and "shell TERM" in text(tmp_path))
    slurm.let_pass(KILL_WAIT)
    until(lambda: state(slurm, job) == "CANCELLED")

    assert f"*** JOB {job} ON n" in text(tmp_path)
    assert "child TERM" not in command_of(text(tmp_path, "ready").strip()), "the child goes on"


@REAL_TOO
def test_signals_by_scancel(slurm: Batch, tmp_path: Path) -> None:
    """With --batch a signal goes to the shell alone; without, to steps, of which there are none."""
    job = submit(slurm, tmp_path, STUBBORN)
    until((tmp_path / "ready").exists)

    slurm.out("scancel", "--signal=TERM", job)
    slurm.out("scancel", "--signal=USR1", "--batch", job)
    until(lambda: "shell USR1" in text(tmp_path))

    assert "shell USR1\n" == text(tmp_path)
    (tmp_path / "stop").touch()
    until(lambda: state(slurm, job) == "COMPLETED")


def test_a_requeued_job_keeps_its_id_and_waits_two_minutes(slurm: Batch, tmp_path: Path) -> None:
    """A job goes back to the queue for two minutes, unless released before; it keeps its id."""
    script = "#!/bin/bash\necho start $SLURM_JOB_ID $SLURM_RESTART_COUNT\nsleep 60\n"
    job = submit(slurm, tmp_path, script, "--open-mode=append")
    until(lambda: "start" in text(tmp_path))

    slurm.out("scontrol", "requeue", job)
    # The reason comes with the scheduler's next look at the queue.
    waits = {"JobState": "PENDING", "Reason": "BeginTime"}
    until(lambda: waits.items() <= shown(slurm, job).items())
    slurm.out("scontrol", "update", f"jobid={job}", "StartTime=now")
    until(lambda: text(tmp_path).count("start") == 2)

    assert "1" == shown(slurm, job)["Restarts"]
    starts = [line for line in text(tmp_path).splitlines() if line.startswith("start")]
    assert [f"start {job}", f"start {job} 1"] == [line.strip() for line in starts]
    slurm.out("scancel", job)


@REAL_TOO
def test_node_taken_down(slurm: Batch, tmp_path: Path) -> None:
    """The jobs of a node that an operator takes down are queued again."""
    # All cores of a node, so that no other test has a job there.
    job = submit(slurm, tmp_path, STUBBORN, "--cpus-per-task=4")
    until((tmp_path / "ready").exists)
    node = slurm.out("squeue", "-h", "-o", "%N", "-j", job)

    slurm.out("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    until(lambda: state(slurm, job) == "PENDING")
    slurm.out("scancel", job)
    slurm.out("scontrol", "update", f"nodename={node}", "state=resume")

    until(lambda: "CANCELLED" == state(slurm, job))


@REAL_TOO
def test_quotes_keep_a_hash_and_spaces_in_a_directive(slurm: Batch, tmp_path: Path) -> None:
    """Quotes keep a "#" and spaces in a value; outside of them a "#" ends the line."""
    script = (
        "#!/bin/bash\n"
        '#SBATCH --job-name="a b#c" --output="x \\"y\\" # z" # --nope\n'
        "# a comment\n"
        "#SBATCH --comment=d#e\n"
        "echo $SLURM_JOB_NAME\n"
        "#SBATCH --nope\n"
    )

    slurm.out("sbatch", cwd=tmp_path, stdin=script)

    until(lambda: text(tmp_path, 'x "y" # z'))
    assert "a b#c\n" == text(tmp_path, 'x "y" # z')


@REAL_TOO
def test_sinfo_lists_partitions_with_limits_and_nodes(slurm: Batch) -> None:
    """sinfo lists partitions with their limits and nodes."""
    lines = slurm.out("sinfo", "-h", "-o", "%P|%l|%c|%m|%a").splitlines()

    assert {"main*|infinite|4|4000|up", "short|2:00|4|4000|up"} == set(lines)


def test_a_time_limit_warns_the_shell_then_terminates_then_kills(
    slurm: Batch, tmp_path: Path
) -> None:
    """The shell alone is warned, long before; then SIGTERM to all, and SIGKILL after KillWait."""
    job = submit(slurm, tmp_path, STUBBORN, "--time=1", "--signal=B:USR1@1")
    until((tmp_path / "ready").exists)

    slurm.let_pass(30)
    until(lambda: "shell USR1" in text(tmp_path))
    slurm.let_pass(30)
    until(lambda: "child TERM" in text(tmp_path) and "shell TERM" in text(tmp_path))
    slurm.let_pass(KILL_WAIT)
    until(lambda: state(slurm, job) == "TIMEOUT", seconds=300)

    lines = text(tmp_path).splitlines()
    first = next(line for line in lines if "slurmstepd" not in line)
    assert "shell USR1" == first
    assert "child USR1" not in lines
    assert {"shell TERM", "child TERM"} <= set(lines)
    assert any(line.endswith("DUE TO TIME LIMIT ***") for line in lines)


def test_no_process_is_left(slurm: Batch) -> None:
    """The jobs of this file are over."""
    slurm.let_pass(KILL_WAIT)
    until(lambda: slurm.out("squeue", "-h") == "")
