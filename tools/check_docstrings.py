"""Check words of docstrings, comments and messages: `python -m tools.check_docstrings`.

A docstring that begins with a question word is a riddle: its reader learns at the end of the
sentence what it is about. A parameter that is not there has had another name before. The turns of
`check_prose` at which readers stumble make them stumble in docstrings and comments as well, and
users in what Grain prints: errors, questions, lines of logs.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

from tools.check_messages import GAP, messages_of
from tools.check_prose import TURNS, stumbles

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent

_RIDDLE = re.compile(r"(What|Who|Whom|Whether|How|Of|Which|Where|When)\b")
_STUMBLES = [(re.compile(turn, re.IGNORECASE), hint) for turn, hint in TURNS]
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


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


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
    words = list(comments(text))
    for line, docstring, owner in documented(ast.parse(text)):
        words.append((line, docstring))
        if riddle := _RIDDLE.match(docstring):
            faults.append(f"{line}: the docstring begins with {riddle[0]!r}: begin with a noun")
        _, _, rest = docstring.partition("\n\nArgs:\n")
        there = parameters(owner)
        if there is not None:
            faults += [
                f"{line}: the docstring names the parameter {name}, which is not there"
                for name in _PARAMETER.findall(_SECTION.split(rest)[0])
                if name not in there
            ]
    faults += [
        f"{line}: instead of {found[0]!r} write: {hint}"
        for line, shown in words
        for turn, hint in _STUMBLES
        for found in turn.finditer(shown)
    ]
    faults += [
        f"{line}: instead of {found!r} in a message write: {hint}"
        for line, message in messages_of(text)
        if " " in message  # a single word is a key or a name
        for _, found, hint in stumbles(message.replace(GAP, "X"))
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
