"""The way from the package to its rooms."""

from __future__ import annotations

from pathlib import Path

import grain.worker


def test_the_layout_names_every_module() -> None:
    """The comment on top of the package is complete."""
    modules = {p.stem for p in Path(str(grain.worker.__file__)).parent.glob("*.py")}

    told = str(grain.worker.__doc__)
    assert {m for m in modules if f"``{m}``" not in told} == {"__init__", "__main__"}
