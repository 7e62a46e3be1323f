"""The way of a mission's tasks: to its own worker, to a shared scheduler, to workers that join."""

from __future__ import annotations

import logging
import os
import re
import shlex
from typing import TYPE_CHECKING

import pytest
import trio

from grain import GVAR
from grain.config import load
from grain.delayed import delayed, each, mission
from grain.delayed.missions.executor import executing
from grain.delayed.missions.options import MissionOptions
from grain.edge.errors import EdgeError, MeetingTaken
from grain.remote_exer import HostingExecutor, RemoteExecutor
from grain.resource import Cores, Infeasible, Licences, Memory, Resource

if TYPE_CHECKING:
    from pathlib import Path


@delayed
async def where() -> str:
    return GVAR.instance


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, which is the current directory, and no configuration."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAIN_CONFIG", raising=False)
    return tmp_path


def config(home: Path, text: str = "") -> str:
    """A configuration file; its address is in the home."""
    file = home / "mine.toml"
    file.write_text(f'address = "{address(home)}"\n{text}')
    return str(file)


def address(home: Path) -> str:
    return f"edge://{home}/meeting"


async def test_without_a_local_worker_tasks_go_to_the_shared_scheduler(home: Path) -> None:
    async with (
        HostingExecutor(Cores(1), address=address(home), name="cluster"),
        mission(config_file=config(home)),
    ):
        assert "cluster(local)" == await (where @ Cores(1))()


async def test_shared_by_two(home: Path) -> None:
    """Missions share one scheduler, and know nothing of one another."""
    file = config(home)

    async def one(name: str) -> None:
        async with mission(config_file=file, name=name):
            places = await each((where @ Cores(1))() for _ in range(20))
            assert {"cluster(local)"} == set(places)

    async with (
        HostingExecutor(Cores(2), address=address(home), name="cluster"),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(one, "a")
        nursery.start_soon(one, "b")


async def test_tasks_of_a_prioritized_mission_go_first(home: Path) -> None:
    order = home / "order"
    running, go = trio.Event(), trio.Event()

    async def first() -> None:
        async with mission(config_file=config(home), name="first") as active:
            held = (wait_for_file @ Cores(1))(str(home / "go"))
            plain = (write_down @ Cores(1))(str(order), "plain")
            while active.executor.statistics().running == 0:
                await trio.sleep(0.01)
            running.set()
            await held
            await plain

    async def second() -> None:
        await running.wait()
        async with mission(config_file=config(home), prioritized=True) as active:
            later = (write_down @ Cores(1))(str(order), "prioritized")
            assert isinstance(active.executor, RemoteExecutor)
            await active.executor.ask_why(1)  # an answer proves that it has arrived
            go.set()
            await later

    async with HostingExecutor(Cores(1), address=address(home)), trio.open_nursery() as nursery:
        nursery.start_soon(first)
        nursery.start_soon(second)
        await go.wait()
        (home / "go").touch()

    assert ["prioritized", "plain"] == order.read_text().split()


@delayed
async def write_down(file: str, name: str) -> None:
    with open(file, "a") as lines:  # noqa: ASYNC230, PTH123 - a worker may be anywhere
        lines.write(f"{name}\n")


@delayed
async def wait_for_file(name: str) -> None:
    while not os.path.exists(name):  # noqa: PTH110 - a worker may be anywhere
        await trio.sleep(0.01)


async def test_a_mission_without_leaves_starts_no_scheduler(home: Path) -> None:
    async with mission():
        assert "" == await where()

    assert [] == list(home.iterdir())


async def test_without_configuration_no_scheduler_is_sought(home: Path) -> None:
    (home / "grain.toml").write_text(f'address = "{address(home)}"')
    async with mission(config_file=False):
        with pytest.raises(Infeasible, match="no other worker can join"):
            (where @ Cores(1))()

    assert ["grain.toml"] == [file.name for file in home.iterdir()]


async def test_local_without_file(home: Path) -> None:
    """A local worker without a configuration file meets no peer: that address is Gnaw's."""
    async with mission(Cores(1), name="me"):
        assert "me(local)" == await (where @ Cores(1))()

    assert [] == list(home.iterdir())


async def test_a_local_worker_with_a_file_hosts_a_scheduler_for_others(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with mission(Cores(1), config_file=config(home), name="me"):
        assert "me(local)" == await (where @ Cores(1))()
        async with RemoteExecutor(address(home)) as other:
            other.submit(Cores(1), where.fn)
            assert "me(local)" == (await other.results.receive()).outcome.unwrap()

    lines = capsys.readouterr().err.splitlines()
    assert ["worker me(local) starts cleaning up", "worker me(local) clear"] == lines[1:-2]
    assert lines[-2].startswith("1 done")


async def test_where_another_scheduler_serves_only_the_local_worker_is_used(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        HostingExecutor(address=address(home)),
        mission(Cores(1), config_file=config(home), name="me"),
    ):
        assert "me(local)" == await (where @ Cores(1))()

    said = capsys.readouterr().err
    assert "This mission has only its local worker, which is not an error: " in said
    assert f"the scheduler at {address(home)} (process {os.getpid()} on " in said
    assert "leave out local=" in said
    assert "kill" not in said


async def test_with_gnaw_disabled_the_mission_hosts_a_scheduler_and_waits_for_workers(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(home, "[head.gnaw]\nenabled = false\n")
    with trio.fail_after(300):
        async with mission(config_file=file) as active:
            waits = (where @ Cores(1))()
            assert isinstance(active.executor, HostingExecutor)
            while "No workers" not in (output := capsys.readouterr().err):
                await trio.sleep(0.01)
            active.executor.cancel(1)
            with pytest.raises(Exception, match="cancelled"):
                await waits
    assert f"`grain -c {shlex.quote(str(file))} up` starts one" in output


async def test_gnaw_disabled_taken(home: Path) -> None:
    """Without Gnaw and without a local worker, an address that is taken is an error."""
    file = config(home, "[head.gnaw]\nenabled = false\n")
    async with HostingExecutor(address=address(home)):
        with pytest.raises(MeetingTaken, match="serves this meeting"):
            async with mission(config_file=file):
                pass


async def notices_while_waiting(
    capsys: pytest.CaptureFixture[str], what: str, each: list[Resource], file: str | None = None
) -> str:
    """Return the notices about tasks that do not start, once all of them were examined."""
    output = ""
    with trio.fail_after(300):
        with trio.CancelScope() as scope:
            async with mission(config_file=file) as active:
                for res in each:
                    (where @ res)()
                assert isinstance(active.executor, RemoteExecutor)
                while what not in output:
                    output += capsys.readouterr().err
                    await trio.sleep(0.01)
                for job in range(1, len(each) + 1):
                    await active.executor.ask_why(job)
                scope.cancel()
    return output + capsys.readouterr().err


async def test_waits_for_workers(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lack of workers is reported once, with a remedy, however many requests wait."""
    (home / "grain.toml").write_text(f'address = "{address(home)}"')
    async with HostingExecutor(address=address(home)):
        output = await notices_while_waiting(capsys, "No workers", [Cores(n) for n in range(1, 6)])

    (line,) = [line for line in output.splitlines() if "No workers" in line]
    assert (
        "No workers are there yet; tasks wait for them. `grain up` starts one, from any shell. "
        f"Workers join at {address(home)} (from {home / 'grain.toml'})."
    ) == line


async def test_a_request_that_no_worker_can_meet_is_reported_once_with_the_reason(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with HostingExecutor(Cores(1), address=address(home), name="cluster"):
        output = await notices_while_waiting(capsys, "warning", [Cores(2)] * 3, config(home))

    (line,) = [line for line in output.splitlines() if "warning" in line]
    assert re.search(r"a task that asks for Cores\(2\) \(cluster\(local\): .*\)", line), line


CONNECTED = "mission me has connected"


async def test_a_missing_scheduler_is_started_and_leaves_when_idle(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = home / "logs" / "gnaw.log"
    file = config(home, f'[head.gnaw]\nidle_timeout = 6\nlog_file = "{log}"\n')
    with trio.fail_after(300):
        with trio.CancelScope() as scope:
            async with mission(config_file=file, name="me"):
                (where @ Cores(1))()
                while "No workers" not in capsys.readouterr().err:
                    await trio.sleep(0.05)
                scope.cancel()
        # One that was not met in time has left before, and another was started.
        while "no mission for 6 s: leaving" not in log.read_text().rpartition(CONNECTED)[2]:
            await trio.sleep(0.05)
    assert CONNECTED in log.read_text()


async def test_a_scheduler_that_waiting_cannot_bring_ends_the_mission_with_the_reason(
    home: Path,
) -> None:
    (home / "meeting").write_text("this is no meeting file")
    (home / "meeting").chmod(0o644)
    with trio.fail_after(120), pytest.raises(EdgeError, match="meeting"):
        async with mission(config_file=config(home)):
            await (where @ Cores(1))()


async def test_a_local_that_is_no_resource_is_refused_with_any_configuration(home: Path) -> None:
    for file in (False, None, config(home)):
        with pytest.raises(TypeError, match="local=4: give the resources"):
            async with mission(4, config_file=file):  # type: ignore[arg-type]
                pass


async def test_the_context_module_of_the_head_surrounds_runs_on_the_local_worker(
    home: Path,
) -> None:
    (home / "ctx.py").write_text(
        "import contextlib, os\n"
        "@contextlib.asynccontextmanager\n"
        "async def grain_context():\n"
        "    os.environ['ENTERED'] = '1'\n"
        "    yield\n"
        "    del os.environ['ENTERED']\n"
    )
    file = config(home, '[head]\ncontextmod = "ctx.py"\n')
    async with mission(Cores(1), config_file=file):
        assert "1" == await (entered @ Cores(1))()
    assert "ENTERED" not in os.environ


@delayed
async def entered() -> str | None:
    return os.environ.get("ENTERED")


async def test_the_log_goes_to_the_file_during_the_mission_only(home: Path) -> None:
    loaded = load(config(home, '[head]\nlog_file = "head.log"\n'))
    async with executing(MissionOptions(Cores(1) & Memory(1), name="me"), loaded, lambda _: None):
        logging.getLogger("grain.head").warning("it hails")
    logging.getLogger("grain.head").warning("it rains")

    text = (home / "head.log").read_text()
    assert "grain.head WARNING it hails" in text
    assert "it rains" not in text
    assert 0o600 == (home / "head.log").stat().st_mode & 0o777


async def test_a_log_file_that_cannot_be_created_is_reported(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The mission goes on without it."""
    loaded = load(config(home, '[head]\nlog_file = "/proc/nowhere/head.log"\n'))
    async with executing(MissionOptions(Cores(1) & Memory(1), name="me"), loaded, lambda _: None):
        pass

    assert "/proc/nowhere/head.log: No such file or directory; there is no log" in caplog.text


async def test_log_file_on_a_full_disk(home: Path) -> None:
    """The mission does not end for it."""
    loaded = load(config(home, '[head]\nlog_file = "/dev/full"\n'))
    async with executing(MissionOptions(Cores(1) & Memory(1), name="me"), loaded, lambda _: None):
        logging.getLogger("grain.head").warning("it hails")


@delayed
async def using() -> tuple[float, float]:
    began = trio.current_time()
    await trio.sleep(0.02)
    return began, trio.current_time()


async def test_a_mission_that_schedules_for_itself_has_what_the_whole_cluster_has(
    home: Path,
) -> None:
    file = config(home, "[head.res]\nLicences = { vasp = 2 }\n")
    async with mission(Cores(6), config_file=file):
        spans = await each((using @ (Cores(1) & Licences(vasp=1)))() for _ in range(6))
        began = [span[0] for span in spans]
        assert [1, 2] == sorted({sum(b <= at < e for b, e in spans) for at in began})


async def test_a_local_worker_has_none_of_what_the_whole_cluster_has(home: Path) -> None:
    file = config(home, "[head.res]\nLicences = 2\n")

    with pytest.raises(ValueError, match=r"the whole cluster has Licences, by \[head.res\]"):
        async with mission(Cores(1) & Licences(1), config_file=file):
            pass
