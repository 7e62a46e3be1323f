"""The rules and the dashboard of docs/monitoring, with a real Prometheus that reads a hub."""

from __future__ import annotations

import http
import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from grain.head.gnaw.metrics_port import serve_metrics
from grain.head.messages import Synced
from grain.worker.messages import Lease
from grain_testkit.hub_harness import HubHarness
from grain_testkit.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Iterator

MONITORING = Path(__file__).parents[1] / "docs/monitoring"

pytestmark = pytest.mark.skipif(not shutil.which("prometheus"), reason="it is not installed")

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is on this host

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs: [{{job_name: grain, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""


@contextmanager
def prometheus(folder: Path, port: int) -> Iterator[str]:
    """Run Prometheus, which reads a port; yield the address at which it answers."""
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(rules=MONITORING / "alerts.yml", port=port))
    with reserved_port() as own:
        command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{own}",
        ]  # fmt: skip
        with (
            (folder / "prometheus.log").open("w") as log,
            subprocess.Popen(command, stderr=log) as process,
        ):
            try:
                yield f"http://127.0.0.1:{own}"
            finally:
                process.kill()


def blocked() -> HubHarness:
    """Return a hub whose tasks are too large for its worker, but for one that has ended."""
    harness = HubHarness()
    harness.worker("w", 2)
    small, large = harness.mission("small"), harness.mission("large", cores=4)
    harness.send(small, Synced())
    harness.send(large, Synced())
    harness.submit(large, 1, 2, 3)
    run(harness, 1)
    return harness


def run(harness: HubHarness, task: int) -> None:
    """Let a task of five seconds begin and end."""
    harness.submit("small", task)
    [lease] = harness.sent("w", Lease)
    harness.now += 5.0
    harness.send("w", harness.ended(lease), payload=b"")


async def results(address: str, expression: str) -> list[Any]:
    """Return what an expression gives; none before Prometheus answers."""
    words = urllib.parse.urlencode({"query": expression.replace("$__rate_interval", "1m")})

    def ask() -> list[Any]:
        try:
            with _DIRECT.open(f"{address}/api/v1/query?{words}", timeout=60) as answer:
                found: list[Any] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            with error:
                if error.code != http.HTTPStatus.SERVICE_UNAVAILABLE:
                    raise ValueError(f"{expression}: {error.read()!r}") from error
        except OSError:
            pass
        return []

    return await trio.to_thread.run_sync(ask, abandon_on_cancel=True)


async def until_there(address: str, expression: str) -> list[Any]:
    with trio.fail_after(120):
        while not (found := await results(address, expression)):
            await trio.sleep(0.1)
    return found


async def test_alerts_and_dashboard_with_a_real_prometheus(tmp_path: Path) -> None:
    """Each expression is understood, and gives something where there is something to be shown."""
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    expressions = [one["expr"] for panel in dashboard["panels"] for one in panel["targets"]]
    with reserved_port() as port:
        async with trio.open_nursery() as nursery:
            harness = blocked()
            nursery.start_soon(serve_metrics, f"127.0.0.1:{port}", harness.hub)
            with prometheus(tmp_path, port) as address:
                pending = "ALERTS{alertstate='pending'}"
                while len(alerts := await until_there(address, pending)) < 2:
                    await trio.sleep(0.1)
                for one in expressions:
                    await until_there(address, one)
                run(harness, 2)
                await until_there(address, "sum(grain_run_seconds_count) == 1")
            nursery.cancel_scope.cancel()

    assert {"TasksFitNoWorker", "CoresIdleWhileTasksWait"} == {
        one["metric"]["alertname"] for one in alerts
    }
