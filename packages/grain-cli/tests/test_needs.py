"""``grain needs`` where no scheduler runs: the file that the last one has kept."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from grain.cli import main
from grain.cli.status.needs import kept_rows
from grain.edge.address import parse_address
from grain.edge.questions import NeedRow
from grain.facts.needs import FinishedRun, StoredGroup, encode, path_of, read
from grain.files.whole import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def grain(*words: str) -> Result:
    return CliRunner().invoke(main, ["needs", "--patience", "0.1", *words])


def group(name: str) -> StoredGroup:
    runs = (FinishedRun(1.5, 8.0, 60.0), FinishedRun(2.5, 8.0, 60.0))
    return StoredGroup(name, runs, 2, 1, 9.0, 8.0, obeys=False)


@pytest.fixture
def kept(address: str) -> Path:
    """The file of a scheduler that has ended, with two groups."""
    where = parse_address(address)
    path = path_of(where.edge, str(where))
    assert path is not None
    path.parent.mkdir(mode=0o700, parents=True)
    write_whole(path, encode([group("opt"), group("md")]))
    return path


def test_groups_are_listed_and_it_says_that_no_scheduler_runs(kept: Path) -> None:
    done = grain()
    assert 0 == done.exit_code
    assert "md: 2 runs, median 2 GB, largest 2.5; 1 attempt had too little" in done.stdout
    assert done.stdout.index("md:") < done.stdout.index("opt:")
    assert "No scheduler runs: this is what the last one has kept" in done.output


def test_they_are_exported(kept: Path) -> None:
    done = grain("--json")
    assert [("md", 2, None), ("opt", 2, None)] == [
        (one["group"], one["runs"], one["asks"]) for one in json.loads(done.stdout)
    ]


def test_one_is_forgotten(kept: Path) -> None:
    assert "opt is forgotten\n" in grain("--forget", "o*").stdout
    assert ["md"] == [one.name for one in read(kept)]
    assert "no group's name matches 'o*'" in grain("--forget", "o*").output


def test_a_scheduler_that_starts_meanwhile_forgets_it_too(kept: Path) -> None:
    """It is asked when the file is written, so that it has read that, or hears of it."""
    seen = []

    def ask() -> list[NeedRow]:
        seen.append([one.name for one in read(kept)])
        return []

    assert ["opt"] == [one.group for one in kept_rows(kept, "opt", ask)]
    assert [["md"]] == seen


def test_a_scheduler_that_runs_is_asked_and_the_file_stays(
    kept: Path, address: str, answering: Any
) -> None:
    with answering(address, needs=[]) as fake:
        done = CliRunner().invoke(main, ["needs", "--patience", "60", "--forget", "opt"])
    assert "no group's name matches 'opt'" in done.output
    assert ["opt"] == [one.pattern for one in fake.asked]
    assert 2 == len(read(kept))


@pytest.mark.parametrize(
    ("text", "runs", "line"),
    [
        ("opt asks for 2 GB: 1 of 2 runs", 2, "opt asks for 2 GB: 1 of 2 runs; 3 attempts had too"),
        ("opt asks for 8 GB: 3 tasks had too little", 0, "opt asks for 8 GB: 3 tasks had too"),
        ("", 0, "opt: no run has finished yet; 3 attempts had too little\n"),
    ],
)
def test_attempts_that_had_too_little_are_counted(
    address: str, answering: Any, text: str, runs: int, line: str
) -> None:
    with answering(address, needs=[NeedRow("opt", runs, 3, None, None, None, text)]):
        done = CliRunner().invoke(main, ["needs", "--patience", "60"])
    assert line in done.output
    assert 1 == done.output.count("had too little")


def test_different_maxima_are_named(address: str, answering: Any) -> None:
    rows = [
        NeedRow("opt", 2, 0, 1.0, 2.0, None, "", (8.0, inf)),
        NeedRow("md", 2, 0, 1.0, 2.0, 2.4, "md asks"),
    ]
    with answering(address, needs=rows):
        done = CliRunner().invoke(main, ["needs", "--patience", "60"])
        data = CliRunner().invoke(main, ["needs", "--patience", "60", "--json"])
    opt, md = done.output.splitlines()
    assert "largest 2. Note: the group 'opt' has two maxima, 8 GB and that of the largest" in opt
    assert "md asks" == md
    assert [[8.0, None], []] == [one["maxima"] for one in json.loads(data.output)]


def test_without_a_file_no_scheduler_answers(address: str) -> None:
    done = grain()
    assert 1 == done.exit_code
    assert "no scheduler answers at" in done.output


@pytest.mark.parametrize("words", [[], ["--forget", "*"]])
@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("{", 0o600, "{}: it is damaged"),
        ('{"version": 2}', 0o600, "{}: it is of version 2"),
        ("", 0o602, "every user may write to {}"),
    ],
)
def test_a_file_that_is_of_no_use_is_named_with_what_to_do(
    kept: Path, content: str, mode: int, why: str, words: list[str]
) -> None:
    kept.write_text(content)
    kept.chmod(mode)
    done = grain(*words)
    assert 1 == done.exit_code
    assert why.format(kept) in done.output
    assert "Move the file elsewhere if you want what it has, and else remove it" in done.output
