"""What groups have learned, in its file, where no scheduler runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.facts import needs as kept_needs
from grain.facts.needs import FinishedRun, StoredGroup
from grain.files.whole import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def group(name: str, *peaks: float) -> StoredGroup:
    runs = tuple(FinishedRun(peak, 8.0, 60.0) for peak in peaks)
    return StoredGroup(name, runs, len(runs), 1, 9.0, 8.0, obeys=False)


def write(path: Path, *groups: StoredGroup) -> None:
    write_whole(path, kept_needs.encode(groups))


def names(path: Path) -> list[str]:
    return [one.name for one in kept_needs.read(path)]


def test_groups_that_match_are_forgotten_and_others_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "needs.json"
    write(path, group("opt", 1.0, 2.0), group("test-1"), group("test-2"))
    gone = kept_needs.forget(path, lambda name: name.startswith("test"))
    assert ["test-1", "test-2"] == [one.name for one in gone]
    assert (group("opt", 1.0, 2.0),) == kept_needs.read(path)
    assert [path] == list(tmp_path.iterdir())


def test_what_a_scheduler_that_ends_writes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "needs.json"
    write(path, group("opt", 1.0), group("test"))
    last = [(group("opt", 1.0, 2.0), group("test"), group("new", 3.0))]

    def matches(name: str) -> bool:
        if last:
            write(path, *last.pop())
        return name == "test"

    kept_needs.forget(path, matches)
    assert (group("opt", 1.0, 2.0), group("new", 3.0)) == kept_needs.read(path)


def test_nothing_is_written_if_no_group_matches(tmp_path: Path) -> None:
    path = tmp_path / "needs.json"
    assert () == kept_needs.forget(path, lambda _: True)
    assert not path.exists()
    write(path, group("opt", 1.0))

    def written() -> tuple[int, int]:  # reading it may change other times
        status = path.stat()
        return status.st_ino, status.st_mtime_ns

    before = written()
    assert () == kept_needs.forget(path, lambda _: False)
    assert before == written()


def test_a_file_of_another_version_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "needs.json"
    path.write_text('{"version": 2, "new": 1}')
    with pytest.raises(kept_needs.Unreadable, match="needs.json: it is of version 2"):
        kept_needs.forget(path, lambda _: True)
    assert '{"version": 2, "new": 1}' == path.read_text()
