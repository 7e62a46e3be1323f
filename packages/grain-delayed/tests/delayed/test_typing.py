"""The types of the public names, as mypy sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TYPED = Path(__file__).parents[1] / "typed.py"


# The session `types` reads the program as well, with the same options, beside all others.
@pytest.mark.nightly
def test_every_line_of_the_typed_program_has_the_type_that_it_states(tmp_path: Path) -> None:
    paths = ":".join(str(path) for path in TYPED.parents[2].glob("*/src"))
    config = tmp_path / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = true\nnamespace_packages = true\nexplicit_package_bases = true\n"
        f"mypy_path = {paths}\ncache_dir = {tmp_path}\n"
        "[mypy-dill]\nignore_missing_imports = true\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, TYPED],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert "Success: no issues found in 1 source file\n" == done.stdout + done.stderr
