"""The cost of importing the package."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_package_imports_no_cryptography() -> None:
    """Certificates are made by heads only, so no other process loads what makes them."""
    code = "import sys, grain.edge; print([m for m in sys.modules if m.startswith('cryptography')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stdout.strip() == "[]"
