"""Real processes on several network hosts: whatever the site allows, they find each other."""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from typing import TYPE_CHECKING

from tools.hosts import Host, clusters, hosts, shared_folder, why_not
from tools.stale import stale_view
from tools.stale import why_not as why_no_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
Start = Any
PROGRAM = Path(__file__).with_name("edge_program.py")


class Program:
    """A head or worker on a host, and its output."""

    def __init__(self, host: Host, role: str, directory: Path) -> None:
        self.process = host.start(
            [sys.executable, str(PROGRAM), role, f"edge://{directory}/meeting"]
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._said.append(line.decode().strip())
                self._lines.put(self._said[-1])

    def expect(self, pattern: str, seconds: float = 300.0) -> str:
        """Wait for a line; echoes must be right all the time. What takes minutes hangs."""
        end, seen = time.monotonic() + seconds, []
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            assert not line.endswith("False"), line
            seen.append(line)
            if re.match(pattern, line):
                return line
        raise AssertionError(f"{pattern!r} not within {seconds} s, but {seen[-5:]}")

    def drain(self) -> None:
        """Forget the output so far."""
        while not self._lines.empty():
            self._lines.get()

    def was_lost(self) -> bool:
        """Return True if it has ever lost its head."""
        return any(line.startswith("lost") for line in self._said)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reader.join()


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as directory:
        yield directory


@pytest.fixture
def start(shared: Path) -> Iterator[Callable[[Host, str, Path], Program]]:
    """Starts programs, and ends them before their hosts and files go."""
    started: list[Program] = []

    def start(host: Host, role: str, directory: Path) -> Program:
        started.append(Program(host, role, directory))
        return started[-1]

    yield start
    for program in started:
        program.kill()


@pytest.fixture
def two() -> Iterator[list[Host]]:
    with hosts("head", "n1") as machines:
        yield machines


def set_up(site: str, machines: list[Host]) -> str:
    """Apply what a site forbids; returns the transport that should be found."""
    head, worker = machines
    if site in ("no connections to the head", "nothing", "nothing, with resets"):
        head.refuse_connections(reset="resets" in site)
    if site in ("no connections to workers", "nothing", "nothing, with resets"):
        worker.refuse_connections(reset="resets" in site)
    return {"no connections to the head": "reverse"}.get(
        site, "files" if site.startswith("nothing") else "tcp"
    )


def echoing_worker(site: str, two: list[Host], shared: Path, start: Start) -> Any:
    """A worker that talks to a head on the other host, by what the site allows."""
    set_up(site, two)
    head = start(two[0], "head", shared)
    head.expect("serving")
    worker = start(two[1], "worker", shared)
    worker.expect("echo 2 True")
    return worker


def names_below(directory: Path) -> set[str]:
    """Return the names of all files below a directory.

    A head makes and removes some meanwhile: `os.walk` takes that as it is, and `Path.rglob` does
    not.
    """
    return {name for _, _, names in os.walk(directory) for name in names}


def eventually(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Wait until something is so; return True if it is so in time."""
    end = time.monotonic() + seconds
    while not (there := condition()) and time.monotonic() < end:
        time.sleep(0.02)
    return there


def nightly(*case: object) -> Any:
    """Return a case for the nightly session.

    Each story has one case by day at least, and so has each transport.
    """
    return pytest.param(*case, marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    "site",
    [
        "all",
        nightly("no connections to workers"),
        "no connections to the head",
        nightly("nothing"),
        "nothing, with resets",
    ],
)
def test_a_worker_joins_by_the_best_route_that_its_site_allows(
    site: str, two: list[Host], shared: Path, start: Start
) -> None:
    """The worker starts first, waits, and joins by the best way that the site allows."""
    transport = set_up(site, two)
    worker = start(two[1], "worker", shared)
    head = start(two[0], "head", shared)
    head.expect("serving 1")

    worker.expect(f"joined {transport}$")
    for number in (1, 2, 3):
        worker.expect(f"echo {number} True")
    worker.kill()
    head.kill()


def test_a_worker_on_the_heads_host_joins_by_the_unix_socket(
    two: list[Host], shared: Path, start: Start
) -> None:
    """No network involved."""
    head = start(two[0], "head", shared)
    head.expect("serving")
    worker = start(two[0], "worker", shared)

    worker.expect("joined unix$")
    worker.expect("echo 1 True")


@pytest.mark.parametrize(
    "site",
    [
        nightly("all"),
        nightly("no connections to workers"),
        nightly("no connections to the head"),
        "nothing",
    ],
)
def test_a_worker_moves_to_the_successor_of_a_killed_head(
    site: str, two: list[Host], shared: Path, start: Start
) -> None:
    """SIGKILL; a new head on another host takes over, the worker finds it; nothing old remains."""
    set_up(site, two)
    head = start(two[0], "head", shared)
    head.expect("serving 1")
    worker = start(two[1], "worker", shared)
    worker.expect("echo 3 True")
    head.kill()
    successor = start(two[1], "successor", shared)
    successor.expect("serving 2")

    worker.expect("lost")
    worker.expect("joined unix")
    worker.expect("echo")
    # For a moment now and then there is also the file by which a head checks that it can write.
    assert eventually(lambda: sorted(os.listdir(f"{shared}/meeting.d")) == ["2", "claim.2"])


@pytest.mark.parametrize(
    ("site", "seconds"),
    [
        ("all", 2),
        nightly("all", 20),
        nightly("no connections to the head", 20),
        nightly("nothing", 20),
    ],
)
def test_a_network_cut_loses_no_peer(
    site: str, seconds: int, two: list[Host], shared: Path, start: Start
) -> None:
    """Nobody is lost: the same connection goes on."""
    worker = echoing_worker(site, two, shared, start)
    two[1].cut()
    time.sleep(seconds)
    worker.drain()
    two[1].mend()

    worker.expect(r"echo \d+ True")
    assert not worker.was_lost()


@pytest.mark.parametrize(
    ("site", "seconds"),
    [
        ("no connections to the head", 2),
        nightly("all", 15),
        nightly("no connections to the head", 15),
        nightly("nothing", 15),
    ],
)
def test_a_host_that_was_frozen_is_not_lost(
    site: str, seconds: int, two: list[Host], shared: Path, start: Start
) -> None:
    """Some seconds without any of its processes running: late, not lost."""
    worker = echoing_worker(site, two, shared, start)
    two[0].freeze()
    time.sleep(seconds)
    worker.drain()
    two[0].thaw()

    worker.expect(r"echo \d+ True")
    assert not worker.was_lost()


def test_a_frozen_head_steps_down_when_it_wakes(
    two: list[Host], shared: Path, start: Start
) -> None:
    """Another host took over meanwhile; there is one leader in the end."""
    old = start(two[0], "head", shared)
    old.expect("serving 1")
    two[0].freeze()
    new = start(two[1], "successor", shared)
    new.expect("serving 2")
    two[0].thaw()

    old.expect("ended Superseded")
    worker = start(two[1], "worker", shared)
    worker.expect("joined unix")
    worker.expect("echo")


def test_a_claim_against_a_head_elsewhere_asks_it(
    two: list[Host], shared: Path, start: Start
) -> None:
    """The first head answers, so the second one reports where it is."""
    start(two[0], "head", shared).expect("serving")
    command = [sys.executable, str(PROGRAM), "head", f"edge://{shared}/meeting"]
    with two[1].start(command) as second:
        out, _ = second.communicate(timeout=120)

    assert b"ended MeetingTaken" in out


def test_the_files_of_a_killed_worker_are_removed(
    two: list[Host], shared: Path, start: Start
) -> None:
    """The next head removes them."""
    set_up("nothing", two)
    head = start(two[0], "head", shared)
    head.expect("serving 1")
    worker = start(two[1], "worker", shared)
    worker.expect("echo 2 True")
    worker.kill()
    head.kill()
    assert "up.0" in names_below(shared)
    successor = start(two[0], "head", shared)
    successor.expect("serving 2")

    assert eventually(lambda: "up.0" not in names_below(shared))


@pytest.mark.skipif(bool(why_no_views()), reason=why_no_views() or "-")
@pytest.mark.parametrize("echoes", [2, pytest.param(20, marks=pytest.mark.nightly)])
def test_hosts_with_stale_views_of_the_filesystem_still_talk(
    echoes: int, shared: Path, start: Start
) -> None:
    """Each host with its own view that believes old names and sizes for five seconds."""
    real = shared / "real"
    real.mkdir(mode=0o700)
    # Mounted first: a host sees the mounts of the moment when it was made.
    with (
        stale_view(real, shared / "v1") as first,
        stale_view(real, shared / "v2") as second,
        hosts("head", "n1") as machines,
    ):
        set_up("nothing", machines)
        worker = start(machines[1], "worker", second)
        head = start(machines[0], "head", first)
        head.expect("serving 1")
        worker.expect("joined files")
        worker.expect(f"echo {echoes} True")
        worker.kill()
        head.kill()


@pytest.mark.parametrize(
    ("site", "first"), [("all", "reverse"), ("no connections to workers", "files")]
)
def test_a_head_listens_for_its_own_host_until_a_member_of_another_shows_the_need(
    site: str, first: str, two: list[Host], shared: Path, start: Start
) -> None:
    """The disk is that of the head's host, which shares it in a way that no head can see.

    Tried: Connect to a scheduler by a network that its members do not use.
    Result: it does not listen there.
    """
    set_up(site, two)
    two[0].interfaces = ""
    head = start(two[0], "head", shared)
    head.expect("serving")
    assert {"127.0.0.1"} == two[0].listens_on()

    start(two[1], "worker", shared).expect(f"joined {first}$")

    assert eventually(lambda: {"127.0.0.1", two[0].address} == two[0].listens_on())
    record = Path(f"{shared}/meeting")
    assert eventually(lambda: two[0].address.encode() in record.read_bytes())
    start(two[1], "worker", shared).expect("joined tcp$")


def test_a_member_of_the_heads_own_host_shows_no_need(
    two: list[Host], shared: Path, start: Start
) -> None:
    two[0].interfaces = ""
    start(two[0], "head", shared).expect("serving")

    start(two[0], "worker", shared).expect("echo 1 True")

    assert {"127.0.0.1"} == two[0].listens_on()


@pytest.mark.parametrize("interfaces", ["eth0", "10.99.1.0/24, 10.7.0.0/16"])
def test_a_head_listens_on_the_interfaces_that_its_environment_names(
    interfaces: str, shared: Path, start: Start
) -> None:
    """The others of a host in two networks stay closed, whatever members need.

    Tried: Connect to a scheduler by a network that its members do not use.
    Result: it does not listen there.
    """
    with clusters(inner=["n1"], outer=["n2"]) as two_networks:
        login = two_networks.relay
        login.interfaces = interfaces
        inner, outer = "10.99.1.254", "10.99.2.254"
        start(login, "head", shared).expect("serving")
        assert {"127.0.0.1", inner} == login.listens_on()

        start(two_networks.hosts["n1"], "worker", shared).expect("joined tcp$")
        two_networks.hosts["n2"].ip("route", "del", "default")
        start(two_networks.hosts["n2"], "worker", shared).expect("joined reverse$")

        assert {"127.0.0.1", inner} == login.listens_on()
        assert outer.encode() not in Path(f"{shared}/meeting").read_bytes()
