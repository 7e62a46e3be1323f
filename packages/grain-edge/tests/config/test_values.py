"""The result of right values."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.config import Config, format_walltime, load, parse_walltime, stamp
from grain.config.expansion import Unfit, expand_place
from grain.config.walltime import LONGEST
from grain.edge.address import parse_address
from grain.edge.errors import AddressError
from grain.resource import WTime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Load = Callable[..., Config]
    Refused = Callable[..., str]


# Spans of time


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (5400, 5400),
        ("00:00:01", 1),
        ("36:00:00", 129600),
        ("1-12:00:00", 129600),
        ("-12:00:00", 43200),
        (" 1:02:03 ", 3723),
        ("90s", 90),
        ("30m", 1800),
        ("1h30m", 5400),
        ("2d", 172800),
    ],
)
def test_spans_of_time_are_seconds_clocks_or_units(written: object, seconds: int) -> None:
    """Seconds, clock with and without days, and units."""
    assert parse_walltime(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["1:60:00", "1:00:60", "m", "30 m", "30m1h", "1:2:3", "٣0m", "9" * 5000 + "m", 1.5, True, []],
)
def test_forms_of_time_that_programs_read_differently_are_refused(written: object) -> None:
    """Forms that other programs read differently, or not at all, are not guessed at."""
    with pytest.raises(Unfit):
        parse_walltime(written)


@given(st.integers(0, LONGEST))
def test_a_formatted_walltime_is_parsed_to_the_same_seconds(seconds: int) -> None:
    assert parse_walltime(format_walltime(seconds)) == seconds


@given(st.from_regex(r"([0-9]{0,2}-)?[0-9]{1,3}:[0-5][0-9]:[0-5][0-9]", fullmatch=True))
def test_walltime_is_what_a_resource_takes(written: str) -> None:
    """A time limit of a task can be copied to the config and means the same there."""
    seconds = parse_walltime(written)

    if seconds:
        limit = WTime(T=written)
        assert seconds == limit.T


def test_walltime_of_more_than_a_day_stays_in_hours() -> None:
    """Slurm and PBS both read hours beyond 24, only Slurm reads days."""
    assert format_walltime(2 * 86400 + 61) == "48:01:01"


@pytest.mark.parametrize("unset", ["''", "0"])
def test_an_empty_string_or_0_leaves_a_value_to_the_batch_system(loaded: Load, unset: str) -> None:
    """An empty string or 0 leaves walltime, cores, memory to the batch system, as no key does."""
    config = loaded(f"[script]\nwalltime = {unset}\ncores = 0\nmemory = 0")

    assert (config.script.walltime, config.script.cores, config.script.memory) == (None,) * 3
    assert config.script == load(False, env={}).script


# Placeholders


def test_the_placeholder_becomes_the_time_and_other_braces_stay() -> None:
    now = datetime.datetime(2024, 5, 6, 7, 8, 9)

    assert stamp("w{{HHMMSS}}-{{ HHMMSS }}-{HHMMSS}-{{X}}", now) == "w070809-070809-{HHMMSS}-{{X}}"


def test_names_keep_their_placeholder(loaded: Load) -> None:
    """The time is that of a submission, so loading does not fill it in."""
    config = loaded("[worker]\nname = 'gpu{{HHMMSS}}'")

    assert config.worker.name == "gpu{{HHMMSS}}"
    assert stamp(config.worker.name, datetime.time(23, 59, 1)) == "gpu235901"


# Addresses and paths


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("edge://$HOME/x", "edge:///home/me/x"),
        ("edge://${HOME}/x", "edge:///home/me/x"),
        ("edge://~/x", "edge:///home/me/x"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("a~/x", "a~/x"),
        ("/x/~", "/x/~"),
        ("$S/$S", "~/$HOME/~/$HOME"),
        ("bridge://k$$y@h:1?iface=ib0", "bridge://k$y@h:1?iface=ib0"),
        ("100$", "100$"),
        ("a$1", "a$1"),
        ("tcp://:8000", "tcp://:8000"),
    ],
)
def test_tilde_at_the_beginning_and_variables_anywhere_are_expanded_once(
    written: str, meant: str
) -> None:
    assert expand_place(written, {"HOME": "/home/me", "S": "~/$HOME"}) == meant


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("$NONE/x", "the environment variable NONE is not set here, where the file is read"),
        ("edge://~bob/x", "only your own home directory can be written as ~, not '~bob'"),
        ("${HOME:-/x}", "only ${NAME} may follow a dollar sign and a brace"),
    ],
)
def test_places_that_cannot_expand(refused: Refused, written: str, hint: str) -> None:
    """A place that would silently be another one is a mistake."""
    assert refused(f"address = '{written}'", env={}) == (
        f"grain.toml: address: found the string {written!r}, "
        f"expected an address such as 'edge:///shared/me/edge' ({hint})"
    )


def test_addresses_and_paths_are_expanded_and_shell_commands_are_not(loaded: Load) -> None:
    """All addresses and paths expand; shell commands are left to the shell."""
    config = loaded(
        """
        address = "edge://$W/a"
        contextmod = "$W/c.py"
        [head]
        main_log_file = "$W/m"
        log_file = "$W/l"
        listen = "edge://$W/l"
        cmd = "$W/run"
        [head.gnaw]
        log_file = "$W/g"
        [worker]
        log_file = "$W/w"
        dial = "edge://$W/d"
        cli_dial = "edge://$W/c"
        [script]
        setup_cleanup = "cd $W"
        [custom_system]
        directory = "$W/d"
        template = "$W"
        submit_cmd = "$W/submit"
        """,
        env={"HOME": "/home/me", "W": "/work"},
    )

    rest = msgspec.to_builtins(msgspec.structs.replace(config, source=None))
    unexpanded = [line for line in json.dumps(rest, indent=0).splitlines() if "$" in line]
    assert [line.strip(",") for line in unexpanded] == [
        '"cmd": "$W/run"',
        *['"cd $W"'] * 3,
        '"submit_cmd": "$W/submit"',
        '"template": "$W"',
    ]


def test_a_variable_cannot_smuggle_in_a_line(refused: Refused) -> None:
    """A setting for a line of a job script is one line after expansion, too.

    Tried: Configuration with values of two lines, for directives or commands in scripts.
    Result: refused.
    """
    message = refused("[worker]\nlog_file = '$X'", env={"HOME": "/", "X": "a\nrm -r x"})

    assert message.endswith("(it must be one line without control characters)")


@pytest.mark.parametrize("home", [None, "", "relative", "$HOME", "~"])
def test_without_home_that_of_the_password_database_counts(
    home: str | None, home_of_pwd: None
) -> None:
    config = load(False, env={} if home is None else {"HOME": home})
    assert "edge:///home/of-pwd/.local/share/edge-file-default" == config.address
    assert "/home/of-pwd/.local/share/grain-gnaw.log" == config.head.gnaw.log_file


def test_without_any_home_the_defaults_load(no_home: None) -> None:
    """A mission that runs by itself needs no place to meet, so none is demanded of it."""
    config = load(False, env={})
    assert config.address == "edge://$HOME/.local/share/edge-file-default"
    with pytest.raises(AddressError, match="there is no home directory.*: set HOME, or write an"):
        parse_address(config.address)
    assert "edge:///meeting" == str(parse_address("edge:///meeting"))
    assert config.head.gnaw.log_file == ""


def test_without_any_home_a_place_in_it_is_a_mistake(refused: Refused, no_home: None) -> None:
    text = refused("[worker]\nlog_file = '~/x'", env={})
    assert "the environment variable HOME is not set here, where the file is read" in text


def test_the_default_place_to_meet_is_in_the_home_directory() -> None:
    """The default place to meet is in the home directory, for everybody who goes there."""
    config = load(False, env={"HOME": "/home/me"})

    place = "edge:///home/me/.local/share/edge-file-default"
    addresses = {config.address, config.head.listen, config.worker.dial, config.worker.cli_dial}
    assert addresses == {place}


def test_context_module_lies_beside_the_file(loaded: Load, tmp_path: Path) -> None:
    """A relative context module starts from the config file's directory; ~ and / do not."""
    config = loaded("contextmod = 'c.py'\n[head]\ncontextmod = '~/h.py'")

    assert config.contextmod == str(tmp_path / "c.py")
    assert (config.worker.contextmod, config.head.contextmod) == (
        str(tmp_path / "c.py"),
        "/home/me/h.py",
    )
