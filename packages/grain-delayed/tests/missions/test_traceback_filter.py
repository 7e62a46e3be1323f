"""Tracebacks that end a program: the user's frames, and a sentence. The exceptions stay whole."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from grain.config import ConfigError, load
from grain.delayed import delayed, mission, run
from grain.delayed.missions.traceback_filter import shorten_tracebacks
from grain.edge.errors import AddressError, EdgeError, ExposedFile
from grain.resource import Cores

# Each line that begins with "if child" is a program of its own: a fork, as it takes much longer to
# start a Python with Grain's modules for each. It ends as any program does.
CHILD = """\
import os, sys

def child(folder, **variables):
    pid = os.fork()
    if pid:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        open(os.path.join(folder, "code"), "w").write(str(code))
        return False
    os.chdir(folder)
    os.environ.update(variables)
    for name, number in ("out", 1), ("err", 2):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    return True

"""
PROGRAM = f"""\
{CHILD}
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def double(x):
    return 2 * x

async def main():
    print(await (double @ Cores(1))(21))

"""

MISTAKES = {
    'address = "http://x"': "unknown scheme 'http'; expected edge://",
    'address = "edge:///proc/nowhere/m"': "choose an address on a filesystem that all hosts share",
    'address = "edge://{open}/m"': "or: chmod go-w {open}",
    'adress = "edge:///x/m"': "did you mean address?",
    'head.cache = "/proc/x"': "Give another directory (cache=..., or GRAIN_CACHE), or none",
}


def run_children(program: Path, text: str) -> None:
    """Run a program of several children."""
    program.write_text(text)
    program.parent.chmod(0o700)
    environment = {k: v for k, v in os.environ.items() if k != "GRAIN_TRACEBACK"}
    subprocess.run(
        [sys.executable, program], cwd=program.parent, env=environment, check=True, timeout=300
    )


def test_the_sentence_is_what_is_seen(tmp_path: Path) -> None:
    """In the last line; above it are the user's own lines, and no other error."""
    exposed = tmp_path / "open"
    exposed.mkdir()
    exposed.chmod(0o777)
    program = PROGRAM
    for number, text in enumerate(MISTAKES):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "grain.toml").write_text(text.replace("{open}", str(exposed)))
        program += f"if child({str(folder)!r}): run(main)\n"
    run_children(tmp_path / "program.py", program)

    for number, sentence in enumerate(MISTAKES.values()):
        code, out, err = ((tmp_path / f"{number}" / n).read_text() for n in ("code", "out", "err"))
        assert ("1", "") == (code, out)
        assert sentence.replace("{open}", shlex.quote(str(exposed))) in err.splitlines()[-1]
        assert 1 == err.count("Traceback (most recent call last):")
        assert "run(main)" in err
        # Of each frame of ours there is a line with its file.
        ours = [line for line in err.splitlines() if line.startswith("  File ")]
        assert len(ours) <= 3, err


@delayed
async def misread(path: str) -> None:
    load(path)


async def raise_it(error: Exception) -> None:
    raise error


async def forget() -> None:
    (misread @ Cores(1))("/nowhere.toml")
    await trio.lowlevel.checkpoint()


async def wait_for_it() -> None:
    await (misread @ Cores(1))("/nowhere.toml")


@pytest.mark.parametrize("main", [forget, wait_for_it, partial(load, "/nowhere.toml")])
def test_an_exception_that_is_caught_has_its_whole_traceback(main: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        run(main, local=Cores(1), config_file=False)

    shown = "".join(traceback.format_exception(caught.value))
    assert "loading.py" in shown
    assert "run.py" in shown


def test_an_error_that_a_mission_raises_itself_keeps_its_cause() -> None:
    """It is the user's, whatever its class."""
    error = EdgeError("mine")
    error.__cause__ = OSError("the cause")
    with pytest.raises(EdgeError) as caught:
        run(partial(raise_it, error), local=Cores(1), config_file=False)

    assert caught.value is error
    assert "the cause" == str(error.__cause__)
    assert raise_it.__name__ in "".join(traceback.format_exception(error))


async def test_so_has_one_of_the_environment_in_a_program_of_trio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exposed = tmp_path / "open"
    exposed.mkdir()
    exposed.chmod(0o777)
    (tmp_path / "grain.toml").write_text(f'address = "edge://{exposed}/m"')
    with pytest.raises(ExposedFile) as caught:
        async with mission():
            await wait_for_it()

    assert "meeting.py" in "".join(traceback.format_exception(caught.value))


def test_an_address_that_is_none_is_final() -> None:
    """Nothing waits for it to become one."""
    assert AddressError.final


FAILURES = """\
import os, sys, trio
from grain.combine import open_waitgroup
from grain.delayed import delayed, each, mission, run
from grain.resource import Cores
from grain.worker.external import run_external

@delayed
async def f(x):
    raise ValueError(f"broken {x}")

@delayed
async def external():
    await run_external(["sh", "-c", "exit 3"])

@delayed
async def branch():
    await (f @ Cores(1))(1)

@delayed
async def crash():
    os.kill(os.getpid(), 9)

class Unpicklable(Exception):
    def __init__(self):
        super().__init__(lambda: 1, sys.stdout)

async def awaited():
    await (f @ Cores(1))(1)

async def unawaited():
    (f @ Cores(1))(1)

async def in_a_branch():
    await branch()

async def in_a_waitgroup():
    async with open_waitgroup() as wg:
        wg.submit(Cores(1), f.__wrapped__, 1)

async def external_program():
    await (external @ Cores(1))()

async def wrong_argument():
    await (f @ Cores(1))()

async def never_fits():
    await (f @ Cores(100))(1)

async def operation():
    await (delayed(trio.sleep)(0) + 1)

async def two():
    (f @ Cores(1))(1)
    (f @ Cores(1))(2)

async def itself():
    try:
        {}["a"]
    except KeyError as error:
        raise RuntimeError("mine") from error

async def fifty():
    for i in range(48):
        (f @ Cores(1))(i)
    (external @ Cores(1))()
    (external @ Cores(1))()

async def in_trio():
    async with mission(Cores(1), config_file=False, progress=False):
        await awaited()
"""
STARTS = {
    "run": "run({}, Cores(1), config_file=False, progress=False)",
    "wire": "run({}, Cores(1), config_file='grain.toml', progress=False)",
    "trio": "trio.run({})",
}


class Failed(NamedTuple):
    """A program that fails.

    Attributes:
        main: its function.
        start: the way in which it is called, see `STARTS`.
        full: whether all frames are to be shown.
    """

    main: str
    start: str = "run"
    full: bool = False


def files(shown: str) -> set[str]:
    """Return the names of the files with frames in a traceback."""
    return {Path(file).name for file in re.findall(r'File "([^"]+)"', shown)}


SENTENCES = {
    "awaited": "ValueError: broken 1",
    "unawaited": "ValueError: broken 1",
    "in_a_branch": "ValueError: broken 1",
    "in_a_waitgroup": "ValueError: broken 1",
    "external_program": "ExternalError: sh -c 'exit 3': exit code 3",
    "wrong_argument": "TypeError: f() missing 1 required positional argument: 'x'",
    "never_fits": "can never run here",
    "operation": "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'",
    "two": "ExceptionGroup: 2 tasks failed that were not awaited",
    "itself": "RuntimeError: mine",
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[Failed, str]:
    """The stderr of programs that fail."""
    folder = tmp_path_factory.mktemp("failed")
    programs = [
        *map(Failed, SENTENCES),
        Failed("fifty"),
        *(Failed(main, full=True) for main in ("awaited", "fifty")),
        Failed("awaited", "wire"),
        Failed("in_trio", "trio"),
    ]
    text = f"{CHILD}{FAILURES}\n"
    folders = {one: folder / str(number) for number, one in enumerate(programs)}
    for one, place in folders.items():
        place.mkdir(mode=0o700)
        (place / "grain.toml").write_text(f'address = "edge://{place}/meeting"')
        variable = ", GRAIN_TRACEBACK='full'" if one.full else ""
        start = STARTS[one.start].format(one.main)
        text += f"if child({str(place)!r}{variable}): {start}\n"
    run_children(folder / "program.py", text)
    assert {"1"} == {(place / "code").read_text() for place in folders.values()}
    return {one: (place / "err").read_text() for one, place in folders.items()}


@pytest.mark.parametrize("main", SENTENCES)
def test_the_traceback_that_ends_a_program_has_the_users_frames_only(
    failed: dict[Failed, str], main: str
) -> None:
    shown = failed[Failed(main)]

    assert {"program.py"} == files(shown)
    assert f"run({main}," in shown
    assert SENTENCES[main] in shown


def test_the_users_chain_of_causes_is_shown(failed: dict[Failed, str]) -> None:
    shown = failed[Failed("itself")]

    assert "KeyError: 'a'" in shown
    assert "direct cause" in shown


def test_the_traceback_of_another_process_has_the_users_frames_only(
    failed: dict[Failed, str],
) -> None:
    """It is a note, and so was made there."""
    shown = failed[Failed("awaited", "wire")]

    assert {"program.py"} == files(shown)
    assert "in awaited\n" in shown
    if sys.version_info >= (3, 11):  # before, nothing prints notes
        assert "\nRaised on " in shown
        assert "in f\n" in shown


def test_a_mission_in_a_program_of_trio(failed: dict[Failed, str]) -> None:
    """The frame of `trio.run` stays: the program calls it, and not Grain."""
    assert {"program.py", "_run.py"} == files(failed[Failed("in_trio", "trio")])


def test_the_frames_of_grain_are_shown_on_request(failed: dict[Failed, str]) -> None:
    shown = failed[Failed("awaited", full=True)]

    assert {"program.py", "run.py", "graph.py"} <= files(shown)


def test_fifty_failures_that_were_not_awaited_take_ten_lines(failed: dict[Failed, str]) -> None:
    summary, which, *shown = failed[Failed("fifty")].splitlines()
    above = CHILD.count("\n")

    assert summary.startswith(
        "50 failed (48 x ValueError, first: f(0); 2 x ExternalError exit 3, first: external()), "
    )
    assert which.startswith("Which calls failed, and why: grain history --failed ")
    assert [
        "Traceback (most recent call last):",
        (
            "ExceptionGroup: 50 tasks failed that were not awaited (GRAIN_TRACEBACK=full shows "
            "all of them)"
        ),
        f"  48 x ValueError, the first in f (program.py, line {above + 9}):",
        "      broken 0",
        f"  2 x ExternalError exit 3, the first in external (program.py, line {above + 13}):",
        "      sh -c 'exit 3': exit code 3",
    ] == [shown[0], *shown[-5:]]  # between them, Python 3.13 marks the call
    assert len(shown) <= 10


def test_all_of_fifty_failures_are_shown_on_request(failed: dict[Failed, str]) -> None:
    assert 10 < failed[Failed("fifty", full=True)].count("ValueError: broken")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, BaseException]]:
    """The exceptions that the program's own hook prints, with their text."""
    seen: list[tuple[str, BaseException]] = []

    def hook(kind: type[BaseException], error: BaseException, frames: Any) -> None:
        assert kind is type(error)
        assert frames is error.__traceback__
        seen.append(("".join(traceback.format_exception(error)), error))

    monkeypatch.setattr(sys, "excepthook", hook)
    monkeypatch.delenv("GRAIN_TRACEBACK", raising=False)
    return seen


def test_the_hook_of_the_program_prints_and_the_exception_stays_whole(
    printed: list[tuple[str, BaseException]],
) -> None:
    with pytest.raises(ConfigError) as caught:
        run(wait_for_it, local=Cores(1), config_file=False)
    error = caught.value
    whole = traceback.format_exception(error)
    sys.excepthook(type(error), error, error.__traceback__)

    [(text, shown)] = printed
    assert shown is error
    assert {Path(__file__).name} == files(text)
    assert whole == traceback.format_exception(error)


def test_failing_again_changes_no_hook_again() -> None:
    before = sys.excepthook
    try:
        hooks = set()
        for _ in range(3):
            with pytest.raises(ConfigError):
                run(wait_for_it, local=Cores(1), config_file=False, progress=False)
            hooks.add(sys.excepthook)

        assert 1 == len(hooks)
    finally:
        sys.excepthook = before


def test_a_mission_that_ends_well_leaves_the_hook_alone() -> None:
    before = sys.excepthook
    run(partial(trio.sleep, 0), config_file=False, progress=False)

    assert sys.excepthook is before


def test_exceptions_that_have_nothing_to_do_with_grain_are_shown_whole(
    printed: list[tuple[str, BaseException]],
) -> None:
    shorten_tracebacks(ValueError())
    try:
        json.loads("{")
    except ValueError as error:
        whole = traceback.format_exception(error)
        sys.excepthook(type(error), error, error.__traceback__)

    assert "decoder.py" in "".join(whole)
    assert ["".join(whole)] == [text for text, _ in printed]


def test_only_the_interrupt_of_a_mission_is_not_shown(
    printed: list[tuple[str, BaseException]],
) -> None:
    shorten_tracebacks(KeyboardInterrupt())
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert [] == printed

    shorten_tracebacks(ValueError())
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert 1 == len(printed)


def test_pytest_hides_the_frames_of_grain(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        f"{FAILURES}\ndef test_it():\n    run(awaited, Cores(1), config_file=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )

    assert "in f" in done.stdout or "async def f(x)" in done.stdout
    assert "graph.py" not in done.stdout
    assert "run.py" not in done.stdout.replace("_run.py", "")
