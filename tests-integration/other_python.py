"""Another version of Python on this machine, with Grain installed for it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
SUPPORTED = ["3.10", "3.11", "3.12", "3.13"]


def others() -> dict[str, str]:
    """Return the interpreters of other versions that are on PATH or that pyenv has built."""
    # What pyenv puts on PATH itself, its "shims", may only print an error.
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    folders = [d for d in os.environ["PATH"].split(os.pathsep) if Path(d) != pyenv / "shims"]
    path = os.pathsep.join([*folders, *map(str, pyenv.glob("versions/*/bin"))])
    own = "{}.{}".format(*sys.version_info)
    there = {v: shutil.which(f"python{v}", path=path) for v in SUPPORTED if v != own}
    return {version: command for version, command in there.items() if command}


def with_grain(python: str, folder: Path) -> str:
    """Make an environment in a folder, with the packages of this tree; return its interpreter.

    The packages are on its search path, as after an editable installation, which would build each
    of them first: three quarters of the time.
    """
    sources = sorted(str(source) for source in ROOT.glob("packages/grain-*/src"))
    made = str(folder / "bin/python")
    if importlib.util.find_spec("uv") is not None:
        uv = [sys.executable, "-m", "uv"]
        _run(*uv, "venv", "-q", "--python", python, str(folder))
        _run(*uv, "pip", "install", "-q", "--python", made, *_requirements())
    else:  # ten times slower
        _run(python, "-m", "venv", str(folder))
        _run(made, "-m", "pip", "install", "-q", *_requirements())
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "grain.pth").write_text("\n".join(sources) + "\n")
    return made


def _requirements() -> list[str]:
    """Return what the packages of this tree require, except for one another."""
    files = ROOT.glob("packages/grain-*/pyproject.toml")
    projects = [tomllib.loads(file.read_text())["project"] for file in files]
    all_of_them = {each for project in projects for each in project["dependencies"]}
    return sorted(each for each in all_of_them if not each.startswith("grain-"))


def _run(*words: str) -> None:
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert 0 == done.returncode, done.stdout
