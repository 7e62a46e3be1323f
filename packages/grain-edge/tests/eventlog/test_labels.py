"""The labels of missions: a number of a name is given once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.eventlog import names
from grain.eventlog.names import label_of, parse_label, take_number, use_number

DAY = 86400.0


def age(folder: Path, days: float) -> None:
    for file in folder.iterdir():
        os.utime(file, (time.time() - days * DAY,) * 2)


def test_the_numbers_of_a_name_are_counted_and_those_of_another_name_by_themselves(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "new" / "labels"
    words = ("opt", "opt", "scan", "opt", "opt.2", "my opt", "my_opt")

    assert [1, 2, 1, 3, 1, 1, 2] == [take_number(word, folder=folder) for word in words]
    assert 0o700 == folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777


@settings(max_examples=25)
@given(
    st.lists(
        st.sampled_from(["take", "unused", "use", "age", "more"]) | st.integers(1, 12), max_size=20
    )
)
def test_no_number_is_given_twice_whatever_was_removed(steps: list[str | int]) -> None:
    """Files may be of any age, and other files may have been removed, if a larger one is there."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        had: list[int] = []
        unused: list[int] = []
        for step in steps:
            if step == "take":
                had.append(take_number("opt", folder=folder))
            elif step == "unused":
                unused.append(take_number("opt", folder=folder, unused=True))
                assert unused[-1] not in had
            elif step == "use":
                had.append(
                    use_number("opt", label_of("opt", max(unused, default=0)), folder=folder)
                )
            elif step == "age":
                age(folder, 2)
            elif step == "more":
                take_number("other", folder=folder)
            elif isinstance(step, int) and step < max([*had, *unused], default=0):
                (folder / f"opt@{step}").unlink(missing_ok=True)

        assert len(had) == len(set(had))
        assert 0 not in had


def test_processes_that_begin_at_once_get_different_numbers(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from grain.eventlog.names import take_number\n"
        "sys.stdin.read(1)\n"
        "print(*(take_number('opt', folder=Path(sys.argv[1])) for _ in range(200)))\n"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    processes = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    printed = [process.communicate(timeout=100)[0].split() for process in processes]

    assert [200, 200] == [len(numbers) for numbers in printed]
    assert set(range(1, 401)) == {int(number) for numbers in printed for number in numbers}


def test_earlier_files_go_after_a_day_and_the_last_stays(tmp_path: Path) -> None:
    for _ in range(3):
        take_number("opt", folder=tmp_path)
    take_number("scan", folder=tmp_path)
    age(tmp_path, 0.9)
    take_number("opt", folder=tmp_path)
    assert 5 == len(os.listdir(tmp_path))
    age(tmp_path, 1.1)

    assert 5 == take_number("opt", folder=tmp_path)
    assert {"opt@4", "opt@5", "scan@1"} == set(os.listdir(tmp_path))


def test_a_number_that_another_process_has_taken_since_the_look_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS shows folders late."""
    take_number("opt", folder=tmp_path)
    take_number("opt", folder=tmp_path)
    monkeypatch.setattr("os.listdir", lambda _: ["opt@1"])

    assert 3 == take_number("opt", folder=tmp_path)


def test_the_number_of_a_start_is_that_of_its_first_mission(tmp_path: Path) -> None:
    """Later ones of that process, and those that its program calls otherwise, have their own."""
    given_ = label_of("opt", take_number("opt", folder=tmp_path, unused=True))
    names = ("scan", "opt", "opt", "scan")

    assert [1, 1, 2, 2] == [use_number(name, given_, folder=tmp_path) for name in names]
    assert [3, 4] == [use_number("opt", word, folder=tmp_path) for word in ("opt", "")]


def test_a_mission_that_cannot_write_has_no_number(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert 0 == use_number("opt", "", folder=tmp_path / "file" / "labels")
    with pytest.raises(OSError, match="file"):
        take_number("opt", folder=tmp_path / "file" / "labels")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_only_be_read_gives_no_number(tmp_path: Path) -> None:
    take_number("opt", folder=tmp_path)
    tmp_path.chmod(0o500)
    try:
        assert 0 == use_number("opt", "", folder=tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_without_a_home_directory_a_mission_has_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(names, "state_folder", homeless)
    assert 0 == use_number("opt", "")


def test_a_label_is_a_name_and_a_number() -> None:
    assert ("opt", 12) == parse_label(label_of("opt", 12))
    assert ("a@1", 2) == parse_label("a@1@2")
    words = ("opt", "opt@", "@1", "opt@0", "opt@01", "opt@-1", "opt@x", "opt@1234567890", "opt@1:2")
    assert {None} == {parse_label(word) for word in words}
    assert "opt" == label_of("opt", 0)
