"""Programs that stop softly when their worker ends, and go on from their checkpoint on another."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores
from grain.worker import Call
from grain.worker.external import run_external, run_on_members
from grain_testkit.programs import start, terminated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
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


ARGON = """\
&GLOBAL
  PROJECT argon
  RUN_TYPE MD
  PRINT_LEVEL LOW
&END GLOBAL
&MOTION
  &MD
    STEPS {steps}
    TIMESTEP 0.5
  &END MD
  &PRINT
    &RESTART
      &EACH
        MD 1
      &END EACH
    &END RESTART
  &END PRINT
&END MOTION
&FORCE_EVAL
  METHOD FIST
  &MM
    &FORCEFIELD
      &NONBONDED
        &LENNARD-JONES
          ATOMS Ar Ar
          EPSILON 119.8
          SIGMA 3.405
          RCUT 8.4
        &END LENNARD-JONES
      &END NONBONDED
      &CHARGE
        ATOM Ar
        CHARGE 0
      &END CHARGE
    &END FORCEFIELD
    &POISSON
      &EWALD
        EWALD_TYPE NONE
      &END EWALD
    &END POISSON
  &END MM
  &SUBSYS
    &CELL
      ABC 20 20 20
    &END CELL
    &COORD
      Ar 0 0 0
      Ar 3.8 0 0
    &END COORD
    &TOPOLOGY
      CONNECTIVITY OFF
    &END TOPOLOGY
  &END SUBSYS
&END FORCE_EVAL
"""
GO_ON = """\
&EXT_RESTART
  RESTART_FILE_NAME argon-1.restart
&END EXT_RESTART
"""
LIQUID = """\
units lj
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287
"""
FORCES = """\
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix move all nve
variable stop equal is_file(EXIT)
fix stop all halt 50 v_stop > 0 error continue
thermo 100
"""
# The optimisation does not converge before it is stopped. Then the program waits, with all stored.
OXYGEN = """\
{begin} h2o
permanent_dir {folder}
scratch_dir {folder}
{molecule}driver
  maxiter {steps}
  gmax 1e-30; grms 1e-30; xmax 1e-30; xrms 1e-30
end
task scf optimize ignore
"""
MOLECULE = """\
geometry
  O 0 0 0.1
  H 0 0.76 -0.5
  H 0 -0.76 -0.5
end
basis
  * library sto-3g
end
"""
STAYS = """\
task shell "touch begun"
task shell "sleep 600"
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


async def argon(folder: str) -> tuple[int, str, str]:
    """Run CP2K; return the attempt, the worker, and what it printed."""
    again = GVAR.attempt > 1
    text = ARGON.format(steps=5 if again else 100_000_000) + GO_ON * again
    Path(folder, "argon.inp").write_text(text)
    output = f"{GVAR.attempt}.out"
    await run_external(["cp2k", "-i", "argon.inp", "-o", output], cwd=folder, warn="EXIT")
    return GVAR.attempt, GVAR.instance, Path(folder, output).read_text()


async def liquid(folder: str) -> tuple[int, str, str]:
    """Run LAMMPS; return the attempt, the worker, and its log."""
    again = GVAR.attempt > 1
    begin, run = ("read_restart stored\n", 200) if again else (LIQUID, 100_000_000)
    Path(folder, "in.lj").write_text(f"{begin}{FORCES}run {run}\nwrite_restart stored\n")
    log = f"{GVAR.attempt}.log"
    await run_external(["lmp", "-in", "in.lj", "-log", log], cwd=folder, warn="EXIT")
    return GVAR.attempt, GVAR.instance, Path(folder, log).read_text()


async def oxygen(folder: str) -> tuple[int, str, str]:
    """Run NWChem, which no warning stops; return the attempt, the worker, and what it printed."""
    again = GVAR.attempt > 1
    text = OXYGEN.format(
        begin="restart" if again else "start",
        folder=folder,
        molecule="" if again else MOLECULE,
        steps=2 if again else 4,
    )
    Path(folder, "h2o.nw").write_text(text + STAYS * (not again))
    output = f"{GVAR.attempt}.out"
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    await run_external(["nwchem", "h2o.nw"], cwd=folder, stdout=output, env=as_root)
    return GVAR.attempt, GVAR.instance, Path(folder, output).read_text()


METHANOL = """6

C 0 0 0
O 0 0 1.42
H 1.0 0 -0.4
H -0.5 0.9 -0.4
H -0.5 -0.9 -0.4
H 0.9 0 1.7
"""


async def methanol(folder: str) -> tuple[int, str, str]:
    """Run xtb, which no warning stops; return the attempt, the worker, and what it printed."""
    structures = Path(folder, "xtbopt.log")
    again = structures.exists()
    lines = structures.read_text().splitlines() if again else METHANOL.splitlines()
    Path(folder, "begin.xyz").write_text("\n".join([*lines[-8:], ""]))  # the last structure
    output = f"{GVAR.attempt}.out"
    stays = "" if again else "; touch begun; sleep 1000"
    await run_external(["sh", "-c", f"xtb begin.xyz --opt{stays}"], cwd=folder, stdout=output)
    return GVAR.attempt, GVAR.instance, Path(folder, output).read_text()


@asynccontextmanager
async def scheduled(
    meeting: Path,
) -> AsyncIterator[tuple[RemoteExecutor, Callable[[str], AbstractContextManager[Process]]]]:
    """Yield an executor at a scheduler of its own, and what starts a worker of a name there."""
    meeting.mkdir(mode=0o700)
    address = f"edge://{meeting}/meeting"

    def worker(name: str) -> AbstractContextManager[Process]:
        offer = '{"Cores": 1}'
        return running("grain.worker", "--url", address, "--res", offer, "--name", name)

    connect = GnawConnector(address, start=False).connect
    with running("grain.head", "--address", address), trio.fail_after(600):
        async with RemoteExecutor(address, connect=connect) as executor:
            yield executor, worker


async def warn_of_end(worker: Process) -> None:
    """Warn a worker of its end, as a batch system does, and wait for that."""
    worker.send_signal(signal.SIGUSR1)
    while worker.poll() is None:
        await trio.sleep(0.05)


async def kill(worker: Process) -> None:
    worker.kill()
    await trio.to_thread.run_sync(worker.wait)


async def interrupted(
    meeting: Path,
    call: Call,
    begun: Callable[[], bool],
    end: Callable[[Process], Awaitable[None]] = warn_of_end,
) -> str:
    """Run a task until it has begun, let its worker end, and return its log from another one."""
    async with scheduled(meeting) as (executor, worker):
        executor.submit(Cores(1), call.fn, *call.args)
        with worker("first") as first:
            while not begun():
                await trio.sleep(0.05)
            await end(first)
        executor.close()
        with worker("second"):
            [ended] = [ended.unwrap() async for _, ended in executor.results]
    attempt, where, log = ended
    assert (2, "second") == (attempt, where)
    return str(log)


WAITS = "echo $0 > new; mv new begun; until test -e STOP; do sleep 0.05; done"


async def on_two_workers(folder: str, on_each: bool) -> tuple[int, str, list[str]]:
    """Run what goes on until it is warned; at the second attempt it has nothing to do."""
    names = [node.name for node in GVAR.res.nodes]
    if GVAR.last is None and on_each:
        # They share the directory, and the first to stop must not take the file from the other.
        other = ["sh", "-c", "until test -e STOP; do sleep 0.05; done; touch $0", "other"]
        await run_on_members(
            lambda number: other if number else ["sh", "-c", WAITS, " ".join(names)],
            cwd=folder,
            warn="STOP",
        )
        return 1, "", names
    if GVAR.last is None:
        await run_external(["sh", "-c", WAITS, " ".join(names)], cwd=folder, warn="STOP")
        return 1, "", names
    return GVAR.attempt, GVAR.last.end, names


@pytest.mark.parametrize(
    "on_each", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["one", "on each"]
)
async def test_a_program_stops_softly_when_the_worker_of_any_member_of_its_gang_ends(
    tmp_path: Path, on_each: bool
) -> None:
    begun = tmp_path / "begun"
    async with scheduled(tmp_path / "edge") as (executor, worker):
        executor.submit(2 * Cores(1), on_two_workers, str(tmp_path), on_each)
        with worker("first") as first, worker("second") as second:
            while not begun.exists():
                await trio.sleep(0.05)
            root, other = begun.read_text().split()
            await warn_of_end({"first": first, "second": second}[other])
            executor.close()
            with worker("third"):
                [ended] = [ended.unwrap() async for _, ended in executor.results]
    attempt, how, members = ended
    assert (2, "stopped", {root, "third"}) == (attempt, how, {*members})
    assert on_each == (tmp_path / "other").exists()
    assert not (tmp_path / "STOP").exists()


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


@pytest.mark.nightly  # it looks for the file every twenty seconds
@pytest.mark.skipif(shutil.which("cp2k") is None, reason="CP2K is not installed")
async def test_cp2k_goes_on_where_it_was_when_its_worker_ended(tmp_path: Path) -> None:
    """Its exit code is 0 then, as at a good end."""
    work = tmp_path / "argon"
    work.mkdir()
    stopped = work / "1.out"
    call = Call(argon, (str(work),), {})
    printed = await interrupted(tmp_path / "edge", call, lambda: has("Step number", stopped, 3))
    assert has("MD run terminated by external request", stopped, 1)
    last = int(re.findall(r"MD\| Step number +(\d+)", stopped.read_text())[-1])
    steps = [last + 1 + number for number in range(5)]
    assert steps == list(map(int, re.findall(r"MD\| Step number +(\d+)", printed)))
    assert not (work / "EXIT").exists()


@pytest.mark.skipif(shutil.which("lmp") is None, reason="LAMMPS is not installed")
async def test_lammps_goes_on_where_it_was_when_its_worker_ended(tmp_path: Path) -> None:
    work = tmp_path / "liquid"
    work.mkdir()
    stopped = work / "1.log"
    call = Call(liquid, (str(work),), {})
    printed = await interrupted(tmp_path / "edge", call, lambda: has("Step Temp", stopped, 1))
    [last] = re.findall(r"Fix halt condition .* met on step (\d+)", stopped.read_text())
    first = re.search(r"^Step Temp.*\n +(\d+) ", printed, re.MULTILINE)
    assert first is not None
    assert 0 < int(last) == int(first[1])
    assert not (work / "EXIT").exists()


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("nwchem") is None, reason="NWChem is not installed")
async def test_nwchem_goes_on_from_what_it_has_stored_when_its_worker_was_killed(
    tmp_path: Path,
) -> None:
    work = tmp_path / "water"
    work.mkdir()
    begun = work / "begun"
    call = Call(oxygen, (str(work),), {})
    printed = await interrupted(tmp_path / "edge", call, begun.exists, kill)
    energies = [
        [float(energy) for energy in re.findall(r"^@ +\d+ +(-\d+\.\d+)", text, re.MULTILINE)]
        for text in ((work / "1.out").read_text(), printed)
    ]
    # At the geometry of the last step, and with its orbitals.
    assert energies[0][0] - 1e-3 > energies[0][-1] == pytest.approx(energies[1][0], abs=1e-6)
    assert "Loading old vectors" in printed


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("xtb") is None, reason="xtb is not installed")
async def test_xtb_goes_on_from_what_it_has_stored_when_its_worker_was_killed(
    tmp_path: Path,
) -> None:
    work = tmp_path / "methanol"
    work.mkdir()
    call = Call(methanol, (str(work),), {})
    printed = await interrupted(tmp_path / "edge", call, (work / "begun").exists, kill)
    first = (work / "1.out").read_text()
    energies = [
        [float(energy) for energy in re.findall(r":: total energy +(-\d+\.\d+)", text)]
        for text in (first, printed)
    ]
    assert energies[0][0] - 1e-4 > energies[0][-1] == pytest.approx(energies[1][0], abs=1e-6)
    assert "taken from xtbrestart" not in first
    assert "taken from xtbrestart" in printed
