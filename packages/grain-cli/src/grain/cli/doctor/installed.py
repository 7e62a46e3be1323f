"""Checks of ``grain doctor``: the installed packages, and other owners of the name `grain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.doctor.checks import CheckResult, fail, ok

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import Distribution

_OURS = ("resource", "edge", "worker", "head", "delayed", "cli")

NAMESAKES = ("grain.py", "grain/__init__.py")
"""Files that hide the package from programs of their directory."""


def versions() -> list[CheckResult]:
    """Check that all packages of Grain have the same version."""
    from importlib.metadata import PackageNotFoundError, version

    installed = {}
    for name in _OURS:
        try:
            installed[f"grain-{name}"] = version(f"grain-{name}")
        except PackageNotFoundError:
            continue
    return [judge_versions(installed)]


def judge_versions(installed: dict[str, str]) -> CheckResult:
    """Judge the versions of the installed packages."""
    listed = ", ".join(f"{name} {number}" for name, number in installed.items())
    if len(set(installed.values())) > 1:
        wanted = max(installed.values())
        fix = f"pip install {' '.join(f'{name}=={wanted}' for name in installed)}"
        return fail("versions", f"they differ: {listed}", fix)
    python = ".".join(map(str, sys.version_info[:3]))
    number = next(iter(installed.values()), "unknown")
    return ok("versions", f"{number} ({', '.join(installed)}), Python {python}")


def import_name() -> list[CheckResult]:
    """Check that no other distribution has the import name `grain`, and no file of this directory.

    Python searches the directory of a script first.
    """
    from importlib.metadata import distributions

    import grain

    others = intruders(distributions())
    where = getattr(grain, "__file__", None) or "a namespace without an owner"
    if others:
        return [
            fail(
                "import name",
                f"`grain` is claimed by {', '.join(others)}, too: which one is imported is chance",
                f"pip uninstall {' '.join(others)}, then pip install --force-reinstall "
                "--no-deps grain-resource; or use another environment for it",
            )
        ]
    if not hasattr(grain, "GVAR"):
        fix = "Look at what is there; it is in the way of this package."
        return [fail("import name", f"`grain` is something else: {where}", fix)]
    for name in NAMESAKES:
        if Path(name).exists():
            says = f"scripts of this directory import {name} that is in it, and not this package"
            return [fail("import name", says, f"Give {Path(name).parts[0]} another name.")]
    return [ok("import name", f"`grain` is {where}")]


def intruders(installed: Iterable[Distribution]) -> list[str]:
    """List the distributions, other than grain-resource, that install a ``grain/__init__.py``.

    Google's data loader does (distributions ``grain`` and ``grain-nightly``), and so did
    grain-scheduler up to 0.17.
    """
    others = set()
    for one in installed:
        name = str(one.metadata["Name"] or "").lower().replace("_", "-")
        if name == "grain-resource":
            continue
        listed = one.read_text("RECORD") or one.read_text("SOURCES.txt") or ""
        if any(line.startswith("grain/__init__.py") for line in listed.splitlines()):
            others.add(name)
    return sorted(others)
