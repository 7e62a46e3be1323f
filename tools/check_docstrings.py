"""Check what ruff does not: the words of docstrings, and the parameters that they name.

A docstring that begins with a question word is a riddle: its reader learns at the end of the
sentence what it is about. A parameter that is not there has had another name before. Some turns
are those of `check_prose`, at which readers stumble in docstrings as on pages.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

_RIDDLE = re.compile(r"(What|Who|Whom|Whether|How|Of|Which|Where|When)\b")
_STUMBLES = (
    (
        re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b)\w+"),
        "is not a",
    ),
    (re.compile(r"\bfor ever\b"), "without end"),
    (re.compile(r"\banew\b"), "again"),
)
_SECTION = re.compile(r"\n\n\w+:\n")
_PARAMETER = re.compile(r"^    \*{0,2}(\w+): ", re.MULTILINE)
_OWNERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def documented(tree: ast.Module) -> Iterator[tuple[int, str, ast.AST | None]]:
    """Yield the line and the text of each docstring, with the function or class that it is of.

    Constants and fields have docstrings, too: those of nothing else.
    """
    owners = {id(node.body[0]): node for node in ast.walk(tree) if isinstance(node, _OWNERS)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, inspect.cleandoc(text), owners.get(id(node))


def parameters(owner: ast.AST | None) -> set[str] | None:
    """Return the parameters of a function, or of a class that has a constructor; else None."""
    if isinstance(owner, ast.ClassDef):
        functions = (one for one in owner.body if isinstance(one, ast.FunctionDef))
        return parameters(next((one for one in functions if one.name == "__init__"), None))
    if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    taken = owner.args
    every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    return {one.arg for one in every if one is not None}


def problems(text: str) -> list[str]:
    """Return one line for each fault of a module, with the number of its line."""
    faults = []
    for line, docstring, owner in documented(ast.parse(text)):
        if riddle := _RIDDLE.match(docstring):
            faults.append(f"{line}: the docstring begins with {riddle[0]!r}: begin with a noun")
        faults += [
            f"{line}: the docstring says {found[0]!r}: better {better!r}"
            for turn, better in _STUMBLES
            for found in turn.finditer(docstring)
        ]
        _, _, rest = docstring.partition("\n\nArgs:\n")
        there = parameters(owner)
        if there is not None:
            faults += [
                f"{line}: the docstring names the parameter {name}, which is not there"
                for name in _PARAMETER.findall(_SECTION.split(rest)[0])
                if name not in there
            ]
    return faults


def main() -> int:
    """Print every fault; return 1 if there is one."""
    files = sorted(ROOT.glob("packages/*/src/**/*.py"))
    faults = [
        f"{file.relative_to(ROOT)}:{line}" for file in files for line in problems(file.read_text())
    ]
    print("\n".join(faults) or f"the docstrings of {len(files)} modules are in order")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
