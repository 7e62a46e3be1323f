"""`grain whatif` predicts what a real mission takes, from its log."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from grain.cli import main as grain
from grain.delayed import delayed, each, run
from grain.eventlog.reader import read
from grain.resource import Memory
from grain.whatif.replay import replay
from grain.whatif.scenario import Scenario
from grain.whatif.workload import workload_of

if TYPE_CHECKING:
    from pathlib import Path


@delayed
async def pause(seconds: float) -> float:
    from grain.worker.external import run_external

    await run_external(["sleep", f"{seconds:.3f}"])
    return seconds


@delayed
async def chain(seed: int) -> float:
    """Three tasks of different sizes, one after the other."""
    rng = random.Random(seed)
    total = 0.0
    for _ in range(3):
        size = rng.choice([1, 1, 2, 4])
        total += await (pause @ Memory(size))(rng.uniform(0.4, 2.4))
    return total


async def mission() -> float:
    return sum(await each(chain(seed) for seed in range(24)))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a mission of 72 sleeps, on a worker whose memory is shared out.

    They are long beside the start of a program, also where the machine is busy.
    """
    place = tmp_path_factory.mktemp("logs")
    run(mission, local=Memory(8), event_log=place, progress=False, config_file=False)
    [folder] = [one for one in (place / "missions").iterdir() if one.is_dir()]
    return folder


def whatif(*words: str) -> Result:
    return CliRunner().invoke(grain, ["whatif", *words], catch_exceptions=False)


def data(*words: str) -> Any:
    done = whatif("--json", *words)
    assert 0 == done.exit_code, done.output
    return json.loads(done.stdout)


def test_the_makespan_of_the_very_mission_is_predicted_within_5_percent(log: Path) -> None:
    workload = workload_of(read(log))

    done = replay(workload, Scenario())

    assert 72 == len(workload.tasks)
    assert sum(bool(task.after) for task in workload.tasks) >= 48
    assert workload.makespan == pytest.approx(done.makespan, rel=0.05)


def test_twice_the_memory_takes_half_the_time(log: Path) -> None:
    result = data(str(log), "-w", "Memory=16", "-n", "1")

    [row] = result["rows"]
    assert result["makespan"] / 2 == pytest.approx(row["makespan"], rel=0.15)


def test_the_table_has_a_knee_and_fits_a_terminal(log: Path) -> None:
    """Beyond many workers the longest chain is all that counts."""
    text = whatif(str(log), "-n", "1,8,64").stdout

    assert "72 tasks in " in text
    assert ["8"] == [line.split()[0] for line in text.splitlines() if "<- knee" in line]
    assert 80 >= max(map(len, text.splitlines()))


def test_a_smaller_request_takes_less_time(log: Path) -> None:
    smaller, same = (
        data(str(log), "-n", "1", "-r", f"pause:{request}")["rows"][0]["makespan"]
        for request in ("Memory=1", "WTime=1:00:00")
    )

    assert smaller < 0.8 * same


def test_history_and_why_read_the_log_of_the_mission(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "grain.toml").write_text(
        f'address = "unix://{tmp_path}/nobody"\nhead.event_log.folder = "{log.parent.parent}"\n'
    )
    monkeypatch.chdir(tmp_path)

    listed = CliRunner().invoke(grain, ["history", "--json"], catch_exceptions=False)
    why = CliRunner().invoke(
        grain, ["why", "--patience", "0.1", f"{log.name.split('-')[-1]}:3"], catch_exceptions=False
    )

    [mission] = json.loads(listed.stdout)
    assert ("done", 72, 72, 0) == tuple(mission[n] for n in ("state", "tasks", "done", "failed"))
    assert " is done\n  it calls pause\n  it returned a value on " in why.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope"], "no log of 'nope'"),
        (["{log}", "-n", "0"], "--workers 0: write numbers of workers"),
        (["{log}", "-w", "Cores"], "--worker 'Cores' in 'Cores': write Kind=value"),
        (["{log}", "-r", "other:Memory=1"], "no task calls 'other'; there are: pause"),
        (["{log}", "--walltime", "soon"], "--walltime soon: write seconds, or h:mm:ss"),
        (["{log}/events.jsonl/x"], "is not the folder of an event log"),
    ],
)
def test_what_cannot_be_replayed_is_a_sentence(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], sentence: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    done = whatif(*(word.format(log=log) for word in words))

    assert done.exit_code in {1, 2}
    assert sentence in done.stderr


def test_only_the_command_needs_click() -> None:
    """Everything but the command works where grain-cli is not installed."""
    import subprocess
    import sys

    program = (
        "import sys; sys.modules['click'] = None; import grain.whatif.sweep, grain.whatif.text, "
        "grain.whatif.workload, grain.whatif.scenario"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
