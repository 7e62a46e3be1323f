"""The worker's command line: mistakes, its help, and what it would offer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from grain.worker.agent import command
from grain.worker.agent.agent import DONE, FAILED, GAVE_UP, USAGE
from grain.worker.agent.command import EPILOG, main, parser
from grain.worker.node.host_info import HostInfo
from grain.worker.node.topology import CpuGroups

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--res", "{"], "not JSON"),
        (["--res", '{"Tape": 1}'], "unknown kind of resource 'Tape'"),
        (["--url", "nowhere"], "nowhere"),
        (["--give-up", "-3"], "not a number of 0 or more"),
        (["--res"], "expected one argument"),
        (["--nonsense"], "unrecognized arguments"),
    ],
)
def test_a_mistake_on_the_command_line_is_named_in_one_sentence_with_exit_code_2(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    try:
        status = main(words)
    except SystemExit as leaving:
        status = leaving.code  # type: ignore[assignment]

    log = capsys.readouterr().err + caplog.text
    assert 2 == status
    assert message in log
    assert "Traceback" not in log


def test_a_context_that_fails_ends_the_worker_with_exit_code_1_and_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["--url", f"unix://{tmp_path}/none", "--context", f"{tmp_path}/none.py"])

    assert 1 == status
    assert "none.py is not a file" in capsys.readouterr().err


def test_the_help_explains_every_option_and_exit_code() -> None:
    """The manual has the table of options from it."""
    options = [action for action in parser()._actions if "--help" not in action.option_strings]

    assert [] == [action for action in options if not action.help]
    assert all(f" {number} " in EPILOG for number in (DONE, FAILED, USAGE, GAVE_UP))


@pytest.mark.parametrize(("options", "offered"), [([], "[0-3]"), (["--no-hyperthreads"], "[0-1]")])
def test_without_hyperthreads_one_cpu_of_each_core_is_offered(
    options: list[str],
    offered: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = (frozenset({0, 2}), frozenset({1, 3}))
    host = HostInfo(affinity=frozenset(range(4)), groups=CpuGroups(cores=cores), hostname="n1")
    monkeypatch.setattr(command, "read_host_info", lambda: host)
    with caplog.at_level("INFO", logger="grain.worker"):
        assert 0 == main(["--dry", *options])

    assert f"this worker, n1, offers CPU_Cores({offered})" in caplog.messages


def test_a_dry_run_reports_the_resources_to_offer(caplog: pytest.LogCaptureFixture) -> None:
    """Without starting anything."""
    with caplog.at_level("INFO"):
        assert 0 == main(["--dry", "--name", "w7", "--res", '{"Cores": 3}'])

    assert re.search(r"w7, offers CPU_Cores\(\[0-2\]\)", caplog.text)
    assert re.search(r"found by polling: |in control groups below ", caplog.text)


def test_a_directory_that_cannot_be_used_is_a_mistake_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert USAGE == main(["--cwd", "/no/such", "--res", '{"Cores": 3}'])
    expected = "grain-worker: --cwd /no/such: not a directory that it can enter\n"
    assert expected == capsys.readouterr().err
