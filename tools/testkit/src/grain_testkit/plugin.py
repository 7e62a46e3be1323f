"""The pytest plugin of the tests: hypothesis profiles; signals; CPUs; logs; nights; hangs."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from grain_testkit.hang import HangReporter, on_terminal

# That of `grain.edge.machine.cpu_locks`, which the tests of grain-resource do not install.
_CPU_LOCKS = "GRAIN_CPU_LOCKS"
_STATE = "XDG_STATE_HOME"

_MARKS = {"--nightly": "nightly", "--real-tools": "real_tools"}
"""The marks of tests that the suite leaves out, by the option that runs them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run tests which are marked, and the times of a hang."""
    for option, mark in _MARKS.items():
        parser.addoption(option, action="store_true", help=f"run tests marked {mark}, too")
    parser.addini("hang_report", "seconds after which a test is reported", default="100")
    parser.addini("hang_limit", "seconds after which a test fails", default="900")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of nightly sessions, unless the command line asks for them."""
    left_out = [mark for option, mark in _MARKS.items() if not config.getoption(option)]
    marked = [item for item in items if any(map(item.get_closest_marker, left_out))]
    if marked:
        items[:] = [item for item in items if item not in set(marked)]
        config.hook.pytest_deselected(items=marked)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the profile, before hypothesis loads one that the command line names."""
    # A machine that is busy with something else is not a counterexample.
    settings.register_profile(
        "explore", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    # A change is not to fail for what another one did: who looks for more asks for `explore`, which
    # has twice as many examples as well. A test whose law needs more, or is dear, sets its number.
    settings.register_profile(
        "patient", parent=settings.get_profile("explore"), derandomize=True, max_examples=50
    )
    settings.load_profile("patient")
    # Under nohup, and in the background of a shell script, these are ignored, and so they would be
    # in all programs that tests start.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    enough_for_sockets()
    os.environ[_CPU_LOCKS] = _cpu_locks()
    # The logs of missions are not a user's.
    os.environ[_STATE] = tempfile.mkdtemp(prefix="grain-state-")
    after, limit = (float(config.getini(name)) for name in ("hang_report", "hang_limit"))
    config.pluginmanager.register(HangReporter(after, limit, on_terminal()), "grain-hang")


def enough_for_sockets() -> None:
    """Leave a long TMPDIR, as some batch systems set, for the system's folder.

    The path of a Unix socket has at most 107 bytes (unix(7)), and the folder of a test takes 80.
    """
    if len(os.fsencode(tempfile.gettempdir())) > 24:
        os.environ["TMPDIR"] = "/tmp"
        tempfile.tempdir = None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what stays until the end, modules and tests, out of the garbage collector's rounds.

    They are half a gigabyte. Hypothesis before 6.138 calls its state machines flaky then.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let each test have a file of CPU locks of its own.

    So missions elsewhere on this machine take none of the CPUs that it expects to be free, nor does
    a worker that the test before has asked to end, and that is about to.
    """
    os.environ[_CPU_LOCKS] = _cpu_locks(f"-{zlib.crc32(item.nodeid.encode()):08x}")


def _cpu_locks(of_test: str = "") -> str:
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
    return f"{folder}/grain-cpus-{os.getpid()}{of_test}"


def pytest_unconfigure() -> None:
    """Remove the files of CPU locks that tests have made, and the logs of missions."""
    own = Path(_cpu_locks())
    for path in [own, *own.parent.glob(f"{own.name}-*")]:
        path.unlink(missing_ok=True)
    shutil.rmtree(os.environ[_STATE], ignore_errors=True)
