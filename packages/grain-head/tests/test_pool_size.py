"""The size of a pool on Gnaw's command line, and the command that it becomes."""

from __future__ import annotations

import pytest

from grain.head.gnaw.main import make_parser
from grain.head.gnaw.pool import command


def test_a_pool_by_demand_is_grain_scale_auto() -> None:
    asked = make_parser().parse_args(["--pool", "auto"])

    assert ["scale", "--auto", "--parent", "7"] == command(asked.pool, "", 7)[-4:]
    assert ["scale", "3", "--parent", "7"] == command(3, "", 7)[-4:]


@pytest.mark.parametrize("words", [["--pool", "many"], ["--pool", ""]])
def test_a_size_that_is_none_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(words)

    assert "argument --pool" in capsys.readouterr().err
