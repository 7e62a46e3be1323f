"""Arrays, selectors and names of outputs as users write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.queue import patterns
from grain.queue.arrays import (
    array_text,
    as_ranges,
    count_tasks,
    first_and_last,
    has_task,
    parse_array,
    task_numbers,
)
from grain.queue.errors import BadInput
from grain.queue.patterns import Facts
from grain.queue.records import ArraySpec
from grain.queue.selectors import Selected, parse_selector


@pytest.mark.parametrize(
    ("text", "tasks", "at_once"),
    [
        ("0-1", [0, 1], 0),
        ("               0-1", [0, 1], 0),
        ("1-10:2,15,20-22%4", [1, 3, 5, 7, 9, 15, 20, 21, 22], 4),
        ("5", [5], 0),
        ("3,1,2", [1, 2, 3], 0),
        ("1-10:3", [1, 4, 7, 10], 0),
        ("1-9:3,1-3", [1, 2, 3, 4, 7], 0),
    ],
)
def test_an_array_is_read(text: str, tasks: list[int], at_once: int) -> None:
    spec = parse_array(text)

    assert tasks == list(task_numbers(spec))
    assert at_once == spec.at_once
    assert len(tasks) == count_tasks(spec)
    assert (tasks[0], tasks[-1]) == first_and_last(spec)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "neither a number nor a range"),
        ("a-b", "neither a number nor a range"),
        ("1-", "neither a number nor a range"),
        ("-5", "neither a number nor a range"),
        ("1,,2", "neither a number nor a range"),
        ("10-1", "ends before it begins"),
        ("1-10:0", "step"),
        ("1-10%", "after %"),
        ("1-10%0", "after %"),
        ("1-10%x", "after %"),
        ("1-999999", "999,999 tasks, and a job has at most 100,000"),
        ("1000000", "at most 999,999, and a job has at most 100,000"),
        ("1-1000000", "at most 999,999, and a job has at most 100,000"),
        ("1²", "neither a number"),
    ],
)
def test_a_wrong_array_is_refused_with_the_reason(text: str, part: str) -> None:
    with pytest.raises(BadInput, match=part):
        parse_array(text)


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 5))
def test_numbers_as_ranges_are_the_same_numbers(numbers: set[int], at_once: int) -> None:
    spec = ArraySpec(ranges=as_ranges(numbers), at_once=at_once)

    assert sorted(numbers) == list(task_numbers(spec))
    assert spec == parse_array(array_text(spec))
    assert numbers == {number for number in range(70) if has_task(spec, number)}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("last", [Selected(30, 30)]),
        ("all", [Selected(1, 30)]),
        ("12", [Selected(12, 12)]),
        ("12-20,25", [Selected(12, 20), Selected(25, 25)]),
        ("12_3", [Selected(12, 12, ((3, 3),))]),
        ("12_[1-4,7],13", [Selected(12, 12, ((1, 4), (7, 7))), Selected(13, 13)]),
        ("6_[2-3%2]", [Selected(6, 6, ((2, 3),))]),
    ],
)
def test_jobs_and_tasks_are_selected(text: str, selected: list[Selected]) -> None:
    assert tuple(selected) == parse_selector(text, 30)


def test_all_of_an_empty_queue_is_nothing() -> None:
    assert parse_selector("all", 0) == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("last", "the queue is empty"),
        ("", "names no jobs"),
        ("x", "names no jobs"),
        ("0", "numbered from 1"),
        ("20-12", "ends before it begins"),
        ("12_[4-1]", "ends before it begins"),
        ("12_[,]", "neither a task"),
        ("12_", "names no jobs"),
        ("-1", "names no jobs"),
    ],
)
def test_a_wrong_selector_is_refused_with_the_reason(text: str, part: str) -> None:
    with pytest.raises(BadInput, match=part):
        parse_selector(text, 0)


FACTS = Facts(number=12, task=3, name="relax/h2o", user="ada", host="node7.site.org")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("job-%j.out", "job-12.out"),
        ("slurm-%A_%a.out", "slurm-12_3.out"),
        ("%3a-%05j", "003-00012"),
        ("%99j", "0000000012"),
        ("%x.%u.%N", "relax_h2o.ada.node7"),
        ("%n-%t-%J-%s", "0-0-12-batch"),
        ("100%%", "100%"),
        ("%q%", "%q%"),
        ("\\%j", "%j"),
        ("/abs/%j", "/abs/12"),
        ("logs/%j", "logs/12"),
    ],
)
def test_symbols_in_the_name_of_an_output_are_replaced(pattern: str, name: str) -> None:
    assert Path("/home/ada", name) == patterns.path(pattern, FACTS, "/home/ada")


def test_a_step_has_its_number_in_the_name_of_its_output() -> None:
    facts = FACTS._replace(step=1, rank=2, task=None)

    assert Path("/d/12.1-1-2") == patterns.path("%J-%s-%t", facts, "/d")
