"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grain.edge


def test_light_import() -> None:
    """Certificates are made by heads only, so nobody else loads what makes them."""
    code = "import sys, grain.edge; print([m for m in sys.modules if m.startswith('cryptography')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert said.stdout.strip() == "[]"


def test_the_layout_names_every_module() -> None:
    """The comment on top of the package is complete."""
    modules = {p.stem for p in Path(str(grain.edge.__file__)).parent.glob("_*.py")} - {"__init__"}

    assert {m for m in modules if f"`{m}`" not in str(grain.edge.__doc__)} == set()
