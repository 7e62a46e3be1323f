"""Answers to questions: what is refused, and what is said of another version."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grain.edge.buffers import Pieces
from grain.edge.errors import RemoteProtocolError
from grain.edge.questions import LoadAnswer, PeerVersions, ProgramState, WhyAnswer, pack, unpack
from grain.edge.version import Versions, package_version

LOAD = {"given": 2, "cores": 4, "computing": 1.5}


def test_an_answer_arrives_as_it_was_packed() -> None:
    load = LoadAnswer(2, 4, 1.5)
    assert load == unpack(pack(load), LoadAnswer)
    assert [load] == unpack(Pieces([pack([load])]), list[LoadAnswer])
    assert LOAD == msgspec.msgpack.decode(pack(load))


def test_what_is_not_utf_8_in_an_answer_arrives_as_a_question_mark() -> None:
    why = WhyAnswer(1, "waiting", ["no \udcff"])
    assert ["no ?"] == unpack(pack(why), WhyAnswer).reasons


@pytest.mark.parametrize(
    "answer",
    [
        {"given": 2, "cores": 4},
        {**LOAD, "more": 1},
        {**LOAD, "given": "2"},
        [2, 4, 1.5],
        "words",
    ],
    ids=["a field too few", "a field too many", "another type", "a list", "words"],
)
def test_an_answer_of_another_form_is_refused(answer: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="the head's answer is not valid: "):
        unpack(pack(answer), LoadAnswer)
    # Nor does the same version of Grain make another version of it.
    with pytest.raises(RemoteProtocolError, match="the head's answer is not valid: "):
        unpack(pack(answer), LoadAnswer, package_version())


def test_nothing_is_no_answer() -> None:
    with pytest.raises(RemoteProtocolError):
        unpack(None, LoadAnswer)


def test_an_answer_of_another_version_of_grain_names_both() -> None:
    with pytest.raises(RemoteProtocolError) as error:
        unpack(pack({**LOAD, "more": 1}), LoadAnswer, "9.7.5")
    assert (
        f"it answers as Grain '9.7.5' does, and this side is Grain '{package_version()}': "
        "install the same version on both"
    ) == str(error.value)
    # What both have is understood.
    assert LoadAnswer(2, 4, 1.5) == unpack(pack(LOAD), LoadAnswer, "9.7.5")


def test_what_is_not_known_of_a_task_is_left_out_of_its_answer() -> None:
    """As programs read it from `grain why --json`."""
    assert {"task": 1, "state": "waiting", "reasons": [], "function": ""} == msgspec.to_builtins(
        WhyAnswer(1, "waiting", [], "")
    )


def test_versions_have_names_in_an_answer_and_none_in_a_message() -> None:
    numbers = ("Python 3.11", "3.11.7", "1.0", "")
    named = {"interpreter": "Python 3.11", "python": "3.11.7", "grain": "1.0", "numpy": ""}
    assert named == msgspec.to_builtins(PeerVersions(*numbers))
    assert list(numbers) == list(msgspec.to_builtins(Versions(*numbers)))


def test_a_program_is_a_list_in_an_answer() -> None:
    assert ["xtb", 2.0, None, 0.5] == msgspec.msgpack.decode(
        pack(ProgramState("xtb", 2.0, None, 0.5))
    )
