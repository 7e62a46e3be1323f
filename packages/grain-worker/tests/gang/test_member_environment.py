"""The environment of a program that a member runs for the root of its gang."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import trio

from grain.worker.external import Completed
from grain.worker.gang.messages import ProgramOrder
from grain.worker.gang.programs import MemberPrograms
from grain.worker.processes.mpi import launcher_variables

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from grain.worker.gang.programs import Outcome
    from grain.worker.processes.mpi import Members


class Gang:
    """A root whose files are in a directory of its host."""

    def __init__(self, folder: Path) -> None:
        self.rsh = str(folder / "grain-rsh")
        self.address = "127.0.0.1"


async def environment_of(sent: dict[str, str]) -> dict[str, str]:
    """Return the environment of a program that the root asks for with its own."""
    ended: list[Outcome] = []

    def on_exited(_: int, outcome: Outcome) -> None:
        ended.append(outcome)

    order = ProgramOrder(
        (b"env", b"-0"), tuple((os.fsencode(k), os.fsencode(v)) for k, v in sent.items()), b"/"
    )
    async with trio.open_nursery() as nursery:
        programs = MemberPrograms(
            nursery, lambda *_: None, lambda _, outcome: ended.append(outcome)
        )
        programs.start(1, order)
    (done,) = ended
    assert isinstance(done, Completed)
    return dict(line.split("=", 1) for line in done.stdout_text.split("\0") if line)


async def test_nothing_that_is_local_to_the_root_reaches_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither files of its launchers, nor its temporary directory and its sockets."""
    for name in ("TMPDIR", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, f"/here/{name}")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    launchers = launcher_variables(cast("Members", Gang(tmp_path)), [2, 2], tmp_path)
    local = dict.fromkeys(("TMPDIR", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK"), f"{tmp_path}/x")
    own = {"OMPI_MCA_orte_set_default_slots": "64", "PORTS": "7001,7002"}
    monkeypatch.setenv("GRAIN_ALLOCATED", "PORTS,GRAIN_CORES")
    monkeypatch.setenv("PORTS", "7009")
    sent = {**own, "GRAIN_CORES": "64", "GRAIN_ALLOCATED": ",".join(own)}

    env = await environment_of({**launchers, **local, **sent, "CHOSEN": "yes"})

    assert not [name for name, value in env.items() if str(tmp_path) in value]
    assert ("/here/TMPDIR", "/here/XDG_RUNTIME_DIR", "yes") == (
        env["TMPDIR"], env["XDG_RUNTIME_DIR"], env["CHOSEN"],
    )  # fmt: skip
    assert "SSH_AUTH_SOCK" not in env
    assert not {"OMPI_MCA_orte_set_default_slots", "GRAIN_CORES"} & set(env)
    assert ("7009", "PORTS,GRAIN_CORES") == (env["PORTS"], env["GRAIN_ALLOCATED"])


def test_open_mpi_calls_for_ssh_what_its_daemons_find_on_every_host(tmp_path: Path) -> None:
    """They look for the first word, and end if it is not there."""
    variables = launcher_variables(cast("Members", Gang(tmp_path)), [2, 2], tmp_path)

    for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"):
        assert ["/bin/sh", f"{tmp_path}/grain-rsh"] == variables[name].split()


async def test_a_program_of_a_job_has_its_variables_and_none_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "9")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("OF_WORKER", "yes")
    monkeypatch.setenv("TMPDIR", "/here")
    job = {"GRAIN_JOB_ID": "7", "SLURM_JOB_ID": "7", "SLURM_PROCID": "3", "PATH": "/bin:/usr/bin"}
    local = {"PMI_RANK": "0", "GRAIN_RSH": f"{tmp_path}/rsh", "TMPDIR": str(tmp_path)}

    env = await environment_of({**job, **local})

    assert job == {name: env[name] for name in job}
    assert {"SLURM_CPUS_PER_TASK", "OF_WORKER", "PMI_RANK", "GRAIN_RSH"}.isdisjoint(env)
    assert "/here" == env["TMPDIR"]
    # A task of a mission is a program of the worker's own job.
    task = await environment_of({"SLURM_PROCID": "3", "PATH": "/bin:/usr/bin"})
    assert (None, "9", "yes") == tuple(
        task.get(name) for name in ("SLURM_PROCID", "SLURM_CPUS_PER_TASK", "OF_WORKER")
    )
