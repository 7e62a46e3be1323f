"""VASP, Gaussian and ORCA, stopped in time and continued by the next attempt, by their manuals.

These programs are licensed: tests run these functions with stand-ins only. Each gets a directory
that all workers see, which keeps what the attempt before has stored. Call them as, for instance,
`(delayed(retries=3)(vasp) @ (Cores(16) & Memory(64) & WTime(T="12:00:00")))(job)`.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from grain import GVAR
from grain.worker.external import mpi_prefix, run_external

if TYPE_CHECKING:
    from pathlib import Path


async def vasp(job: Path) -> None:
    """Relax a structure; the directory has INCAR, POSCAR, KPOINTS and POTCAR.

    STOPCAR ends it after the present ionic step, so `warn_before` is longer than one takes. It
    reads WAVECAR by itself if there is one (vasp.at/wiki: STOPCAR, CONTCAR, ISTART).
    """
    positions = job / "CONTCAR"
    if GVAR.attempt > 1 and positions.exists() and positions.stat().st_size:
        shutil.copyfile(positions, job / "POSCAR")
    words = [*mpi_prefix("intel"), "vasp_std"]
    stop = "STOPCAR", "LSTOP = .TRUE.\n"
    await run_external(words, cwd=job, threads=1, warn=stop, warn_before=900)


async def gaussian(job: Path, molecule: str, method: str = "B3LYP/6-31G(d)") -> None:
    """Optimize a molecule, given by its charge, multiplicity and atoms in lines.

    No file and no signal ends it after a step; the checkpoint file has the last one, by which
    Opt=Restart goes on without a molecule (gaussian.com: opt, link0).
    """
    route, rest = f"#P {method} Opt", f"molecule\n\n{molecule}\n\n"
    if GVAR.attempt > 1 and (job / "opt.chk").exists():
        route, rest = "#P Opt=Restart", ""
    cpus, megabytes = ",".join(map(str, GVAR.res.c)), round(800 * GVAR.res.M)
    links = f"%Chk=opt.chk\n%CPU={cpus}\n%Mem={megabytes}MB\n"
    (job / "opt.gjf").write_text(f"{links}{route}\n\n{rest}")
    await run_external(["g16", "opt.gjf"], cwd=job)


async def orca(job: Path, method: str = "B3LYP def2-SVP") -> None:
    """Optimize a molecule; the directory has start.xyz.

    Nothing ends it after a step. Orbitals are read from a file of another name than the one that it
    writes; %maxcore is for each process, and leaves a quarter of the memory (ORCA's manual:
    "Initial Guess", "Memory").
    """
    geometry, guess = "start.xyz", ""
    if GVAR.attempt > 1 and (job / "opt.gbw").exists() and (job / "opt.xyz").exists():
        geometry, guess = "last.xyz", '! MORead\n%moinp "last.gbw"\n'
        for kind in ("xyz", "gbw"):
            shutil.copyfile(job / f"opt.{kind}", job / f"last.{kind}")
    processes = GVAR.res.N
    memory = round(750 * GVAR.res.M / processes)
    (job / "opt.inp").write_text(
        f"! {method} Opt\n{guess}%maxcore {memory}\n%pal nprocs {processes} end\n"
        f"* xyzfile 0 1 {geometry}\n"
    )
    # It calls mpirun itself, and wants its own path for that.
    await run_external([shutil.which("orca") or "orca", "opt.inp"], cwd=job)
