"""Programs that the kernel kills in a job of a real Slurm that confines its memory."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

import pytest
import trio
from fake_batch.start import Missing, real

from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker.errors import ExternalError, ExternalMemoryError
from grain.worker.external import Completed, run_external
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from pathlib import Path

    import outcome

MEMORY = 400  # MiB of the job
HUNGRY = "x = b'x' * 2_000_000_000"


NEIGHBOUR = "sleep 5; echo attempt ${GRAIN_ATTEMPT:-1}"


@pytest.mark.nightly
@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/memory", os.W_OK), reason="no control groups of version 1 here"
)
async def test_a_kill_is_told_from_memory_that_is_over_and_the_neighbour_lives(
    tmp_path: Path,
) -> None:
    """All three are in one job, whose group counts the kills of the kernel."""
    (tmp_path / "edge").mkdir(mode=0o700)
    address = f"edge://{tmp_path}/edge/meeting"
    worker = [sys.executable, "-m", "grain.worker", "--url", address, "--res", '{"Cores": 3}']
    connect = GnawConnector(address, start=False).connect
    try:
        with (
            real("--nodes=1", "--confine") as slurm,
            terminated(start("-m", "grain.head", "--address", address)),
            trio.fail_after(300),
        ):
            words = ["--wrap", shlex.join(worker), "-c", "3", f"--mem={MEMORY}"]
            slurm.out("sbatch", "-D", str(tmp_path), "-o", "worker.log", *words)
            ended: dict[int, outcome.Outcome[Completed]] = {}
            async with RemoteExecutor(address, connect=connect) as executor:
                neighbour = executor.submit(Cores(1), run_external, ["sh", "-c", NEIGHBOUR])
                killed = executor.submit(Cores(1), run_external, ["sh", "-c", "kill -9 $$"])
                hungry = executor.submit(Cores(1), run_external, ["python3", "-c", HUNGRY])
                executor.close()
                async for job, result in executor.results:
                    ended[job] = result
    except Missing as missing:
        pytest.skip(str(missing))

    assert "attempt 1\n" == ended[neighbour].unwrap().stdout_text
    with pytest.raises(ExternalError, match="SIGKILL") as by_hand:
        ended[killed].unwrap()
    assert not isinstance(by_hand.value, ExternalMemoryError)
    with pytest.raises(ExternalMemoryError) as memory:
        ended[hungry].unwrap()
    assert "kills for want of memory in the worker's control group" in memory.value.evidence
    assert memory.value.memory_limit == pytest.approx(MEMORY * 1024**2 / 1e9, rel=0.01)
