"""The processes of a campaign that runs: a scheduler, workers and the mission."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from grain.edge import dial
from grain.edge.errors import EdgeError
from grain.edge.questions import CODEC, Ask, OverviewAnswer, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from tools.campaign.mission import MissionPlan

ROOT = Path(__file__).parents[2]

_LOOK = 0.5  # seconds between two looks at the mission's estimate
_CONFIG = """address = "{address}"
[head.gnaw]
grace = 10
idle_timeout = 30
[head.event_log]
folder = "{folder}/logs"
"""


@dataclass(frozen=True)
class Site:
    """The workers of a campaign, and what befalls them.

    Attributes:
        workers: how many there are.
        cores: of each.
        joins: seconds from the start of the mission until the first ones join.
        killed: seconds from then until one of them is killed; None if none is.
        silent: True if that one falls silent instead, as a host that goes down.
        replaced: seconds from then until another one joins in its place.
        drained: seconds from the start until one of the others is asked to leave; None if none is.
    """

    workers: int = 3
    cores: int = 4
    joins: float = 5.0
    killed: float | None = None
    silent: bool = False
    replaced: float = 10.0
    drained: float | None = None


class Look(NamedTuple):
    """What a mission says about the time left, at some time.

    Attributes:
        time: by the clock of this host, in Unix seconds.
        left: seconds; None if it is not known.
        least: True if it may take longer.
        whole: True if these are the seconds until all calls have ended.
    """

    time: float
    left: float | None
    least: bool
    whole: bool


def run_campaign(plan: MissionPlan, site: Site) -> tuple[Path, list[Look]]:
    """Run a campaign in its folder, which it makes.

    Returns:
        The folder of the mission's event log, and what the mission said about the time left.
    """
    folder = Path(plan.folder)
    folder.mkdir(parents=True)
    address = f"edge://{folder}/meeting"
    (folder / "grain.toml").write_text(_CONFIG.format(address=address, folder=folder))
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    looks = trio.run(_live, folder, address, site)
    [log] = [one for one in (folder / "logs/missions").iterdir() if one.is_dir()]
    return log, looks


async def _live(folder: Path, address: str, site: Site) -> list[Look]:
    looks: list[Look] = []
    with ExitStack() as stack:
        start = stack.enter_context
        start(_running(folder, "gnaw", "grain.head", "--address", address, "--grace", "10"))
        mission = start(_running(folder, "mission", "tools.campaign.mission", "plan.json"))
        began = monotonic()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch, address, looks)
            await trio.sleep(site.joins)
            workers = [
                start(_worker(folder, address, f"n{number:02}", site.cores))
                for number in range(1, site.workers + 1)
            ]
            nursery.start_soon(_befall, stack, folder, address, site, workers, began)
            await trio.to_thread.run_sync(mission.wait, abandon_on_cancel=True)
            nursery.cancel_scope.cancel()
    return looks


async def _befall(
    stack: ExitStack,
    folder: Path,
    address: str,
    site: Site,
    workers: list[subprocess.Popen[bytes]],
    began: float,
) -> None:
    """Let happen to the workers what the site says."""
    happens = [(site.killed, "kill"), (site.drained, "drain")]
    if site.killed is not None:
        happens.append((site.killed + site.replaced, "replace"))
    for at, what in sorted((at, what) for at, what in happens if at is not None):
        await trio.sleep(max(0.0, began + at - monotonic()))
        if what == "replace":
            stack.enter_context(_worker(folder, address, "n90", site.cores))
        elif what == "drain":
            workers[0].send_signal(signal.SIGTERM)
        else:
            os.killpg(workers[1].pid, signal.SIGSTOP if site.silent else signal.SIGKILL)


async def _watch(address: str, looks: list[Look]) -> None:
    """Note what the mission says about the time left, for as long as it is there."""
    lost = (EdgeError, trio.BrokenResourceError, trio.EndOfChannel)
    while True:
        with suppress(*lost):
            async with dial(address, role="cli", codec=CODEC, patience=10) as peer:
                while True:
                    await peer.channel.send([(Ask("overview"), None)])
                    answer = unpack((await peer.channel.receive())[0][1], OverviewAnswer)
                    for mission in answer.missions:
                        outlook = mission.outlook
                        if outlook is not None:
                            look = Look(time(), outlook.left, outlook.least, outlook.whole)
                            if not looks or looks[-1][1:] != look[1:]:
                                looks.append(look)
                    await trio.sleep(_LOOK)
        await trio.sleep(_LOOK)


def _worker(
    folder: Path, address: str, name: str, cores: int
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    offer = f'{{"Cores": {cores}, "Memory": 16}}'
    return _running(folder, name, "grain.worker", "--url", address, "--name", name, "--res", offer)


@contextmanager
def _running(folder: Path, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a module of Python until the end of the block, in a session of its own."""
    others = ("GRAIN_", "XDG_", "SLURM_", "PBS_")
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(others)},
        "XDG_STATE_HOME": f"{folder}/state",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
        "GRAIN_CPU_LOCKS": "",  # cores are numbers only here
    }
    with (folder / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
