"""``grain cache``, on what missions have kept."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grain.cli.app import main as grain
from grain_testkit.programs import run

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
    await each((energy @ Cores(1))(name) for name in {calls})
    await (other @ Cores(1))(1)

run(main, Cores(1), config_file=False)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CACHE", raising=False)
    return tmp_path


def mission(
    here: Path, options: str = "", more: str = "", calls: tuple[str, ...] = ("water", "ethane")
) -> None:
    """Run the program, perhaps edited."""
    (here / "chem.py").write_text(PROGRAM.format(options=options, more=more, calls=calls))
    run("chem.py", cwd=here, timeout=60).check_returncode()


def output(*words: str, code: int = 0) -> str:
    """Return the output of ``grain cache``."""
    done = CliRunner().invoke(grain, ["cache", *words], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_ls_has_a_line_for_every_result(here: Path) -> None:
    """Every result has a line with its call."""
    mission(here)

    *lines, total = output("ls").splitlines()

    assert ["chem.py:energy('ethane')", "chem.py:energy('water')", "chem.py:other(number 1)"] == (
        sorted(line.split("  ")[-1].strip() for line in lines)
    )
    assert total.startswith("3 results, ")
    assert output("ls", "energy").splitlines()[-1].startswith("2 results, ")
    assert output("ls", "nergy").splitlines() == ["0 results, 0 B"]


def reasons(*words: str) -> dict[str, str]:
    """Return the reason that explain gives for each call."""
    lines = [line.strip() for line in output("explain", *words).splitlines()]
    calls = (line.split("  ")[1] for line in lines[::3])
    return {call: why.split(", as ")[1] for call, why in zip(calls, lines[1::3], strict=True)}


def test_explain_names_the_part_of_the_key_that_changed(here: Path) -> None:
    water = "chem.py:energy('water')"
    mission(here, calls=("water",))
    oldest = "it is the oldest result of chem.py:energy that is kept"
    assert {water: oldest} == reasons("energy")
    assert {water, "chem.py:other(number 1)"} == set(reasons())

    mission(here, calls=("water",))  # a hit, which leaves its result as it is
    assert {water: oldest} == reasons("energy")

    mission(here, more=" + '!'", calls=("water",))
    assert reasons()[water].startswith("the code of chem.py:energy changed since 20")
    assert reasons()["chem.py:other(number 1)"].startswith("it is the oldest")

    mission(here, options=", cache_version='b'", calls=("water",))
    changed = reasons()[f"{water} version b"]
    assert changed.startswith("cache_version ('' is 'b' now) changed since 20")


def test_explain_says_that_a_call_is_new(here: Path) -> None:
    mission(here, calls=("water",))
    mission(here, calls=("ethane", "water"))
    mission(here, calls=("helium",))

    new = "the call is new: {} of chem.py:energy {} of other calls"
    assert new.format("1 older result", "is") == reasons()["chem.py:energy('ethane')"]
    assert new.format("2 older results", "are") == reasons()["chem.py:energy('helium')"]


def test_explain_shows_the_parts_of_the_key(here: Path) -> None:
    mission(here, options=", cache_version=2", calls=("water",))

    last = output("explain", "energy").splitlines()[-1]

    assert re.fullmatch(r"    key: code [0-9a-f]{8}, version '2', call [0-9a-f]{8}", last)


def test_explain_says_how_many_calls_it_leaves_out(here: Path) -> None:
    mission(here)
    assert "and 2 calls more: -n 3 shows them" == output("explain", "-n", "1").splitlines()[-1]
    assert "no results of nothing\n" == output("explain", "nothing")


def test_a_damaged_result_is_listed_and_computed_again(here: Path) -> None:
    mission(here)
    for path in (here / ".grain-cache").glob("??/*"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert "3 damaged" in output("ls", "--check")
    mission(here)
    assert "damaged" not in output("ls", "--check")


def test_clear_removes_results_of_a_function_damaged_ones_or_all(here: Path) -> None:
    """Results of a function, damaged ones, or all are removed."""
    mission(here)
    assert output("clear", "other") == "1 result removed\n"
    assert output("ls").splitlines()[-1].startswith("2 results")

    one, two = (here / ".grain-cache").glob("??/*")
    one.write_bytes(b"short")
    assert output("clear", "--damaged") == "1 result removed\n"
    assert two.exists()
    assert output("clear", "--all") == "1 result removed\n"
    mission(here)
    assert output("ls").splitlines()[-1].startswith("3 results")


def test_bad_input_is_refused_in_a_sentence(here: Path) -> None:
    assert "no results are kept in" in output("ls", code=1)
    assert "give the cache's with --dir" in output("--dir", "nowhere", "explain", code=1)
    (here / "file").touch()
    assert "Not a directory" in output("-d", "file", "ls", code=1)
    (here / "open").mkdir()
    (here / "open").chmod(0o777)
    assert "may be written by others" in output("-d", "open", "ls", code=1)
    assert "name the results" in output("clear", code=2)


def test_a_directory_without_a_cache_has_no_results(here: Path) -> None:
    """In a directory where no mission kept results, nothing is taken for one, nor removed."""
    theirs = here / "data" / "ab" / ("ab" * 32)  # as other stores name what is in them
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    for words in (["ls"], ["explain"], ["clear", "--all"], ["clear", "--damaged"]):
        assert "no results are kept in" in output("--dir", str(here / "data"), *words, code=1)

    assert theirs.exists()


def test_of_the_configuration(here: Path) -> None:
    """It looks where the configuration says, unless that makes no sense."""
    mission(here)
    (here / "mine.toml").write_text("[head]\ncache = '.grain-cache'\n")
    (here / "other.toml").write_text("[head]\ncache = 'nowhere'\n")
    (here / "wrong.toml").write_text("[head]\ncache = 3\n")

    def output_with(file: str) -> str:
        return CliRunner().invoke(grain, ["-c", file, "cache", "ls"], catch_exceptions=False).output

    assert "3 results" in output_with("mine.toml")
    assert f"no results are kept in {here}/nowhere" in output_with("other.toml")
    assert "head.cache: found the number 3" in output_with("wrong.toml")


def test_as_a_command(here: Path) -> None:
    """It is found by the command `grain`."""
    mission(here)
    words = ("-c", "from grain.cli.app import main; main()", "cache", "ls")
    done = run(*words, cwd=here, timeout=60)
    done.check_returncode()
    assert "3 results" in done.stdout
