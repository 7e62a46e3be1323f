"""Addresses, as pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.edge.address import (
    DEFAULT,
    EdgeAddress,
    TcpAddress,
    UnixAddress,
    parse_address,
)
from grain.edge.errors import AddressError

HOME = "/home/me"
EDGE = "/home/me/.local/share/edge-file-default"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("edge:///abs/path", EdgeAddress("/abs/path")),
        ("edge:///abs//./path", EdgeAddress("/abs/path")),
        ("edge://$HOME/x/y", EdgeAddress("/home/me/x/y")),
        (DEFAULT, EdgeAddress(EDGE)),
        ("tcp://node1:4000", TcpAddress("node1", 4000, EDGE)),
        ("tcp://:4000", TcpAddress("", 4000, EDGE)),
        ("tcp://[::1]:4000", TcpAddress("::1", 4000, EDGE)),
        ("tcp://10.0.0.1:1?edge=/a/b", TcpAddress("10.0.0.1", 1, "/a/b")),
        ("tcp://h:1?edge=$HOME/b%20c", TcpAddress("h", 1, "/home/me/b c")),
        ("unix:///run/x", UnixAddress("/run/x")),
    ],
)
def test_every_form_in_the_documentation_is_parsed(text: str, address: object) -> None:
    """Every form in the documentation."""
    assert parse_address(text, HOME) == address


@pytest.mark.parametrize(
    ("text", "naming"),
    [
        ("", "not an address"),
        ("/abs/path", "not an address"),
        ("http://x", "unknown scheme 'http'"),
        ("bridge://x:1", "begins with a key and @"),
        ("edge://relative", "must be absolute"),
        ("edge://", "must be absolute"),
        ("edge:///", "name a file"),
        ("edge:///a/../b", r"'\.\.'"),
        ("edge:///a/", "name a file"),
        ("edge:///a/$USER/b", "no variable but"),
        ("edge://$HOMER/b", "must be absolute"),
        ("tcp://host", "a port"),
        ("tcp://host:99999", "a port"),
        ("tcp://host:-1", "a port"),
        ("tcp://::1:4000", "brackets"),
        ("tcp://a b:1", "not a host"),
        ("tcp://a..b:1", "not a host"),
        ("tcp://" + "a" * 64 + ":1", "not a host"),
        ("tcp://h:1?insecure=1", "only option"),
        ("unix://x", "must be absolute"),
        ("unix:///" + "x" * 107, "107 bytes"),
    ],
)
def test_a_wrong_address_is_an_error_that_says_why(text: str, naming: str) -> None:
    """And never anything but an AddressError."""
    with pytest.raises(AddressError, match=naming):
        parse_address(text, HOME)


@pytest.mark.parametrize("rest", ["$HOME/b", "/home/m$e/b"])
def test_a_home_directory_with_a_dollar_sign_is_told_to_others(rest: str) -> None:
    assert EdgeAddress("/home/m$e/b") == parse_address(f"edge://{rest}", "/home/m$e")
    with pytest.raises(AddressError, match="no variable but"):
        parse_address(f"edge://{rest}$USER", "/home/m$e")


PATHS = st.lists(
    st.text(st.characters(exclude_characters="/$\0", codec="utf-8"), min_size=1, max_size=8).filter(
        lambda part: part not in (".", "..")
    ),
    min_size=1,
    max_size=4,
).map(lambda parts: "/" + "/".join(parts))
HOSTS = st.one_of(
    st.just(""),
    st.from_regex(r"[a-z][a-z0-9.-]{0,10}", fullmatch=True).filter(lambda host: ".." not in host),
    st.ip_addresses().map(str).filter(lambda host: "%" not in host),
)
ADDRESSES = st.one_of(
    st.builds(EdgeAddress, PATHS),
    st.builds(UnixAddress, PATHS.filter(lambda path: len(path.encode()) <= 107)),
    st.builds(TcpAddress, HOSTS, st.integers(0, 65535), PATHS),
)


@given(ADDRESSES)
def test_an_address_is_read_as_printed(address: EdgeAddress | TcpAddress | UnixAddress) -> None:
    assert parse_address(str(address), HOME) == address


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_an_address_error(text: str) -> None:
    for prefix in ("", "tcp://", "edge://", "unix:///"):
        try:
            parse_address(prefix + text, HOME)
        except AddressError as e:
            assert str(e)


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("edge:///shared/me/meeting", "/shared/me/meeting"),
        ("edge://$HOME/meeting", "/home/me/meeting"),
        ("tcp://host:4000?edge=/shared/me/keys", "/shared/me/keys"),
        ("unix:///tmp/x/socket", None),
    ],
)
def test_every_address_names_its_edge_file(text: str, edge: str | None) -> None:
    assert edge == parse_address(text, "/home/me").edge


def test_home_is_this_users_unless_another_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")

    assert EdgeAddress("/home/somebody/meeting") == parse_address("edge://$HOME/meeting")
