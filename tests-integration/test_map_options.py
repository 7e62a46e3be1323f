"""``grain map`` for those who know GNU parallel: every option works, or says what to do instead.

The tables have all options of section OPTIONS in the manual of GNU parallel 20221122.
"""

from __future__ import annotations

import csv
import io
import re
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from grain.delayed import MissionCancelled
from grain.map.command import map_command
from grain_testkit.programs import run

if TYPE_CHECKING:
    from pathlib import Path

# Options, and a part of the sentence that says what to do in their place.
REFUSED = {
    "--arg-file-sep --arg-sep": "the marks are ::: and ::::",
    "--basefile --bf --cleanup --return --rsync-opts --transfer --transferfile --tf --trc": (
        "no file is transferred"
    ),
    "--basenamereplace --bnr --basenameextensionreplace --bner --dirnamereplace --dnr -I --replace "
    "-i --plus --parens --rpl --seqreplace --slotreplace --extensionreplace --er": (
        "the replacements are fixed: {} {.} {/} {//}"
    ),
    "--bin --block --block-size --block-timeout --bt --cat --fifo --group-by --pipe --spreadstdin "
    "--pipe-part --recstart --recend --regexp --remove-rec-sep --removerecsep --rrs --round-robin "
    "--round --shard --tee": "Give it files, as after split -n l/8",
    "--bg --fg --semaphore --semaphore-name --id --semaphore-timeout --st --wait": (
        "flock FILE COMMAND"
    ),
    "--color --color-failed --cf --ctag --ctagstring": "--tag shows whose they are",
    "--compress --compress-program --decompress-program": "'prog {} | gzip > {.}.gz'",
    "--controlmaster -M --filter-hosts --hostgroups --hgrp --nonall --onall --ssh --ssh-delay "
    "--sshlogin -S --sshloginfile --slf": "workers join by `grain up`",
    "--delimiter": "Convert others, as by tr , '\\n'",
    "-E --eof -e": "sed '/^END$/Q'",
    "--embed --_parset --session --shebang --hashbang --shebang-wrap": "write a shell script",
    "--filter": "by grep or awk",
    "-L --max-lines -l -m --max-args -n --max-replace-args -N --max-chars -s -X --exit -x "
    "--xargs": ("Put several values into one line, as by `paste - -`, and add --colsep '\\t'"),
    "--limit --load --memfree --memsuspend --noswap": "State that, as in -r Cores=1,Memory=4",
    "--latest-line --ll --line-buffer --lb --ungroup -u --tmux --tmuxpane": (
        "tail -f NAME/1/stdout"
    ),
    "--link --xapply": "as in ::: a b :::+ 1 2",
    "--minversion -V --version": "grain --version",
    "--open-tty -o --interactive -p --tty": "run a program that needs one by itself",
    "--output-as-files --outputasfiles --files": "--results NAME writes outputs",
    "--process-slot-var": "grain map -j 4 env NAME={%} COMMAND",
    "--max-line-length-allowed --show-limits": "getconf ARG_MAX",
    "--number-of-cpus --number-of-cores --number-of-sockets --number-of-threads "
    "--use-sockets-instead-of-threads --use-cores-instead-of-threads --use-cpus-instead-of-cores": (
        "nproc(1)"
    ),
    "--nice": "grain map nice -n 10 COMMAND",
    "--profile -J": "write a shell script or an alias",
    "--quote -q": "no shell reads the command; leave it out",
    "--no-run-if-empty": "leave it out",
    "--record-env": "--env NAME",
    "--retry-failed": "--resume-failed runs once more what failed",
    "--shell-completion": "_GRAIN_COMPLETE=bash_source",
    "--shell-quote": "printf '%q\\n'",
    "--skip-first-line": "tail -n +2",
    "--sql --sql-master --sql-and-worker --sql-worker": "--results FILE.csv",
    "--template --tmpl": "write the file in the command",
    "--term-seq": "SIGKILL after a second",
    "--total-jobs --total": "leave it out",
    "--tmpdir": "TMPDIR=DIR grain map COMMAND",
    "--verbose -t -v": "--dry-run prints the commands",
    "--trim": "trim them before, as by sed",
}

# Options that work, with arguments, inputs, and the commands that --dry-run prints.
PLAIN = "{}"
WORKS = [
    ("--null", "{} ::::", "nul", ["echo 'a b'", "echo c"]),
    ("-0", "{} ::::", "nul", ["echo 'a b'", "echo c"]),
    ("--arg-file lines", PLAIN, "", ["echo a", "echo b"]),
    ("-a lines", PLAIN, "", ["echo a", "echo b"]),
    ("--colsep ,", "{2} ::: a,b", "", ["echo b"]),
    ("-C ,", "{2} ::: a,b", "", ["echo b"]),
    ("--csv", "{2} ::: a,b", "", ["echo b"]),
    ("--header :", "{x} ::: x 1", "", ["echo 1"]),
    *((option, "{} ::: a b", "", ["echo a", "echo b"]) for option in (
        "--bar", "--delay 1", "--dry-run", "--env HOME", "--eta", "--gnu", "--group",
        "--halt-on-error 1", "--halt now,fail=1", "--halt -1", "--halt -2", "--halt 0", "--halt 2",
        "--joblog log", "--jl log", "--jobs 2", "-j 2", "-j +1", "-j -1", "-j 50%", "-j50%", "-P 2",
        "--max-procs +2", "--keep-order", "-k", "--no-keep-order", "--plain", "--progress",
        "--results out", "--results t.csv", "--results t.tsv", "--results out/{/.}/",
        "--joblog log --resume", "--joblog log --resume-failed", "--retries 3", "--silent", "--tag",
        "--tagstring {#}", "--timeout 10", "--timeout 1h", "--warn EXIT",
        "--warn SIGTERM --warn-before 2m", "--workdir .", "--wd w/{#}",
    )),
    ("-k", "{.}{/}{//}{/.}{#} ::: d/a.b", "", ["echo d/aa.bda1"]),
    ("-k", "{1}{2}{2.} ::: a ::: b.c", "", ["echo ab.cb"]),
    ("-k", "{1}{2} ::: a b :::+ 1 2", "", ["echo a1", "echo b2"]),
    ("-k", "{} :::: lines ::::+ lines", "", ["echo a a", "echo b b"]),
]  # fmt: skip

# What is refused of an option that exists.
IN_PART = [
    (["--halt", "soon,fail=10%"], "Percentages are not"),
    (["--halt", "10%"], "Percentages are not"),
    (["--timeout", "200%"], "share of the median"),
    (["--delay", "1auto"], "write seconds"),
    (["--warn", "SIGNO"], "the name of a file"),
    (["--warn-before", "2m"], "add --warn"),
    (["--warn", "EXIT", "--timeout", "1m"], "would be warned as it begins"),
    (["--header", ".*"], "write --header : for the first line"),
    (["--joblog", "+log"], "--resume adds lines"),
    (["--results", "x.json"], "x.csv for a table"),
    (["--results", "x.csv", "-k"], "sort the table by its first column"),
    (["--results", "x", "--tag"], "leave them out"),
    (["--resume"], "--joblog FILE"),
    (["--retries", "0"], "1<=x<=1000"),
    (["--env", "_"], "name each variable"),
    (["--env", "NO_SUCH_VARIABLE"], "export NO_SUCH_VARIABLE first"),
    (["-j", "0"], "write how many"),
    (["-j", "file"], '-j "$(cat FILE)"'),
    (["-r"], "nothing runs without input"),
    (["--res", "out"], "by --results"),
    (["--wd", "..."], "--wd 'work/{#}'"),
    (["--csv", "--colsep", ";"], "exclude each other"),
]


@cache
def is_gnu_parallel() -> bool:
    """Return True if ``parallel`` is GNU's; moreutils has another program of that name."""
    try:
        done = subprocess.run(["parallel", "--version"], capture_output=True, text=True)
    except FileNotFoundError:
        return False
    return done.stdout.startswith("GNU parallel")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nul").write_bytes(b"a b\0c\0")
    (tmp_path / "lines").write_text("a\nb\n")


def printed(*words: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(map_command, ["--dry-run", *words])
    return result.exit_code, result.output.splitlines()


@pytest.mark.parametrize(("option", "rest", "file", "commands"), WORKS)
def test_an_option_of_gnu_parallel_works(
    option: str, rest: str, file: str, commands: list[str]
) -> None:
    words = [*option.split(), "echo", *rest.split(), *file.split()]

    assert (0, commands) == printed(*words)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [(option, text) for options, text in REFUSED.items() for option in options.split()],
)
def test_an_option_of_gnu_parallel_is_refused_with_what_to_do(option: str, sentence: str) -> None:
    status, output = printed(option, "echo", ":::", "a")

    assert 255 == status
    assert f"No such option: {option}; " in output[-1]
    assert sentence in output[-1]


@pytest.mark.parametrize(("words", "sentence"), IN_PART)
def test_a_part_of_an_option_is_refused_with_what_to_do(words: list[str], sentence: str) -> None:
    status, output = printed(*words, "echo", ":::", "a")

    assert 255 == status
    assert sentence in "\n".join(output)


def test_the_shuffled_inputs_are_all_there() -> None:
    status, output = printed("--shuf", "echo", "{#}", ":::", *map(str, range(1, 30)))

    assert 0 == status
    assert [f"echo {i}" for i in range(1, 30)] == sorted(output, key=lambda line: int(line[5:]))
    assert output != sorted(output, key=lambda line: int(line[5:]))


@pytest.mark.parametrize("text", ["{= s/a/b/ =}", "{..}", "{+/}", "{-1}", "{1..}"])
def test_a_replacement_of_gnu_parallel_that_is_missing_is_refused(text: str) -> None:
    status, output = printed("echo", text, ":::", "a")

    assert 255 == status
    assert "is not known here; there are {}" in output[-1]


@pytest.mark.skipif(not is_gnu_parallel(), reason="GNU parallel is not installed")
def test_the_tables_have_every_option_that_gnu_parallel_prints() -> None:
    text = subprocess.run(["parallel", "--help"], capture_output=True, text=True, check=True).stdout
    known = {word for options in REFUSED for word in options.split()}
    known |= {word for row in WORKS for word in row[0].split()} | {"--shuf", "--help", "--resume"}

    assert set() == set(re.findall(r"(?<![\w-])--?[A-Za-z0][\w-]*", text)) - known


# Words, and what GNU parallel 20221122 prints for them.
OUTPUTS = [
    (["--tag", "echo {}; echo x{}", ":::", "a b", "c"], "a b\ta b\na b\txa b\nc\tc\nc\txc\n"),
    (["--tag", "printf 'x\\ny'", ":::", "a", ":::", "b"], "a b\tx\na b\ty"),
    (["--tag", "true", ":::", "a"], ""),
    (["--tagstring", "{#}-{/.}", "echo {}", ":::", "d/e.f"], "1-e\td/e.f\n"),
    (["--tagstring", "T", "echo {}", ":::", "a"], "T\ta\n"),
    (["echo $(( {} + 1 )) {#}", ":::", "1", "-7"], "2 1\n-6 2\n"),
    (["echo {%} {}", ":::", "1", "2"], "1 1\n1 2\n"),
    (["--header", ":", "echo {b} {a.}", ":::", "a", "x.y", ":::", "b", "1", "2"], "1 x\n2 x\n"),
    (["echo {1} {2}", ":::", "a", "b", ":::+", "1", "2"], "a 1\nb 2\n"),
    (["--colsep", ",", "echo {2} {1}", ":::", "a,b"], "b a\n"),
    (["echo {.} {/} {//} {/.}", ":::", "/x/y.z", ".z"], "/x/y y.z /x y\n .z . \n"),
]


@pytest.mark.parametrize(("words", "expected"), OUTPUTS)
def test_outputs_are_those_of_gnu_parallel(words: list[str], expected: str) -> None:
    ours = grain_map(words)

    assert expected == ours.stdout
    assert 0 == ours.returncode
    if is_gnu_parallel():
        assert expected == parallel(words).stdout


def test_a_table_has_the_columns_of_gnu_parallel() -> None:
    words = ["--results", "-.csv", "-C", ";", "printf '%s,\n' {1}; echo e >&2; exit {2}", ":::",
             'a";0', "b,;3"]  # fmt: skip
    names = "Seq Host Starttime JobRuntime Send Receive Exitval Signal Command V1 V2 Stdout Stderr"

    rows = list(csv.reader(io.StringIO(grain_map(words).stdout)))

    assert names.split() == rows[0]
    assert [
        ["1", "4", "0", 'a"', "0", 'a",\n', "e\n"],
        ["2", "4", "3", "b,", "3", "b,,\n", "e\n"],
    ] == [[row[i] for i in (0, 5, 6, 9, 10, 11, 12)] for row in rows[1:]]
    if is_gnu_parallel():
        theirs = list(csv.reader(io.StringIO(parallel(words).stdout)))
        moving = {1, 2, 3, 8}  # host, times, and the command: quotes are written in several ways
        fixed = [i for i in range(13) if i not in moving]
        assert [[row[i] for i in fixed] for row in theirs] == [
            [row[i] for i in fixed] for row in rows
        ]


def grain_map(words: list[str]) -> subprocess.CompletedProcess[str]:
    program = "from grain.cli import main; main()"
    order = [] if "--results" in words else ["-k"]
    return run("-c", program, "map", "-j1", *order, "--shell", *words, timeout=240)


def parallel(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["parallel", "--will-cite", "-j1", "-k", *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_a_map_that_grain_cancel_ends_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after Ctrl-C, with its exit status."""

    async def cancelled(*_: object) -> None:
        raise MissionCancelled("the mission was cancelled by me on n1 with `grain cancel`")

    monkeypatch.setattr("grain.map.mission.run_map", cancelled)
    log = str(tmp_path / "log")
    done = CliRunner().invoke(map_command, ["--joblog", log, "echo", ":::", "a"])

    assert 130 == done.exit_code
    assert "grain map: interrupted: 0 jobs succeeded, 0 failed; nothing is left" in done.output
    assert "\nTo go on: grain " in done.output
