"""Output files that tasks of an array share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grain.queue.arrays import parse_array
from grain.queue.patterns import SharedOutput, is_shared, shared_outputs
from grain.queue.records import Job


def job(array: str | None = "1-20", **fields: Any) -> Job:
    made = parse_array(array) if array else None
    return Job(name="a", at=0.0, host="h", user="u", directory="/d", array=made, **fields)


def of_all(name: str, first: int = 1, second: int = 2) -> SharedOutput:
    return SharedOutput(Path("/d", name), (first, second), True)


@pytest.mark.parametrize(
    ("stdout", "stderr", "expected"),
    [
        ("out-%a", "", []),
        ("out-%A_%3a", "err.%a", []),
        ("out-%a", "./out-%a", []),
        ("all", "", [of_all("all")]),
        ("all", "./all", [of_all("all")]),
        ("out-%j", "err-%a", [of_all("out-%j")]),
        ("%N.out", "err-%a", [of_all("%N.out")]),
        ("out-%a", "err-%4A", [of_all("err-%4A")]),
        (r"\out%a", "", [of_all("out%a")]),
        # The stderr of one is the stdout of another.
        ("out%a", "out1%a", [SharedOutput(Path("/d/out11"), (11, 1), False)]),
        ("3", "%a", [of_all("3"), SharedOutput(Path("/d/3"), (1, 3), False)]),
        ("%a", "3", [of_all("3"), SharedOutput(Path("/d/3"), (3, 1), False)]),
        ("%a.txt", "%A.txt", [of_all("%A.txt"), SharedOutput(Path("/d/%A.txt"), (2, 1), False)]),
        ("all", "%a", [of_all("all")]),
        ("%a", "all", [of_all("all")]),
    ],
)
def test_files_that_two_tasks_write_are_found(
    stdout: str, stderr: str, expected: list[SharedOutput]
) -> None:
    assert expected == shared_outputs(job(stdout=stdout, stderr=stderr))
    assert is_shared(stdout, job(stdout=stdout)) == any(
        one.appended and one.path == Path("/d", stdout.replace("\\", "")) for one in expected
    )


@pytest.mark.parametrize("array", [None, "7"])
def test_one_task_shares_with_no_other(array: str | None) -> None:
    one = job(array, stdout="all", stderr="all")
    assert [] == shared_outputs(one)
    assert not is_shared("all", one)


def test_the_two_tasks_are_of_the_array() -> None:
    assert [of_all("all", 5, 9)] == shared_outputs(job("5,9-20", stdout="all"))
