"""The shell of a submission, as a process of its own sees it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import Any

import pytest

SHOW = (
    "import json; from grain.cli.queue import shell;"
    "print(json.dumps([shell.variables(), shell.umask(), shell.soft_limits()]))"
)


def shown(line: str, **environment: str) -> Any:
    """Return variables, umask and limits after a line of bash."""
    done = subprocess.run(
        ["bash", "-c", f'{line}; exec "$0" "$@"', sys.executable, "-c", SHOW],
        env=environment, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "locale", [{}, {"LANG": "C"}, {"LC_ALL": "POSIX"}, {"LC_CTYPE": "C.UTF-8"}, {"LC_CTYPE": "C"}]
)
def test_the_locale_is_that_of_the_shell_and_not_what_python_makes_of_it(
    locale: dict[str, str],
) -> None:
    variables = shown(":", **locale)[0]
    assert locale == {name: variables[name] for name in variables if name.startswith(("LC", "LA"))}


def test_exported_functions_and_odd_names_are_variables() -> None:
    variables = shown("module() { echo x; }; export -f module", **{"my.var": "1"})[0]
    assert "1" == variables["my.var"]
    assert "echo x" in variables["BASH_FUNC_module%%"]


def test_the_umask_and_the_soft_limits_are_those_of_the_shell() -> None:
    _, umask, limits = shown("umask 027; ulimit -Sn 99; ulimit -Sc 0")
    assert 0o027 == umask
    assert (99, 0) == (limits["NOFILE"], limits["CORE"])
    assert resource.getrlimit(resource.RLIMIT_STACK)[0] == limits["STACK"]
