"""Failures in a few words: the line that says why, and what alike failures have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.eventlog.causes import cause_of, decisive_line, decisive_line_of, headline, pattern_of

XTB = """xtb mol1.xyz --opt: exit code 128
  on host n1
  in directory /scratch/x
  the last lines of stdout:
    error in the output
  the last lines of stderr:
    ########################################
    [ERROR] Program stopped due to fatal error
    -1- SCF did not converge in 250 cycles
    ########################################
    abnormal termination of xtb"""

IN_ONE_LINE = (
    "xtb mol1.xyz --opt: exit code 128; on host n1; the last lines of stderr: [ERROR] Program "
    "stopped; -1- SCF did not converge in 250 cycles; abnormal termination of xtb"
)


@pytest.mark.parametrize(
    ("lines", "decisive"),
    [
        (["SCF did not converge", "normal cleanup"], "SCF did not converge"),
        (["*** basis set not found ***", "ERROR STOP"], "basis set not found"),
        (["Traceback (most recent call last):", '  File "a"', "KeyError: 3"], "KeyError: 3"),
        (["ValueError: no", "During handling, another exception", "OSError: x"], "OSError: x"),
        (["cycle 1", "cycle 2"], ""),
        ([], ""),
        (["cannot open " + "x" * 300], "cannot open " + "x" * 105 + "..."),
    ],
)
def test_the_decisive_line_says_what_was_wrong(lines: list[str], decisive: str) -> None:
    assert decisive == decisive_line(lines)


@pytest.mark.parametrize("text", [XTB, IN_ONE_LINE, f"ExternalError: {XTB}"])
def test_how_a_program_ended_and_why_comes_first(text: str) -> None:
    assert "SCF did not converge in 250 cycles" == decisive_line_of(text)
    assert "exit 128: SCF did not converge in 250 cycles" == headline(text)


def test_of_stderr_without_a_line_that_stands_out_the_last_one_counts() -> None:
    text = "a: exit code 1\n  the last lines of stderr:\n    step 1\n    step 2\n"

    assert "exit 1: step 2" == headline(text)
    assert "exit 1: a" == headline("a: exit code 1\n  the last lines of stdout:\n    step 1")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("ExternalError: orca a b: exit code 25: no such element", "exit 25: no such element"),
        ("ExternalError: /opt/xtb a: exit code 3", "exit 3: /opt/xtb a"),
        ("ExternalError: xtb a: ended by signal SIGSEGV", "SIGSEGV: xtb a"),
        (
            "ExternalMemoryError: xtb: killed for want of memory: ended by signal SIGKILL (peak 3)",
            "out of memory, SIGKILL: xtb",
        ),
        ("KeyError: 'k'", "KeyError: 'k'"),
        ("", ""),
    ],
)
def test_a_headline_is_of_the_program_or_else_the_exception_itself(text: str, first: str) -> None:
    assert first == headline(text)


def test_a_number_at_the_end_of_a_line_leaves_the_lines_apart() -> None:
    text = "a: exit code 1; the last lines of stderr: cycle 250; SCF did not converge; at 3"

    assert "exit 1: SCF did not converge" == headline(text) == cause_of(text)


def test_alike_failures_have_one_cause() -> None:
    texts = [f"ExternalError: xtb m{n}.xyz: exit code 2: no file m{n}.xyz" for n in range(3)]

    assert {"exit 2: no file …"} == set(map(cause_of, texts))
    assert cause_of(texts[0]) != cause_of(texts[0].replace("code 2", "code 3"))


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("error in davcio (1): reading", "error in davcio (…): reading"),
        ("error in davcio(1): reading", "error in …: reading"),
        ("no grid {3} (see a.out)", "no grid {…} (see …)"),
        ("no point ((3.5))", "no point ((…))"),
    ],
)
def test_brackets_of_a_cause_stay_in_pairs(text: str, cause: str) -> None:
    assert cause == pattern_of(text)


@pytest.mark.parametrize("program", ["pw.x", "g16", "cp2k.psmp", "/opt/orca_5/orca", "run_1.sh"])
@pytest.mark.parametrize("words", ["", " -in si.in", " a.inp 3"])
@pytest.mark.parametrize("end", ["exit code 2", "ended by signal SIGSEGV", "ended after 5 s"])
def test_a_cause_names_the_program_whatever_its_name(program: str, words: str, end: str) -> None:
    name = program.rpartition("/")[2]
    cause = pattern_of(f"{program}{words}: {end}; on host n17")

    assert cause.startswith(f"{name}{' …' if words else ''}: {end.partition(' 5')[0]}")
    assert "n17" not in cause
    assert f"SIGSEGV: {name}" in cause_of(
        f"ExternalError: {program}{words}: ended by signal SIGSEGV"
    )


@given(st.text(), st.text())
def test_no_text_is_an_error(text: str, output: str) -> None:
    headline(text)
    cause_of(f"{text}: exit code 1\nthe last lines of stderr: {output}")
