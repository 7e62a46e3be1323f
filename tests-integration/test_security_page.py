"""Tests of attacks say what is tried and what comes of it; docs/security.md lists all sockets."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")

# The files that have nothing but attempts of others.
ATTACKS = (
    "tests-integration/test_attacks.py",
    "tests-integration/test_edge_security.py",
    "tests-integration/test_safe_path.py",
    "packages/grain-head/tests/test_fuzz.py",
    "packages/grain-edge/tests/connecting/test_hostile_streams.py",
    "packages/grain-edge/tests/relay/test_hostile_bridge.py",
)

TRIED = re.compile(r"Tried: .*?\.\s+Result: .*?\.(?=\s+Tried: |\s*$)", re.DOTALL)


def docstrings_of(path: Path) -> dict[str, str]:
    """Return the docstrings of the tests of a file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {
        node.name: ast.get_docstring(node) or ""
        for node in body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_")
    }


@pytest.mark.parametrize("path", ATTACKS)
def test_each_attempt_says_what_is_tried_and_what_comes_of_it(path: str) -> None:
    tests = docstrings_of(ROOT / path)

    assert tests
    assert [] == [name for name, text in tests.items() if not TRIED.search(text)]


def test_what_is_tried_is_said_with_its_result() -> None:
    folders = [*ROOT.glob("packages/*/tests"), ROOT / "tests-integration"]
    tests = {
        f"{path}::{name}": text
        for folder in folders
        for path in folder.rglob("test_*.py")
        for name, text in docstrings_of(path).items()
        if re.search("^Tried: ", text, re.MULTILINE)
    }

    assert len(tests) > 150
    assert [] == [where for where, text in tests.items() if not TRIED.search(text)]


def test_the_page_and_the_policy_name_each_other() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "../SECURITY.md" in PAGE


# Words by which code opens a socket, or has descriptors sent. `bind` and `listen` are of sockets
# that these have made, and so are `accept` and `connect`.
OPENING = re.compile(
    r"socket|socketpair|create_server|create_connection|fromfd|from_stdlib_socket|"
    r"(open|start|serve|create)_(unix|tcp)\w*|(send|recv)_fds|SCM_RIGHTS|SocketListener|start_server"
)
ASKING = {"is_own", "peer_of", "check_peer"}


def words_of(path: Path) -> set[str]:
    """Return the names and attributes that a module calls, and the attributes that it reads."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func
            found.add(getattr(called, "attr", getattr(called, "id", "")))
        elif isinstance(node, ast.Attribute) and node.attr in {"AF_UNIX", "SCM_RIGHTS"}:
            found.add(node.attr)
    return found


def modules_with_sockets() -> dict[str, set[str]]:
    """Return the words of each module that opens a socket, by its path below ``grain``."""
    found = {}
    for path in ROOT.glob("packages/*/src/**/*.py"):
        words = words_of(path)
        if any(map(OPENING.fullmatch, words)):
            found[str(path).partition("/src/grain/")[2]] = words
    return found


def test_the_page_lists_each_module_that_opens_a_socket_and_who_is_asked_there() -> None:
    table = PAGE.partition("### Sockets")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    listed = {
        module: asked for _, where, asked in rows[1:] for module in re.findall(r"`(\S+)`", where)
    }
    found = modules_with_sockets()
    assert {*found} == {*listed}
    for module, words in found.items():
        named = "AF_UNIX" in words and "socketpair" not in words
        assert not named or words & ASKING, f"{module} opens a Unix socket and asks no one"
