"""The example in the user's guide, as it is printed there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from grain import GVAR
from grain.resource import Token

GUIDE = Path(__file__).parents[4] / "docs" / "external.md"


@pytest.mark.skipif(not GUIDE.exists(), reason="the guide is not in the package's own archive")
@pytest.mark.skipif(shutil.which("factor") is None, reason="needs factor (coreutils)")
def test_the_example_of_the_guide_prints_the_output_shown_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = GUIDE.read_text()
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    documented = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[0]

    with GVAR.scope(Token("own")):
        exec(compile(example, str(GUIDE), "exec"), {})

    printed = capsys.readouterr().out
    # The quotation marks are the locale's.
    assert re.sub("[\u2018\u2019]", "'", printed) == documented
