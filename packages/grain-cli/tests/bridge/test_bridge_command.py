"""`grain bridge`: keys, and the words of its server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from grain.cli import main
from grain.cli.bridge.command import parse_listen
from grain.config import load
from grain.config.errors import ConfigError
from grain.edge.address import BridgeAddress, parse_address

if TYPE_CHECKING:
    from pathlib import Path


def new_key() -> str:
    return CliRunner().invoke(main, ["bridge", "key"], catch_exceptions=False).stdout.strip()


def test_a_key_is_new_each_time_and_fits_an_address() -> None:
    one, other = new_key(), new_key()
    assert one != other
    where = parse_address(f"bridge://{one}@host:4747")
    assert isinstance(where, BridgeAddress)


def test_a_file_that_gets_a_key_is_private(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch()
    file.chmod(0o644)
    with file.open("w") as out:
        subprocess.run([sys.executable, "-m", "grain.cli", "bridge", "key"], stdout=out, check=True)
    assert 0o600 == file.stat().st_mode & 0o777


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_says_where_it_listens_until_a_signal(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "grain.cli", "bridge", "serve", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert line.startswith("a bridge listens at 127.0.0.1 port ")
    assert (0, "") == (process.returncode, err)


def test_a_place_where_a_server_cannot_listen_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        place = f"127.0.0.1:{other.getsockname()[1]}"
        result = CliRunner().invoke(main, ["bridge", "serve", "--listen", place])

    assert (
        f"Error: cannot listen at {place}: Address already in use; name an address of this host, "
        "and a port that is free, as in --listen :4748\n"
    ) == result.output
    assert 1 == result.exit_code


def test_where_to_listen() -> None:
    assert ("", 4747) == parse_listen(":4747")
    assert ("::1", 1) == parse_listen("[::1]:1")
    for text in ("4747", "host", "host:x", ":99999"):
        done = CliRunner().invoke(main, ["bridge", "serve", "--listen", text])
        assert (2, True) == (done.exit_code, "write HOST:PORT or :PORT" in done.output)


def test_a_key_of_a_configuration_is_in_no_address_that_others_see(tmp_path: Path) -> None:
    """It stands in a file; and a configuration that others may read is refused."""
    key = new_key()
    env = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    file = tmp_path / "grain.toml"
    file.write_text(f'address = "bridge://{key}@host:4747"\n')
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        load(file, env=env)
    file.chmod(0o600)
    config = load(file, env=env)
    for address in (config.address, config.head.listen, config.worker.dial, config.worker.cli_dial):
        assert address.startswith("bridge://@/")
        assert key not in address
    where = parse_address(config.address)
    assert isinstance(where, BridgeAddress)


@pytest.mark.parametrize("words", [["grain.worker", "--url"], ["grain.head", "--address"]])
def test_a_key_in_an_argument_list_is_refused(words: list[str]) -> None:
    pytest.importorskip("grain.head")
    key = new_key()
    done = subprocess.run(
        [sys.executable, "-m", *words, f"bridge://{key}@host:4747"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 2 == done.returncode
    assert "must not stand there: put it into a file" in " ".join(done.stderr.split())
    assert key not in done.stderr


def test_a_mistake_in_an_address_does_not_show_its_key(tmp_path: Path) -> None:
    key = new_key()
    file = tmp_path / "grain.toml"
    file.write_text(f'address = "bridge://{key}@host"\n')
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="a port from 1 to 65535") as caught:
        load(file, env={"HOME": str(tmp_path)})
    assert key not in str(caught.value)


def test_a_file_that_is_no_toml_does_not_show_the_key_in_it(tmp_path: Path) -> None:
    key = new_key()
    file = tmp_path / "grain.toml"
    file.write_text(f'address = "bridge://{key}@host:4747\nname = "x"\n')
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=r"not valid TOML.*bridge://\.\.\.@host") as caught:
        load(file, env={"HOME": str(tmp_path)})
    assert key not in str(caught.value)
    file.write_text(f'address = "bridge://{key}\n')  # torn within the key's own string
    with pytest.raises(ConfigError, match="not valid TOML") as caught:
        load(file, env={"HOME": str(tmp_path)})
    assert key not in str(caught.value)


def test_the_id_of_a_meeting_is_that_of_a_file_with_its_key(tmp_path: Path) -> None:
    """Any user of the host could read an argument."""
    key = new_key()
    for text in (key, key[:-1], f"bridge://{key}@host:4747"):
        refused = CliRunner().invoke(main, ["bridge", "id", "--", text])  # it may begin with a dash
        assert 2 == refused.exit_code
        assert "if that was the key, make a new one" in " ".join(refused.stderr.split())
        assert key[:-1] not in refused.stderr
    file = tmp_path / "key"
    file.write_text(key)
    file.chmod(0o600)
    for text in (str(file), f"bridge://@{file}@host:4747"):
        done = CliRunner().invoke(main, ["bridge", "id", text], catch_exceptions=False)
        assert (0, 65) == (done.exit_code, len(done.stdout))


def test_a_server_refuses_an_address_with_a_key_and_does_not_show_it() -> None:
    key = new_key()
    refused = CliRunner().invoke(main, ["bridge", "serve", "--listen", f"bridge://{key}@:4747"])
    assert 2 == refused.exit_code
    assert "the server needs no key" in refused.stderr
    assert key not in refused.output


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of the servers that commands would run."""
    options: list[dict[str, Any]] = []

    async def serve(*_: object, **given: object) -> None:
        options.append(given)
        raise OSError("enough")

    monkeypatch.setattr("grain.edge.served.serve_bridge", serve)
    return options


@pytest.mark.parametrize(
    ("words", "megabytes"), [((), 512), (("--memory", "2000"), 2000)], ids=["default", "chosen"]
)
def test_a_server_gets_its_limit_of_memory(
    words: tuple[str, ...], megabytes: int, served: list[dict[str, Any]]
) -> None:
    assert 1 == CliRunner().invoke(main, ["bridge", "serve", *words]).exit_code
    assert [(megabytes * 1024**2, None)] == [(one["memory"], one["listed"]) for one in served]
    refused = CliRunner().invoke(main, ["bridge", "serve", "--memory", "1"])
    assert (2, True) == (refused.exit_code, "16<=x<=" in refused.stderr)


def test_a_network_interface_that_does_not_exist_is_named_by_commands(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text(new_key())
    address = f"bridge://@{key}@127.0.0.1:1?iface=nope9"
    (tmp_path / "grain.toml").write_text(f'address = "{address}"\n')
    done = subprocess.run(
        [sys.executable, "-m", "grain.cli", "ls", "--patience", "0.1"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    [line] = [line for line in done.stderr.splitlines() if line.startswith("?")]
    assert "?iface=nope9: this host has no such network interface" in line
    assert "name one of " in line


def test_the_id_of_a_meeting_is_that_of_its_key_and_of_no_other(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(0o600)
    key.write_text(new_key())
    config = tmp_path / "grain.toml"
    config.write_text(f'address = "bridge://@{key}@host:4747"\n')

    by_file = CliRunner().invoke(main, ["bridge", "id", str(key)])
    by_address = CliRunner().invoke(main, ["bridge", "id", "-c", str(config)])

    assert (0, 64 + 1) == (by_file.exit_code, len(by_file.stdout))
    assert by_file.stdout == by_address.stdout
    key.write_text(new_key())
    assert by_file.stdout != CliRunner().invoke(main, ["bridge", "id", str(key)]).stdout
    config.write_text('address = "edge:///shared/meeting"\n')
    refused = CliRunner().invoke(main, ["bridge", "id", "-c", str(config)])
    assert (1, True) == (refused.exit_code, "is not the address of a bridge" in refused.stderr)


def test_a_server_serves_the_meetings_of_a_file(
    tmp_path: Path, served: list[dict[str, Any]]
) -> None:
    file = tmp_path / "meetings"
    file.write_text(f"# of this site\n\n{'0a' * 32}  # chemistry\n{'0B' * 32}\n")
    assert 1 == CliRunner().invoke(main, ["bridge", "serve", "--allow", str(file)]).exit_code
    assert [{b"\x0a" * 32, b"\x0b" * 32}] == [one["listed"] for one in served]


def test_a_list_of_meetings_that_is_wrong_is_refused_and_shows_no_key(
    tmp_path: Path, served: list[dict[str, Any]]
) -> None:
    """A key that stands there by mistake is not printed; and nothing is served."""
    file, key = tmp_path / "meetings", new_key()
    for text, error in (
        (f"# of this site\n{key}\n", f"{file}, line 2: an id of a meeting has 64 hexadecimal"),
        ("0a" * 31, f"{file}, line 1: an id of a meeting has 64 hexadecimal"),
        ("# nobody\n", f"{file} lists no meeting"),
    ):
        file.write_text(text)
        refused = CliRunner().invoke(main, ["bridge", "serve", "--allow", str(file)])
        assert (1, True) == (refused.exit_code, error in refused.stderr), refused.stderr
        assert key not in refused.output
    file.unlink()
    refused = CliRunner().invoke(main, ["bridge", "serve", "--allow", str(file)])
    assert (1, True) == (refused.exit_code, f"{file}: No such file" in refused.stderr)
    assert [] == served
