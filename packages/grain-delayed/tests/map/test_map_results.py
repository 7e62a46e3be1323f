"""The names of files and directories that are made of inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from grain.inputs.errors import InputError
from grain.map.results import Results, WorkingDirectory


@pytest.mark.parametrize(
    "name", ["out/{}", "./out/{}.log", "/tmp/out/{}/", "../out/{}", "out/{//}"]
)
def test_an_input_leads_no_file_out_of_the_directory_before_it(name: str) -> None:
    for value in ("../../.bashrc", "a/../../../b"):
        with pytest.raises(InputError, match=r"an input has '\.\.' in it"):
            Results(name).files(1, [value])
        with pytest.raises(InputError, match=r"an input has '\.\.' in it"):
            WorkingDirectory(name).of(1, [value])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("out/{}", "a/b", "out/a/b"),
        ("out/{}", "/etc/x", "out/etc/x"),
        ("../out/{}", "..a", "../out/..a"),
        ("out/{}", "a/../b", "out/a/../b"),
        ("{//}", "../data/x", "../data"),
        ("{}", "/data/x", "/data/x"),
        ("/{}", "../data", "/../data"),
    ],
)
def test_other_names_are_those_of_the_inputs(name: str, value: str, expected: str) -> None:
    """One that begins with a replacement is where its input says."""
    assert Path(expected).absolute() == WorkingDirectory(name).of(1, [value])


@pytest.mark.parametrize(
    ("name", "out", "err"),
    [
        ("r", "r/4/stdout", "r/4/stderr"),
        ("r/", "r/4/stdout", "r/4/stderr"),
        ("r/{/.}.log", "r/b.log", "r/b.log.err"),
        ("r/{#}/", "r/4/stdout", "r/4/stderr"),
        ("T=1 r/{#}/", "T=1 r/4/stdout", "T=1 r/4/stderr"),
    ],
)
def test_outputs_go_to_a_directory_for_each_job_or_by_a_template(
    name: str, out: str, err: str
) -> None:
    stdout, stderr = Results(name).files(4, ["a/b.c"])

    assert (out, err) == tuple("/".join(p.parts[-len(out.split("/")) :]) for p in (stdout, stderr))
