"""Programs that stop softly when their worker ends, and go on from their checkpoint on another."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain.worker.external import run_external
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable
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


WATER = """\
#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spce.itp"
[ system ]
water
[ molecules ]
"""
DYNAMICS = """\
integrator = md
dt = 0.001
nsteps = -1
tcoupl = v-rescale
tc-grps = system
tau_t = 0.5
ref_t = 300
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
nstlog = 20
"""


def running(*words: str) -> AbstractContextManager[Process]:
    return terminated(start("-m", *words, stderr=subprocess.DEVNULL))


async def silicon(folder: str, text: str) -> tuple[int, str, str]:
    """Run pw.x; return the attempt, the worker, and what it printed."""
    last = GVAR.last
    mode = "restart" if last is not None and last.stopped_softly else "from_scratch"
    # The first attempt would go on for hours.
    text = text.replace("MODE", mode).replace("STEPS", "1000000" if last is None else "20")
    Path(folder, "si.in").write_text(text)
    output = f"{GVAR.attempt}.out"
    await run_external(
        ["pw.x", "-in", "si.in"], cwd=folder, stdout=output, warn="si.EXIT", check=False
    )
    return GVAR.attempt, GVAR.instance, Path(folder, output).read_text()


async def water(folder: str) -> tuple[int, str, str]:
    """Run GROMACS; return the attempt, the worker, and its log."""
    steps = [] if GVAR.attempt == 1 else ["-cpi", "-nsteps", "40"]
    command = ["gmx", "mdrun", "-s", "run.tpr", "-nt", "1", "-noappend", *steps]
    await run_external(command, cwd=folder, warn="SIGTERM")
    return GVAR.attempt, GVAR.instance, Path(folder, "md.part0002.log").read_text()


async def interrupted(meeting: Path, call: Call, begun: Callable[[], bool]) -> str:
    """Run a task until it has begun, let its worker end, and return its log from another one."""
    meeting.mkdir(mode=0o700)
    address = f"edge://{meeting}/meeting"

    def worker(name: str) -> AbstractContextManager[Process]:
        offer = '{"Cores": 1}'
        return running("grain.worker", "--url", address, "--res", offer, "--name", name)

    connect = GnawConnector(address, start=False).connect
    with running("grain.head", "--address", address), trio.fail_after(120):
        async with RemoteExecutor(address, connect=connect) as executor:
            executor.submit(Cores(1), call.fn, *call.args)
            with worker("first") as first:
                while not begun():
                    await trio.sleep(0.05)
                first.send_signal(signal.SIGUSR1)  # as a batch system warns it of its end
                while first.poll() is None:
                    await trio.sleep(0.05)
            executor.close()
            with worker("second"):
                [ended] = [ended.unwrap() async for _, ended in executor.results]
    attempt, where, log = ended
    assert (2, "second") == (attempt, where)
    return str(log)


def has(text: str, output: Path, count: int) -> bool:
    """Return True if an output has a text so often."""
    return output.exists() and output.read_text().count(text) >= count


@pytest.mark.skipif(
    not (shutil.which("pw.x") and PSEUDOPOTENTIAL.exists()), reason="pw.x is not installed"
)
async def test_pw_x_goes_on_where_it_was_when_its_worker_ended(tmp_path: Path) -> None:
    work = tmp_path / "si"
    work.mkdir()
    call = Call(silicon, (str(work), SILICON), {})
    stopped = work / "1.out"
    printed = await interrupted(tmp_path / "edge", call, lambda: has("iteration #", stopped, 10))
    assert has("JOB DONE", stopped, 1)
    done = max(map(int, re.findall(r"iteration # *(\d+)", stopped.read_text())))
    [begun] = re.findall(r"Calculation restarted from scf iteration # *(\d+)", printed)
    assert done <= int(begun) <= done + 1
    assert not (work / "si.EXIT").exists()


@pytest.mark.skipif(shutil.which("gmx") is None, reason="GROMACS is not installed")
async def test_gromacs_goes_on_where_it_was_when_its_worker_ended(tmp_path: Path) -> None:
    work = tmp_path / "water"
    work.mkdir()
    (work / "topol.top").write_text(WATER)
    (work / "md.mdp").write_text(DYNAMICS)
    for words in (
        ["solvate", "-cs", "spc216", "-box", "2", "2", "2", "-p", "topol.top", "-o", "conf.gro"],
        ["grompp", "-f", "md.mdp", "-c", "conf.gro", "-p", "topol.top", "-o", "run.tpr"],
    ):
        await trio.run_process(["gmx", *words], cwd=work, capture_stdout=True, capture_stderr=True)
    stopped = work / "md.part0001.log"
    printed = await interrupted(
        tmp_path / "edge", Call(water, (str(work),), {}), lambda: has("Step  ", stopped, 3)
    )
    [stored] = re.findall(r"Writing checkpoint, step (\d+)", stopped.read_text())
    first = re.search(r"Step +Time\s+(\d+)", printed)
    assert first is not None
    assert int(stored) == int(first[1])
