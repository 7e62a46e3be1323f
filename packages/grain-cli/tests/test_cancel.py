"""`grain cancel`, with a scheduler that says one thing."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from grain.cli import main
from grain.cli.status.cancel import parse
from grain.edge.questions import FoundAnswer
from grain_testkit.states import mission, state

if TYPE_CHECKING:
    from pathlib import Path

OPT = mission("opt", id="abcdef1234", label="opt@2", running=3, waiting=13)
FOUND = FoundAnswer(OPT)


def cancel(*words: str, typed: str | None = None) -> Result:
    """Type the command; with patience, as a busy machine may keep the scheduler from answering."""
    words = ("cancel", "--patience", "60", *words)
    return CliRunner().invoke(main, [*words], input=typed, catch_exceptions=False)


def test_an_unknown_mission_without_a_scheduler_is_named(address: str) -> None:
    result = CliRunner().invoke(main, ["cancel", "--patience", "1", "nope"])
    assert (
        f"Error: `grain` has started no mission nope, and no scheduler answers at {address}: "
        "a scheduler runs only while there are missions with workers elsewhere; "
        "`grain doctor` shows more\n"
    ) == result.output


@pytest.mark.parametrize(
    ("before", "was"), [("running", "ran, and its programs end"), ("waiting", "waited")]
)
def test_a_task_is_cancelled_without_a_question(
    before: str, was: str, address: str, answering: Any
) -> None:
    """The scheduler learns who wants that, for whoever awaits the task."""
    with answering(address, cancel=FoundAnswer(OPT, state=before)) as scheduler:
        done = cancel("opt@2:17")

    assert (0, f"task opt@2:17 is cancelled; it {was}\n") == (done.exit_code, done.output)
    [ask] = scheduler.asked
    assert ("cancel", "opt@2", 17) == (ask.about, ask.mission, ask.task)
    assert f"{getpass.getuser()} on {socket.gethostname()}" == ask.by


def test_a_mission_is_cancelled_by_its_id_after_a_question(address: str, answering: Any) -> None:
    """Another one may get the name meanwhile."""
    with answering(address, find=FOUND, cancel=FOUND) as scheduler:
        done = cancel("opt@2", typed="y\n")

    question = "End mission opt@2 on login1, and 3 running and 13 waiting tasks? [y/N]: y\n"
    told = "mission opt@2 is told to end; 3 running and 13 waiting tasks end with it\n"
    assert (0, question + told) == (done.exit_code, done.output)
    assert [("find", "opt@2", 0), ("cancel", "abcdef1234", 0)] == [
        (ask.about, ask.mission, ask.task) for ask in scheduler.asked
    ]


@pytest.mark.parametrize("typed", ["n\n", "\n", ""])
def test_no_answer_is_a_no(typed: str, address: str, answering: Any) -> None:
    with answering(address, find=FOUND) as scheduler:
        done = cancel("opt", typed=typed)

    assert 1 == done.exit_code
    assert ["find"] == [ask.about for ask in scheduler.asked]


def test_yes_leaves_out_the_question(address: str, answering: Any) -> None:
    away = FoundAnswer(replace(OPT, connected=False, running=0, waiting=1))
    with answering(address, find=away, cancel=away):
        done = cancel("-y", "opt")

    told = (
        "mission opt@2 is away: 0 running and 1 waiting task end now, and the mission when it "
        "comes back\n"
    )
    assert (0, told) == (done.exit_code, done.output)


@pytest.mark.parametrize("words", [("opt:17",), ("-y", "opt")])
def test_the_reason_why_nothing_is_cancelled(
    words: tuple[str, ...], address: str, answering: Any
) -> None:
    error = FoundAnswer(
        None, "2 missions are called 'opt': opt@1 (id a, on n1), opt@2 (id b, on n2)"
    )
    with answering(address, find=error, cancel=error):
        done = cancel(*words)

    assert (1, f"Error: {error.error}\n") == (done.exit_code, done.output)


@pytest.mark.parametrize(
    ("what", "mission", "task"),
    [
        ("opt", "opt", 0),
        ("opt:17", "opt", 17),
        ("opt@2:17", "opt@2", 17),
        ("a:b", "a:b", 0),
        ("a:b:3", "a:b", 3),
    ],
)
def test_a_number_after_a_colon_is_a_task(what: str, mission: str, task: int) -> None:
    assert (mission, task) == parse(what)


@pytest.mark.parametrize("what", ["", ":3", "opt:"])
def test_what_names_no_mission_is_a_mistake_of_the_command_line(what: str, alone: Path) -> None:
    done = cancel(what)

    assert 2 == done.exit_code
    assert "is neither a mission nor a task; `grain ls` names them" in done.output


@pytest.mark.parametrize(
    ("missions", "text"),
    [
        (["opt@1", "opt@2"], "name a mission, as in: grain cancel opt@1; there are: opt@1 opt@2"),
        ([], "name a mission, as in: grain cancel opt; none is here"),
    ],
)
def test_without_a_word_it_lists_the_missions(
    missions: list[str], text: str, address: str, answering: Any
) -> None:
    with answering(address, state=state(missions=[mission(label) for label in missions])):
        done = cancel()

    assert 2 == done.exit_code
    assert text in done.output
    assert all(label in done.output for label in missions)
