"""What a run says of a test that hangs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

REPORT, LIMIT = "1.5", "3.5"
"""Seconds within which each test has to get to its place, and after which it fails; what is between
them is more than the first."""

TESTS = """
import asyncio
import signal
import subprocess
import threading
import time

import pytest
import trio


def test_slow():
    # Until it is reported: the alarm is then set for the time that is left.
    while signal.getitimer(signal.ITIMER_REAL)[0] <= {report}:
        time.sleep(0.01)


async def waits_for_an_event(event):
    await event.wait()


async def test_trio():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waits_for_an_event, trio.Event(), name="a lost wake-up")


async def waits_for_a_future():
    await asyncio.Event().wait()


def test_asyncio():
    asyncio.run(waits_for_a_future())


def waits_for_a_lock(lock):
    lock.acquire()


def test_lock():
    lock = threading.Lock()
    lock.acquire()
    waits_for_a_lock(lock)


def waits_for_a_child():
    subprocess.run(["sleep", "4321"])


def test_child():
    waits_for_a_child()


@pytest.fixture
def waits_in_a_fixture():
    threading.Event().wait()


def test_fixture(waits_in_a_fixture):
    pass
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Return how a run of tests ended of which all but the first hang."""
    folder = tmp_path_factory.mktemp("hangs")
    (folder / "test_it.py").write_text(TESTS.format(report=REPORT))
    (folder / "pytest.ini").write_text(
        f"[pytest]\ntrio_mode = true\nhang_report = {REPORT}\nhang_limit = {LIMIT}\n"
    )
    # In processes of xdist, as in all sessions: they have the main thread to themselves there, too.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)


@pytest.mark.parametrize(
    ("test", "place"),
    [
        ("test_trio", "in waits_for_an_event"),
        ("test_asyncio", "in waits_for_a_future"),
        ("test_lock", "in waits_for_a_lock"),
        ("test_child", "in waits_for_a_child"),
        ("test_fixture", "in waits_in_a_fixture"),
    ],
)
def test_a_test_that_hangs_is_named_with_all_stacks_and_then_fails(
    ended: subprocess.CompletedProcess[str], test: str, place: str
) -> None:
    assert place in report(ended, test, REPORT)
    assert place in report(ended, test, LIMIT)
    failed = rf"(FAILED|ERROR) test_it.py::{test} - Failed: not ended after {LIMIT} s"
    assert re.search(failed, ended.stdout)


def test_the_report_has_the_names_of_tasks_and_the_commands_of_children(
    ended: subprocess.CompletedProcess[str],
) -> None:
    assert "a lost wake-up" in report(ended, "test_trio", REPORT)
    assert "sleep 4321" in report(ended, "test_child", REPORT)


def test_a_slow_test_is_reported_and_passes(ended: subprocess.CompletedProcess[str]) -> None:
    assert report(ended, "test_slow", REPORT)
    assert "1 passed" in ended.stdout


def test_a_hang_is_reported_within_two_minutes(pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("hang_report")) < 120
    assert pytestconfig.pluginmanager.has_plugin("grain-hang")


def report(ended: subprocess.CompletedProcess[str], test: str, seconds: str) -> str:
    """Return what standard error says of a test that has not ended after so many seconds."""
    _, found, rest = ended.stderr.partition(f"test_it.py::{test} has not ended after {seconds} s")
    assert found, ended.stderr
    return rest.partition(f"==== test_it.py::{test}")[0]
