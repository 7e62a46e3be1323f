"""The metrics of a hub, and the small server that has them."""

from __future__ import annotations

import logging
import re
import stat
import tempfile
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from prometheus_client import CollectorRegistry, generate_latest

from grain.head.gnaw import metrics_port
from grain.head.gnaw.main import make_parser
from grain.head.gnaw.metrics import (
    METRICS,
    MISSION_STATES,
    MOST_FUNCTIONS,
    OTHERS,
    WORKER_STATES,
    Exposition,
    RunTimeHistogram,
)
from grain.head.gnaw.metrics_port import MetricsServer, serve_metrics
from grain.head.hub.answers import overview
from grain.head.messages import AckTasks, Request, Submit, Synced
from grain.head.scheduler.cluster import ClusterPool
from grain.resource import Cores, GPUs, Licences, Memory, Node, Supply, to_data
from grain.worker.messages import (
    CoresComputed,
    DefineFunction,
    InventoryEnd,
    Lease,
    RegisterWorker,
)
from grain_testkit.hub_harness import F, HubHarness
from grain_testkit.other_user import needs_other_user, received_by_other
from grain_testkit.ports import reserved_port


def busy() -> HubHarness:
    """Return a hub with a worker of two cores, four tasks, and three more that have failed.

    Of these the mission has confirmed one, and another one that it tries again.
    """
    harness = HubHarness(cluster=ClusterPool({"Licences": Licences(vasp=3)}))
    harness.worker("w0", 2)
    mission = harness.synced("opt")
    for number in (1, 2, 3):
        harness.submit(mission, number)
        lease = harness.sent("w0", Lease)[-1]
        harness.send("w0", harness.ended(lease, "error"), payload=b"12345")
    harness.send(mission, AckTasks((1,), (2,)))
    harness.submit(mission, 4, 5, 6, 7)
    harness.send("w0", CoresComputed(0.9))
    return harness


def values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def answer(server: MetricsServer, request: bytes) -> bytes:
    """Return all that a server sends back."""
    here, there = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.handle, there)
        await here.send_all(request)
        received = b""
        while part := await here.receive_some():
            received += part
    return received


GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_a_get_of_metrics_returns_the_counts_of_the_hub() -> None:
    received = await answer(MetricsServer(busy().hub), GET)
    head, _, body = received.decode().partition("\r\n\r\n")
    found = values(body)

    assert head.startswith("HTTP/1.1 200")
    assert "text/plain; version=0.0.4" in head
    assert 1 == found['grain_workers{state="serving"}']
    assert 1 == found['grain_missions{state="connected"}']
    assert 2 == found['grain_tasks{state="running"}']
    assert 2 == found['grain_tasks{state="waiting"}']
    assert 1 == found['grain_tasks_ended_total{outcome="failed"}']
    assert 1 == found['grain_tasks_ended_total{outcome="retried"}']
    assert (2, 2) == (found["grain_cores"], found["grain_cores_given"])
    assert 0.9 == found["grain_cores_computing"]
    assert (1, 5) == (found["grain_unconfirmed_outcomes"], found["grain_unconfirmed_bytes"])
    assert 1 == found["grain_waiting_requests"]
    assert 3 == found['grain_shared{resource="Licences.vasp"}']
    assert 0 == found['grain_shared_given{resource="Licences.vasp"}']
    assert 0 == found["grain_tasks_unschedulable"]
    assert found["process_cpu_seconds_total"] >= 0


def test_every_metric_has_values_and_follows_the_conventions() -> None:
    text = Exposition(busy().hub, 1.0).text().decode()
    ours = {re.split(r"[{ ]", line)[0] for line in values(text) if line.startswith("grain_")}
    of_histograms = {
        f"{metric.name}_{part}"
        for metric in METRICS if metric.kind == "histogram"
        for part in ("bucket", "count", "sum")
    }  # fmt: skip
    names = {metric.name for metric in METRICS if metric.kind != "histogram"}

    assert names | of_histograms == ours
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert metric.help.endswith(".")


def test_states_without_members_are_zero_and_not_absent() -> None:
    found = values(Exposition(HubHarness().hub, 1.0).text().decode())

    assert all(0 == found[f'grain_workers{{state="{state}"}}'] for state in WORKER_STATES)
    assert all(0 == found[f'grain_missions{{state="{state}"}}'] for state in MISSION_STATES)


def test_there_is_no_figure_of_cores_that_compute_where_a_worker_has_not_told() -> None:
    harness = busy()
    harness.send("w0", CoresComputed(None))
    harness.hub.overview.look(1.0)

    found = values(Exposition(harness.hub, 1.0).text().decode())
    assert "grain_cores_computing" not in found
    assert 2 == found["grain_cores_given"]


def test_tasks_that_fit_no_worker_are_counted() -> None:
    """Those that wait for room are not; and a worker that is large enough changes it."""
    harness = busy()
    harness.synced("large", 1, 2, 3, cores=4)
    assert 3 == values(Exposition(harness.hub, 1.0).text().decode())["grain_tasks_unschedulable"]

    harness.worker("large", 4)
    assert 0 == values(Exposition(harness.hub, 1.0).text().decode())["grain_tasks_unschedulable"]


def test_memory_and_gpus_are_counted_in_bytes_and_devices() -> None:
    harness = HubHarness()
    harness.send("w", RegisterWorker(
        "w", "w", "host", to_data(Supply(Node(4, 16) & GPUs(2)).total), connection=1
    ), InventoryEnd())  # fmt: skip
    mission = harness.mission("m")
    request = to_data(Cores(1) & Memory(2.5) & GPUs(1))
    harness.send(mission, Request(7, request), Synced(), Submit(1, 7, F), payload=b"")

    found = values(Exposition(harness.hub, 1.0).text().decode())
    assert (16e9, 2.5e9) == (found["grain_memory_bytes"], found["grain_memory_given_bytes"])
    assert (2, 1) == (found["grain_gpus"], found["grain_gpus_given"])


def test_the_times_of_runs_are_counted_and_of_functions_only_where_just_the_user_reads() -> None:
    """From the first look on; runs that were cancelled say nothing of how long others take."""
    for by_function, label in ((True, "relax"), (False, "all")):
        harness = HubHarness()
        exposition = Exposition(harness.hub, 1.0, by_function=by_function)
        harness.worker("w", 2)
        mission = harness.mission("m")
        harness.send(mission, DefineFunction(F, "relax"), Synced(), payload=b"")
        harness.submit(mission, 1, 2, 3)
        leases: list[Lease] = []
        for seconds, status in ((0.5, "value"), (30.0, "error"), (7.0, "cancelled")):
            leases += harness.sent("w", Lease)
            harness.now += seconds
            harness.send("w", harness.ended(leases.pop(0), status), payload=b"")
        found = values(exposition.text().decode())
        buckets = [f'grain_run_seconds_bucket{{function="{label}",le="{le}"}}' for le in (
            "0.1", "1.0", "60.0", "+Inf",
        )]  # fmt: skip
        assert [0, 1, 2, 2] == [found[name] for name in buckets]
        assert 2 == found[f'grain_run_seconds_count{{function="{label}"}}']


def test_functions_beyond_the_first_are_added_up() -> None:
    registry = CollectorRegistry()
    times = RunTimeHistogram(by_function=True)
    registry.register(times)
    for number in range(MOST_FUNCTIONS + 5):
        times.on_runs(f"f{number}", 1.0, 1)
    times.on_runs("f0", 1e9, 1)

    found = values(generate_latest(registry).decode())
    counts = {name: value for name, value in found.items() if "_count" in name}
    assert MOST_FUNCTIONS + 1 == len(counts)
    assert 2 == counts['grain_run_seconds_count{function="f0"}']
    assert 5 == counts[f'grain_run_seconds_count{{function="{OTHERS}"}}']


def test_no_name_of_a_peer_is_among_the_metrics() -> None:
    """Tried: Read names of missions or workers there.
    Result: there are none.
    """
    text = Exposition(busy().hub, 1.0).text().decode()

    assert "opt" not in text
    assert "w0" not in text


async def test_all_of_many_workers_are_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_LOOKS", 4)
    harness = HubHarness()
    for number in range(20):
        harness.worker(f"w{number}", 2)
    received = await answer(MetricsServer(harness.hub), GET)
    found = values(received.decode().partition("\r\n\r\n")[2])

    assert (20, 40) == (found['grain_workers{state="serving"}'], found["grain_cores"])


async def test_two_who_ask_within_a_second_get_the_same_text(
    autojump_clock: trio.testing.MockClock,
) -> None:
    harness = busy()
    server = MetricsServer(harness.hub)
    first = await answer(server, GET)
    harness.worker("late", 2)
    again = await answer(server, GET)
    await trio.sleep(1.0)
    later = await answer(server, GET)

    assert first == again
    assert b'grain_workers{state="serving"} 2' in later


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /metrics/.. HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"405"),
        (b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000, b"431"),
        (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", b"200"),
    ],
)
async def test_anything_else_is_refused(request_: bytes, status: bytes) -> None:
    """Tried: Send the port of metrics anything but a request for them.
    Result: refused.
    """
    received = await answer(MetricsServer(busy().hub), request_)

    assert status == received.split(b" ")[1]
    assert b"\r\nConnection: close\r\n" in received


@pytest.mark.parametrize(
    ("host", "served"),
    [
        (b"127.0.0.1:9100", True),
        (b"localhost", True),
        (b"[::1]:9100", True),
        (b"", True),
        (b"evil.example:9100", False),
        (b"localhost.evil.example", False),
        (b"127.0.0.1.evil.example", False),
    ],
)
async def test_a_loopback_port_answers_no_page_whose_name_leads_here(
    host: bytes, *, served: bool
) -> None:
    """A browser on this host would hand the answer to a page of that name.

    Tried: Have a browser on the host read the metrics of a loopback port for a page on the web
    (DNS rebinding).
    Result: only requests for an address or for localhost are answered.
    """
    request = b"GET /metrics HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
    server = MetricsServer(busy().hub, own_names_only=True)
    status = b"200" if served else b"421"
    assert (await answer(server, request)).startswith(b"HTTP/1.1 " + status)
    everywhere = MetricsServer(busy().hub)
    assert (await answer(everywhere, request)).startswith(b"HTTP/1.1 200")


async def test_a_head_request_gets_no_body() -> None:
    received = await answer(MetricsServer(busy().hub), GET.replace(b"GET", b"HEAD"))

    assert received.startswith(b"HTTP/1.1 200")
    assert received.endswith(b"\r\n\r\n")


async def test_a_peer_that_sends_nothing_is_dropped_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Tried: Hold connections to it open.
    Result: dropped after five seconds, 16 at a time.
    """
    began = trio.current_time()

    assert b"" == await answer(MetricsServer(busy().hub), b"GET /metrics")
    assert 5.0 == trio.current_time() - began


async def test_a_peer_that_reads_nothing_is_dropped_after_a_while(
    autojump_clock: trio.testing.MockClock,
) -> None:
    here, there = trio.testing.lockstep_stream_pair()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MetricsServer(busy().hub).handle, there)
        await here.send_all(GET)

    assert 5.0 == trio.current_time() - began


async def test_of_many_connections_some_are_closed_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Tried: Hold connections to it open.
    Result: dropped after five seconds, 16 at a time.
    """
    server = MetricsServer(busy().hub)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(16):
            _, there = trio.testing.memory_stream_pair()
            nursery.start_soon(server.handle, there)
        await trio.testing.wait_all_tasks_blocked()
        assert b"" == await answer(server, b"")
        assert 0.0 == trio.current_time() - began
    assert (await answer(server, GET)).startswith(b"HTTP/1.1 200")


async def test_a_bug_while_metrics_are_made_is_logged_and_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Exposition, "text", lambda _: 1 / 0)

    assert b"" == await answer(MetricsServer(busy().hub), GET)
    assert "a request for metrics failed" in caplog.text


async def fetched(stream: trio.SocketStream, request: bytes = GET) -> bytes:
    async with stream:
        await stream.send_all(request)
        received = b""
        while part := await stream.receive_some():
            received += part
    return received


async def until_there(connect: object) -> trio.SocketStream:
    while True:
        try:
            return await connect()  # type: ignore[operator, no-any-return]
        except OSError:
            await trio.sleep(0.01)  # nothing reports that a port is listened at


async def test_metrics_are_served_on_a_loopback_port() -> None:
    with reserved_port() as port:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_metrics, f"127.0.0.1:{port}", busy().hub)
            stream = await until_there(partial(trio.open_tcp_stream, "127.0.0.1", port))
            assert b"grain_tasks" in await fetched(stream)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            foreign = b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"
            assert b"421" == (await fetched(stream, foreign)).split(b" ")[1]
            nursery.cancel_scope.cancel()


async def test_a_socket_is_only_for_its_user_and_goes_with_the_server(tmp_path: Path) -> None:
    """Tried: Read metrics at their socket.
    Result: mode 0600 before any process can connect; were it opened, the kernel says who it is.
    """
    path = tmp_path / "metrics"
    with trio.socket.socket(trio.socket.AF_UNIX) as dead:
        await dead.bind(str(path))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_metrics, str(path), busy().hub)
        stream = await until_there(partial(trio.open_unix_socket, str(path)))
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        assert b"grain_tasks" in await fetched(stream)
        nursery.cancel_scope.cancel()
    assert not path.exists()


@needs_other_user
async def test_another_user_reads_nothing_at_a_socket_whose_mode_was_opened() -> None:
    """Tried: Read metrics at their socket.
    Result: mode 0600 before any process can connect; were it opened, the kernel says who it is.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        path = Path(place, "metrics")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_metrics, str(path), busy().hub)
            await (await until_there(partial(trio.open_unix_socket, str(path)))).aclose()
            path.chmod(0o666)
            asked = "GET /metrics HTTP/1.0\r\n\r\n"
            assert "" == await trio.to_thread.run_sync(received_by_other, str(path), asked)
            stream = await trio.open_unix_socket(str(path))
            assert b"grain_tasks" in await fetched(stream)
            nursery.cancel_scope.cancel()


async def test_a_place_that_is_taken_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_port, "_AGAIN", 0.01)
    path = tmp_path / "metrics"
    path.write_text("mine")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_metrics, str(path), busy().hub)
        while "are not served" not in caplog.text:
            await trio.sleep(0.01)
        assert "mine" == path.read_text()
        path.unlink()
        stream = await until_there(partial(trio.open_unix_socket, str(path)))
        assert b"grain_tasks" in await fetched(stream)
        nursery.cancel_scope.cancel()
    assert 1 == caplog.text.count("are not served")


async def test_a_place_that_is_none_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await serve_metrics("0.0.0.0:9100", busy().hub)

    assert "0.0.0.0 means every interface" in caplog.text


def test_the_command_line_takes_a_place_for_metrics() -> None:
    options = make_parser().parse_args(["--metrics", "127.0.0.1:9100"])

    assert "127.0.0.1:9100" == options.metrics
