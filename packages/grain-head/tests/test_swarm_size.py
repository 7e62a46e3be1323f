"""The size of a swarm on Gnaw's command line, and the command that it becomes."""

from __future__ import annotations

import pytest

from grain.head.gnaw.main import make_parser
from grain.head.gnaw.swarm import command


def test_a_swarm_by_demand_is_grain_scale_auto() -> None:
    asked = make_parser().parse_args(["--swarm", "auto"])

    assert ["scale", "--auto", "--parent", "7"] == command(asked.swarm, "", 7)[-4:]
    assert ["scale", "3", "--parent", "7"] == command(3, "", 7)[-4:]


@pytest.mark.parametrize("words", [["--swarm", "many"], ["--swarm", ""]])
def test_a_size_that_is_none_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(words)

    assert "argument --swarm" in capsys.readouterr().err
