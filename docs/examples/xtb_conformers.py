"""Single-point energies of conformers with a real chemistry code, `xtb`, one core each.

The leaves write the geometry into a private scratch directory, run `xtb` there and read the energy;
the branch compares the conformers of a molecule. Debian has the program as the package xtb.
"""

from __future__ import annotations

import os

from grain.delayed import delayed, each, run
from grain.resource import Cores, Memory

Atoms = list[tuple[str, float, float, float]]

# Angstrom. Of hydrogen peroxide the twisted conformer is the stable one.
MOLECULES: dict[str, dict[str, Atoms]] = {
    "water": {
        "bent": [("O", 0, 0, 0.1173), ("H", 0, 0.7572, -0.4692), ("H", 0, -0.7572, -0.4692)],
        "linear": [("O", 0, 0, 0), ("H", 0, 0, 0.96), ("H", 0, 0, -0.96)],
    },
    "hydrogen peroxide": {
        "twisted": [
            ("O", 0, 0.7375, -0.0528),
            ("O", 0, -0.7375, -0.0528),
            ("H", 0.8190, 0.8170, 0.4220),
            ("H", -0.8190, -0.8170, 0.4220),
        ],
        "flat": [
            ("O", 0, 0.7375, 0),
            ("O", 0, -0.7375, 0),
            ("H", 0.947, 0.8170, 0),
            ("H", 0.947, -0.8170, 0),
        ],
    },
}
EV_PER_HARTREE = 27.211386


@delayed
async def energy(atoms: Atoms) -> float:
    """Return the GFN2-xTB energy of a geometry, in hartree."""
    import json

    from grain.worker.external import run_external

    lines = [str(len(atoms)), "", *(f"{el} {x} {y} {z}" for el, x, y, z in atoms)]
    script = "cat > mol.xyz && xtb mol.xyz --gfn 2 --json >xtb.log 2>&1 && cat xtbout.json"
    done = await run_external(
        ["sh", "-c", script], stdin="\n".join(lines).encode() + b"\n", scratch=True, timeout=60
    )
    return float(json.loads(done.stdout_text)["total energy"])


@delayed
async def conformers(molecule: str) -> tuple[str, dict[str, float]]:
    leaf = energy @ (Cores(1) & Memory(0.5))
    geometries = MOLECULES[molecule]
    energies = await each(leaf(atoms) for atoms in geometries.values())
    lowest = min(energies)
    return molecule, {
        name: (e - lowest) * EV_PER_HARTREE for name, e in zip(geometries, energies, strict=True)
    }


async def main() -> None:
    for molecule, relative in await each(conformers(name) for name in MOLECULES):
        for name, ev in relative.items():
            print(f"{molecule:>18}  {name:<8}  {ev:7.3f} eV")


if __name__ == "__main__":
    cpus = sorted(os.sched_getaffinity(0))
    run(main, local=Cores(cpus) & Memory(4), config_file=False)
