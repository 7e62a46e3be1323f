"""``grain hq``, and what tools for HyperQueue call."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from grain.cli import main as grain
from grain.cli.hq.__main__ import main
from grain.cli.hq.submission import options_of_submit, path, seconds
from grain.cli.jobs.errors import BadSubmission
from grain.files.trust import python_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_site import SlurmSite

CANNOT_BE_WRITTEN = "Error: the answer could not be written: No space left on device"

NEXTFLOW = """\
#!/bin/bash
#HQ --name nf-align_(1)
#HQ --stream "{}/.command.log"
#HQ --cwd {}
#HQ --resource mem=8192
#HQ --cpus 4
#HQ --time-limit 60sec
#HQ --resource gpus=2
# NEXTFLOW TASK: align (1)
set -e
"""
"""A script as Nextflow's executor ``hq`` writes it, by its source."""

AIIDA = """\
#!/bin/bash
#HQ --name="aiida-4"
#HQ --stdout=_scheduler-stdout.txt
#HQ --stderr=_scheduler-stderr.txt
#HQ --time-request=600s
#HQ --time-limit=600s
#HQ --cpus=1
#HQ --resource mem=100

true
"""
"""A script of aiida-hyperqueue 0.4.0."""


@pytest.fixture
def hq(
    site: SlurmSite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run ``hq``, which must have an exit status, and return its output."""
    for name, value in site.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(site.folder)

    def run(*words: str, status: int = 0, err: str = "") -> str:
        assert main(words) == status
        said = capsys.readouterr()
        assert said.err == err
        return said.out

    return run


def test_the_directory_has_a_command_that_runs(site: SlurmSite) -> None:
    done = CliRunner().invoke(grain, ["hq"], env=site.environment)
    assert (done.exit_code, done.stdout) == (0, f"{site.folder}/state/grain/hq\n")
    said = subprocess.run(
        [f"{site.folder}/state/grain/hq/hq", "--output-mode=quiet", "job", "list", "--all"],
        env=site.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (said.stdout, said.stderr, said.returncode) == ("", "", 0)


def test_nextflow_submits_a_script_in_its_directory(
    site: SlurmSite, hq: Callable[..., str]
) -> None:
    (site.folder / ".command.run").write_text(NEXTFLOW.format(site.folder, site.folder))
    assert hq("--output-mode=quiet", "submit", "--directives=file", ".command.run") == "1\n"
    job = site.queue.job(1)
    assert (job.name, job.directory, job.timeout) == ("nf-align_(1)", str(site.folder), 60.0)
    assert (job.stdout, job.stderr) == (f"{site.folder}/.command.log", "")
    assert job.request == {"Cores": 4, "Memory": pytest.approx(8.589934592), "GPUs": 2}
    assert job.script.startswith("#!/bin/bash\n")


def test_a_number_that_cannot_be_written_is_told_to_the_user(site: SlurmSite) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*python_command("grain.cli.hq"), "submit", "true"],
            env=site.environment, cwd=site.folder, stdout=full, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "Error: job 1 was submitted, but its number could not be written: No space left on device\n"
    )
    assert site.queue.job(1).command == ("true",)


@pytest.mark.parametrize(
    ("streams", "words", "status", "said"),
    [
        (">/dev/full", "--output-mode=json job list --all", 1, CANNOT_BE_WRITTEN),
        (">/dev/full", "job list --all", 1, CANNOT_BE_WRITTEN),
        (">/dev/full", "--output-mode=json job info 7", 1, CANNOT_BE_WRITTEN),
        ("| true", "job list --all", 0, ""),
        ("2>/dev/full", "--nonsense", 2, ""),
        ("2>/dev/full", "job info 7", 1, ""),
    ],
)
def test_what_cannot_be_written_is_a_sentence_or_is_lost(
    site: SlurmSite, hq: Callable[..., str], streams: str, words: str, status: int, said: str
) -> None:
    hq("submit", "true")
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {streams}', "bash",
         *python_command("grain.cli.hq"), *words.split()],
        env=site.environment, cwd=site.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.partition("\n")[0]) == (status, said)
    assert "Traceback" not in done.stderr


def test_nextflow_lists_all_jobs_and_cancels_some(site: SlurmSite, hq: Callable[..., str]) -> None:
    for _ in range(5):
        hq("submit", "--", "true")
    site.begin(1)
    site.run(2, status=3)
    site.run(3)
    assert hq("job", "cancel", "4,3") == (
        "job 4 is cancelled; it waited\njob 3 has ended already\n"
    )
    assert hq("--output-mode=quiet", "job", "list", "--all") == (
        "1 RUNNING\n2 FAILED\n3 FINISHED\n4 CANCELED\n5 WAITING\n"
    )
    assert hq("--output-mode=quiet", "job", "list") == "1 RUNNING\n5 WAITING\n"
    assert hq("job", "list", "--filter", "failed") == "2 FAILED true\n"
    assert hq("--output-mode=quiet", "job", "cancel", "1") == ""


def test_aiida_submits_and_lists_in_json(site: SlurmSite, hq: Callable[..., str]) -> None:
    (site.folder / "_aiidasubmit.sh").write_text(AIIDA)
    assert json.loads(hq("submit", "--output-mode=json", "_aiidasubmit.sh")) == {"id": 1}
    job = site.queue.job(1)
    assert (job.name, job.stdout, job.stderr, job.timeout) == (
        "aiida-4", "_scheduler-stdout.txt", "_scheduler-stderr.txt", 600.0,
    )  # fmt: skip
    asked = ("job", "list", "--filter", "waiting,running", "--output-mode=json")
    stats = {"waiting": 1, "running": 0, "finished": 0, "failed": 0, "canceled": 0, "aborted": 0}
    assert json.loads(hq(*asked)) == [
        {"id": 1, "name": "aiida-4", "task_count": 1, "is_open": False, "task_stats": stats,
         "cancel_reason": None},
    ]  # fmt: skip
    site.run(1, status=2)
    assert json.loads(hq(*asked)) == []
    [info] = json.loads(hq("job", "info", "1", "--output-mode", "json"))
    assert info["info"]["task_stats"] == {**stats, "waiting": 0, "failed": 1}
    assert info["tasks"][0]["state"] == "failed"
    assert info["tasks"][0]["started_at"].endswith("Z")
    hq("submit", "true")
    site.run(2, message="warned before its time limit")
    [info] = json.loads(hq("job", "info", "2", "--output-mode", "json"))
    assert ("finished", False) == (info["tasks"][0]["state"], "error" in info["tasks"][0])


def test_options_of_the_command_line_go_before_those_of_the_script(
    site: SlurmSite, hq: Callable[..., str]
) -> None:
    (site.folder / "job.sh").write_text("#!/bin/sh\n#HQ --cpus=2 --name a --env=A=1\n")
    hq("submit", "--name", "b", "--env", "B=2", "job.sh", "word")
    job = site.queue.job(1)
    assert (job.name, job.request, job.command) == ("b", {"Cores": 2}, ("word",))
    assert {
        "A": "1",
        "B": "2",
        "HQ_SUBMIT_DIR": str(site.folder),
    }.items() <= job.environment.items()
    assert (job.stdout, job.stderr) == ("job-%j/0.stdout", "job-%j/0.stderr")
    hq("submit", "--directives=off", "job.sh")
    assert site.queue.job(2).name == "job.sh"


def test_errors_are_in_the_output_mode_that_was_chosen(hq: Callable[..., str]) -> None:
    message = "there is no job 7: the queue is empty"
    found = hq("--output-mode=json", "job", "info", "7", status=1)
    assert json.loads(found) == {"error": message}
    hq("--output-mode=quiet", "job", "cancel", "7", status=1, err=f"Error: {message}\n")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cpus": "all"}, "--cpus all: write a number"),
        ({"resource": ("fpgas=1",)}, "--resource fpgas=1: there are mem=MEGABYTES and gpus=NUMBER"),
        ({"time_limit": "soon"}, "--time-limit soon: write a span of time"),
        ({"time_request": "10min"}, "--time-request needs --time-limit"),
    ],
)
def test_what_there_is_not_here_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSubmission, match=message):
        options_of_submit(given, "/work")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("60sec", 60.0), ("1h 30m", 5400.0), ("2days", 172800.0), ("01:30:00", 5400.0),
        ("90s", 90.0), ("1500ms", 1.5), ("1h30min", 5400.0),
    ],
)  # fmt: skip
def test_spans_of_time(text: str, value: float) -> None:
    assert seconds("time_limit", text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("%{CWD}/job-%{JOB_ID}/%{TASK_ID}.stdout", "job-%j/0.stdout"), ("none", "/dev/null"),
        ("%{SUBMIT_DIR}/a%j", "/work/a%%j"), ("/abs/100%", "/abs/100%%"),
    ],
)  # fmt: skip
def test_paths_of_outputs(text: str, value: str) -> None:
    assert path(text, "/work") == value
