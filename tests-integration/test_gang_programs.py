"""Programs of Debian on several hosts, which are network namespaces: pw.x, mpi4py, torchrun."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from gang_hosts import OPENMPI, gang_of, on_hosts

pytestmark = on_hosts

PSEUDOPOTENTIAL = Path("/usr/share/espresso/pseudo/Si.pz-vbc.UPF")
SILICON = f"""\
&control
  calculation = 'scf', prefix = 'si', outdir = './out', pseudo_dir = '{PSEUDOPOTENTIAL.parent}'
/
&system
  ibrav = 2, celldm(1) = 10.2, nat = 2, ntyp = 1, ecutwfc = 12
/
&electrons
  startingwfc = 'atomic'
/
ATOMIC_SPECIES
Si 28.086 {PSEUDOPOTENTIAL.name}
ATOMIC_POSITIONS alat
Si 0 0 0
Si 0.25 0.25 0.25
K_POINTS automatic
2 2 2 1 1 1
"""
PYTHON = "/usr/bin/python3"  # which has mpi4py and torch, if they are installed


def has(module: str) -> bool:
    """Return True if Debian's Python has a module."""
    words = [PYTHON, "-c", f"import {module}"]
    return Path(PYTHON).exists() and not subprocess.run(words, capture_output=True).returncode


def make_command(folder: Path, name: str, command: str) -> None:
    """Make a command of the name that the page has."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    file.chmod(0o755)


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.skipif(OPENMPI.endswith(":"), reason="Open MPI is not installed")
@pytest.mark.skipif(
    not (shutil.which("pw.x") and PSEUDOPOTENTIAL.exists()), reason="pw.x is not installed"
)
def test_pw_x_over_several_members_has_the_energy_of_the_serial_run(count: int) -> None:
    with gang_of(*(f"a{number}" for number in range(1, count + 1))) as members:
        work, programs = members.folder / "si", members.folder / "bin"
        work.mkdir()
        (work / "si.in").write_text(SILICON)
        make_command(programs, "mpirun", OPENMPI.partition(":")[2])
        members.start_of_page("relax", "si", PATH=f"{programs}:{os.environ['PATH']}")
        found = float(members.ended())
        members.nothing_is_left()
        serial = subprocess.run(
            ["pw.x", "-in", "si.in"], cwd=work, capture_output=True, text=True, check=True
        ).stdout
        printed = (work / "si.out").read_text()

    assert 1 == printed.count(f"Parallel version (MPI), running on     {count} processors")
    total = re.search(r"^! +total energy += +(\S+) Ry", serial, re.MULTILINE)
    assert total is not None
    assert pytest.approx(float(total[1]), abs=1e-6) == found


MPI4PY = """\
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print(f"{MPI.Get_processor_name()} {world.rank} {world.size} {total};", flush=True)
"""


@pytest.mark.skipif(OPENMPI.endswith(":"), reason="Open MPI is not installed")
@pytest.mark.skipif(not has("mpi4py"), reason="mpi4py is not installed")
def test_ranks_of_mpi4py_on_three_members_add_numbers() -> None:
    with gang_of("a1", "a2", "a3") as members:
        (members.folder / "add.py").write_text(MPI4PY)
        members.start(PYTHON, "add.py", launcher=OPENMPI)
        printed = members.ended()
        members.nothing_is_left()

    assert ["a1 0 3 6", "a2 1 3 6", "a3 2 3 6"] == sorted(re.findall("a. . 3 6", printed)), printed


@pytest.mark.nightly
@pytest.mark.skipif(OPENMPI.endswith(":"), reason="Open MPI is not installed")
@pytest.mark.skipif(not has("mpi4py"), reason="mpi4py is not installed")
@pytest.mark.parametrize(("ends", "status"), [("MPI.COMM_WORLD.Abort(5)", 5), ("os._exit(7)", 7)])
def test_a_rank_that_gives_up_ends_all_others(ends: str, status: int) -> None:
    with gang_of("a1", "a2") as members:
        program = f"import os, time\nfrom mpi4py import MPI\n{ends} if MPI.COMM_WORLD.rank else 0\n"
        (members.folder / "ends.py").write_text(f"{program}time.sleep(777)\n")
        members.start(PYTHON, "ends.py", launcher=OPENMPI)
        printed = members.ended()
        members.nothing_is_left()

    assert printed.startswith(f"{status}\n")


TORCH = """\
import os, socket
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
seen = len(os.sched_getaffinity(0))
print(socket.gethostname(), dist.get_rank(), dist.get_world_size(), total.item(), seen)
dist.destroy_process_group()
"""


@pytest.mark.nightly
@pytest.mark.skipif(not has("torch.distributed.run"), reason="PyTorch is not installed")
def test_torchrun_on_two_members_adds_numbers() -> None:
    with gang_of("a1", "a2") as members:
        (members.folder / "train.py").write_text(TORCH)
        programs = members.folder / "bin"
        # Without these options, PyTorch 1.13 fails on Python 3.11.
        torchrun = f"{PYTHON} -m torch.distributed.run --redirects=1 --tee=1"
        make_command(programs, "torchrun", torchrun)
        path = f"{programs}:{os.environ['PATH']}"
        members.start_of_page("train", "train.py", PATH=path, GLOO_SOCKET_IFNAME="eth0")
        printed = members.ended()
        members.nothing_is_left()

    # The function returns what the first member has printed.
    assert ["a1 0 2 3 1"] == re.findall(r"a[12] [012] 2 .*", printed), printed
