"""Leaves do the same with a local worker, an isolated one, and a worker elsewhere."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from same_everywhere import ENDINGS, LEAVES

from grain_testkit.programs import run, start, terminated

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(__file__).with_name("same_everywhere.py")
MODES = ("local", "isolated", "worker")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What the program prints in each mode: it runs when a test first asks."""
    results: dict[str, Any] = {}

    def in_mode(mode: str) -> Any:
        if mode not in results:
            results[mode] = run_in(mode, tmp_path_factory.mktemp(mode))
        return results[mode]

    return in_mode


def run_in(mode: str, folder: Path) -> Any:
    address = f"unix://{folder}/socket"
    config = folder / "grain.toml"
    config.write_text(f'address = "{address}"\n[head.gnaw]\nenabled = false\n')
    env = {**os.environ, "GRAIN_CONFIG": str(config)}
    with ExitStack() as stack:
        if mode == "worker":
            words = ["--url", address, "--name", "w1", "--res", '{"Cores": [0]}']
            log = stack.enter_context((folder / "log").open("wb"))
            worker = start(
                "-m",
                "grain.worker",
                *words,
                cwd=folder,
                env=env,
                stdout=log,
                stderr=log,
                umask=0o022,
            )
            stack.enter_context(terminated(worker))
        done = run(PROGRAM, mode, cwd=folder, env=env, timeout=600, umask=0o022)
    assert 0 == done.returncode, done.stderr
    (line,) = done.stdout.splitlines()  # one mission has printed, and no copy of it
    return json.loads(line) | {"home": folder.name, "above": folder.parent.name}


VALUES = {
    "method": 18,
    "inherited method": 10,
    "method of the base": 15,
    "method of the class": 18,
    "method of a dataclass": 20,
    "bound method": 15,
    "class method": ["Calc", 10],
    "class method, decorated": ["Calc", 10],
    "class method of an instance": ["Calc", 10],
    "static method": 25,
    "static method, decorated": 25,
    "method in a process": 15,
    "method in a thread": 15,
    "callable": 8,
    "callable without a hash": 30,
    "partial": 35,
    "partial of a method": 15,
    "partial of a callable": 15,
    "decorated": 12,
    "delayed later": 12,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", ["script", "module"])
def test_a_leaf_may_be_any_callable_wherever_it_stands(printed: Any, mode: str, place: str) -> None:
    assert set(LEAVES) == set(VALUES)
    assert VALUES == printed(mode)[place]


MOMENTS = ("before", "after a leaf", "after the root function")


@pytest.mark.parametrize("mode", MODES)
def test_programs_start_where_the_mission_did_whoever_moves_the_process(
    printed: Any, mode: str
) -> None:
    for moment in MOMENTS:
        seen = printed(mode)["surroundings"][moment]
        assert seen["GVAR.cwd"] == seen["program"]["directory"] == printed(mode)["home"], moment


@pytest.mark.parametrize("mode", MODES)
def test_what_a_leaf_changes_in_its_process_the_next_one_sees(printed: Any, mode: str) -> None:
    """Directory and umask of Python code, and variables of programs; not the umask of those."""
    before, after, _ = (printed(mode)["surroundings"][moment] for moment in MOMENTS)
    home = printed(mode)["home"]
    assert (home, "0022") == (before["directory"], before["umask"])
    assert ("elsewhere", "0077") == (after["directory"], after["umask"])
    assert ("none", "0022") == (before["program"]["of a leaf"], before["program"]["umask"])
    assert ("leaf", "0022") == (after["program"]["of a leaf"], after["program"]["umask"])


def test_only_leaves_in_the_process_of_the_mission_see_what_the_root_function_changes(
    printed: Any,
) -> None:
    """As the page on where code runs has it."""
    seen = {mode: printed(mode)["surroundings"]["after the root function"] for mode in MODES}
    rows = {
        "directory": (printed("local")["above"], "elsewhere", "elsewhere"),
        "log level": (10, 30, 30),
        "words": (2, 1, 1),
        "globals": (["changed"], [], []),
        "signals": (["SIGUSR1"], [], []),
    }
    assert rows == {row: tuple(seen[mode][row] for mode in MODES) for row in rows}
    variables = tuple(seen[mode]["program"]["of the root"] for mode in MODES)
    assert ("root", "none", "none") == variables


STATUS = {"returns": 0, "raises": 1, "exec fails": 1, "computes": 21, "runs a program": 21}


@pytest.mark.parametrize("mode", MODES)
def test_a_child_that_a_leaf_forks_is_never_seen(printed: Any, mode: str) -> None:
    places = ("in the loop", "at once", "in a thread", "in a process", "in a branch")
    expected = {
        f"{ending}, {where}": f"parent {STATUS[ending]}" for ending in ENDINGS for where in places
    }
    others = {
        "multiprocessing": 49,
        "subprocess": "/\n",
        "in the root function": "parent 0",
    }
    assert expected | others == printed(mode)["forks"]
