"""Options and directives become a job."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from grain.cli.jobs.errors import BadSubmission
from grain.cli.jobs.submission import (
    directives,
    read_script,
    submit_options,
)
from grain.cli.queue.submission import SubmittedFrom, make_job
from grain.queue.records import ArraySpec, Dependency, Job

if TYPE_CHECKING:
    from pathlib import Path

HERE = SubmittedFrom(
    directory="/home/ann/work",
    environment={"PATH": "/bin", "TERM": "xterm", "PWD": "/home/ann/work", "_": "/bin/grain"},
    umask=0o027,
    host="login1",
    user="ann",
    now=1000.0,
    limits={"NOFILE": 1024, "MEMLOCK": 65536},
)


def job(*words: str, script: str = "", **given: Any) -> Job:
    name = "dir/run.sh" if script else ""
    options = submit_options(given, HERE)
    return make_job(options, HERE, words=words or ("true",), script=script, script_name=name)


def test_a_command_without_options() -> None:
    assert job("/opt/xtb", "mol.xyz") == Job(
        name="xtb",
        at=1000.0,
        host="login1",
        user="ann",
        directory="/home/ann/work",
        command=("/opt/xtb", "mol.xyz"),
        environment={"PATH": "/bin", "TERM": "xterm"},
        umask=0o027,
        limits={"NOFILE": 1024},
        request={"Cores": 1},
        signal_to="all",
    )


def test_a_script_gives_the_job_its_name() -> None:
    assert job("a", script="#!/bin/sh\n").name == "run.sh"
    assert job("a", script="#!/bin/sh\n", name="opt").name == "opt"


def test_an_array_has_an_output_file_for_each_task() -> None:
    found = job(array="1-9:2%3")
    assert found.array == ArraySpec(ranges=((1, 9, 2),), at_once=3)
    assert found.stdout == "job-%A_%a.out"
    assert job(array="1-2", stdout="x").stdout == "x"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("2h", 7200), ("1:30:00", 5400), ("1d", 86400)],
)
def test_time_limits(text: str, seconds: float) -> None:
    assert job(time=text).timeout == seconds


@pytest.mark.parametrize("text", ["", "0", "two", "-5m", "inf"])
def test_a_wrong_time_limit_says_what_to_write(text: str) -> None:
    with pytest.raises(BadSubmission, match=r"--time .*: write a span of time, as 90s"):
        job(time=text)


def test_dependencies() -> None:
    assert job(after=("3", "4,5:any")).after == (
        Dependency(jobs=(3,), until="ok"),
        Dependency(jobs=(4, 5), until="any"),
    )
    with pytest.raises(BadSubmission, match=r"--after x: write numbers of jobs"):
        job(after=("x",))


def test_begin_times() -> None:
    assert job(begin="+2h").not_before == 8200.0
    assert job(begin="2030-01-01T00:00+00:00").not_before == 1893456000.0
    with pytest.raises(BadSubmission, match=r"--begin soon: write a time"):
        job(begin="soon")


@pytest.mark.parametrize(
    ("text", "script", "receivers", "before"),
    [
        ("USR2@30", "#!/bin/sh\n", "steps", 30.0),
        ("B:SIGUSR2@30", "#!/bin/sh\n", "script", 30.0),
        ("12", "#!/bin/sh\n", "steps", 60.0),
        ("USR2@30", "", "all", 30.0),
    ],
)
def test_warnings(text: str, script: str, receivers: str, before: float) -> None:
    found = job(signal=text, time="1h", script=script)
    assert found.signal == signal.SIGUSR2
    assert (found.signal_to, found.signal_before) == (receivers, before)


def test_a_warning_needs_a_time_limit_and_a_signal() -> None:
    with pytest.raises(BadSubmission, match=r"add --time"):
        job(signal="USR2")
    with pytest.raises(BadSubmission, match=r"--signal NO: write a signal"):
        job(signal="NO", time="1h")


def test_a_soft_stop_needs_no_time_limit() -> None:
    found = job(warn="si.EXIT", warn_before="2m")
    assert ("si.EXIT", 120.0) == (found.warn, found.warn_before)
    assert ("SIGTERM", 60.0) == (job(warn="SIGTERM").warn, job(warn="SIGTERM").warn_before)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"warn": "SIGNO"}, "--warn SIGNO: write the name of a file"),
        ({"warn": "EXIT", "time": "1m"}, "--warn-before 60 is not shorter than --time 60"),
        ({"warn_before": "2m"}, "add --warn FILE"),
        ({"warn": "EXIT", "warn_before": "soon"}, "--warn-before soon: write a span of time"),
    ],
)
def test_a_soft_stop_that_cannot_be_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(BadSubmission, match=text):
        job(**given)


def test_resources() -> None:
    assert job(res="Cores=4,Memory=8").request == {"Cores": 4, "Memory": 8}
    with pytest.raises(BadSubmission, match=r"-r Cors=4: "):
        job(res="Cors=4")


def test_the_group_auto_is_named_by_the_script_or_the_command() -> None:
    assert {"M": 32, "group": "xtb"} == job("/opt/xtb", res="Memory=auto:32").request["Memory"]
    of_script = job("a", script="#!/bin/sh\n", res="Memory=auto:32", name="first")
    assert {"M": 32, "group": "run.sh"} == of_script.request["Memory"]
    assert {"M": 32, "group": "opt"} == job(res="Memory=opt:32").request["Memory"]


def test_variables() -> None:
    changed = {"PATH": "/usr/bin", "A": "b=c", "TERM": "xterm"}
    assert changed == job(env=("A=b=c", "PATH=/usr/bin")).environment
    with pytest.raises(BadSubmission, match=r"--env A: write NAME=VALUE"):
        job(env=("A",))


def test_directives_end_with_the_first_command() -> None:
    script = """#!/bin/bash
# A comment.
#GRAIN --name 'two words'   # and a comment
  #GRAIN -r Cores=4
#GRAINS --no
echo x
#GRAIN --late
"""
    assert directives(script) == ["--name", "two words", "-r", "Cores=4"]


def test_a_quote_that_is_not_closed_is_named_by_its_line() -> None:
    with pytest.raises(BadSubmission, match=r"line 2 has a quote that is not closed: #GRAIN -J 'a"):
        directives("#!/bin/sh\n#GRAIN -J 'a\n")


def test_the_command_line_goes_before_directives() -> None:
    base = {"priority": 5, "retries": 2, "timeout": 3600.0}
    own = submit_options({"priority": 0, "stdin": "-", "signal": "USR1"}, HERE, base=base)
    assert [0, 2, "", 10] == [own[name] for name in ("priority", "retries", "stdin", "signal")]


def written(path: Path, content: bytes, mode: int = 0o644) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_a_script_is_a_file_that_names_its_interpreter(tmp_path: Path) -> None:
    # It need not be executable, as for other batch systems.
    name = written(tmp_path / "run.sh", b"#!/bin/sh\necho \xe9\n")
    assert read_script(name, None) == "#!/bin/sh\necho \udce9\n"


def test_a_program_is_no_script(tmp_path: Path) -> None:
    assert read_script(written(tmp_path / "a.out", b"\x7fELF\0", 0o755), None) == ""
    assert read_script("sh", None) == ""
    (tmp_path / "there").mkdir()
    written(tmp_path / "there" / "prog", b"\x7fELF", 0o755)
    assert read_script("./prog", str(tmp_path / "there")) == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"echo x\n", "is not a script: write #! and an interpreter"),
        (b"", "is not a script"),
        (b"#!/bin/sh\r\necho x\r\n", "has line ends of Windows: run dos2unix"),
        (b"#!/bin/sh\n\0", "is not a text"),
        (b"#!/bin/sh\n" + b"#" * 10_000_000, "is longer than 10 MB"),
    ],
)
def test_what_is_no_script_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(BadSubmission, match=message):
        read_script(written(tmp_path / "run.sh", content), None)


def test_a_word_that_is_nothing_is_refused() -> None:
    with pytest.raises(BadSubmission, match=r"no-such: there is no such script here"):
        read_script("no-such", None)


@pytest.mark.parametrize(
    ("given", "directory"),
    [("sub", "/home/ann/work/sub"), ("..", "/home/ann"), ("/scratch", "/scratch")],
)
def test_the_directory_of_a_job_is_absolute(given: str, directory: str) -> None:
    assert job(cwd=given).directory == directory


# ---- several nodes


def test_a_job_on_several_nodes_has_its_request_on_each() -> None:
    of = {"Cores": 8, "Memory": 16}
    expected = {"Gang": {"count": 4, "of": of}}

    found = job(nodes=4, res="Cores=8,Memory=16", ranks=16)

    assert (expected, {"ntasks": "16", "cpus-per-task": "2"}) == (found.request, found.options)
    assert (4, of) == (found.nodes, found.first_choice)
    assert expected == job(res="4 * Cores=8,Memory=16").request
    assert {"Gang": {"count": 2, "of": {"Cores": 1}}} == job(nodes=2).request
    assert {"Cores": 1} == job(nodes=1).request


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"nodes": 2, "res": "2 * Cores=4"}, r"-r 2 \* Cores=4 --nodes 2: .*write one number, as"),
        ({"nodes": 2, "res": "GPUs=1|Cores=4"}, "--nodes 2: .*write the alternatives outside"),
        ({"nodes": 2, "res": "Cores=4", "ranks": 9}, "ask for -r Cores=5 or more on each of the"),
    ],
)
def test_nodes_that_make_no_sense_say_what_to_write(given: dict[str, Any], text: str) -> None:
    with pytest.raises(BadSubmission, match=text):
        job(**given)


def test_of_alternatives_the_first_one_says_how_many_nodes() -> None:
    found = job(res="2 * Cores=8|Cores=16")

    assert (2, {"Cores": 8}) == (found.nodes, found.first_choice)


def test_no_tilde_and_no_variable_becomes_the_name_of_a_directory() -> None:
    """As a line of a script has them, where no shell fills them in."""
    around = HERE._replace(environment={"HOME": "/home/ann", "SCRATCH": "/scratch/ann"})
    given = {
        "stdout": "~/logs/%j", "stderr": "$SCRATCH/%j.err", "stdin": "${SCRATCH}/in", "cwd": "~",
    }  # fmt: skip
    made = make_job(submit_options(given, around), around, words=("true",))
    assert ("/home/ann/logs/%j", "/scratch/ann/%j.err") == (made.stdout, made.stderr)
    assert ("/scratch/ann/in", "/home/ann") == (made.stdin, made.directory)
    for option in given:
        with pytest.raises(BadSubmission, match=rf"--{option} \$WORK/x: .* WORK is not set here"):
            submit_options({option: "$WORK/x"}, around)
    assert "cost$.out" == job(stdout="cost$.out").stdout
