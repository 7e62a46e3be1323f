"""Run import-linter over the sources of all packages, joined in one folder, and the simulation.

The packages share the import name `grain`, and import-linter looks for it in one place only: a copy
is what a person's site-packages looks like. The contracts stand in `.importlinter`, and in the file
of that name in the simulation's folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SIMULATION = ROOT / "tests-integration/simulation"


def main() -> int:
    """Check every contract; return the linter's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        for source in ROOT.glob("packages/*/src"):
            shutil.copytree(source, folder, dirs_exist_ok=True)
        shutil.copytree(SIMULATION, Path(folder, "simulation"))
        return max(lint(ROOT, folder), lint(SIMULATION, folder))


def lint(contracts: Path, folder: str) -> int:
    """Check the contracts of a folder against the sources in another one."""
    linter = Path(sys.executable).with_name("lint-imports")
    command = [str(linter), "--config", str(contracts / ".importlinter"), "--no-cache", "--no-logo"]
    environment = {**os.environ, "PYTHONPATH": folder}
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
