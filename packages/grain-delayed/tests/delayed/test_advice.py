"""Advice on code that works and is not what its author wants: one line, once for each function.

tests-integration/test_mistakes.py has the texts as users see them.
"""

from __future__ import annotations

import pytest

from grain.delayed.advice import Advice, ProgramCaller, note_mistakes
from grain.resource import Capacity, Cores, Memory, Node, Resource, Token, WTime
from grain.worker.messages import BlockingCode

SLEEP = BlockingCode("relax", "sweep.py:7", "time.sleep(60)", 2.2, "write `await trio.sleep(...)`")


def test_a_function_that_blocks_is_named_once_and_so_is_the_end_of_a_long_stall() -> None:
    lines: list[str] = []
    advice = Advice(lines.append)
    over = BlockingCode("relax", SLEEP.where, SLEEP.line, 60.4, SLEEP.instead, over=True)

    for code in (SLEEP, SLEEP, over, over):
        advice.on_blocked(code)

    blocks = (
        "warning: relax blocks the event loop of this process, 2 s by now, at sweep.py:7: "
        "`time.sleep(60)`. Until it returns, everything else in the mission must wait. Instead, "
        "write `await trio.sleep(...)`"
    )
    goes_on = "The event loop of this process goes on: relax had blocked it for 60 s"
    assert [blocks, goes_on] == lines


def test_a_line_whose_text_is_not_known_is_named_by_its_number() -> None:
    lines: list[str] = []

    Advice(lines.append).on_blocked(BlockingCode("f", "a.py:3", "", 2.0, "write this"), "n17")

    blocks = (
        "warning: f blocks the event loop on n17, 2 s by now, at a.py:3. Until it returns, all "
        "other tasks there must wait. Instead, write this"
    )
    assert [blocks] == lines


def test_each_function_that_runs_programs_in_the_mission_is_named_once() -> None:
    lines: list[str] = []
    advice = Advice(lines.append)

    for _ in range(20):
        advice.on_program("opt", ["xtb", "a.xyz", *["--a-long-option"] * 5], ProgramCaller.DELAYED)
        advice.on_program("main", ["hostname"], ProgramCaller.ROOT)

    assert 2 == len(lines)
    assert "opt runs `xtb a.xyz --a-long-option --a-long-op...` without" in lines[0]
    assert "Write (opt @ Cores(1))(...);" in lines[0]


@pytest.mark.parametrize(
    ("res", "warned"),
    [
        (Cores(0), True),
        (Cores(0) & WTime(T=60), True),
        (Cores(0) & Memory(0), True),
        (Cores(0) & Token("big"), True),
        (Cores(0) & Memory(1), False),
        (Cores(0) & Capacity(1), False),
        (Cores(1), False),
        (Cores(0.1), False),
        (Node(), False),
        (Memory(1), False),
    ],
)
def test_a_request_that_bounds_nothing_is_named(res: Resource, warned: bool) -> None:
    lines: list[str] = []
    advice = Advice(lines.append)

    for _ in range(2):
        advice.on_request("f", res)

    assert warned == len(lines)


def test_a_group_with_two_maxima_is_named_once() -> None:
    lines: list[str] = []
    advice = Advice(lines.append)
    for most in (32, 32, 16, 16):
        advice.on_request("f", Cores(1) & Memory(most, group="opt"))
    advice.on_request("g", Cores(1) & Memory(group="opt", size=3))
    advice.on_request("g", Cores(1) & Memory(8, group="other"))
    [line] = lines
    assert "the group 'opt' has two maxima, 32 GB and 16 GB: each task keeps to its own" in line


def test_memory_that_is_learned_bounds_a_request() -> None:
    lines: list[str] = []
    Advice(lines.append).on_request("f", Cores(0) & Memory(group="opt"))
    assert [] == lines


def test_notes_are_added_once_and_only_to_what_comes_of_delayed_objects() -> None:
    mistake = TypeError("Object of type Delayed is not JSON serializable")
    other = TypeError("Object of type set is not JSON serializable")
    for _ in range(2):
        note_mistakes(mistake)
        note_mistakes(other)

    assert 1 == len(mistake.__notes__)  # type: ignore[attr-defined,unused-ignore]
    assert not hasattr(other, "__notes__")
