"""The directory of results: its place, and its behaviour when damaged, full or unusable."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from grain.delayed import CacheError, run
from grain.delayed.cache.cache import cache_root
from grain.resource import Cores
from grain_testkit.kept_calls import CALLS, again, square

pytestmark = pytest.mark.usefixtures("here")


def test_damage_is_repaired(here: Path) -> None:
    """A result that is damaged is computed again, and replaced."""
    again(square, (5,))
    (file,) = (here / ".grain-cache").glob("??/*")
    file.write_bytes(file.read_bytes()[:-1])

    for _ in range(2):
        assert [25] == again(square, (5,))
    assert [5, 5] == CALLS


def test_a_full_disk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning, and the mission goes on."""

    def full(fd: int) -> None:
        CALLS.append("sync")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)

    async def main() -> None:
        for i in range(5):
            assert i * i == await (square @ Cores(1))(i)

    run(main, Cores(2), config_file=False)

    output = capsys.readouterr().err
    assert 1 == output.count("warning: results cannot be kept in")
    assert "No space left on device. This mission goes on" in output
    assert 1 == CALLS.count("sync")  # it was not tried again


def test_a_default_that_cannot_be_used(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One warning, and the mission goes on without a cache."""
    (here / ".grain-cache").touch()

    assert [1, 4, 9] == again(square, (1,), (2,), (3,))

    output = capsys.readouterr().err
    assert 1 == output.count("warning")
    assert (
        f"warning: the result cache {here}/.grain-cache cannot be used: Not a directory" in output
    )


@pytest.mark.parametrize("how", ["option", "environment"])
def test_a_choice_that_cannot_be_used(
    here: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that the user named must be usable, before anything begins."""
    (here / "open").mkdir()
    (here / "open").chmod(0o777)
    options = {}
    if how == "option":
        options["cache"] = here / "open"
    else:
        monkeypatch.setenv("GRAIN_CACHE", "open")

    with pytest.raises(CacheError, match="may be written by others"):
        again(square, (1,), **options)
    assert not CALLS


def test_the_argument_goes_before_the_environment_and_that_before_the_current_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again(square, (1,))
    monkeypatch.setenv("GRAIN_CACHE", "by-environment")
    again(square, (1,))
    again(square, (1,), cache="by-argument")
    again(square, (1,), cache=False)

    assert [1, 1, 1, 1] == CALLS
    assert {".grain-cache", "by-environment", "by-argument"} == set(os.listdir(here))


def test_where_the_configuration_says(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes behind the environment."""
    (here / "grain.toml").write_text("[head]\ncache = 'by-configuration'\ngnaw.enabled = false\n")
    monkeypatch.setenv("HOME", str(here / "home"))

    async def main() -> None:
        await (square @ Cores(1))(1)

    run(main, Cores(1), config_file="grain.toml")
    assert list((here / "by-configuration").glob("??/*"))
    monkeypatch.setenv("GRAIN_CACHE", "by-environment")
    run(main, Cores(1), config_file="grain.toml")
    assert list((here / "by-environment").glob("??/*"))


@pytest.mark.parametrize("wrong", [True, "", 3, b"bytes"])
def test_an_option_that_is_no_directory_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="cache=.*give the directory"):
        cache_root(wrong)


def test_nothing_is_made_for_nothing(here: Path) -> None:
    """A mission without such functions touches no directory."""

    async def main() -> None: ...

    run(main, config_file=False)
    assert [] == os.listdir(here)


def test_cleared_amid_a_mission(here: Path) -> None:
    """Somebody may remove the whole directory meanwhile."""

    async def main() -> None:
        await (square @ Cores(1))(1)
        shutil.rmtree(here / ".grain-cache")
        await (square @ Cores(1))(2)

    run(main, Cores(1), config_file=False)
    again(square, (2,))
    assert [1, 2] == CALLS


def test_no_tilde_and_no_variable_becomes_the_name_of_a_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("SCRATCH", "/scratch/ann")
    assert (Path("/home/ann/kept"), True) == cache_root("~/kept")
    monkeypatch.setenv("GRAIN_CACHE", "$SCRATCH/kept")
    assert (Path("/scratch/ann/kept"), True) == cache_root(None)
    monkeypatch.setenv("GRAIN_CACHE", "$WORK/kept")
    with pytest.raises(CacheError, match=r"GRAIN_CACHE=\$WORK/kept: .* WORK is not set"):
        cache_root(None)
    with pytest.raises(CacheError, match="only your own home directory"):
        cache_root("~nobody-of-this-name/kept")
