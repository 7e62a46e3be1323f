"""Set one version everywhere: python tools/bump.py 1.1.0 (the packages move in lockstep)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def bumped(text: str, version: str) -> str:
    """A pyproject.toml with its own version and its pins on siblings replaced."""
    text = re.sub(r'^version = ".*"$', f'version = "{version}"', text, flags=re.MULTILINE)
    return re.sub(r'"(grain-[a-z]+)==[^"]*"', rf'"\1=={version}"', text)


def main(version: str) -> None:
    """Rewrite every pyproject.toml."""
    for file in [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]:
        file.write_text(bumped(file.read_text(), version))
    print(f"version {version}; now reinstall (nox does), and begin a section in CHANGELOG.md")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", sys.argv[1]):
        sys.exit("usage: python tools/bump.py VERSION   (as in 1.1.0 or 1.1.0rc1)")
    main(sys.argv[1])
