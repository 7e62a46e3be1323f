"""Programs that stop softly when their worker ends, and go on from their checkpoint on another."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain import GVAR
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker.external import run_external
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from grain_testkit.programs import Process

PSEUDOPOTENTIAL = Path("/usr/share/espresso/pseudo/Si.pz-vbc.UPF")
# It does not converge before it is stopped.
SILICON = f"""\
&control
  calculation = 'scf', prefix = 'si', outdir = './out', pseudo_dir = '{PSEUDOPOTENTIAL.parent}'
  restart_mode = 'MODE'
/
&system
  ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 12
/
&electrons
  conv_thr = 1e-40, electron_maxstep = STEPS
/
ATOMIC_SPECIES
Si 28.086 {PSEUDOPOTENTIAL.name}
ATOMIC_POSITIONS alat
Si 0 0 0
Si 0.25 0.25 0.25
K_POINTS automatic
2 2 2 1 1 1
"""


def running(*words: str) -> AbstractContextManager[Process]:
    return terminated(start("-m", *words, stderr=subprocess.DEVNULL))


async def silicon(folder: str, text: str) -> tuple[int, str, str]:
    """Run pw.x until it has done its steps; return the attempt, the worker, and what it printed."""
    last = GVAR.last
    mode = "restart" if last is not None and last.stopped_softly else "from_scratch"
    # The first attempt would go on for hours.
    text = text.replace("MODE", mode).replace("STEPS", "1000000" if last is None else "20")
    Path(folder, "si.in").write_text(text)
    output = f"si.{GVAR.attempt}.out"
    await run_external(
        ["pw.x", "-in", "si.in"], cwd=folder, stdout=output, warn="si.EXIT", check=False
    )
    return GVAR.attempt, GVAR.instance, Path(folder, output).read_text()


@pytest.mark.skipif(
    not (shutil.which("pw.x") and PSEUDOPOTENTIAL.exists()), reason="pw.x is not installed"
)
async def test_pw_x_goes_on_where_it_was_when_its_worker_ended(tmp_path: Path) -> None:
    meeting, work = tmp_path / "edge", tmp_path / "si"
    meeting.mkdir(mode=0o700)
    work.mkdir()
    address = f"edge://{meeting}/meeting"

    def worker(name: str) -> AbstractContextManager[Process]:
        offer = '{"Cores": 1}'
        return running("grain.worker", "--url", address, "--res", offer, "--name", name)

    connect = GnawConnector(address, start=False).connect
    with running("grain.head", "--address", address), trio.fail_after(120):
        async with RemoteExecutor(address, connect=connect) as executor:
            executor.submit(Cores(1), silicon, str(work), SILICON)
            with worker("first") as first:
                await iterations(work / "si.1.out", 10)
                first.send_signal(signal.SIGUSR1)  # as a batch system warns it of its end
                while first.poll() is None:
                    await trio.sleep(0.05)
            executor.close()
            with worker("second"):
                ends: list[Any] = [ended.unwrap() async for _, ended in executor.results]

    [(attempt, where, printed)] = ends
    stopped = (work / "si.1.out").read_text()
    assert (2, "second") == (attempt, where)
    assert "JOB DONE" in stopped
    done = max(map(int, re.findall(r"iteration # *(\d+)", stopped)))
    [begun] = re.findall(r"Calculation restarted from scf iteration # *(\d+)", printed)
    assert done <= int(begun) <= done + 1
    assert not (work / "si.EXIT").exists()


async def iterations(output: Path, count: int) -> None:
    """Wait until pw.x has printed so many iterations."""
    while not output.exists() or output.read_text().count("iteration #") < count:
        await trio.sleep(0.05)
