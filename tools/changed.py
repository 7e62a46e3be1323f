"""Print the paths of the tests that a change asks for: python tools/changed.py.

A changed package asks for its own tests and for those of each package that declares it, directly
or not. A changed test that crosses packages asks for itself. What all packages share, such as
the fixtures of tools/testkit, asks for the tests of all packages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path, PurePosixPath

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
SHARED = ("tools/testkit", "pyproject.toml", "noxfile.py")


def dependents(declared: dict[str, list[str]], package: str) -> list[str]:
    """Return a package and all that declare it, directly or not, in order of their names.

    Args:
        declared: the packages that each package declares.
        package: one of them.
    """
    found = [package]
    for name in found:
        found += [each for each, needs in declared.items() if name in needs and each not in found]
    return sorted(found)


def asked_for(paths: list[str], declared: dict[str, list[str]]) -> list[str]:
    """Return the folders and files of tests that changed paths ask for.

    Args:
        paths: what changed, relative to the root of the repository, with slashes.
        declared: the packages that each package declares.
    """
    packages: set[str] = set()
    files: set[str] = set()
    for path in map(PurePosixPath, paths):
        if str(path).startswith(SHARED):
            packages.update(declared)
        elif path.parts[0] == "packages" and path.parts[1] in declared:
            alone = path.parts[2] == "tests"
            name = path.parts[1]
            packages.update([name] if alone else dependents(declared, name))
        elif path.parts[0] == "tests-integration" and path.name.startswith("test_"):
            files.add(str(path))
    return [*(f"packages/{name}" for name in sorted(packages)), *sorted(files)]


def declarations() -> dict[str, list[str]]:
    """Return the siblings that each package declares."""
    files = {file.parent.name: file for file in sorted(ROOT.glob("packages/*/pyproject.toml"))}
    out: dict[str, list[str]] = {}
    for name, file in files.items():
        requirements = tomllib.loads(file.read_text())["project"]["dependencies"]
        names = (each.split("==")[0] for each in requirements)
        out[name] = [each for each in names if each in files]
    return out


def changed_paths() -> list[str]:
    """Return the paths that differ from the main branch, including untracked ones."""
    for main in ("origin/main", "main"):
        base = _git("merge-base", "HEAD", main)
        if base:
            break
    else:
        base = ["HEAD"]
    # A file that is gone has no tests of its own any more; its package has.
    differing = _git("diff", "--name-only", *base)
    return [*differing, *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    command = ["git", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    print(*(path for path in asked_for(changed_paths(), declarations()) if (ROOT / path).exists()))
