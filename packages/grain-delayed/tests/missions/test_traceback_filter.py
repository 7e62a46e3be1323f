"""The messages for a user whose environment is to blame: a sentence that says what to do."""

from __future__ import annotations

import subprocess
import sys
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.config import ConfigError, load
from grain.delayed import delayed, mission, run
from grain.edge.errors import AddressError, EdgeError, ExposedFile
from grain.resource import Cores

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
from grain.delayed import delayed, run
from grain.resource import Cores

@delayed
async def double(x):
    return 2 * x

async def main():
    print(await (double @ Cores(1))(21))

run(main)
"""

MISTAKES = {
    'address = "http://x"': r"AddressError: 'http://x': unknown scheme 'http'; expected edge://",
    'address = "edge:///proc/nowhere/m"': "choose an address on a filesystem that all hosts share",
    'address = "edge://{open}/m"': "or: chmod go-w {open}",
    'adress = "edge:///x/m"': "did you mean address?",
    'head.cache = "/proc/x"': "Give another directory (cache=..., or GRAIN_CACHE), or none",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_the_sentence_is_what_is_seen(tmp_path: Path, text: str) -> None:
    """In the last line; above it are the user's own lines, and no other error."""
    exposed = tmp_path / "open"
    exposed.mkdir()
    exposed.chmod(0o777)
    sentence = MISTAKES[text].replace("{open}", str(exposed))
    (tmp_path / "grain.toml").write_text(text.replace("{open}", str(exposed)))
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, "program.py"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )

    assert (1, "") == (done.returncode, done.stdout)
    assert sentence in done.stderr.splitlines()[-1]
    assert 1 == done.stderr.count("Traceback (most recent call last):")
    assert "run(main)" in done.stderr
    # Of each frame of ours there is a line with its file.
    ours = [line for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert len(ours) <= 3, done.stderr


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
def test_errors_of_the_users_own_code_keep_their_traceback(main: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        run(main, local=Cores(1), config_file=False)

    assert "loading.py" in "".join(traceback.format_exception(caught.value))


def test_an_error_that_a_mission_raises_itself_keeps_its_cause() -> None:
    """It is the user's, whatever its class."""
    error = EdgeError("mine")
    error.__cause__ = OSError("the cause")
    with pytest.raises(EdgeError) as caught:
        run(partial(raise_it, error), local=Cores(1), config_file=False)

    assert caught.value is error
    assert "the cause" == str(error.__cause__)
    assert raise_it.__name__ in "".join(traceback.format_exception(error))


async def test_the_whole_traceback_stays_with_a_shortened_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the context, which is not shown; so it is for a mission inside a program."""
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o777)
    (tmp_path / "grain.toml").write_text(f'address = "edge://{tmp_path}/m"')
    with pytest.raises(ExposedFile) as caught:
        async with mission():
            await wait_for_it()

    shown = "".join(traceback.format_exception(caught.value))
    assert "meeting.py" not in shown
    whole = caught.value.__context__
    assert whole is not None
    assert "meeting.py" in "".join(traceback.format_exception(whole))


def test_an_address_that_is_none_is_final() -> None:
    """Nothing waits for it to become one."""
    assert AddressError.final
