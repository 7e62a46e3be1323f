"""The recipes for licensed programs, with stand-ins: each goes on from what it has stored."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from grain_testkit.programs import run

EXAMPLES = Path(__file__).parent.parent / "docs/examples"
CALL = """\
import sys
from pathlib import Path
from grain.delayed import delayed, run
from grain.resource import Cores, Memory
import restarts

program, job, *more = sys.argv[1:]
leaf = delayed(retries=1, retry_wait=0)(getattr(restarts, program)) @ (Cores(2) & Memory(4))

async def main():
    await leaf(Path(job), *more)

run(main, local=Cores(2) & Memory(4), config_file=False, progress=False)
"""

# The command, its input, and what it leaves if it is ended early.
STAND_INS = {
    "vasp": ("mpiexec.hydra", "POSCAR", "CONTCAR"),
    "gaussian": ("g16", "opt.gjf", "opt.chk"),
    "orca": ("orca", "opt.inp", "opt.gbw opt.xyz"),
}
LINKS = "%Chk=opt.chk\n%CPU=C\n%Mem=3200MB\n"
BLOCKS = "%maxcore 1500\n%pal nprocs 2 end\n"
INPUTS = {
    "vasp": ("at first\n", "stored in CONTCAR\n"),
    "gaussian": (
        f"{LINKS}#P B3LYP/6-31G(d) Opt\n\nmolecule\n\n0 1\nHe 0 0 0\n\n",
        f"{LINKS}#P Opt=Restart\n\n",
    ),
    "orca": (
        f"! B3LYP def2-SVP Opt\n{BLOCKS}* xyzfile 0 1 start.xyz\n",
        f'! B3LYP def2-SVP Opt\n! MORead\n%moinp "last.gbw"\n{BLOCKS}* xyzfile 0 1 last.xyz\n',
    ),
}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
@pytest.mark.parametrize("program", STAND_INS)
def test_a_licensed_program_goes_on_from_what_it_has_stored(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, given, left = STAND_INS[program]
    stand_in, job = tmp_path / "bin" / command, tmp_path / "job"
    for folder in (stand_in.parent, job):
        folder.mkdir()
    stand_in.write_text(
        f"#!/bin/sh\nif [ -e first ]; then cat {given} > second; exit 0; fi\ncat {given} > first\n"
        f"for name in {left}; do echo stored in $name > $name; done\nexit 3\n"
    )
    stand_in.chmod(0o755)
    (job / "POSCAR").write_text("at first\n")
    monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    more = ["0 1\nHe 0 0 0"] if program == "gaussian" else []
    run("-c", CALL, program, str(job), *more, timeout=120).check_returncode()

    seen = [(job / name).read_text() for name in ("first", "second")]
    assert INPUTS[program] == tuple(re.sub(r"CPU=\d+,\d+", "CPU=C", text) for text in seen)
