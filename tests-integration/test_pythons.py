"""Missions and workers with different versions of Python, as real processes.

Bytecode of one version crashes another, or returns nonsense there: of nine one-line functions six
crashed, and `return x[1:], len(x)` returned `([1, 2, 3], 6)`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio
from other_python import others, with_grain

from grain.edge import dial
from grain.edge.questions import Ask, StateAnswer, unpack
from grain.head.service import CODEC
from grain_testkit.programs import run, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from grain_testkit.programs import Process

OWN = "{}.{}".format(*sys.version_info)
HERE = others()

ONE_LINERS = """\
from grain import GVAR
from grain.delayed import delayed, each, run
from grain.resource import Cores

@delayed
async def double(x): return 2 * x
@delayed
async def parts(x): return x[1:], len(x)
@delayed
async def text(x): return f"{x!r:>5}"
@delayed
async def keys(**named): return sorted(named)
@delayed
async def squares(x): return [y * y for y in x if y % 2]
@delayed
async def tenth(x):
    try: return x[9]
    except IndexError as error: return str(error)
@delayed
async def mean(x): return sum(x) / len(x), max(x)
@delayed
async def nested(x): return (lambda y: y + x)(1)
@delayed
async def where(): return GVAR.instance

async def main():
    calls = [double, parts, text, keys, squares, tenth, mean, nested, where]
    double_, parts_, text_, keys_, squares_, tenth_, mean_, nested_, where_ = (
        call @ Cores(1) for call in calls
    )
    print(await each([
        double_(4), parts_([1, 2, 3]), text_(3), keys_(b=1, a=2), squares_([1, 2, 3]),
        tenth_([1]), mean_([1, 2, 3]), nested_(5), where_(),
    ]))

run(main, name="one", progress=False)
"""

RESULTS = "[8, ([2, 3], 3), '    3', ['a', 'b'], [1, 9], 'list index out of range', (2.0, 3), 6, "
"""Of `ONE_LINERS`, but for the name of the worker."""

CHEMISTRY = """\
import sys
from dataclasses import dataclass
from pathlib import Path

@dataclass
class Energy:
    value: float
    file: Path

class NotConverged(Exception):
    pass

async def version(): return "{}.{}".format(*sys.version_info)
async def energy(file, value): return Energy(value, file.with_suffix(".out"))
async def fails(): raise NotConverged("after 3 cycles")
async def returns_code(): return lambda: 1
"""

BY_NAME = """\
from pathlib import Path
import chemistry
from grain.delayed import delayed, run
from grain.resource import Cores

async def main():
    c = Cores(1)
    print(await (delayed(chemistry.version) @ c)())
    print(await (delayed(chemistry.energy) @ c)(Path("a.xyz"), 1.5))
    try:
        await (delayed(chemistry.fails) @ c)()
    except chemistry.NotConverged as error:
        print("caught:", error)
    try:
        await (delayed(chemistry.returns_code) @ c)()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")

run(main, name="two", progress=False)
"""


class Pair(NamedTuple):
    """The interpreters of a mission and of a worker, and their versions."""

    mission: str
    worker: str
    mission_version: str
    worker_version: str


VERSIONS = list(HERE)[-2:]
SIDES = ["mission", "worker"]
# One pair; at night, every version on both sides.
PAIRS = [
    pytest.param(
        version,
        side,
        marks=[] if (version, side) == (VERSIONS[-1], "worker") else pytest.mark.nightly,
        id=f"the {side} has {version}",
    )
    for version in VERSIONS
    for side in SIDES
]


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Return the interpreter of a version, with Grain; its environment is made when it is asked."""

    @cache
    def python(version: str) -> str:
        return with_grain(HERE[version], tmp_path_factory.mktemp(f"python{version}") / "venv")

    return python


@pytest.fixture
def pair(version: str, side: str, pythons: Callable[[str], str]) -> Pair:
    if side == "mission":
        return Pair(pythons(version), sys.executable, version, OWN)
    return Pair(sys.executable, pythons(version), OWN, version)


# Without another version, they are skipped.
both_ways = pytest.mark.parametrize(("version", "side"), PAIRS)


class Site:
    """A directory with a scheduler, in which missions and workers are started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"edge://{folder}/edge/meeting"
        (folder / "edge").mkdir(mode=0o700)
        (folder / "grain.toml").write_text(f'address = "{self.address}"\n')

    @contextmanager
    def running(self, python: str, *words: str, log: str = "log") -> Iterator[Process]:
        process: Process
        with (self.folder / log).open("wb") as out:
            if python == sys.executable:
                process = start(*words, stdout=out, stderr=out, cwd=self.folder)
            else:
                process = subprocess.Popen(
                    [python, *words], stdout=out, stderr=out, cwd=self.folder
                )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def gnaw(self) -> Any:
        words = ("-m", "grain.head", "--address", self.address, "--grace", "20")
        return self.running(sys.executable, *words, log="gnaw.log")

    def worker(self, python: str, name: str) -> Any:
        words = ("-m", "grain.worker", "--url", self.address, "--res", '{"Cores": 2}')
        return self.running(python, *words, "--name", name, log=f"{name}.log")

    def mission(self, python: str, text: str) -> Any:
        (self.folder / "mission.py").write_text(text)
        (self.folder / "chemistry.py").write_text(CHEMISTRY)
        return self.running(python, "mission.py", log="mission.log")

    def read(self, log: str) -> str:
        return (self.folder / log).read_text()

    def typed(self, *words: str) -> str:
        """Type a `grain` command that asks the scheduler; return what it prints."""
        return run("-m", "grain.cli", *words, "--patience", "60", cwd=self.folder).stdout

    async def until(self, *, workers: int = 0, waiting: int = 0) -> None:
        """Wait until the scheduler has so many workers, and so many waiting tasks."""
        async with dial(self.address, role="cli", codec=CODEC, patience=60) as peer:
            while True:
                await peer.channel.send([(Ask("state"), None)])
                state = unpack((await peer.channel.receive())[0][1], StateAnswer)
                tasks = sum(queue.waiting for queue in state.queues)
                if len(state.workers) >= workers and tasks >= waiting:
                    return
                await trio.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def ended(process: Process) -> int:
    while (code := process.poll()) is None:
        await trio.sleep(0.05)
    return code


@both_ways
async def test_tasks_by_value_wait_for_a_worker_with_the_python_of_the_mission(
    site: Site, pair: Pair
) -> None:
    theirs, ours = f"Python {pair.worker_version}", f"Python {pair.mission_version}"
    with trio.fail_after(300), site.gnaw(), site.worker(pair.worker, "foreign"):
        await site.until(workers=1)
        with site.mission(pair.mission, ONE_LINERS) as mission:
            await site.until(waiting=9)
            why, listed = site.typed("why", "one:1"), site.typed("ls")
            plain = json.loads(site.typed("ls", "--json"))
            with site.worker(pair.mission, "fitting"):
                code = await ended(mission)
    log = site.read("mission.log")

    assert (0, 1) == (code, log.count(f"{RESULTS}'fitting']")), log
    assert f"it needs {ours}, as its function or an argument travels by value" in why
    assert f"foreign: never, it has {theirs}, and a function" in why
    assert theirs in listed
    assert theirs == plain["workers"][0]["versions"]["interpreter"]
    assert ours == plain["missions"][0]["versions"]["interpreter"]
    assert 1 == log.count(f"has {theirs}, this mission {ours}: tasks whose functions travel by")
    assert f"Python {pair.worker_version}." in site.read("foreign.log")


@both_ways
async def test_functions_of_modules_run_on_a_worker_of_another_python(
    site: Site, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain data, paths, and objects and exceptions of modules come back; bytecode is refused."""
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    with trio.fail_after(300), site.gnaw(), site.worker(pair.worker, "foreign"):
        await site.until(workers=1)
        with site.mission(pair.mission, BY_NAME) as mission:
            code = await ended(mission)
    lines = [line for line in site.read("mission.log").splitlines() if "warning" not in line]

    assert 0 == code, lines
    for line in (
        pair.worker_version,
        "Energy(value=1.5, file=PosixPath('a.out'))",
        "caught: after 3 cycles",
    ):
        assert line in lines
    [refusal] = [line for line in lines if line.startswith("PayloadError")]
    assert f"bytecode of Python {pair.worker_version}, made on host" in refusal
    assert f"this is Python {pair.mission_version} on host" in refusal


DUMP = """\
import base64
from grain.worker.payload import Payloads
def make():
    def parts(x): return x[1:], len(x)
    def twice(x): return 2 * x
    def text(x): return f"{x!r:>5}"
    def keys(**named): return sorted(named)
    def squares(x): return [y * y for y in x if y % 2]
    def tenth(x):
        try: return x[9]
        except IndexError as error: return str(error)
    def mean(x): return sum(x) / len(x), max(x)
    def nested(x): return (lambda y: y + x)(1)
    class Point:
        def norm(self): return 1
    return parts, twice, text, keys, squares, tenth, mean, nested, Point
for one in make():
    print(base64.b64encode(Payloads().dump_function(one).payload).decode())
"""

LOAD = """\
import base64, sys
from grain.worker.payload import Payloads
for line in sys.stdin:
    try:
        print("loaded", Payloads().load_function(base64.b64decode(line)))
    except Exception as error:
        print(type(error).__name__, error)
"""


@both_ways
def test_bytecode_of_another_python_is_refused_before_it_is_loaded(pair: Pair) -> None:
    """Nothing crashes, wherever it comes from: the last net below the scheduler's choice."""
    made = subprocess.check_output([pair.mission, "-c", DUMP])
    elsewhere = subprocess.run(
        [pair.worker, "-c", LOAD], input=made, check=True, stdout=subprocess.PIPE
    ).stdout.decode()
    here = subprocess.run(
        [pair.mission, "-c", LOAD], input=made, check=True, stdout=subprocess.PIPE
    ).stdout.decode()

    assert 9 == here.count("loaded ")
    assert 9 == elsewhere.count(f"bytecode of Python {pair.mission_version}, made on host")
    assert 9 == elsewhere.count(f"this is Python {pair.worker_version} on host")
