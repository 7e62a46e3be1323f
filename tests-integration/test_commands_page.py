"""docs/commands.md shows what the commands print.

Each block of it that begins with ``$ grain`` is compared, line by line and column by column, with
what that command prints where things stand as the page has it. What differs from place to place is
masked on both sides: hosts, times, numbers of jobs, which task runs where. A line ``...`` stands
for any lines.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from command_site import SCALE, Site
from fake_batch.start import Batch, fake, until

from grain.edge import dial
from grain.edge.version import own_versions
from grain.remote_exer import GnawConnector, RemoteExecutor
from grain.resource import Cores, GPUs, Memory
from grain.worker import Call
from grain.worker.messages import CODEC, InventoryEnd, RegisterWorker
from grain_testkit.programs import start

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
SAMPLES = {
    match["command"]: match["printed"].splitlines()
    for match in re.finditer(
        r"^```\n\$ grain (?P<command>.*)\n(?P<printed>(?:.*\n)*?)```$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
HOSTS = re.compile(rf"\b(n17|n18|login1|{re.escape(socket.gethostname())})(?![\w.-])")
MASKS = [
    (HOSTS, "HOST"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"(?<= {2})[\d.]+ s(?= {2}|$)"), "TIME"),  # less than a minute
    (re.compile(r"(?<=on HOST by )(unix|tcp)$"), "WAY"),  # the socket may get no answer in time
    (re.compile(r"\bopt:\d+"), "opt:#"),
    (re.compile(r"\bw\d{6}(?=[-:. ]|$)"), "WORKER"),
    (re.compile(r"\bjob \d+"), "job #"),
    (re.compile(r"\d+(\.\d+)? (m?s)\)"), r"# \2)"),
    (re.compile(r"\d+(\.\d+){2}"), "VERSION"),
    (re.compile(r"in /\S+/bin$"), "in BIN"),
    (re.compile(r"/\S*/grain-\d+/[0-9a-f]+\.\d+"), "SOCKET"),
    (re.compile(r"[\w.:\[\]]+:\d+ \("), "HOST:PORT ("),
    (re.compile(r"The scheduler is at \S+;"), "The scheduler is at ADDRESS;"),
    (re.compile(r"it calls .*"), "it calls CALL"),
    (re.compile(r"is on (btrfs|ext4|overlay|tmpfs|xfs|zfs)\b"), "is on KIND"),
    (re.compile(r"\d+ GB\b"), "# GB"),
]


def masked(line: str) -> list[str]:
    """The columns of a line."""
    for mask, word in MASKS:
        line = mask.sub(word, line)
    return re.split(r"(?<=\S) {2,}", line.rstrip())


def shape(lines: list[str]) -> list[list[str]]:
    """Lines as they are compared; of equal ones in a row one is left, as of addresses."""
    done: list[list[str]] = []
    for line in lines:
        if (now := masked(line)) not in done[-1:]:
            done.append(now)
    return done


def agrees(command: str, printed: str, prefix: Path) -> None:
    """Check that the output is the page's; paths below the prefix are those of the page."""
    expected, got = SAMPLES[command], printed.replace(str(prefix), "").splitlines()
    if "..." not in expected:
        assert shape(expected) == shape(got)
        return
    rest = shape(got)
    for part in "\n".join(expected).split("..."):
        wanted = shape(part.strip("\n").splitlines())
        at = next((i for i in range(len(rest)) if rest[i : i + len(wanted)] == wanted), None)
        assert at is not None or not wanted, (wanted, rest)
        rest = rest[(at or 0) + len(wanted) :]


class Home(Site):
    """The user's home directory of the page, with a fake Slurm of one node, which is taken."""

    def __init__(self, folder: Path, batch: Batch) -> None:
        run = folder / "home/me/run"
        run.mkdir(parents=True)
        super().__init__(run)
        home = folder / "home/me"
        self.environ |= {**batch.env, "HOME": str(home)}
        self.environ |= {"XDG_STATE_HOME": str(folder / "state")}
        self.environ.pop("GRAIN_CONFIG", None)
        self.batch = batch
        self.prefix = folder

    def configure(self, address: str = "", name: str = "") -> None:
        lines = ['system = "slurm"', f'address = "{address}"' if address else ""]
        lines += ["[worker]", f'name = "{name}"\nlog_file = "{name}.log"' if name else ""]
        lines += ["[script]", "cores = 4", "memory = 1"]
        (self.folder / "grain.toml").write_text("\n".join(lines))

    def jobs(self) -> dict[str, str]:
        lines = self.batch.out("squeue", "-h", "-r", "-o", "%i %T").splitlines()
        return dict(line.split() for line in lines)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with fake("slurm", tmp_path / "fake", "--nodes=2") as slurm:
        yield Home(tmp_path, slurm)


async def test_every_sample_is_compared() -> None:
    """One that is added to the page needs a test here."""
    assert {
        "ls",
        "why opt:6",
        "drain 'w09*'",
        "scale 4",
        "doctor",
        "doctor --slow",
    } == SAMPLES.keys()


async def be_worker(
    leaves: trio.CancelScope, address: str, name: str, res: dict[str, float]
) -> None:
    """Be a worker until a scope is cancelled, and away from then on.

    Of one that is killed on its own host the scheduler knows soon that it does not come back.
    """
    register = RegisterWorker(name, name, socket.gethostname(), res, versions=own_versions())
    with leaves:
        async with dial(address, role="worker", codec=CODEC, name=name) as peer:
            await peer.channel.send([(register, None), (InventoryEnd(), None)])
            while True:
                await peer.channel.receive()


async def test_workers_missions_tasks_and_jobs(home: Home) -> None:
    """Two workers, of which one is away; a mission; a job that waits."""
    home.configure(home.address, "w093120")
    for _ in range(2):  # both nodes are taken
        home.batch.out("sbatch", "-c", "4", "--wrap", "sleep 600", cwd=home.folder)
    res = {"Cores": 16, "Memory": 59.5, "WTime": 2532}
    with home.gnaw(grace=600) as gnaw, home.worker("w093015-0", **res), trio.fail_after(300):
        await home.until(lambda s: s["workers"])
        async with trio.open_nursery() as nursery:
            leaves = trio.CancelScope()
            nursery.start_soon(be_worker, leaves, home.address, "w093015-1", res)
            await home.until(lambda s: len(s["workers"]) == 2)
            connect = GnawConnector(home.address, name="opt", start=False).connect
            with trio.CancelScope() as scope:
                async with RemoteExecutor(home.address, name="opt", connect=connect) as executor:
                    sleep = Call(trio.sleep, (1000.0,), {})
                    for one in (*[Cores(6) & Memory(20)] * 16, GPUs(1)):
                        executor.submit_call(one, sleep, lambda _: None)
                    await home.until(lambda s: s["tasks"]["running"] == 4)
                    assert 0 == (await home.grain("up")).returncode
                    leaves.cancel()
                    await home.until(lambda s: "away" in str(s["workers"]))
                    await home.until_listed(lambda s: s["jobs"])
                    # It does not wait for the batch system for more than some seconds.
                    while "w093120" not in (listed := await home.grain("ls")).stdout:
                        await trio.sleep(0.1)
                    # Its mission has two seconds to name the call.
                    while "it calls " not in (why := await home.grain("why", "opt:6")).stdout:
                        await trio.sleep(0.1)
                    quitting = await home.grain("drain", "w09*")
                    await home.grain("drain", "-f", "w*")
                    gnaw.kill()  # it would wait for who is away
                    scope.cancel()

    [waits] = re.findall(r"^w093120  (\d+) ", listed.stdout, re.MULTILINE)
    agrees("ls", listed.stdout.replace(f"w093120  {waits} ", "w093120  7 "), home.prefix)
    agrees("why opt:6", why.stdout, home.prefix)
    agrees("drain 'w09*'", quitting.stdout, home.prefix)


# Counts the questions to the batch system.
SQUEUE = '#!/bin/sh\necho >> "{asked}"\nexec "{squeue}" "$@"\n'


@contextmanager
def scaling(home: Home, out: Path, size: int) -> Iterator[None]:
    program = SCALE.format(proven=0.0)  # who was seen to run has worked
    words = ("-c", program, "scale", str(size))
    path = home.environ["PATH"]
    squeue = home.prefix / "bin/squeue"
    squeue.parent.mkdir()
    squeue.write_text(
        SQUEUE.format(asked=home.prefix / "asked", squeue=shutil.which("squeue", path=path))
    )
    squeue.chmod(0o755)
    env = {**home.environ, "PATH": f"{squeue.parent}{os.pathsep}{path}"}
    with out.open("w") as file:
        process = start(*words, cwd=home.folder, env=env, stdout=file)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_scale_replaces_a_worker_that_ended(home: Home, tmp_path: Path) -> None:
    """One of its workers ends after a while, and another one is submitted."""
    (home.folder / "grain.toml").write_text(
        f'system = "slurm"\naddress = "{home.address}"\n[script]\ncores = 1\nmemory = 0.6\n'
    )
    out = tmp_path / "out"
    since: dict[str, int] = {}
    with scaling(home, out, 4):
        until(lambda: _ended(home, out, since), 180)

    agrees("scale 4", out.read_text(), home.prefix)


def _ended(home: Home, out: Path, since: dict[str, int]) -> bool:
    """Cancel one while all run, until that was reported and another one replaces it.

    One that ends before it was seen to run has failed, which has another report, and delays the
    next one more each time. So it was asked twice for all of them: the answer to the first question
    has been read when the second is put. How many there were when a job ran, is kept.
    """
    text = out.read_text()
    if re.search(r"3 of 4: 1 ended\n.* 4 of 4: ", text) is not None:
        return True
    # To ask the batch system costs a process: between two questions of the command nothing is new.
    if since.get("asked last") == _size(home.prefix / "asked"):
        return False
    since["asked last"] = _size(home.prefix / "asked")
    running = [one for one, state in home.jobs().items() if state == "RUNNING"]
    asked = _size(home.prefix / "asked")
    began = [since.setdefault(one, asked) for one in running]
    seen = len(running) == 4 and asked >= max(began) + 2
    if seen and " ended" not in text:
        home.batch.run("scancel", min(running))
    return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def test_doctor_finds_another_owner_of_the_name(home: Home) -> None:
    """Another user claims the name; no scheduler serves."""
    (home.prefix / "home/me/.local/share").mkdir(mode=0o700, parents=True)
    home.configure()
    info = home.prefix / "site/grain-0.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: grain\nVersion: 0.2\n")
    (info / "RECORD").write_text("grain/__init__.py,,\n")
    home.environ["PYTHONPATH"] = os.pathsep.join(
        [str(info.parent), os.environ.get("PYTHONPATH", "")]
    )
    while "s to write" in (done := await home.grain("doctor")).stdout:
        await trio.sleep(0.2)  # the disk of a busy machine is slow, which is reported

    assert 1 == done.returncode
    agrees("doctor", done.stdout, home.prefix)


async def test_doctor_slow_tries_each_way_to_the_scheduler(home: Home) -> None:
    """Each way to a scheduler that serves."""
    share = home.prefix / "home/me/.local/share"
    share.mkdir(mode=0o700, parents=True)
    home.address = f"edge://{share}/edge-file-default"
    home.configure()
    with home.gnaw(), trio.fail_after(300):
        await home.until(lambda _: True)
        found: set[str] = set()
        # Each has 5 s, in which the scheduler of a busy machine may get no processor.
        while not {"scheduler", "by unix", "by tcp", "by reverse", "by files"} <= found:
            done = await home.grain("doctor", "--slow")
            found = set(re.findall(r"^ok +(scheduler|by \w+)", done.stdout, re.MULTILINE))

    agrees("doctor --slow", done.stdout, home.prefix)
