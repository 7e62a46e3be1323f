"""The cost of importing the package."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_imports_no_cryptography() -> None:
    """Certificates are made by heads only, so no other process loads what makes them."""
    code = "import sys, grain.edge; print([m for m in sys.modules if m.startswith('cryptography')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout.strip() == "[]"


def test_a_light_module_of_the_package_imports_no_others_of_it() -> None:
    """A step of a job may be one of thousands, and its `srun` asks only who answers it."""
    code = (
        "import sys, grain; before = set(sys.modules); import grain.edge.machine.peer_user; "
        "print(*sorted(one for one in set(sys.modules) - before if one.startswith('grain')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert ["grain.edge", "grain.edge.machine", "grain.edge.machine.peer_user"] == (
        done.stdout.split()
    )
