"""Tests of attacks say what is tried and what comes of it; docs/security.md lists all sockets."""

from __future__ import annotations

import ast
import re
from itertools import chain
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

TESTS = [*ROOT.glob("packages/*/tests"), ROOT / "tests-integration"]
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
    tests = {
        f"{path}::{name}": text
        for folder in TESTS
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


def words_of(tree: ast.AST) -> set[str]:
    """Return the names and attributes that code calls, and the attributes that it reads."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            found.add(getattr(called, "attr", getattr(called, "id", "")))
        elif isinstance(node, ast.Attribute) and node.attr in {"AF_UNIX", "SCM_RIGHTS"}:
            found.add(node.attr)
    return found


def modules() -> dict[str, ast.Module]:
    """Return the code of each module, by its path below ``grain``."""
    return {
        str(path).partition("/src/grain/")[2]: ast.parse(path.read_text(encoding="utf-8"))
        for path in ROOT.glob("packages/*/src/**/*.py")
    }


def test_the_page_lists_each_module_that_opens_a_socket_and_who_is_asked_there() -> None:
    table = PAGE.partition("### Sockets")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    listed = {
        module: asked for _, where, asked in rows[1:] for module in re.findall(r"`(\S+)`", where)
    }
    called = {module: words_of(tree) for module, tree in modules().items()}
    found = {module: some for module, some in called.items() if any(map(OPENING.fullmatch, some))}
    assert {*found} == {*listed}
    for module, words in found.items():
        named = "AF_UNIX" in words and "socketpair" not in words
        assert not named or words & ASKING, f"{module} opens a Unix socket and asks no one"


# The tests in which another user is at the other end, for each function that asks who is there.
# Only `listening_process` is not here: it asks which process listens, and not whose that is.
STRANGERS = {
    "cli/slurm/in_job/step.py::run_step": [
        "srun_tells_nothing_to_a_user_who_has_taken_the_name_of_its_jobs_desk"
    ],
    "edge/connecting/accept.py::take": [
        "another_user_who_connects_to_a_mission_with_lanes_is_turned_away"
    ],
    "edge/machine/peer_user.py::is_own": ["nobody_else_is_taken_for_this_user_and_not_root_either"],
    "edge/transports/unix.py::_connect": ["another_user_who_has_taken_a_name_is_told_nothing"],
    "edge/transports/unix.py::check_peer": ["another_user_who_has_taken_a_name_is_told_nothing"],
    "head/gnaw/metrics_port.py::_is_of_another_user": [
        "another_user_reads_nothing_at_a_socket_whose_mode_was_opened"
    ],
    "worker/gang/control.py::accept": ["a_tasklet_takes_its_process_after_a_stranger"],
    "worker/gang/control.py::admit": ["another_user_starts_nothing_and_the_next_guest_is_served"],
    "worker/gang/control.py::connect": ["a_process_of_a_gang_does_not_talk_to_another_user"],
    "worker/gang/rank.py::take_over": ["a_program_tells_nothing_to_a_user_who_has_taken_a_name"],
    "worker/gang/rsh.py::main": ["a_program_tells_nothing_to_a_user_who_has_taken_a_name"],
    "worker/gang/srun.py::main": [
        "a_stand_in_gives_its_files_to_its_own_rank_and_not_to_a_user_who_comes_first",
        "a_stand_in_tells_nothing_to_a_user_who_has_taken_the_name_of_its_door",
    ],
}


def functions_of(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions in code, also those within others; the code itself may be one."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def test_each_function_that_asks_who_is_at_the_other_end_is_tried_by_another_user() -> None:
    asking = {
        f"{module}::{node.name}"
        for module, tree in modules().items()
        for node in functions_of(tree)
        if [node] == [one for one in functions_of(node) if words_of(one) & ASKING]
    }
    assert {*STRANGERS, "edge/transports/unix.py::listening_process"} == asking

    marked = {
        node.name.removeprefix("test_")
        for folder in TESTS
        for path in folder.rglob("test_*.py")
        if "needs_other_user" in (text := path.read_text(encoding="utf-8"))
        for node in functions_of(ast.parse(text))
        if "needs_other_user" in map(ast.unparse, node.decorator_list)
    }
    assert set() == {*chain(*STRANGERS.values())} - marked
