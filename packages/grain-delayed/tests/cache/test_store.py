"""The store of results: whole results or none, whatever happens to its files."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from grain.delayed import CacheError
from grain.delayed.cache.key import Key
from grain.delayed.cache.store import LookupResult, Store, StoredResult, Unpicklable

if TYPE_CHECKING:
    from pathlib import Path

KEY = Key("mod.f", "c0de", "", "", "ca11", "7")
OTHER = KEY._replace(call="0the7")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    result_store = Store(tmp_path / "cache")
    result_store.open()
    return result_store


def test_there_and_back(store: Store) -> None:
    """A result is found under its key, in another process's store, too."""
    value = {"energy": -1.5, "at": np.arange(100_000.0)}
    store.write(KEY, value, 2.5)

    result = Store(store.root).read(KEY)

    assert result.hit
    assert -1.5 == result.value["energy"]
    np.testing.assert_array_equal(value["at"], result.value["at"])
    result.value["at"][0] = 1.0  # it can be written to
    assert LookupResult("missing") == store.read(OTHER)
    assert not list((store.root / "grain-tmp").iterdir())


@pytest.mark.parametrize("part", ["function", "code", "bound", "version", "call"])
def test_every_part_counts(store: Store, part: str) -> None:
    """A key that differs in one part is another; what is shown does not count."""
    store.write(KEY, 1, 0.0)

    parts = {**KEY._asdict(), part: "else"}
    assert not store.read(Key(**parts)).hit
    assert store.read(KEY._replace(shown="else")).hit


def test_writing_again_replaces_the_result(store: Store) -> None:
    store.write(KEY, 1, 0.0)
    store.write(KEY, 2, 0.0)

    assert LookupResult("hit", 2) == store.read(KEY)


def test_what_would_act_on_the_world_when_it_is_loaded_is_not_kept(store: Store) -> None:
    """The copy of a connection closes the descriptor that has its number where it is loaded."""
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs, pytest.raises(Unpicklable, match=r"multiprocessing\.Connection belongs to"):
        store.write(KEY, {"energy": [ours]}, 0.0)
    assert LookupResult("missing") == store.read(KEY)


def test_every_truncation_is_found(store: Store) -> None:
    """A file that was cut anywhere is not a result."""
    store.write(KEY, "value", 0.0)
    whole = store.path(KEY).read_bytes()

    for size in range(len(whole)):
        store.path(KEY).write_bytes(whole[:size])
        assert store.read(KEY).status.startswith("damaged"), size


def test_every_flipped_bit_is_found(store: Store) -> None:
    """A file with one wrong bit is not a result, and is never unpickled."""
    store.write(KEY, "value", 0.0)
    whole = store.path(KEY).read_bytes()

    for at in range(len(whole)):
        store.path(KEY).write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        assert not store.read(KEY).hit, at


def test_what_is_appended_is_found(store: Store) -> None:
    """Nothing may follow."""
    store.write(KEY, "value", 0.0)
    with store.path(KEY).open("ab") as file:
        file.write(b"\0")

    assert "damaged: its size is wrong" == store.read(KEY).status


def test_under_a_wrong_name(store: Store) -> None:
    """A result that was copied to another name is not taken for that."""
    store.write(KEY, "value", 0.0)
    store.path(OTHER).parent.mkdir()
    store.path(KEY).rename(store.path(OTHER))

    assert "damaged: it is another result's" == store.read(OTHER).status


class Gone:
    """Becomes unknown."""


def test_a_result_whose_class_is_missing_counts_as_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that cannot be loaded any more is reported with the reason."""
    import sys
    import types

    module = types.ModuleType("a_module")
    monkeypatch.setitem(sys.modules, "a_module", module)
    module.Gone = Gone  # type: ignore[attr-defined]
    monkeypatch.setattr(Gone, "__module__", "a_module")
    store.write(KEY, Gone(), 0.0)
    del module.Gone

    assert store.read(KEY).status.startswith("cannot be loaded: AttributeError")


def test_each_result_has_a_record_and_damaged_files_are_listed_as_damaged(store: Store) -> None:
    before = time.time()
    store.write(KEY, 1, 2.5)
    store.write(OTHER, 1, 0.0)
    store.path(OTHER).write_bytes(b"nothing")

    entries = list(store.results())

    (entry,) = (e for e in entries if isinstance(e, StoredResult))
    assert KEY == entry.key
    assert 2.5 == entry.seconds
    assert before <= entry.created <= time.time()
    assert entry.size == store.path(KEY).stat().st_size
    assert [(store.path(OTHER), "it is too short")] == [e for e in entries if e is not entry]


def test_the_directory_is_closed_to_others(store: Store) -> None:
    store.write(KEY, 1, 0.0)

    assert 0o700 == store.root.stat().st_mode & 0o777
    assert 0o600 == store.path(KEY).stat().st_mode & 0o777


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_directory_that_others_may_write(tmp_path: Path, mode: int) -> None:
    """It is refused, with what to do."""
    (tmp_path / "a cache").mkdir()
    (tmp_path / "a cache").chmod(mode)

    with pytest.raises(CacheError, match=f"others.*{mode:o}.*chmod go-w '{tmp_path}/a cache'"):
        Store(tmp_path / "a cache").open()


def test_a_file_that_others_may_write(store: Store) -> None:
    """It is not unpickled."""
    store.write(KEY, 1, 0.0)
    store.path(KEY).chmod(0o622)

    assert "damaged: it may be written by others (mode 622)" == store.read(KEY).status


def test_directories_and_files_of_another_user_are_not_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried: Plant a cached result, which would be unpickled.
    Result: not used.
    """
    store.write(KEY, 1, 0.0)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    assert "belongs to another user" in store.read(KEY).status
    with pytest.raises(CacheError, match="belongs to another user"):
        store.open()


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_a_link_is_not_followed_and_a_pipe_does_not_block(
    store: Store, kind: str, tmp_path: Path
) -> None:
    """Tried: Plant a cached result as a link or a pipe.
    Result: not followed, does not block.
    """
    store.write(KEY, 1, 0.0)
    path = store.path(KEY)
    path.rename(tmp_path / "moved")
    match kind:
        case "link":
            path.symlink_to(tmp_path / "moved")
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()

    assert not store.read(KEY).hit


@pytest.mark.parametrize("what", ["file", "below a file"])
def test_a_cache_that_cannot_be_made_says_what_to_do(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").touch()
    root = tmp_path / "file" if what == "file" else tmp_path / "file" / "cache"

    with pytest.raises(CacheError, match=r"cannot be used: .*cache=False"):
        Store(root).open()


def test_a_failed_write_leaves_no_file_and_the_old_result(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(KEY, "old", 0.0)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.write(KEY, "new", 0.0)

    assert LookupResult("hit", "old") == store.read(KEY)
    assert not list((store.root / "grain-tmp").iterdir())


def test_a_result_gets_its_name_only_when_it_is_on_the_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output"):
        store.write(KEY, "new", 0.0)

    assert not store.path(KEY).exists()


def test_what_cannot_be_pickled(store: Store) -> None:
    """It says why, and leaves nothing behind; what it raises itself is not an error of the disk."""

    class Remote:
        def __reduce__(self) -> Any:
            raise OSError("connection lost")

    for value, why in ((lambda: 1, "lambda"), (Remote(), "OSError: connection lost")):
        with pytest.raises(Unpicklable, match=why):
            store.write(KEY, value, 0.0)

    assert not list(store.results())


def test_writing_makes_removed_directories_anew(store: Store) -> None:
    import shutil

    shutil.rmtree(store.root)
    store.write(KEY, 1, 0.0)

    assert store.read(KEY).hit


def test_files_in_writing_for_a_day_are_removed_and_newer_ones_are_not(store: Store) -> None:
    old, new = (store.root / "grain-tmp" / f"node-1-{i:012x}" for i in range(2))
    old.touch()
    new.touch()
    os.utime(old, (0, time.time() - 25 * 3600))

    Store(store.root).open()

    assert [new] == list((store.root / "grain-tmp").iterdir())
