"""Programs in the documents: where they stand, what they print, and how they are run."""

from __future__ import annotations

import ast
import json
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, NamedTuple

import grain.resource
from grain.resource import to_data
from grain_testkit.programs import run, start, terminated

ROOT = Path(__file__).parent.parent
MARK = "<!-- tested: every python block is a program -->"
DOCUMENTS = sorted(
    [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("packages/*/README.md")]
)
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^```text\n(?P<printed>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A block of Python and where it stands."""

    where: str
    code: str
    printed: str | None


def programs() -> list[Block]:
    """Return the programs of all documents."""
    blocks = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for match in BLOCK.finditer(text) if MARK in text.splitlines() else ():
            line = text.count("\n", 0, match.start()) + 1
            where = f"{document.relative_to(ROOT)}:{line}"
            blocks.append(Block(where, match["code"], match["printed"]))
    return blocks


Place = Literal["local", "isolated", "worker"]
"""Where leaves run: in the process of the mission, in one beside it, or on a worker elsewhere."""

# What opens a mission, and which of its arguments has the resources of a local worker.
_OPENS = {"run": 1, "mission": 0, "Executor": 9}


def _local_resources(code: str) -> list[ast.expr]:
    """Return the expressions of a program that are the resources of a local worker."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            at = _OPENS.get(node.func.id)
            named = [one.value for one in node.keywords if one.arg == "local"]
            found += [] if at is None else named or node.args[at : at + 1]
    return sorted(found, key=lambda one: (one.lineno, one.col_offset))


def moved(code: str, place: Place) -> str:
    """Return a program whose leaves run elsewhere; as it is, if none has a local worker."""
    if place == "local":
        return code
    lines = code.splitlines(keepends=True)
    for one in reversed(_local_resources(code)):
        assert one.end_lineno == one.lineno
        line = lines[one.lineno - 1]
        text = (
            "None"
            if place == "worker"
            else f"{line[one.col_offset : one.end_col_offset]}, isolated=True"
        )
        lines[one.lineno - 1] = line[: one.col_offset] + text + line[one.end_col_offset :]
    return "".join(lines)


def _offer(code: str) -> str:
    """Return the resources of the first local worker of a program, as a worker takes them."""
    text = ast.unparse(_local_resources(code)[0])
    return json.dumps(to_data(eval(text, vars(grain.resource))))


def check(block: Block, folder: Path, place: Place = "local") -> None:
    """Run a program in an empty folder: it runs to its end, and prints what the document says.

    What a leaf prints on a worker elsewhere stands in the output of that.
    """
    program = folder / "program.py"
    program.write_text(moved(block.code, place), encoding="utf-8")
    home = folder / ".home"  # some programs meet at a file there
    home.mkdir(mode=0o700)
    env = {**os.environ, "HOME": str(home)}
    log = home / "log"
    with ExitStack() as stack:
        if place == "worker":
            address = f"unix://{home}/socket"
            config = home / "grain.toml"
            config.write_text(f'address = "{address}"\n[head.gnaw]\nenabled = false\n')
            env["GRAIN_CONFIG"] = str(config)
            out = stack.enter_context(log.open("wb"))
            words = ("-m", "grain.worker", "--url", address, "--res", _offer(block.code))
            worker = start(*words, cwd=home, env=env, stdout=out, stderr=out)
            stack.enter_context(terminated(worker))
        done = run("-W", "error", program, cwd=folder, timeout=240, env=env)

    assert done.returncode == 0, f"{block.where}\n{done.stderr}"
    if block.printed is not None:
        of_leaves = re.findall(
            r"^\S+ \(\w+\) \w+ \| (.*\n)", log.read_text() if log.exists() else "", re.MULTILINE
        )
        assert block.printed == _merged(block.printed, done.stdout, of_leaves), block.where


def _merged(wanted: str, printed: str, of_leaves: list[str]) -> str:
    """Return what a mission and its leaves printed, in the wanted order if that is possible."""
    found, own, others = [], printed.splitlines(keepends=True), [*of_leaves]
    for line in wanted.splitlines(keepends=True):
        source = others if others and others[0] == line and line not in own[:1] else own
        found += source[:1]
        del source[:1]
    return "".join(found + own + others)
