"""Check that imports keep to the arrows between the packages.

A package may import another one only if its pyproject.toml declares it (directly or through one
that it declares), and only by names without a leading underscore.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The lazy facade `grain.GrainExecutor` is the one upward reference; see grain/__init__.py.
ALLOWED = {("grain-resource", "packages/grain-resource/src/grain/__init__.py", "grain.head")}


def declared(package: Path) -> set[str]:
    """The siblings that a package declares, read without a TOML library (Python 3.10 has none)."""
    text = (package / "pyproject.toml").read_text()
    block = re.search(r"^dependencies = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    return set(re.findall(r'"(grain-[a-z]+)==', block[1])) if block else set()


def closure(package: Path) -> set[str]:
    """All siblings below a package, and itself."""
    found = {package.name}
    for sibling in declared(package):
        found |= closure(package.parent / sibling)
    return found


def owners(packages: list[Path]) -> dict[str, str]:
    """Which package ships which subpackage of `grain`; GVAR and the facade are grain-resource's."""
    found = {"grain": "grain-resource", "grain._gvar": "grain-resource"}
    for package in packages:
        for sub in (package / "src" / "grain").iterdir():
            if sub.is_dir() and sub.name != "__pycache__":
                found[f"grain.{sub.name}"] = package.name
    return found


def imported(tree: ast.AST) -> list[tuple[int, str]]:
    """Every imported module or name, absolute, with its line."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                found.append((node.lineno, "relative import"))
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def problems() -> list[str]:
    """One line for each import that goes against an arrow."""
    packages = sorted(p.parent for p in ROOT.glob("packages/*/pyproject.toml"))
    owner = owners(packages)
    out = []
    for package in packages:
        below = closure(package)
        for file in sorted(package.glob("src/**/*.py")):
            where = file.relative_to(ROOT).as_posix()
            for line, name in imported(ast.parse(file.read_text())):
                top = ".".join(name.split(".")[:2])
                if name == "relative import":
                    out.append(f"{where}:{line}: relative import; write the whole name")
                if top not in owner or (package.name, where, top) in ALLOWED:
                    continue
                if owner[top] not in below:
                    out.append(f"{where}:{line}: {name} belongs to {owner[top]}, not declared")
                elif owner[top] != package.name and re.search(r"\._(?!_)", name):
                    out.append(f"{where}:{line}: {name} is private to {owner[top]}")
    return out


if __name__ == "__main__":
    found = problems()
    print("\n".join(found) or "imports keep to the arrows")
    sys.exit(bool(found))
