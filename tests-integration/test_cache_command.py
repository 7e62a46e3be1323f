"""``grain cache``, on what missions have kept."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grain.cli.app import main as grain

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
from grain.delayed import delayed, each, run
from grain.resource import Cores

@delayed(cache_hfn="args"{options})
async def energy(name, k=1):
    return name{more}

@delayed(cache_hfn=lambda x: f"number {{x}}")
async def other(x):
    return x

async def main():
    await each((energy @ Cores(1))(name) for name in ("water", "ethane"))
    await (other @ Cores(1))(1)

run(main, Cores(1), config_file=False)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CACHE", raising=False)
    return tmp_path


def mission(here: Path, options: str = "", more: str = "") -> None:
    """Run the program, perhaps edited."""
    (here / "chem.py").write_text(PROGRAM.format(options=options, more=more))
    subprocess.run([sys.executable, "chem.py"], check=True, timeout=60, cwd=here)


def told(*words: str, code: int = 0) -> str:
    """What ``grain cache`` says."""
    done = CliRunner().invoke(grain, ["cache", *words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_ls_has_a_line_for_every_result(here: Path) -> None:
    """Every result has a line with its call."""
    mission(here)

    *lines, total = told("ls").splitlines()

    assert ["chem.py:energy('ethane')", "chem.py:energy('water')", "chem.py:other(number 1)"] == (
        sorted(line.split("  ")[-1].strip() for line in lines)
    )
    assert total.startswith("3 results, ")
    assert told("ls", "energy").splitlines()[-1].startswith("2 results, ")
    assert told("ls", "nergy").splitlines() == ["0 results, 0 B"]


def reasons(*words: str) -> dict[str, str]:
    """The reason that explain gives for each call."""
    lines = [line.strip() for line in told("explain", *words).splitlines()]
    return {call.split("  ")[1]: why for call, why in zip(lines[::2], lines[1::2], strict=False)}


def test_explain_gives_reasons_for_hits_and_misses(here: Path) -> None:
    """Hits and misses have their reasons."""
    water = "chem.py:energy('water')"
    mission(here)
    assert reasons("energy")[water] == "miss: no result of chem.py:energy was kept by then"
    assert set(reasons()) == {water, "chem.py:energy('ethane')", "chem.py:other(number 1)"}

    mission(here)
    assert reasons()[water].startswith("hit: it was computed on 20")

    mission(here, more=" + '!'")
    assert reasons()[water].startswith("miss: the code of chem.py:energy changed since 20")
    assert reasons()["chem.py:other(number 1)"].startswith("hit")

    mission(here, options=", cache_version='b'")
    assert reasons()[water].startswith("miss: cache_version ('' is 'b' now) changed since 20")


def test_explain_new_and_damaged(here: Path) -> None:
    """So have calls that are new, and results that are damaged."""
    mission(here)
    for path in (here / ".grain-cache").glob("??/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert "3 damaged" in told("ls", "--check")
    mission(here)
    assert set(reasons().values()) == {
        "miss: its entry was not usable: damaged: its checksum is wrong"
    }

    (here / "chem.py").write_text(PROGRAM.format(options="", more="").replace("water", "helium"))
    subprocess.run([sys.executable, "chem.py"], check=True, timeout=60, cwd=here)
    assert reasons()["chem.py:energy('helium')"] == (
        "miss: it was not computed by then for this key; "
        "2 other results of chem.py:energy were kept"
    )


def test_only_some_are_shown(here: Path) -> None:
    """What is left out is said."""
    mission(here)
    assert told("explain", "-n", "1").splitlines()[-1] == "and 2 calls more: -n 3 shows them"
    assert told("explain", "nothing") == "no lookups of nothing\n"


def test_clear_removes_results_of_a_function_damaged_ones_or_all(here: Path) -> None:
    """Results of a function, damaged ones, or all are removed."""
    mission(here)
    assert told("clear", "other") == "1 result removed\n"
    assert told("ls").splitlines()[-1].startswith("2 results")

    one, two = (here / ".grain-cache").glob("??/*")
    one.write_bytes(b"short")
    assert told("clear", "--damaged") == "1 result removed\n"
    assert two.exists()
    assert told("clear", "--all") == "1 result removed\n"
    mission(here)
    assert told("ls").splitlines()[-1].startswith("3 results")


def test_bad_input_is_refused_in_a_sentence(here: Path) -> None:
    """What makes no sense is told in a sentence."""
    assert "no results are kept in" in told("ls", code=1)
    assert "give the cache's with --dir" in told("--dir", "nowhere", "explain", code=1)
    (here / "file").touch()
    assert "Not a directory" in told("-d", "file", "ls", code=1)
    (here / "open").mkdir()
    (here / "open").chmod(0o777)
    assert "may be written by others" in told("-d", "open", "ls", code=1)
    assert "say which results" in told("clear", code=2)


def test_a_directory_without_a_cache_has_no_results(here: Path) -> None:
    """In a directory where no mission kept results, nothing is taken for one, nor removed."""
    theirs = here / "data" / "ab" / ("ab" * 32)  # as other stores name what is in them
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    for words in (["ls"], ["explain"], ["clear", "--all"], ["clear", "--damaged"]):
        assert "no results are kept in" in told("--dir", str(here / "data"), *words, code=1)

    assert theirs.exists()


def test_of_the_configuration(here: Path) -> None:
    """It looks where the configuration says, unless that makes no sense."""
    mission(here)
    (here / "mine.toml").write_text("[head]\ncache = '.grain-cache'\n")
    (here / "other.toml").write_text("[head]\ncache = 'nowhere'\n")
    (here / "wrong.toml").write_text("[head]\ncache = 3\n")

    def told_by(file: str) -> str:
        return CliRunner().invoke(grain, ["-c", file, "cache", "ls"], catch_exceptions=False).output

    assert "3 results" in told_by("mine.toml")
    assert f"no results are kept in {here}/nowhere" in told_by("other.toml")
    assert "head.cache: found the number 3" in told_by("wrong.toml")


def test_as_a_command(here: Path) -> None:
    """It is found by the command `grain`."""
    mission(here)
    done = subprocess.run(
        [sys.executable, "-c", "from grain.cli.app import main; main()", "cache", "ls"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=here,
    )
    assert "3 results" in done.stdout
