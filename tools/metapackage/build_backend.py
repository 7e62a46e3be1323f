"""The build backend of the metapackage: hatchling, to which a checkout is one thing to install.

The metapackage requires its siblings in its own version. Before a release no index has them, so
`pip install .` in a checkout would find none of them. Here, a wheel that is built in a checkout
requires the siblings in its folder ``packages`` instead, by their addresses (``file:``). Such a
wheel is of use only on this machine, and a backend cannot tell `pip install .` from `pip wheel .`:
so its version ends in ``+checkout``, which indexes refuse (PEP 440, local versions). What is
published is built as the frontends do it, the source distribution first and the wheel from that:
there is no such folder in it, so the wheel has the exact versions. tools/check_wheels.py looks.

uv reads pyproject.toml and does not ask a backend: `[tool.uv.sources]` says the same to it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling import build as hatchling

build_sdist = hatchling.build_sdist
get_requires_for_build_editable = hatchling.get_requires_for_build_editable
get_requires_for_build_sdist = hatchling.get_requires_for_build_sdist
get_requires_for_build_wheel = hatchling.get_requires_for_build_wheel

VERSION = re.compile(r'^version = "([^"]*)"', re.MULTILINE)
PIN = re.compile(r'"(grain-[a-z]+)(\[[a-z]+\])?==[^"]*"')


def build_wheel(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build the wheel into a directory, and return its name."""
    return _build(hatchling.build_wheel, directory, settings, metadata)


def build_editable(directory: str, settings: Any = None, metadata: str | None = None) -> str:
    """Build the wheel of an editable installation, whose siblings are not editable."""
    return _build(hatchling.build_editable, directory, settings, metadata)


def in_checkout(pyproject: str, packages: Path) -> str:
    """Return the text of pyproject.toml with the addresses of siblings in place of their versions.

    The version says so.

    Args:
        pyproject: the text with exact versions.
        packages: the folder of the siblings.
    """

    def address(pin: re.Match[str]) -> str:
        """Return the requirement on a sibling as the address of its folder."""
        return f'"{pin[1]}{pin[2] or ""} @ {(packages / pin[1]).as_uri()}"'

    text = VERSION.sub(r'version = "\1+checkout"', PIN.sub(address, pyproject), count=1)
    return f"{text}\n[tool.hatch.metadata]\nallow-direct-references = true\n"


def _build(build: Any, directory: str, settings: Any, metadata: str | None) -> str:
    """Build where the backend is run, or in a copy of it with the siblings' addresses."""
    here = Path.cwd()
    if not (here / "packages").is_dir():
        return str(build(directory, settings, metadata))
    directory = str(Path(directory).absolute())
    with tempfile.TemporaryDirectory() as temp:
        for name in ("README.md", "LICENSE"):
            shutil.copy(here / name, temp)
        text = (here / "pyproject.toml").read_text(encoding="utf-8")
        Path(temp, "pyproject.toml").write_text(in_checkout(text, here / "packages"), "utf-8")
        os.chdir(temp)  # hatchling builds the project of the working directory
        try:
            return str(build(directory, settings, metadata))
        finally:
            os.chdir(here)
