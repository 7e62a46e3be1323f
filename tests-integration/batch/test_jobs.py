"""`grain drain`, `scale`, `start`, `logs` and `doctor` as users type them, on each batch system."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_site import SCALE, typed
from fake_batch.start import LONG, Batch, Missing, fake, real, until

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of each node there is one, so that of four jobs the last one waits.
CONFIG = """\
system = "{system}"
address = "edge://{folder}/edge/meeting"
[script]
cores = 4
walltime = "20:00:00"
setup_cleanup = ["export PATH={folder}/bin:$PATH GRAIN_TEST_STOP={folder}/stop", '''{more}''']
[worker]
name = "w"
log_file = "logs/w{{{{HHMMSS}}}}.log"
[head]
cmd = "exec sh -c 'echo mission of $GRAIN_CONFIG'"
main_log_file = "mission.log"
"""


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a file that another process is writing."""
    lines = path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


@dataclass
class User:
    """A directory with a configuration, in which commands are typed."""

    batch: Batch
    folder: Path

    def configure(self, more: str = "") -> None:
        text = CONFIG.format(system=self.batch.system, folder=self.folder, more=more)
        (self.folder / "grain.toml").write_text(text)

    @property
    def env(self) -> dict[str, str]:
        env = {**self.batch.env, "XDG_STATE_HOME": str(self.folder / "state")}
        env["PATH"] = f"{self.folder / 'bin'}{os.pathsep}{env['PATH']}"
        env.pop("GRAIN_CONFIG", None)
        return env

    def grain(self, *words: str) -> subprocess.CompletedProcess[str]:
        return typed(words, self.folder, self.env)

    def scale(self, *words: str, proven: float = 4.0) -> subprocess.Popen[bytes]:
        """Keep workers; the output goes to a file."""
        command = [sys.executable, "-c", SCALE.format(proven=proven), "scale", "--json", *words]
        with (self.folder / "reports").open("ab") as out:
            return subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=out)

    def reports(self) -> list[dict[str, Any]]:
        """Return the output of `grain scale` so far."""
        return lines_of(self.folder / "reports")

    def jobs(self, by: str | None = None) -> list[str]:
        """The ids of the jobs that were submitted, by `grain scale` say."""
        files = sorted((self.folder / "state/grain/jobs").glob("*.jsonl"))
        submitted: list[dict[str, Any]] = []
        for file in files:
            with suppress(FileNotFoundError):  # all its jobs have ended meanwhile
                submitted += lines_of(file)
        return [str(one["id"]) for one in submitted if by is None or one["by"] == by]

    def states(self) -> dict[str, str]:
        """Return the batch system's state of each job that is left: R runs, anything else waits."""
        if self.batch.system == "slurm":
            lines = self.batch.out("squeue", "-h", "-r", "-o", "%i %t").splitlines()
        else:
            output = self.batch.run("qstat", "-f").stdout
            lines = [
                f"{one} {state}"
                for one, state in re.findall(
                    r"Job Id: (\S+)$.*?job_state = (\w)", output, re.MULTILINE | re.DOTALL
                )
            ]
        letters = dict(line.split() for line in lines)
        return {one: letters[one] for one in self.jobs() if one in letters}

    def cancel(self, *ids: str) -> None:
        if ids:
            self.batch.run("scancel" if self.batch.system == "slurm" else "qdel", *ids)


NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in ("real slurm", "fake pbs")]
# By default a story is told of the fake Slurm, and by night of all.
ALSO_ON_PBS = pytest.mark.parametrize(
    "batch", ["fake slurm", "fake pbs", NIGHTLY[0]], indirect=True, scope="module"
)


@pytest.fixture(scope="module", params=["fake slurm", *NIGHTLY])
def batch(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Batch]:
    """Three nodes of four cores."""
    kind, system = request.param.split()
    if kind == "fake":
        folder = tmp_path_factory.mktemp("fake")
        with fake(system, folder, "--kill-wait=20", pace=10) as cluster:
            yield cluster
        return
    try:
        with real() as cluster:
            yield cluster
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def user(batch: Batch, worker: object, tmp_path: Path) -> Iterator[User]:
    """Provide a user, and cancel all of their jobs at the end."""
    someone = User(batch, tmp_path)
    someone.configure()
    yield someone
    (tmp_path / "stop").touch()
    someone.cancel(*someone.states())
    until(lambda: not someone.states())


def running(user: User) -> list[str]:
    return [one for one, state in user.states().items() if state == "R"]


def test_quit_cancels_waiting_jobs_and_running_ones_by_force(user: User) -> None:
    """A job that waits is cancelled; one that runs, without a scheduler to be in, by force only."""
    assert 0 == user.grain("up", "-n", "4").returncode
    until(lambda: len(running(user)) == 3)
    listings = []

    def shown() -> bool:
        listings.append(user.grain("ls", "--patience", "0.2"))
        return " running " in listings[-1].stdout

    until(shown)  # of a batch system that does not answer within a second no job is
    listed = listings[-1]
    nobody = user.grain("drain", "--patience", "0.2", "x*")
    gentle = user.grain("drain", "--patience", "0.2", "w*")
    until(lambda: len(user.states()) == 3)
    left = running(user)
    forced = user.grain("drain", "-f", "--patience", "0.2", "w*")
    until(lambda: not user.states())
    again = user.grain("drain", "--patience", "0.2", "w*")

    assert 0 == listed.returncode
    assert (3, 1) == (listed.stdout.count(" running "), listed.stdout.count(" pending "))
    assert 1 == nobody.returncode == again.returncode
    assert "no scheduler answers at " in nobody.stderr
    assert (0, "") == (gentle.returncode, gentle.stderr)
    assert 1 == len(re.findall(r"w\S*: job \S+ waited and is cancelled\n", gentle.stdout))
    assert 3 == gentle.stdout.count(" runs, but is not with the scheduler (yet); `grain drain -f w")
    assert 3 == len(left)
    assert (0, 3) == (forced.returncode, forced.stdout.count(" is asked to end\n"))


def test_scale_replaces_ended_jobs_and_leaves_all_at_its_end(user: User) -> None:
    """Those that wait count, others' do not; what ended is replaced, and all stay at the end."""
    assert 0 == user.grain("up").returncode
    [other] = user.jobs()
    counts = []
    scale = user.scale("3")
    try:
        # One waits for room, which the other's job has. It is recorded before it is submitted.
        until(lambda: len(user.states()) == 4 and len(running(user)) == 3)
        [waits] = user.states().keys() - {*running(user)}
        until(lambda: len(user.reports()) > 3)
        lost = next(one for one in running(user) if one != other)
        user.cancel(lost)

        def replaced() -> bool:
            counts.append(len(user.states().keys() - {other}))
            return len(user.jobs("scale")) == 4

        until(replaced)
        until(lambda: len(running(user)) == 3)
        second = user.scale("3")
        assert 1 == second.wait(LONG)
        scale.send_signal(signal.SIGTERM)
        assert 0 == scale.wait(LONG)
        # The next one counts those that are there.
        scale = user.scale("3")
        until(lambda: "3 jobs are left from before" in str(user.reports()))
    finally:
        scale.terminate()
        scale.wait(LONG)

    assert waits
    assert max(counts) <= 3
    assert other in user.states()
    assert lost not in user.states()
    assert 4 == len(user.jobs("scale"))
    assert all(line["alive"] <= line["of"] == 3 for line in user.reports())


def test_scale_backs_off(user: User) -> None:
    """After jobs that failed at once there are pauses, each twice as long, and single jobs."""
    user.configure("exit 1")
    # However long a job takes to fail here.
    scale = user.scale("2", proven=600.0)
    try:
        until(lambda: "for 4 s" in str(user.reports()))
    finally:
        scale.terminate()
        scale.wait(LONG)

    texts = [line["what"] for line in user.reports()]
    # It may have continued before the signal to end.
    end = next(i for i, text in enumerate(texts, start=1) if "for 4 s" in text)
    what = texts[:end]
    pauses = [int(match[1]) for text in what if (match := re.search(r"for (\d+) s$", text))]
    # The first two may be seen to have ended one after the other.
    assert [1, 2, 4] == sorted({*pauses})
    assert pauses == sorted(pauses)
    assert 4 == sum(" is job " in text for text in what)
    assert len(user.jobs("scale")) == sum(" is job " in text for text in texts)


@ALSO_ON_PBS
def test_logs_show_the_output_of_a_job(user: User) -> None:
    """The output of the job, as soon as it is there."""
    user.grain("up")
    until(lambda: running(user))
    if user.batch.system == "pbs":
        early = user.grain("logs", "w")
        assert 1 == early.returncode
        assert "nothing was written yet; the output goes to " in early.stderr
        # One that is cancelled before its worker has started leaves another output.
        [job] = user.jobs()
        spooled = Path(user.env["FAKE_BATCH"], "spool", job.replace(".pbs", ".OU"))
        until(lambda: "worker: " in spooled.read_text())
        user.cancel(job)
    until(lambda: "worker: --url edge://" in user.grain("logs", "w*").stdout)
    unknown = user.grain("logs", "x")

    assert 1 == unknown.returncode
    assert "is called 'x'; the last ones are: w" in unknown.stderr


def test_start_runs_the_mission_as_a_job(user: User) -> None:
    """The mission runs as a job, which finds the configuration, and whose output is shown."""
    dry = user.grain("start", "--dry")
    assert [] == user.jobs()
    done = user.grain("start", "--json")
    until(lambda: not user.states())
    until(lambda: "mission of " in user.grain("logs", "grain_head").stdout)

    # Of a single job the JSON is an object.
    assert f"{user.folder}/mission.log" == json.loads(done.stdout)["log_file"]
    assert 0 == dry.returncode == done.returncode
    assert "mission of $GRAIN_CONFIG" in dry.stdout
    assert f"mission of {user.folder}/grain.toml" in (user.folder / "mission.log").read_text()


def test_doctor_reports_whether_the_batch_system_answers(user: User) -> None:
    """The batch system answers; one that does not is reported with a remedy."""
    # The checks have 15 s, in which those of a busy machine may get no processor.
    looks: list[subprocess.CompletedProcess[str]] = []

    def is_well() -> bool:
        looks.append(user.grain("doctor", "--json"))
        return not looks[-1].returncode

    until(is_well)
    checks = {one["check"]: one["state"] for one in json.loads(looks[-1].stdout)}

    assert "ok" == checks["batch system"] == checks["outputs"] == checks["grain-worker"]
    if "FAKE_BATCH" in user.env:
        user.batch.hush()
        ill = user.grain("doctor")
        user.batch.answer_again()
        assert 1 == ill.returncode
        [line] = [line for line in ill.stdout.splitlines() if "batch system" in line]
        assert line.startswith("fail "), line
