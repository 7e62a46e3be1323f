"""`grain up`, with commands in place of batch systems that say one thing."""

from __future__ import annotations

import datetime
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from grain.cli.batch import JobRecords, is_mark
from grain_testkit.command_line import grain

if TYPE_CHECKING:
    from click.testing import Result

Put = Callable[[str, str], Path]
SLURM = 'system = "slurm"\n'


class Clock(datetime.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
        return cls(2026, 3, 4, 9, 30, 15, tzinfo=tz)


def said(result: Result) -> str:
    """Return what a command printed below the line that names the configuration."""
    first, _, rest = result.output.partition("\n")
    assert f"Using config file {Path.cwd()}/grain.toml." == first
    return rest


def printed(*words: str) -> str:
    """Type a command; return what it prints about jobs."""
    lines = grain(*words).output.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("Using config file"))


def records(folder: Path) -> list[dict[str, object]]:
    files = sorted((folder / "state/grain/jobs").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_dry_run_submits_nothing(alone: Path, command: Put) -> None:
    """The script is printed; no command is run and no file is made."""
    command("sbatch", f"touch '{alone}/called'")
    (alone / "grain.toml").write_text(SLURM + '[worker]\nlog_file = "logs/w.log"')

    result = grain("up", "--dry", "-n", "2", "--", "--exclusive")

    assert 0 == result.exit_code
    assert result.output.startswith("#!/bin/bash\n#SBATCH --job-name=w")
    assert "\n#SBATCH --array=0-1\n" in result.output
    assert "\n#SBATCH --exclusive\n" in result.output
    assert {"bin", "grain.toml"} == {path.name for path in alone.iterdir()}


def test_workers_that_are_submitted_in_one_second_get_different_names(
    alone: Path, command: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And different logs; a name without the time is the user's choice."""
    command("sbatch", "cat > /dev/null; echo 6")
    monkeypatch.setattr("grain.cli.workers.submission.datetime", SimpleNamespace(datetime=Clock))
    (alone / "grain.toml").write_text(SLURM)
    names = [printed("up"), printed("up"), printed("up", "-n", "2")]
    assert [
        f"w093015 is job 6, output in {alone}/w093015.log\n",
        f"w093015-n2 is job 6, output in {alone}/w093015-n2.log\n",
        "".join(
            f"w093015-n3-{n} is job 6_{n}, output in {alone}/w093015-n3-{n}.log\n" for n in (0, 1)
        ),
    ] == names

    (alone / "grain.toml").write_text(SLURM + '[worker]\nname = "w"\nlog_file = "w.log"\n')
    assert 2 * [f"w is job 6, output in {alone}/w.log\n"] == [printed("up"), printed("up")]


def test_a_name_is_taken_for_an_hour(alone: Path) -> None:
    """Names have the time of a day, without the day."""
    records = JobRecords(alone / "state/grain/jobs")
    assert ["", "n2", "n3"] == [records.claim("w093015") for _ in range(3)]
    (alone / "state/grain/names/thesis-2").write_text("no claim: those are empty")
    (alone / "state/grain/names/notes").touch()
    for path in (alone / "state/grain/names").iterdir():
        os.utime(path, (1.0, 1.0))

    assert ["", "n2"] == [records.claim("w093015") for _ in range(2)]
    there = {path.name for path in (alone / "state/grain/names").iterdir()}
    assert {"thesis-2", "notes", "w093015-1", "w093015-2"} == there


def test_nothing_is_submitted_that_is_recorded_where_another_user_could_exchange_it(
    alone: Path, command: Put
) -> None:
    command("sbatch", f"touch '{alone}/called'; echo 6")
    (alone / "grain.toml").write_text(SLURM)
    (alone / "state").mkdir(exist_ok=True)
    (alone / "state").chmod(0o777)

    result = grain("up")

    assert 1 == result.exit_code
    assert f"every user may write to {alone}/state" in result.output
    assert not (alone / "called").exists()


def test_a_job_whose_command_was_killed_has_a_record(alone: Path, command: Put) -> None:
    """So that it is looked for by its name, and not submitted a second time."""
    command("sbatch", "cat > /dev/null; kill -KILL $PPID; sleep 100")
    (alone / "grain.toml").write_text(SLURM + '[worker]\nname = "w"\n')
    words = [sys.executable, "-m", "grain.cli", "up", "-n", "2"]
    done = subprocess.run(words, check=False, capture_output=True)

    assert -signal.SIGKILL == done.returncode
    left = JobRecords(alone / "state/grain/jobs").read()
    assert [("w-0", True), ("w-1", True)] == [(one.name, is_mark(one.id)) for one in left]


@pytest.mark.parametrize(
    ("options", "jobs", "more"),
    [
        (("-n", "1"), "job 6", []),
        (("-n", "2"), "job 6_0", ["w-1 is job 6_1"]),
        (("-n", "2", "--json"), "job 6_0, job 6_1", []),
    ],
)
def test_workers_whose_jobs_cannot_be_written_are_told_to_the_user(
    alone: Path, command: Put, options: tuple[str, ...], jobs: str, more: list[str]
) -> None:
    command("sbatch", "cat > /dev/null; echo 6")
    (alone / "grain.toml").write_text(SLURM + '[worker]\nname = "w"\n')
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "grain.cli", "up", *options],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    _, first, *others = done.stderr.splitlines()
    assert first == (
        f"Error: {jobs} was submitted, but its number could not be written: No space left on device"
    )
    assert more == [line.partition(",")[0] for line in others]


def test_a_refused_job_leaves_no_record(alone: Path, command: Put) -> None:
    command("sbatch", "cat > /dev/null; echo no >&2; exit 1")
    (alone / "grain.toml").write_text(SLURM + '[worker]\nname = "w"\n')

    assert 1 == grain("up").exit_code
    assert [] == JobRecords(alone / "state/grain/jobs").read()
    assert [] == [*(alone / "state/grain/jobs").iterdir()]


def test_up_submits_what_the_dry_run_shows_and_records_it(alone: Path, command: Put) -> None:
    """The script of the dry run is submitted, the log's directory created, the job recorded."""
    command("sbatch", f'[ "$*" = --parsable ] && cat > "{alone}/read" && echo 6')
    text = SLURM + '[worker]\nname = "w"\nlog_file = "logs/%j/w.log"\n'
    (alone / "grain.toml").write_text(text)

    dry = grain("up", "--dry")
    result = grain("up")

    assert f"w is job 6, output in {alone}/logs/%j/w.log\n" == said(result)
    assert (0, dry.output) == (result.exit_code, (alone / "read").read_text())
    assert ["logs"] == [path.name for path in alone.iterdir() if path.name == "logs"]
    [record] = records(alone)
    assert isinstance(record.pop("submitted"), float)
    assert str(record.pop("mark")).startswith("?w.")
    assert {
        "id": "6",
        "system": "slurm",
        "name": "w",
        "log_file": f"{alone}/logs/%j/w.log",
        "address": f"edge://{Path.home()}/.local/share/edge-file-default",
        "config": f"{alone}/grain.toml",
        "cpus": [],
        "nodes": 1,
        "kind": "worker",
        "by": "",
        "shape": "",
        "queue": "",
    } == record


def test_each_task_of_an_array_has_a_record(alone: Path, command: Put) -> None:
    """An array's tasks are recorded one by one."""
    command("sbatch", "cat > /dev/null; echo 6")
    (alone / "grain.toml").write_text(SLURM + '[worker]\nname = "w"\n')

    result = grain("up", "-n", "2")

    assert 0 == result.exit_code
    assert [("6_0", "w-0"), ("6_1", "w-1")] == [(r["id"], r["name"]) for r in records(alone)]


@pytest.mark.parametrize("name", ["w#{{HHMMSS}}", "mine"])
def test_more_workers_than_an_array_may_have_are_several_arrays(
    name: str, alone: Path, command: Put
) -> None:
    (alone / "grain.toml").write_text(f'system = "slurm"\n[worker]\nname = "{name}"\n')
    command("scontrol", "echo 'MaxArraySize            = 1000'")
    command("sbatch", f'grep -e "--array" >> "{alone}/asked"; wc -l < "{alone}/asked"')

    assert 1200 == len(printed("up", "-n", "1200").splitlines())
    asked = (alone / "asked").read_text().splitlines()
    assert ["#SBATCH --array=0-999", "#SBATCH --array=0-199"] == asked
    known = [record for record in records(alone) if not str(record["id"]).startswith("?")]
    assert 1200 == len({record["name"] for record in known})
    assert 1200 == len({record["log_file"] for record in known})


@pytest.mark.parametrize("answer", ["exit 1", "echo nothing", "echo 'MaxArraySize = 0'"])
def test_where_the_site_does_not_say_it_is_one_array(
    answer: str, alone: Path, command: Put
) -> None:
    (alone / "grain.toml").write_text(SLURM)
    command("scontrol", answer)
    command("sbatch", f'grep -e "--array" >> "{alone}/asked"; echo 6')

    assert 60 == len(printed("up", "-n", "60").splitlines())
    assert "#SBATCH --array=0-59\n" == (alone / "asked").read_text()


def test_a_refusal_is_shown_unchanged_with_a_remedy_and_leaves_no_record(
    alone: Path, command: Put
) -> None:
    """The batch system's words, unchanged, and what to change; nothing is recorded."""
    message = "sbatch: error: invalid partition specified: nope"
    command("sbatch", f'cat > /dev/null; echo "{message}" >&2; exit 1')
    (alone / "grain.toml").write_text(SLURM)

    result = grain("up")

    assert 1 == result.exit_code
    assert (
        f"Error: sbatch failed (exit code 1):\n  {message}\n"
        "Set script.queue to a partition that there is; `sinfo -s` lists them.\n"
    ) == said(result)
    assert [] == list((alone / "state/grain/jobs").iterdir())


def test_refusal_after_the_first(alone: Path, command: Put) -> None:
    """Jobs that were accepted before a refusal are printed and recorded."""
    command(
        "qsub",
        f'[ "$1" = --version ] && exit; cat > /dev/null; [ -e "{alone}/one" ] && '
        f"{{ echo 'qsub: Unknown queue' >&2; exit 170; }}; touch '{alone}/one'; echo 0.pbs",
    )
    (alone / "grain.toml").write_text('system = "pbs"\n[worker]\nname = "w"\nlog_file = "w.log"')

    result = grain("up", "-n", "3")

    assert 1 == result.exit_code
    assert (
        f"w-0 is job 0.pbs, output in {alone}/w-0.log\n"
        "Error: qsub failed (exit code 170):\n"
        "  qsub: Unknown queue\n"
        "Set script.queue to a queue that there is; `qstat -Q` lists them.\n"
    ) == said(result)
    assert ["0.pbs"] == [record["id"] for record in records(alone)]


def test_the_dialect_is_that_of_the_installed_qsub(alone: Path, command: Put) -> None:
    """The dialect is that of the qsub that is there."""
    command("qsub", "echo 'Version: 6.1.2' >&2")
    (alone / "grain.toml").write_text('system = "pbs"\n[script]\ncores = 4\nmemory = 8')

    lines = grain("up", "--dry").output.splitlines()

    asked = [line for line in lines if line.startswith("#PBS -l")]
    assert ["#PBS -l nodes=1:ppn=4", "#PBS -l mem=8gb"] == asked


@pytest.mark.parametrize(("system", "missing"), [("slurm", "sbatch"), ("pbs", "qsub")])
def test_no_batch_system(
    alone: Path, monkeypatch: pytest.MonkeyPatch, system: str, missing: str
) -> None:
    """A missing command is named, with where to look."""
    monkeypatch.setenv("PATH", str(alone / "bin"))
    (alone / "grain.toml").write_text(f'system = "{system}"')

    result = grain("up")

    assert 1 == result.exit_code
    assert said(result).startswith(
        f"Error: {missing}: there is no such command\nRun this on a host with "
    )


def test_the_users_command_gets_the_path_of_the_script(alone: Path, command: Put) -> None:
    """The script is put into the directory and its path given to the user's command."""
    command(
        "mysub", f'echo "$@" > "{alone}/args"; pwd >> "{alone}/args"; echo "Job <7> is submitted"'
    )
    (alone / "grain.toml").write_text(
        f"""
        system = "custom"
        [worker]
        name = "w"
        [custom_system]
        submit_cmd = "mysub -q x"
        directory = "{alone}/my jobs"
        template = '''#!/bin/sh\n{{{{body}}}}'''
        """
    )

    result = grain("up", "--", "-m", "a b")

    assert 0 == result.exit_code
    assert f"-q x -m a b {alone}/my jobs/w.sh\n{alone}/my jobs\n" == (alone / "args").read_text()
    assert "grain-worker" in (alone / "my jobs/w.sh").read_text()
    assert ["Job <7> is submitted"] == [record["id"] for record in records(alone)]


def test_a_mistake_in_the_configuration_is_an_error_with_exit_code_1(alone: Path) -> None:
    """The message is that of the configuration."""
    (alone / "grain.toml").write_text("[script]\nwalltme = 1")

    result = grain("up", "--dry")

    assert 1 == result.exit_code
    assert result.output.startswith("Error: grain.toml: script.walltme: found an unknown key")


@pytest.mark.parametrize("words", [["-c", "my.toml", "up"], ["up", "-c", "my.toml"]])
def test_the_option_c_stands_before_or_after_the_command(alone: Path, words: list[str]) -> None:
    """-c stands before or after the command."""
    (alone / "my.toml").write_text('[worker]\nname = "mine"')

    assert "grain_name=mine\n" in grain(*words, "--dry").output


@pytest.mark.parametrize(
    "words", [["up", "-n", "0"], ["up", "-n", "x"], ["up", "--nope"], ["nope"], ["up", "2"]]
)
def test_wrong_usage_exits_with_2(alone: Path, words: list[str]) -> None:
    assert 2 == grain(*words).exit_code


def test_nothing_is_submitted_that_cannot_be_recorded(alone: Path, command: Put) -> None:
    """Nothing is submitted that could not be recorded."""
    command("sbatch", f"touch '{alone}/called'; echo 6")
    (alone / "grain.toml").write_text(SLURM)
    (alone / "state").write_text("a file")

    result = grain("up")

    assert 1 == result.exit_code
    assert (
        "Error: nothing was submitted, as it cannot be recorded:\n"
        f"  {alone}/state/grain/jobs: Not a directory\n"
        "Set XDG_STATE_HOME to a directory that you may write to.\n"
    ) == said(result)
    assert not (alone / "called").exists()


def test_a_batch_system_that_is_down_is_no_mistake_of_the_user(alone: Path, command: Put) -> None:
    """A batch system that is down is not a mistake of the user's."""
    text = "sbatch: error: Unable to contact slurm controller (connect failure)"
    command("sbatch", f'cat > /dev/null; echo "{text}" >&2; exit 1')
    (alone / "grain.toml").write_text(SLURM)

    assert grain("up").output.endswith("Slurm's controller does not answer; try again later.\n")


@pytest.mark.parametrize("line", ["grain ", "grain up --d"])
def test_the_shell_completes_commands_and_options(alone: Path, line: str) -> None:
    """The shell completes commands and options."""
    env = {
        **os.environ,
        "_GRAIN_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    words = [sys.executable, "-c", "from grain.cli import main; main(prog_name='grain')"]

    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    assert {"grain ": "plain,up", "grain up --d": "plain,--dry"}[line] in done.stdout.split()


def test_start_is_light(alone: Path) -> None:
    """The command itself imports click, and neither configuration nor trio."""
    code = (
        "import sys; import grain.cli; before = set(sys.modules);"
        "print(sorted({'trio', 'msgspec', 'grain.config', 'grain.cli.batch', 'asyncio',"
        " 'subprocess_'} & before))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout
