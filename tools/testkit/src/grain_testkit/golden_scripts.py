"""Scripts of batch systems as files, whose common paragraphs are in one of them, ``common.sh``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def paragraphs(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n\n")


def by_name(common: Iterable[str]) -> dict[str, str]:
    """Return paragraphs by their first lines, with a number if another one begins so as well."""
    names: dict[str, str] = {}
    for part in common:
        line = part.partition("\n")[0]
        number = sum(one.partition("\n")[0] == line for one in names.values())
        names[f"{line} ({number + 1})" if number else line] = part
    return names


def whole_script(folder: Path, name: str) -> str:
    """Return the script that a file stands for: ``= ...`` is a paragraph, by its name."""
    names = by_name(paragraphs((folder / "common.sh").read_text()))
    text = re.sub(r"(?m)^(= .*)\n(?== )", r"\1\n\n", (folder / f"{name}.txt").read_text())
    return re.sub(r"(?m)^= (.*)$", lambda match: names[match[1]], text)
