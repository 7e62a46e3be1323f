"""The place of metrics in `grain.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from grain.config import ConfigError, MetricsPlace, load, parse_metrics

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("127.0.0.1:9100", MetricsPlace("127.0.0.1", 9100)),
        ("localhost:9100", MetricsPlace("127.0.0.1", 9100)),
        ("[::1]:9100", MetricsPlace("::1", 9100)),
        ("[::ffff:127.0.0.1]:9100", MetricsPlace("127.0.0.1", 9100)),
        ("10.1.0.4:9100", MetricsPlace("10.1.0.4", 9100)),
        ("/run/user/1000/grain", MetricsPlace(path="/run/user/1000/grain")),
    ],
)
def test_an_interface_and_a_port_or_a_path_is_a_place(text: str, place: MetricsPlace) -> None:
    assert place == parse_metrics(text)
    assert place == parse_metrics(str(place))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.0.0.0:9100", "0.0.0.0 means every interface"),
        ("[::]:9100", ":: means every interface"),
        ("[::ffff:0.0.0.0]:9100", "means every interface"),
        (":9100", "write the interface, too, as in '127.0.0.1:9100'"),
        ("login1:9100", "write the interface as a number"),
        ("9100", "with a port from 1 to 65535"),
        ("127.0.0.1", "with a port from 1 to 65535"),
        ("127.0.0.1:0", "with a port from 1 to 65535"),
        ("127.0.0.1:99999", "with a port from 1 to 65535"),
        ("127.0.0.1:91 00", "with a port from 1 to 65535"),
        ("/run/user/", "names a file"),
        ("/" + "x" * 200, "107 bytes"),
    ],
)
def test_anything_else_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="^") as caught:
        parse_metrics(text)
    assert words in str(caught.value)


def test_a_place_in_a_file_is_checked_and_its_home_is_expanded(tmp_path: Path) -> None:
    path = tmp_path / "grain.toml"
    path.write_text('[head.gnaw]\nmetrics = "$HOME/metrics"\n')
    path.chmod(0o600)
    assert "/home/me/metrics" == load(path, env={"HOME": "/home/me"}).head.gnaw.metrics

    path.write_text('[head.gnaw]\nmetrics = "0.0.0.0:9100"\n')
    with pytest.raises(ConfigError, match=r"means every interface"):
        load(path, env={"HOME": "/home/me"})


def test_without_the_key_nothing_is_served() -> None:
    assert "" == load(False).head.gnaw.metrics


def test_a_place_that_only_this_host_reaches_is_known() -> None:
    places = ["127.0.0.1:1", "[::1]:1", "10.1.0.4:1", "/run/grain"]
    assert [True, True, False, False] == [parse_metrics(one).is_loopback for one in places]
