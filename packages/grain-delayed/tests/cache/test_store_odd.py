"""Directories of results with other things in them, and with what no mission would write."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

import pytest

from grain.delayed.cache.key import Key
from grain.delayed.cache.store import DamagedFile, Store, StoredResult

if TYPE_CHECKING:
    from pathlib import Path

KEY = Key("mod.f", "c0de", "", "", "ca11", "7")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    result_store = Store(tmp_path / "cache")
    result_store.open()
    result_store.write(KEY, "value", 1.5)
    return result_store


def test_what_others_have_there_stays(tmp_path: Path) -> None:
    """A project that is named as the cache may even have a folder of the same name."""
    theirs = [tmp_path / "grain-tmp" / "scratch", tmp_path / "grain-tmp" / "a-1-b"]
    theirs.append(tmp_path / "ab" / "cdef")
    for path in theirs:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
        os.utime(path, (0, 0))
    (tmp_path / "grain-tmp" / "folder").mkdir()
    os.utime(tmp_path / "grain-tmp" / "folder", (0, 0))
    store = Store(tmp_path)
    for _ in range(9):
        store.open()

    assert all(path.read_text() == "precious" for path in theirs)
    assert (tmp_path / "grain-tmp" / "folder").is_dir()
    assert not list(store.results())


def test_a_huge_file_is_not_read(store: Store) -> None:
    """Nothing is read of what says itself that it is not a whole result."""
    os.truncate(store.path(KEY), 1 << 42)

    assert "damaged: its size is wrong" == store.read(KEY).status
    assert [(store.path(KEY), "its size is wrong")] == list(store.results(check=True))


def test_a_result_that_does_not_fit_into_memory_counts_as_missing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*args: object) -> object:
        raise MemoryError

    monkeypatch.setattr("grain.delayed.cache.store.memoryview", exhausted, raising=False)

    assert "unreadable: there is no memory for it" == store.read(KEY).status
    assert 1 == sum(isinstance(item, DamagedFile) for item in store.results())


@pytest.mark.parametrize(("old", "new"), [
    (b'"created": 1', b'"created": []'), (b'"created": 1', b'"created": 9e99'),
    (b'"created": 1', b'"created": NaN'), (b'"seconds": 1.5', b'"seconds": {}'),
    (b'"7"', b"7"), (b'"mod.f"', b"[]"), (b'"key"', b'"kez"'), (b'"host"', b'"ghost"'),
    (b'{"key"', b"[" * 3000), (b"mod.f", b"mod.g"),
])  # fmt: skip
def test_a_record_that_makes_no_sense(store: Store, old: bytes, new: bytes) -> None:
    """A list of results has it as damaged: it does not compare checksums."""
    path = store.path(KEY)
    whole = path.read_bytes()
    length, size = struct.unpack_from("<QQ", whole, 48)
    record = whole[64 : 64 + length].replace(old, new)
    assert record != whole[64 : 64 + length]
    sizes = struct.pack("<QQ", len(record), size)
    path.write_bytes(whole[:48] + sizes + record + whole[64 + length :])

    (item,) = store.results()

    assert isinstance(item, DamagedFile)
    assert "makes no sense" in item.why or item.why == "it is another result's"
    assert not store.read(KEY).hit


def test_things_without_sense(store: Store) -> None:
    """Files where folders are, folders and pipes where files are: the results are still listed."""
    if store.path(KEY).parent.name != "ab":
        (store.root / "ab").touch()
    pipe, folder = (store.path(KEY).with_name(digit * 64) for digit in "ab")
    os.mkfifo(pipe)
    folder.mkdir()

    assert [KEY] == [item.key for item in store.results() if isinstance(item, StoredResult)]
    damaged = [item.path for item in store.results() if isinstance(item, DamagedFile)]
    assert [pipe, folder] == sorted(damaged)
