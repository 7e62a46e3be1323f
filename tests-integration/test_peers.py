"""The benchmark `peers`: that it runs, and what its table says of what is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.bench._peers.process_tree import cpu_seconds, resident_bytes
from tools.bench.peers import MEASURES, TOOLS, Compared, main, one, table

BUSY = """
import time
while time.process_time() < 0.3: pass
data = b"x" * 50_000_000
print(flush=True)
input()
"""


def test_a_cell_has_the_median_of_the_rounds_and_the_median_of_their_ratios() -> None:
    values = {
        ("gnaw", "serial", "us"): [100.0, 300.0, 200.0],
        ("gnaw", "serial", "cpu"): [1.0, 2.0, 3.0],
        ("processes", "serial", "us"): [200.0, 150.0, 50.0],
        ("processes", "serial", "cpu"): [3.0],
    }

    lines = table(["gnaw", "processes", "xargs"], ["serial"], values, {"xargs": "why"}).splitlines()

    assert [
        "| | Grain | process pool | xargs |",
        "|---|---|---|---|",
        "| one call after the other, p50, us | 200 | 150 (0.50) | - |",
        "| the same, CPU of all processes, us each | 2.00 | 3.00 | - |",
        "",
        "- xargs: why",
    ] == lines


def test_a_tool_that_is_not_there_is_a_reason_and_not_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    main("--quick", "--tools=processes,xargs", "--measures=programs")

    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| `/bin/true`, two at a time, us each | ")
    assert lines[2].endswith(" | - |")
    assert "- xargs: there is no xargs on PATH" in lines


def test_a_tool_that_fails_is_a_reason_and_not_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TOOLS, "xargs", Compared("xargs"))  # as if it could make calls

    main("--quick", "--tools=xargs,processes", "--measures=serial")

    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| one call after the other, p50, us | - | ")
    assert "- xargs, serial: ValueError: xargs cannot run nothing" in lines


@pytest.mark.parametrize("name", MEASURES)
def test_every_measurement_runs(name: str) -> None:
    quantities = one(Path(sys.executable), "processes", MEASURES[name], quick=True)

    assert set(MEASURES[name].rows) <= set(quantities)


@pytest.mark.parametrize(
    ("tool", "name"), [("gnaw", "programs"), ("tls", "arguments"), ("within", "waiting")]
)
def test_each_way_of_grain_runs(tool: str, name: str) -> None:
    quantities = one(Path(sys.executable), tool, MEASURES[name], quick=True)

    assert set(MEASURES[name].rows) <= set(quantities)


def test_processes_below_count_while_they_live_and_when_they_have_ended() -> None:
    cpu, memory = cpu_seconds(), resident_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert cpu_seconds() - cpu >= 0.25
        assert resident_bytes() - memory >= 50_000_000
        process.communicate(b"\n")
    assert cpu_seconds() - cpu >= 0.25
