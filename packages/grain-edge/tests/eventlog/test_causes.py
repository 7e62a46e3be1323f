"""Failures in a few words: the line that says why, and what alike failures have in common."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.eventlog.causes import RunFailure, decisive_line, decisive_line_of, pattern_of


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


STDERR = """########################################
[ERROR] Program stopped due to fatal error
-1- SCF did not converge in 250 cycles
########################################
abnormal termination of xtb"""


@pytest.mark.parametrize(
    ("stderr", "stdout", "decisive"),
    [
        (STDERR, "error in the output", "SCF did not converge in 250 cycles"),
        ("cycle 250\n", "no such element", "no such element"),
        ("step 1\nstep 2\n\n", "step 3", "step 2"),
        ("", "step 1", ""),
    ],
)
def test_the_decisive_line_is_of_stderr_if_any_stands_out_there(
    stderr: str, stdout: str, decisive: str
) -> None:
    assert decisive == decisive_line_of(stderr, stdout)


def program(line: str = "", **ended: Any) -> RunFailure:
    return RunFailure("ExternalError", "pw.x -in a: it failed", "pw.x", line=line, **ended)


@pytest.mark.parametrize(
    ("failure", "words", "pattern"),
    [
        (program("no grid 3", status=2), "exit 2: no grid 3", "pw.x …: exit code 2: no grid …"),
        (program(status=2), "exit 2: pw.x", "pw.x …: exit code 2"),
        (program(signal="SIGSEGV"), "SIGSEGV: pw.x", "pw.x …: ended by signal SIGSEGV"),
        (
            program(signal="SIGKILL", out_of_memory=True), "out of memory, SIGKILL: pw.x",
            "pw.x …: ended by signal SIGKILL",
        ),
        (
            program("ended after 5 s"), "ExternalError: pw.x: ended after 5 s",
            "pw.x …: ended after … s",
        ),
        (RunFailure("KeyError", "'k3'"), "KeyError: 'k3'", "'…'"),
        (RunFailure("KeyError"), "KeyError", ""),
        (RunFailure(message="SIGBUS"), "crashed: SIGBUS", "SIGBUS"),
    ],
)  # fmt: skip
def test_how_a_program_ended_and_why_comes_first(
    failure: RunFailure, words: str, pattern: str
) -> None:
    assert words == failure.words("crashed")
    assert pattern == failure.pattern


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


@given(st.text(), st.text())
def test_no_text_is_an_error(text: str, output: str) -> None:
    pattern_of(text)
    decisive_line_of(text, output)
