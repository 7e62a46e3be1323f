"""The files from which `grain` knows its jobs."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from grain.cli.batch import JobRecord, JobRecords, state_folder

RECORD = JobRecord(
    id="6_0",
    system="slurm",
    name="w093015-0",
    log_file="/home/me/w093015-0.log",
    address="edge:///shared/me/edge",
    config="/home/me/grain.toml",
    submitted=1772616615.25,
    cpus=(0, 1),
)


def test_what_is_added_is_read(tmp_path: Path) -> None:
    """Records come back as they were, with their file."""
    records = JobRecords(tmp_path / "jobs")
    file = records.new_file()
    other = replace(RECORD, id="6_1", cpus=())
    records.add(file, RECORD)
    records.add(file, other)

    assert [replace(one, file=file.name) for one in (RECORD, other)] == records.read()
    assert 2 == len(file.read_text().splitlines())


def test_the_oldest_comes_first_also_of_one_second(tmp_path: Path) -> None:
    records = JobRecords(tmp_path / "jobs")
    submitted = [RECORD.submitted + number / 100 for number in range(20)]
    for at in submitted:
        records.add(records.new_file(), replace(RECORD, submitted=at))

    assert submitted == [one.submitted for one in records.read()]


def test_no_other_user_may_look(tmp_path: Path) -> None:
    """The directory and the files are their owner's alone.

    Tried: Read the records of submitted jobs.
    Result: denied.
    """
    file = JobRecords(tmp_path / "jobs").new_file()

    assert 0o700 == stat.S_IMODE(file.parent.stat().st_mode)
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)


def test_submissions_do_not_share_files(tmp_path: Path) -> None:
    """Two commands in the same second write to different files."""
    records = JobRecords(tmp_path / "jobs")

    assert 20 == len({records.new_file() for _ in range(20)})


@pytest.mark.parametrize(
    "line", ['{"id": "6_1", "sys', "[]", "null", '{"id": "7"}', "\xff\xfe", ""]
)
def test_damaged_lines_are_passed_over(tmp_path: Path, line: str) -> None:
    """A line that was cut off, or written by another version, hides no other."""
    records = JobRecords(tmp_path / "jobs")
    file = records.new_file()
    records.add(file, RECORD)
    with file.open("a", encoding="latin-1") as out:
        out.write(f"{line}\n")
    records.add(file, replace(RECORD, id="8"))

    assert ["6_0", "8"] == [record.id for record in records.read()]


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    """A later version may record more."""
    records = JobRecords(tmp_path / "jobs")
    file = records.new_file()
    records.add(file, RECORD)
    file.write_text(file.read_text().replace('{"id"', '{"later": 1, "id"'))

    assert [replace(RECORD, file=file.name)] == records.read()


def test_forgotten_files_are_gone(tmp_path: Path) -> None:
    """Forgetting twice is not an error, as two commands may do so."""
    records = JobRecords(tmp_path / "jobs")
    file = records.new_file()
    records.add(file, RECORD)

    records.forget(file.name)
    records.forget(file.name)

    assert [] == records.read()


def test_there_are_no_records_before_the_first_submission(tmp_path: Path) -> None:
    """Before the first submission there is nothing."""
    assert [] == JobRecords(tmp_path / "nowhere").read()


@pytest.mark.parametrize(
    ("given", "folder"),
    [
        ("/state", "/state/grain"),
        ("", "/home/me/.local/state/grain"),
        ("rel", "/home/me/.local/state/grain"),
    ],
)
def test_only_an_absolute_xdg_state_home_counts(given: str, folder: str) -> None:
    """XDG_STATE_HOME counts if it is absolute, as its specification says."""
    assert Path(folder) == state_folder({"XDG_STATE_HOME": given, "HOME": "/home/me"})


def test_an_id_takes_the_place_of_the_mark_that_was_written_before(tmp_path: Path) -> None:
    """Of a submission that is over, marks go that nothing has replaced, unless they are kept."""
    records = JobRecords(tmp_path / "jobs")
    file = records.new_file()
    marks = [replace(RECORD, id=f"?w{number}.abc") for number in range(4)]
    records.add(file, *marks)
    records.add(file, replace(RECORD, id="7", mark=marks[0].id))
    assert ["?w1.abc", "?w2.abc", "?w3.abc", "7"] == [one.id for one in records.read()]

    # Somebody else has found the same job by its name.
    records.adopt(replace(marks[1], file=file.name), "8")
    records.add(file, replace(RECORD, id="8", mark=marks[1].id))
    assert ["?w2.abc", "?w3.abc", "7", "8"] == sorted(
        (one.id for one in records.read()), key=lambda id_: (id_[0] != "?", id_)
    )

    records.settle(file, [marks[3].id])
    assert {"?w3.abc", "7", "8"} == {one.id for one in records.read()}
    assert "?w2.abc" not in file.read_text()


def test_records_that_another_user_may_have_written_are_not_believed(tmp_path: Path) -> None:
    """`grain drain` would end the processes that they name.

    Tried: Plant records of jobs and missions in a state directory that others share, so that
    `grain drain` or `grain cancel` ends another process of the user.
    Result: not believed.
    """
    records = JobRecords(tmp_path / "jobs")
    records.add(records.new_file(), RECORD)
    tmp_path.chmod(0o777)

    with pytest.raises(PermissionError, match=f"every user may write to {tmp_path}"):
        records.read()
