"""Functions in pooled processes as tasklets: of a mission's local worker, and of a real worker."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from grain_testkit.local_processes import alive
from grain_testkit.programs import run, start

if TYPE_CHECKING:
    from pathlib import Path

CONTEXT = """
import os
from contextlib import asynccontextmanager
from grain.subproc import subprocess_pool_scope, subprocify

@asynccontextmanager
async def grain_context():
    async with subprocess_pool_scope():
        yield

@subprocify
def of_the_module():
    return os.getpid()
"""

MISSION = """
import os, sys
from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.subproc import BrokenSubprocessError, subprocify

class OwnError(Exception):
    pass

def helper(x):
    return x

@delayed
@subprocify
def child(x):
    return helper(x), os.getpid(), os.environ["OMP_NUM_THREADS"], GVAR.instance

@subprocify
def faulty():
    raise OwnError("mine")

@delayed
async def runner():
    return os.getpid(), GVAR.instance

@delayed
async def by_the_module():
    from pool_context import of_the_module
    return await of_the_module()

async def mission():
    answers = [(child @ Cores(2))(i) for i in range(4)]
    pid, name = await (runner @ Cores(1))()
    found = [await answer for answer in answers]
    assert [0, 1, 2, 3] == [x for x, *_ in found]
    assert not {child for _, child, *_ in found} & {pid, os.getpid()}
    assert {("2", name)} == {more for _, _, *more in found for more in [tuple(more)]}
    assert pid != await (by_the_module @ Cores(1))()
    try:
        await (delayed(faulty) @ Cores(1))()
    except OwnError as error:
        assert "mine" == str(error)
    else:
        raise AssertionError("no error")
    try:
        await (delayed(subprocify(os.abort)) @ Cores(1))()
    except BrokenSubprocessError as error:
        assert "SIGABRT" == error.signal
    else:
        raise AssertionError("no error")
    print("same process:", pid == os.getpid())

run(mission, Cores(2) if sys.argv[1] == "local" else None, config_file="mine.toml")
"""

MODULE = """
import os, threading
from grain.delayed import delayed
from grain.subproc import subprocify
from grain.worker.blocking import in_thread

lock = threading.Lock()  # it cannot travel: the function must go by its name

def place(x):
    with lock:
        return x, os.getpid(), threading.current_thread() is threading.main_thread()

@delayed
@in_thread
def decorated(x):
    return place(x)

@delayed
@subprocify
def computed(x):
    return place(x)

thrown = in_thread(place)
"""

WITHOUT_SCOPE = """
import os, sys, threading
from functions import computed, decorated, lock, place, thrown
from grain.delayed import delayed, run
from grain.resource import Cores
from grain.subproc import subprocify
from grain.worker.blocking import in_thread

offset = 10

@delayed
@in_thread
def of_script(x):
    return x + offset, os.getpid(), threading.current_thread() is threading.main_thread()

def plain(x):
    return x + offset, os.getpid(), threading.current_thread() is threading.main_thread()

@delayed
@subprocify
def in_process(x):
    return plain(x)

@delayed
async def worker():
    return os.getpid()

async def mission():
    one = Cores(1)
    runner = await (worker @ one)()
    for leaf, result in (
        (of_script @ one, 11),
        (delayed(in_thread(plain)) @ one, 11),
        (decorated @ one, 1),
        (delayed(thrown) @ one, 1),
        (delayed(in_thread(place)) @ one, 1),
    ):
        assert (result, runner, False) == await leaf(1), leaf
    assert (11, os.getpid(), False) == await of_script(1)  # a branch
    pids = set()
    for leaf, result in (
        (in_process @ one, 11),
        (delayed(subprocify(plain)) @ one, 11),
        (computed @ one, 1),
        (delayed(subprocify(place)) @ one, 1),
    ):
        value, pid, main = await leaf(1)
        assert (result, True) == (value, main), leaf
        assert pid not in (runner, os.getpid())
        pids.add(pid)
    assert 1 == len(pids)  # one pool, one process
    try:
        await in_process(1)
    except RuntimeError as error:
        assert "Call it as a leaf, whose worker has one" in str(error)
    else:
        raise AssertionError("no error")
    print("same process:", runner == os.getpid(), *pids)

run(mission, Cores(2) if sys.argv[1] == "local" else None, config_file="mine.toml")
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a directory with a mission, and a context module that is on no search path."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pool_context.py").write_text(CONTEXT)
    (tmp_path / "mission.py").write_text(MISSION)
    (tmp_path / "without_scope.py").write_text(WITHOUT_SCOPE)
    (tmp_path / "functions.py").write_text(MODULE)
    (tmp_path / "meeting").mkdir(mode=0o700)
    return tmp_path


def execute(home: Path, config: str, local: str, script: str = "mission.py") -> str:
    """Run the mission, and return what it prints."""
    (home / "mine.toml").write_text(f'address = "edge://{home}/meeting/point"\n{config}')
    environment = {**os.environ, "HOME": str(home)}
    done = run(home / script, local, cwd=home, env=environment, timeout=600)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_the_context_module_of_the_head_serves_the_local_worker(home: Path) -> None:
    config = '[head]\ncontextmod = "elsewhere/pool_context.py"\n'

    assert "same process: True\n" == execute(home, config, "local")


def test_the_context_module_of_a_worker_serves_its_runs(home: Path) -> None:
    """Classes of the script keep their identity."""
    command = ["-m", "grain.worker", "--name", "w", "--res", '{"Cores": 2}']
    command += ["--url", f"edge://{home}/meeting/point"]
    command += ["--context", str(home / "elsewhere" / "pool_context.py")]
    with start(*command, stderr=subprocess.PIPE, text=True) as worker:
        try:
            printed = execute(home, "[head.gnaw]\nenabled = false\n", "elsewhere")
        finally:
            worker.terminate()
            worker.communicate(timeout=120)

    assert "same process: False\n" == printed


def test_functions_that_block_or_compute_need_no_scope_on_the_local_worker(home: Path) -> None:
    printed = execute(home, "", "local", "without_scope.py").split()

    assert ["same", "process:", "True"] == printed[:-1]
    assert not alive(int(printed[-1]))


def test_functions_that_block_or_compute_need_no_context_module_on_a_worker(home: Path) -> None:
    command = ["-m", "grain.worker", "--name", "w", "--res", '{"Cores": 2}']
    command += ["--url", f"edge://{home}/meeting/point"]
    environment = {**os.environ, "PYTHONPATH": str(home)}
    with start(*command, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        try:
            config = "[head.gnaw]\nenabled = false\n"
            printed = execute(home, config, "elsewhere", "without_scope.py").split()
        finally:
            worker.terminate()
            worker.communicate(timeout=120)

    assert ["same", "process:", "False"] == printed[:-1]
    assert not alive(int(printed[-1]))
