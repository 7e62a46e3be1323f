"""The page about bridges: its commands, typed in two clusters as it says, and its service."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.hosts import clusters, shared_folder, why_not

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.hosts import Clusters, Host

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/bridge.md").read_text(encoding="utf-8")
COMMANDS = {n: line for line, n in re.findall(r"^(.*?) *# (\d)\. ", PAGE, re.MULTILINE)}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


class Desk:
    """A login host with a home directory, where lines of the page are typed.

    Args:
        host: the host.
        home: its home directory, which is made.
    """

    def __init__(self, host: Host, home: Path) -> None:
        home.mkdir()
        self.home = home
        path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
        plain = ["env", "-u", "XDG_STATE_HOME", f"HOME={home}", path]
        self.shell = host.entering([*plain, "sh", "-c"], str(home))

    def start(self, line: str) -> subprocess.Popen[str]:
        """Type a line."""
        return subprocess.Popen([*self.shell, line], text=True, stdout=subprocess.PIPE)

    def type(self, line: str) -> str:
        """Type a line, which must end well; return its output."""
        return checked([*self.shell, line], {})


def checked(words: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        words, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, (words[-1], done.stdout, done.stderr)
    return done.stdout


def ways(folder: Path, target: Desk) -> Path:
    """Make `ssh` and `scp` that lead to a host's home, whatever its name; return their folder."""
    folder.mkdir()
    for name, line in {
        "ssh": f'shift; exec {shlex.join(target.shell)} "$*"',
        "scp": f'exec cp "$1" {shlex.quote(str(target.home))}',
    }.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o700)
    return folder


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def network(shared: Path) -> Iterator[Clusters]:
    """Two clusters with a login host each; all know the name of the bridge's host."""
    with clusters(one=["login1"], two=["login2"]) as network:
        names = shared / "hosts"
        names.write_text(f"127.0.0.1 localhost\n{network.relay.address} relay.example.org\n")
        for host in (network.relay, *network.hosts.values()):
            bind = host.entering(["mount", "--bind", str(names), "/etc/hosts"])
            subprocess.run(bind, check=True)
        yield network


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
def test_the_five_commands_of_the_page_set_up_two_clusters(network: Clusters, shared: Path) -> None:
    """The task with a token runs on the second cluster; both are in `grain ls`."""
    one, two = (Desk(network.hosts[f"login{n}"], shared / str(n)) for n in (1, 2))
    relay = Desk(network.relay, shared / "relay")
    # From a host of these no `ssh` would lead to another one.
    path = f"{ways(shared / 'bin', two)}:{os.environ['PATH']}"
    from_one = {"HOME": str(one.home), "PATH": path}
    address, steering = blocks("toml")
    script = "[script]\ncores = 1\nmemory = 1\n"
    (one.home / "grain.toml").write_text(f"{address}[worker]\ncluster = 'one'\n{script}")
    (two.home / "two.toml").write_text(f"{address}{steering}{script}")
    (block,) = (block for block in blocks("py") if "hostname" in block)
    (one.home / "opt.py").write_text(
        "from grain.delayed import delayed, run\nfrom grain.resource import Cores, Token\n"
        f"{block}\nrun(main)\n"
    )

    one.type(COMMANDS["1"])
    checked(["sh", "-c", COMMANDS["2"]], from_one)
    with relay.start(COMMANDS["3"]) as bridge:
        try:
            assert bridge.stdout is not None
            assert "port 4747" in bridge.stdout.readline()
            one.type(COMMANDS["4"])
            checked(["sh", "-c", COMMANDS["5"]], from_one)
            (mission,) = re.findall(r"^(\w+) \w+$", one.type("python3 opt.py"), re.MULTILINE)
            states: list[tuple[str, str]] = []
            deadline = time.monotonic() + 300
            while len(states) < 4:
                assert time.monotonic() < deadline, states
                time.sleep(0.1)
                listed = one.type("grain ls --patience 60")
                states = re.findall(r"^w\S+ +(one|two) +(login.)", listed, re.MULTILINE)
        finally:
            bridge.kill()

    assert "login2" == mission
    assert [("one", "login1")] * 2 + [("two", "login2")] * 2 == sorted(states)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_finds_no_fault_with_the_service_of_the_page(tmp_path: Path) -> None:
    (unit,) = blocks("ini")
    file = tmp_path / "grain-bridge.service"
    # It looks whether the program is there.
    file.write_text(unit.replace("/opt/grain/bin/grain", shutil.which("true") or ""))

    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stdout + done.stderr)
