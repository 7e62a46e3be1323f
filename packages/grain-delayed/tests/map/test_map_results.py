"""The names of files and directories that are made of inputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from grain.inputs.errors import InputError
from grain.map.results import JobPlaces, Results, WorkingDirectory


@pytest.mark.parametrize(
    "name", ["out/{}", "./out/{}.log", "/tmp/out/{}/", "../out/{}", "out/{//}"]
)
def test_an_input_leads_no_file_out_of_the_directory_before_it(name: str) -> None:
    """Tried: `../../.bashrc` as input of `--wd 'work/{}'`, `--results 'out/{}'`.
    Result: refused.
    """
    for value in ("../../.bashrc", "a/../../../b", "../out2/b"):
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


def places(results: str | None, where: str | None = None) -> JobPlaces:
    return JobPlaces(None if results is None else Results(results), WorkingDirectory(where))


@pytest.mark.parametrize(
    ("name", "first", "second", "shared"),
    [
        ("out/{/.}.log", "a/x.xyz", "b/x.xyz", "out/x.log"),
        ("out/{/.}/", "a/x.xyz", "b/x.xyz", "out/x/stdout"),
        ("out/{%}", "x", "y", "out/{%}"),
        ("out/{}", "x", "./x", "out/x"),
        ("{}.log", "x", "x", "x.log"),
        # The stderr of the first is the stdout of the second.
        ("out/{}", "x", "x.err", "out/x.err"),
    ],
)
def test_a_file_that_two_jobs_would_write_is_refused_with_their_inputs(
    name: str, first: str, second: str, shared: str
) -> None:
    found = places(name)
    found.add(3, [first])
    with pytest.raises(InputError) as error:
        found.add(5, [second])
    assert f"job 3 ({first}) and job 5 ({second}) would write to one file, " in str(error.value)
    assert f"{Path.cwd()}/{shared}. Put {{#}}" in str(error.value)


def test_a_directory_that_two_jobs_share_is_named_once() -> None:
    found = places(None, "work/{/.}")
    for seq, value in enumerate(["a/x.xyz", "a/y.xyz", "b/x.xyz", "b/y.xyz"], 1):
        assert not found.remark or seq == 4
        found.add(seq, [value])
    assert found.remark.startswith(
        f"job 1 (a/x.xyz) and job 3 (b/x.xyz) run in one directory, {Path.cwd()}/work/x, where"
    )


@pytest.mark.parametrize(("where", "shared"), [(None, True), ("w/{}", True), ("w/{#}", False)])
def test_a_warning_that_all_jobs_of_a_directory_get_is_named(
    where: str | None, shared: bool
) -> None:
    found = JobPlaces(None, WorkingDirectory(where), "EXIT")
    found.add(1, ["x"])
    found.add(2, ["x"])
    assert shared is found.can_be_shared
    assert shared is ("where EXIT, the warning of one, stops the others" in found.remark)


@pytest.mark.parametrize("where", [None, "work", "work/{%}", "work/{#}"])
def test_directories_that_all_share_or_no_two_at_a_time_are_as_the_user_wants(
    where: str | None,
) -> None:
    for results in (None, "out", "out/{#}/{}"):
        found = places(results, where)
        found.add(1, ["x"])
        found.add(2, ["x"])
        assert "" == found.remark
        assert not found.can_be_shared


def test_a_file_to_which_links_lead_two_jobs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d1").mkdir()
    (tmp_path / "d2").symlink_to("d1")
    (tmp_path / "h1").touch()
    (tmp_path / "h2").hardlink_to(tmp_path / "h1")
    for name in ("d{}/out", "h{}"):
        found = places(f"{tmp_path}/{name}")
        found.add(1, ["1"])
        with pytest.raises(
            InputError, match=r"job 1 \(1\) and job 2 \(2\) would write to one file"
        ):
            found.add(2, ["2"])
    found = places(f"{tmp_path}/d{{}}/out")
    found.add(3, ["1"])
    found.add(4, ["3"])
