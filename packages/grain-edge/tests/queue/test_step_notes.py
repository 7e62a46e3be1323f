"""Notes of steps: what was noted last counts, and a line that was cut is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from grain.queue.folder import Queue
from grain.queue.notes.steps import StepRecord, forget_steps, note_steps, steps_of

if TYPE_CHECKING:
    from pathlib import Path

STEP = StepRecord(0, "true", 1, 2, ("n1",), 100.0)


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue.open(tmp_path / "queue", make=True)


def test_each_step_is_as_it_was_noted_last(queue: Queue) -> None:
    ended = msgspec.structs.replace(STEP, ended=101.0, statuses=(0, -9), state="CANCELLED")
    other = msgspec.structs.replace(STEP, step=1, name="other")
    note_steps(queue, 7, None, 1, [other, STEP])
    note_steps(queue, 7, None, 1, [ended])
    assert [ended, other] == steps_of(queue, 7, None, 1)
    assert [[], []] == [steps_of(queue, 7, None, 2), steps_of(queue, 7, 3, 1)]


def test_a_line_that_is_cut_hides_no_other(queue: Queue) -> None:
    note_steps(queue, 7, 2, 1, [STEP])
    (path,) = (queue.folder / "steps/0").iterdir()
    assert "7_2.1.steps" == path.name
    path.write_bytes(b'{"step": 1, "na\n' + b"\xff\n" + path.read_bytes())
    assert [STEP] == steps_of(queue, 7, 2, 1)


def test_notes_go_with_their_bucket(queue: Queue) -> None:
    for number in (7, 1007):
        note_steps(queue, number, None, 1, [STEP])
    forget_steps(queue, 0)
    forget_steps(queue, 5)
    assert ([], [STEP]) == tuple(steps_of(queue, number, None, 1) for number in (7, 1007))
