"""The words of ``--warn``, for `grain map` and `grain submit`."""

from __future__ import annotations

import signal

import pytest

from grain.inputs.errors import InputError
from grain.inputs.warning import check_before, parse_warning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EXIT", ("EXIT", "")),
        ("out/si.EXIT", ("out/si.EXIT", "")),
        ("STOPCAR=LSTOP = .TRUE.", ("STOPCAR", "LSTOP = .TRUE.")),
        ("SIGTERM", signal.SIGTERM),
        ("./TERM", ("./TERM", "")),
        ("STOP", ("STOP", "")),
        ("TERM=text", ("TERM", "text")),
    ],
)
def test_a_file_and_its_text_or_a_signal(text: str, expected: object) -> None:
    assert expected == parse_warning(text)


@pytest.mark.parametrize("text", ["", "=text", "SIGTRUM", "/"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="the name of a file"):
        parse_warning(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [("TERM", "TERM"), ("KILL", "KILL"), ("USR2@5", "USR2"), ("B:USR2", "USR2")],
)
def test_a_signal_that_is_written_otherwise_is_not_the_name_of_a_file(text: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{text}: for the signal write SIG{name}, .*/{text}"):
        parse_warning(text)


@pytest.mark.parametrize("text", ["SIGKILL", "SIGSTOP"])
def test_a_signal_that_no_program_can_handle_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"--warn {text}: no program can handle that signal"):
        parse_warning(text)


def test_a_warning_as_the_program_begins_is_refused() -> None:
    check_before(60.0, 61.0, "--time")
    check_before(60.0, None, "--time")
    with pytest.raises(InputError, match="--warn-before 60 is not shorter than --time 60"):
        check_before(60.0, 60.0, "--time")
