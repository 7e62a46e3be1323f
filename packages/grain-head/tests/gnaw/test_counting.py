"""Commands that tell how many licences there are."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from grain.head.gnaw.asking import CountFailed, Told, read
from grain.head.gnaw.counting import Count, SharedResources, ask
from grain.resource import Licences

if TYPE_CHECKING:
    from collections.abc import Callable

LMSTAT = """\
Flexible License Manager status on Mon 1/5/2026 09:30
Users of ORCA:  (Total of 9 licenses issued;  Total of 1 license in use)
Users of VASP:  (Total of 5 licenses issued;  Total of 3 licenses in use)
"""
PATTERN = r"VASP: .*Total of (?P<total>\d+) .* Total of (?P<used>\d+)"


def table(command: str, pattern: str = PATTERN, every: float = 0.001) -> dict[str, Any]:
    return {"command": command, "pattern": pattern, "every": every}


def test_the_numbers_are_where_the_pattern_says() -> None:
    assert Told(5, 3) == read(PATTERN, LMSTAT)
    assert Told(9, None) == read(r"ORCA: +\(Total of (?P<total>\d+) ", LMSTAT)
    assert Told(7, None) == read("(?P<total>[0-9]+)", "7\n")


@pytest.mark.parametrize(
    ("pattern", "output", "why"),
    [
        (PATTERN, "lmgrd is not running", "does not match the pattern"),
        (r"(?P<total>\d)", "no", r"the pattern '(?P<total>\d)': no"),
        (PATTERN, "", "(nothing)"),
        ("(?P<total>.*)", "many", "its numbers are not whole numbers: many"),
        ("(?P<total>.*)", "-1", "its numbers cannot be: -1"),
        ("(?P<total>.*)", "9" * 30, "its numbers cannot be"),
        ("(?P<total>.*) (?P<used>.*)", "1 -1", "its numbers cannot be"),
    ],
)
def test_output_without_numbers_is_a_failure(pattern: str, output: str, why: str) -> None:
    with pytest.raises(CountFailed) as raised:
        read(pattern, output)

    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("told", "held", "number"),
    [
        (Told(5, 3), {1: 1}, 3),
        (Told(5, 3), {1: 2, 2: 1}, 5),
        (Told(5, 5), {}, 0),
        (Told(2, 4), {}, 0),
        (Told(5, None), {1: 2}, 5),
    ],
)
def test_tasks_get_what_others_do_not_use(told: Told, held: dict[int, int], number: int) -> None:
    count = Count("Licences", "vasp", table("lmstat"))
    count.on_told(told, held, 0.0)

    assert number == count.number


def test_a_note_says_what_is_known() -> None:
    count = Count("Licences", "vasp", table("lmstat"))
    notes = [count.note()]
    count.failed = "exit status 1"
    notes.append(count.note())
    count.on_told(Told(5, 3), {1: 1}, 0.0)
    notes.append(count.note())
    count.failed = "exit status 1"
    notes.append(count.note())
    count.on_told(Told(5, 0), {1: 1}, 1.0)
    notes.append(count.note())

    assert [
        "vasp: how many there are is not known, as 'lmstat' says: it has not answered yet",
        "vasp: how many there are is not known, as 'lmstat' says: exit status 1",
        "vasp: others use 2",
        "vasp: others use 2, as 'lmstat' said last, which fails now",
        "",
    ] == notes


NUMBER = r"(?P<total>\d+)"


async def test_a_command_prints_its_numbers() -> None:
    assert Told(5, None) == await ask("echo 5", NUMBER)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo no >&2; exit 3", "exit status 3: no"),
        ("kill -9 $$", "SIGKILL: (nothing)"),
        ("not-a-command", "exit status 127: "),
        ("yes", "it prints more than 1 MB: y y y"),
        ("yes >&2", "it prints more than 1 MB: y y y"),
        (r"printf '\033]x;\007bad\n'", "does not match the pattern '(?P<total>\\d+)': \ufffd]x;"),
        ("printf '\\377'", "': \ufffd"),
    ],
)
async def test_a_command_that_fails_says_how(command: str, why: str) -> None:
    with pytest.raises(CountFailed) as raised:
        await ask(command, NUMBER)

    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("last", "why"), [("wait", r"it has not ended within 0\.5 s"), ("echo 3", "")]
)
async def test_nothing_is_left_of_what_a_command_has_started(
    last: str, why: str, tmp_path: Path
) -> None:
    """It hangs, or tells its number; what it has started is in a session of its own, too."""
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    command = f"setsid sleep 1000 3>{tmp_path}/alive & {last}"
    if why:
        with pytest.raises(CountFailed, match=why):
            await ask(command, NUMBER, 0.5)
    else:
        assert Told(3, None) == await ask(command, NUMBER)

    # The end of the file: no process has it open.
    assert b"" == os.read(alive, 1)
    os.close(alive)


async def test_a_pattern_that_looks_for_hours_is_given_up(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    pid = tmp_path / "pid"

    def computing() -> bool:
        """Return True if it has taken more of the CPU than all before the search takes."""
        with suppress(OSError, ValueError):
            stat = Path(f"/proc/{int(pid.read_text())}/stat").read_text()
            return int(stat.rpartition(")")[2].split()[11]) > 0.4 * os.sysconf("SC_CLK_TCK")
        return False

    async def time_passes() -> None:
        while not computing():
            await trio.to_thread.run_sync(time.sleep, 0.05)
        mock_clock.jump(31)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(time_passes)
        with pytest.raises(CountFailed, match=r"the pattern .* has found nothing within 30 s"):
            await ask(f"echo $PPID >{pid}; echo {'a' * 60}", "(?P<total>(a+)+)b")


async def test_a_directory_that_was_removed_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert Told(3, None) == await ask("echo 3", NUMBER)


async def test_others_use_counts_and_a_failure_leaves_the_last_number(tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    answer.write_text(LMSTAT)
    shared = SharedResources({"Licences": {"orca": 2, "vasp": table(f"cat {answer}")}})
    assert {"orca": (0, 2), "vasp": (0, 0)} == shared.pool.usage()["Licences"]
    assert "is not known" in shared.pool.note("Licences")
    troubles: list[tuple[str, str]] = []
    changed = trio.Event()

    def on_changed() -> None:
        nonlocal changed
        changed.set()
        changed = trio.Event()

    async def until(note: str) -> None:
        with trio.fail_after(60):
            while shared.pool.note("Licences") != note:
                await changed.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            shared.keep_counting, on_changed, lambda what, why: troubles.append((what, why))
        )
        await until("vasp: others use 3")
        assert {"orca": (0, 2), "vasp": (0, 2)} == shared.pool.usage()["Licences"]
        shared.pool.take(1, Licences(vasp=1))  # its program has not taken its licence yet
        for _ in range(3):
            await changed.wait()
        assert "vasp: others use 3" == shared.pool.note("Licences")
        assert (1, 2) == shared.pool.usage()["Licences"]["vasp"]
        answer.unlink()
        await until(f"vasp: others use 3, as 'cat {answer}' said last, which fails now")
        await changed.wait()
        assert (1, 2) == shared.pool.usage()["Licences"]["vasp"]
        answer.write_text(LMSTAT.replace("of 3", "of 1"))
        await until("vasp: others use 1")
        assert (1, 4) == shared.pool.usage()["Licences"]["vasp"]
        nursery.cancel_scope.cancel()

    [(what, why), over] = troubles
    assert f"the command 'cat {answer}'" == what
    assert why.startswith(
        f"'cat {answer}' does not tell how many there are of Licences vasp, so the last one counts:"
    )
    assert (what, "") == over


async def test_a_task_may_have_been_counted_that_begins_or_ends_while_the_command_runs(
    tmp_path: Path,
) -> None:
    answer = tmp_path / "answer"
    os.mkfifo(answer)
    shared = SharedResources({"Licences": {"vasp": table(f"cat {answer}")}})
    answered = trio.Event()

    async def tell(used: int, during: Callable[[], object]) -> None:
        nonlocal answered
        answered = trio.Event()
        with trio.fail_after(60):
            # Opening a pipe ends when the command has opened it, too.
            async with await trio.open_file(answer, "w") as stream:
                during()
                await stream.write(LMSTAT.replace("of 3", f"of {used}"))
            await answered.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.keep_counting, lambda: answered.set(), lambda *_: None)
        await tell(3, lambda: None)
        await tell(4, lambda: shared.pool.take(1, Licences(vasp=1)))
        assert {"vasp": (1, 2)} == shared.pool.usage()["Licences"]
        await tell(4, lambda: shared.pool.give_back(1))
        assert {"vasp": (0, 2)} == shared.pool.usage()["Licences"]
        nursery.cancel_scope.cancel()


async def test_nothing_is_handed_out_before_the_first_answer() -> None:
    shared = SharedResources({"Licences": table("exit 1")})
    troubles: list[str] = []
    async with trio.open_nursery() as nursery:

        def stop(what: str, why: str) -> None:
            troubles.append(why)
            nursery.cancel_scope.cancel()

        nursery.start_soon(shared.keep_counting, lambda: None, stop)

    assert {"": (0, 0)} == shared.pool.usage()["Licences"]
    assert "so none is handed out: exit status 1" in troubles[0]


def test_a_kind_without_a_class_is_not_handed_out() -> None:
    pool = SharedResources({"NoSuchKind": 3}).pool

    assert "the scheduler has no class of this kind" in pool.note("NoSuchKind")
