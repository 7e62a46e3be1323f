"""The home directory of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from grain.eventlog.names import home_folder, state_folder, with_home


def test_home_is_the_variable() -> None:
    env = {"HOME": "/home/ann", "A": "1"}
    assert Path("/home/ann") == home_folder(env)
    assert env == with_home(env)


@pytest.mark.parametrize("env", [{}, *({"HOME": one} for one in ("", "x", "./x", "$HOME", "~"))])
def test_what_is_no_directory_is_replaced_by_the_one_of_the_password_database(
    env: dict[str, str], home_of_pwd: None
) -> None:
    assert Path("/home/of-pwd") == home_folder(env)
    assert Path("/home/of-pwd/.local/state/grain") == state_folder(env)
    assert {"HOME": "/home/of-pwd", "A": "1"} == with_home({**env, "A": "1"})


def test_without_any_it_is_said(no_home: None) -> None:
    with pytest.raises(RuntimeError, match="there is no home directory: HOME is not set to one"):
        home_folder({"HOME": "$HOME"})
    assert {"A": "1"} == with_home({"HOME": "$HOME", "A": "1"})
    assert Path("/s/grain") == state_folder({"XDG_STATE_HOME": "/s"})
