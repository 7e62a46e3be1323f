"""The pytest plugin of the tests: a hypothesis profile without time limits; signals; CPUs; logs."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# That of `grain.edge.cpu_locks`, which is not installed for the tests of grain-resource alone.
_CPU_LOCKS = "GRAIN_CPU_LOCKS"
_STATE = "XDG_STATE_HOME"


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Load the profile, before hypothesis loads one that the command line names."""
    # A machine that is busy with something else is no counterexample.
    settings.register_profile(
        "patient", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("patient")
    # Under nohup, and in the background of a shell script, these are ignored, and so they would be
    # in all programs that tests start.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, default)
    # Missions elsewhere on this machine take none of the CPUs that tests expect to be free.
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
    os.environ[_CPU_LOCKS] = str(Path(folder) / f"grain-cpus-{os.getpid()}")
    # The logs of missions are no user's.
    os.environ[_STATE] = tempfile.mkdtemp(prefix="grain-state-")


def pytest_unconfigure() -> None:
    """Remove the file of CPU locks, if a test has made it, and the logs of missions."""
    Path(os.environ[_CPU_LOCKS]).unlink(missing_ok=True)
    shutil.rmtree(os.environ[_STATE], ignore_errors=True)
