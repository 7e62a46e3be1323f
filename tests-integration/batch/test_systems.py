"""The command's own scripts and requests, against batch systems that run them."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fake_batch.start import Batch, Missing, fake, real, until

from grain.cli.batch import (
    BatchError,
    BatchJob,
    BatchSystem,
    BatchUnreachable,
    JobPhase,
    open_system,
    worker_job,
)
from grain.config import load
from grain.files.batch_jobs import WorkerJob, jobs_over
from grain_testkit.golden_scripts import whole_script

SCRIPTS = Path(__file__).parents[2] / "packages/grain-cli/tests/batch/scripts"
NOW = datetime.datetime(2026, 3, 4, 9, 30, 15)


@pytest.fixture(autouse=True)
def here(worker: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Provide all of these tests with a worker that only logs, and a folder to start in."""
    worker.chdir(tmp_path)
    return worker


def use(batch: Batch, here: pytest.MonkeyPatch) -> None:
    """Have this process find a batch system as users' do: by PATH and variables."""
    for name in ("FAKE_BATCH", "FAKE_BATCH_DEAF", "SLURM_CONF"):
        if name in batch.env:
            here.setenv(name, batch.env[name])
    first = batch.env["PATH"].split(os.pathsep)[0]
    if "FAKE_BATCH" in batch.env:
        here.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")


def opened(tmp_path: Path, text: str, *extra_args: str) -> tuple[BatchSystem, BatchJob]:
    """The batch system and the worker's job of a configuration."""
    file = tmp_path / "grain.toml"
    file.write_text(text)
    config = load(file)
    job = worker_job(config, now=NOW, folder=str(tmp_path), extra_args=extra_args)
    return open_system(config, now=NOW), job


def log(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    return path.read_text() if path.exists() else ""


SLURM = """
system = "slurm"
[script]
cores = 2
memory = 1
walltime = "10:00:00"
setup_cleanup = ["echo set up", "defer echo clean"]
"""


@pytest.mark.parametrize("slurm", ["fake", "real"], indirect=True)
def test_worker_on_slurm(slurm: Batch, here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two workers in an array: distinguished, warned, ended by scancel, cleaned up after."""
    use(slurm, here)
    system, job = opened(tmp_path, SLURM)

    jobs = list(system.submit(job, 2))
    ids = [one.id for one in jobs]
    logs = [f"w093015-{index}.log" for index in range(2)]
    until(lambda: all("worker: --url" in log(tmp_path, name) for name in logs))
    states = system.states([*ids, "99999"])

    number = ids[0].split("_")[0]
    assert [
        (f"{number}_{index}", f"w093015-{index}", str(tmp_path / logs[index])) for index in range(2)
    ] == [one[:3] for one in jobs]
    assert [JobPhase.RUNNING, JobPhase.RUNNING, JobPhase.GONE] == [
        state.phase for state in states.values()
    ]
    assert {"n1", "n2", "n3"} >= {states[one].node for one in ids}
    for index, name in enumerate(logs):
        first, arguments = log(tmp_path, name).splitlines()[:2]
        assert "set up" == first
        assert f"--name w093015-{index}" in arguments
        assert '"Cores": {"auto": {"most": 2}}' in arguments
        assert '"Memory": 0.5' in arguments

    slurm.out("scancel", "--signal=USR1", "--batch", ids[0])
    until(lambda: "worker: USR1" in log(tmp_path, logs[0]))
    system.cancel(ids)
    until(lambda: {JobPhase.GONE} == {state.phase for state in system.states(ids).values()})

    assert "worker: USR1" not in log(tmp_path, logs[1])
    for name in logs:
        lines = log(tmp_path, name).splitlines()
        assert "worker: TERM" in lines
        assert "clean" == lines[-1]


def test_exit_status_on_slurm(slurm: Batch, here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Slurm gets the exit status of the worker; the state of an old job is that it has ended."""
    use(slurm, here)
    system, job = opened(tmp_path, SLURM)

    [one] = system.submit(replace(job, main="sh -c 'exit 9'"), 1)
    until(lambda: system.states([one.id])[one.id].phase is JobPhase.GONE)

    assert "FAILED (NonZeroExitCode)" == system.states([one.id])[one.id].reason
    assert JobPhase.GONE is system.states(["99999"])["99999"].phase
    assert {} == system.states([])
    system.cancel([one.id, "99999"])


async def test_schedulers_and_dispatchers_learn_which_jobs_of_slurm_are_over(
    slurm: Batch, here: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that runs is not over, and neither is one that is not known, or was elsewhere."""
    use(slurm, here)
    system, job = opened(tmp_path, SLURM)
    [ended] = system.submit(replace(job, main="sh -c 'exit 9'"), 1)
    ids = [ended.id, *(one.id for one in system.submit(job, 2))]
    wanted = [JobPhase.GONE, JobPhase.RUNNING, JobPhase.RUNNING]
    until(lambda: [system.states(ids)[one].phase for one in ids] == wanted)
    nodes = {one: state.node for one, state in system.states(ids).items()}
    questions = [WorkerJob("slurm", one, f"{nodes[one]}.example.org") for one in ids]
    questions += [WorkerJob("slurm", ended.id, "n99"), WorkerJob("slurm", "99999", "n1")]

    assert ["FAILED (NonZeroExitCode)", *[None] * 4] == await jobs_over(questions)
    system.cancel(ids)
    until(lambda: {JobPhase.GONE} == {one.phase for one in system.states(ids).values()})
    found = [one is not None for one in await jobs_over(questions)]
    assert [True, True, True, False, False] == found


async def test_without_an_answer_of_slurm_no_job_is_over(
    here: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its commands are not there, or its controller is silent; the log says so."""
    caplog.set_level("INFO", "grain.files")
    with fake("slurm", tmp_path / "slurm", pace=0) as batch:
        use(batch, here)
        batch.hush()
        assert [None] == await jobs_over([WorkerJob("slurm", "1", "n1")])
        assert "squeue failed" in caplog.text
    here.setenv("PATH", str(tmp_path))
    assert [None] == await jobs_over([WorkerJob("slurm", "1", "n1")])
    assert "squeue: there is no such command" in caplog.text
    # The child fails.
    assert [None] == await jobs_over([WorkerJob("unknown", "1", "n1")])


@pytest.mark.parametrize(
    ("text", "options", "remedy"),
    [
        ('queue = "nope"', [], "Set script.queue to a partition that there is"),
        ("memory = 999", [], "Lower script.memory"),
        ("", ["--nope"], "Correct script.extra_args, or what you wrote after `--`."),
        ("", ["--gres=nope:1"], "Change the --gres or --gpus"),
    ],
)
def test_refusals_of_slurm(
    slurm: Batch,
    here: pytest.MonkeyPatch,
    tmp_path: Path,
    text: str,
    options: list[str],
    remedy: str,
) -> None:
    """Each comes with what to change."""
    use(slurm, here)
    system, job = opened(tmp_path, f'system = "slurm"\n[script]\n{text}\n', *options)

    with pytest.raises(BatchError) as info:
        list(system.submit(job, 1))

    assert info.value.output.startswith("sbatch: ")
    assert info.value.remedy.startswith(remedy)


def test_reasons_of_slurm(slurm: Batch, here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job that will wait without end is stuck, and says why."""
    use(slurm, here)
    system, job = opened(tmp_path, SLURM, "--partition=short")

    [one] = system.submit(job, 1)
    until(lambda: system.states([one.id])[one.id].reason == "PartitionTimeLimit")

    assert JobPhase.STUCK is system.states([one.id])[one.id].phase
    system.cancel([one.id])
    until(lambda: system.states([one.id])[one.id].phase is JobPhase.GONE)


@pytest.mark.parametrize("kind", ["fake", pytest.param("real", marks=pytest.mark.nightly)])
def test_workers_are_submitted_one_by_one_where_arrays_are_forbidden(
    kind: str, here: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    try:
        with (
            fake("slurm", tmp_path / "s", "--array=1")
            if kind == "fake"
            else real("--array=1", "--nodes=1") as batch
        ):
            use(batch, here)
            system, job = opened(tmp_path, SLURM)

            jobs = list(system.submit(replace(job, main="true"), 2))
            until(lambda: "clean" in log(tmp_path, "w093015-1.log"))
    except Missing as missing:
        pytest.skip(str(missing))

    assert ["w093015-0", "w093015-1"] == [one.name for one in jobs]
    assert not any("_" in one.id for one in jobs)


def test_slurm_is_down(here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each request reports that, and that a retry may succeed."""
    with fake("slurm", tmp_path / "s") as batch:
        use(batch, here)
        system, job = opened(tmp_path, SLURM)
        batch.hush()

        for request in (
            lambda: list(system.submit(job, 1)),
            lambda: system.states(["1"]),
            lambda: system.cancel(["1"]),
        ):
            with pytest.raises(BatchUnreachable) as info:
                request()
            assert "Unable to contact slurm controller (connect failure)" in info.value.output
            assert "Slurm's controller does not answer; try again later." == info.value.remedy


PBS = """
system = "pbs"
[script]
queue = "workq"
cores = 2
memory = 1
walltime = "00:10:00"
setup_cleanup = ["pwd", "defer echo clean"]
"""


def test_worker_on_pbs(pbs: Batch, here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two workers, one by one; they start in the folder of submission and end upon qdel."""
    use(pbs, here)
    system, job = opened(tmp_path, PBS)
    job = replace(job, path=str(tmp_path / "bin"))

    jobs = list(system.submit(job, 2))
    ids = [one.id for one in jobs]
    until(lambda: {JobPhase.RUNNING} == {state.phase for state in system.states(ids).values()})
    until(lambda: all("worker: --url" in log(tmp_path, f"pbs/spool/{i}.OU") for i in range(2)))
    pbs.out("qsig", "-s", "USR1", ids[1])
    until(lambda: "worker: USR1" in log(tmp_path, "pbs/spool/1.OU"))
    system.cancel(ids)
    until(
        lambda: (
            {JobPhase.GONE} == {state.phase for state in system.states([*ids, "9.pbs"]).values()}
        )
    )

    assert ["0.pbs", "1.pbs"] == ids
    for index in range(2):
        lines = log(tmp_path, f"w093015-{index}.log").splitlines()
        assert str(tmp_path) == lines[0]
        assert f"--name w093015-{index}" in lines[1]
        assert "worker: TERM" in lines
        assert "clean" == lines[-1]
    system.cancel([*ids, "9.pbs"])


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ('queue = "nope"', "qsub: Unknown queue", "Set script.queue to a queue that there is"),
        (
            'queue = "short"\nwalltime = "1h"',
            "qsub: Job violates queue and/or server resource limits",
            "Lower script.cores, script.memory or script.walltime",
        ),
        ('extra_args = ["--nope"]', "qsub: unrecognized option", "Correct script.extra_args"),
    ],
)
def test_refusals_of_pbs(
    pbs: Batch, here: pytest.MonkeyPatch, tmp_path: Path, text: str, message: str, remedy: str
) -> None:
    """Each comes with what to change."""
    use(pbs, here)
    system, job = opened(tmp_path, f'system = "pbs"\n[script]\n{text}')

    with pytest.raises(BatchError) as info:
        list(system.submit(job, 1))

    assert info.value.output.startswith(message)
    assert info.value.remedy.startswith(remedy)


def test_reasons_of_pbs(pbs: Batch, here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A job that is too big for any node is stuck, and its comment says so."""
    use(pbs, here)
    system, job = opened(tmp_path, 'system = "pbs"\n[script]\ncores = 99')

    [one] = system.submit(job, 1)

    state = system.states([one.id])[one.id]
    assert JobPhase.STUCK is state.phase
    assert "Can Never Run: Insufficient amount of resource: ncpus (R: 99 A: 4 T: 4)" == state.reason


@pytest.mark.parametrize(
    "name",
    sorted(
        path.stem
        for path in SCRIPTS.glob("*.txt")
        if path.stem.startswith(("slurm", "pbs")) and not path.stem.endswith(("_nodes", "_gpus"))
    ),
)
def test_written_scripts_run(name: str, here: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each script that is written down runs on the fake of its batch system, to its end.

    Those of jobs of several nodes are in ``test_several_nodes.py``. The fakes have no GPUs.
    """
    (tmp_path / "stop").touch()
    home = tmp_path / "home"
    (home / "run/logs of me").mkdir(parents=True)
    text = whole_script(SCRIPTS, name).replace("/home/me", str(home))
    # The fake has a partition `main` and a queue `workq`.
    text = text.replace("--partition=debug", "--partition=main").replace("-q debug", "-q workq")
    text = text.replace('"my queue"', "main" if name.startswith("slurm") else "workq")
    text = text.replace("/opt/grain/bin", str(tmp_path / "bin"))
    text = text.replace("\n\ngrain_began", f"\n\nPATH=$PATH:{tmp_path / 'bin'}\ngrain_began", 1)
    text = text.replace(
        "\ngrain_name=",
        f"\nGRAIN_TEST_STOP={tmp_path / 'stop'}; export GRAIN_TEST_STOP\ngrain_name=",
        1,
    )
    if name == "pbs_odd":
        text = text.replace("grain-worker", str(tmp_path / "bin/grain-worker"))
    system = name.split("_")[0]
    with fake(system, tmp_path / "batch", "--cores=16", "--memory=64000") as batch:
        command = "sbatch" if system == "slurm" else "qsub"
        batch.out(command, cwd=tmp_path, stdin=text)
        expected = 2 if name == "slurm_array" else 1

        def outputs() -> list[str]:
            return [path.read_text() for path in home.glob("run/**/*.log")]

        until(lambda: sum("worker: --url" in text for text in outputs()) == expected)
        if system == "slurm":
            until(lambda: batch.out("squeue", "-h") == "")
            assert {"COMPLETED"} == set(batch.out("squeue", "-h", "-t", "all", "-o", "%T").split())
