"""Dask on the members of a gang, on hosts that are network namespaces."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from gang_hosts import gang_of, on_hosts
from real_tools.tool_or_skip import tool_or_skip

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [on_hosts, pytest.mark.nightly]


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment that has Dask."""
    return tool_or_skip("distributed==2025.5.1", must=False)


SCRIPT = """\
import os, socket, sys
from dask.distributed import Client

if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        client.wait_for_workers(3, timeout=120)
        print(sum(client.gather(client.map(lambda x: x * x, range(10)))))
        where = client.run(lambda: (socket.gethostname(), len(os.sched_getaffinity(0))))
        print(sorted(where.values()))
        print(sorted(client.nthreads().values()))
"""


def test_a_cluster_of_dask_on_three_members(python: Path) -> None:
    with gang_of("a1", "a2", "a3") as members:
        (members.folder / "analyse.py").write_text(SCRIPT)
        path = f"{python.parent}:{os.environ['PATH']}"
        members.start_of_page("analyse", "analyse.py", PATH=path)
        printed = members.ended()
        members.nothing_is_left()

    assert ["285", "[('a1', 1), ('a2', 1), ('a3', 1)]", "[1, 1, 1]"] == printed.splitlines()[:3]


def test_a_worker_of_dask_that_is_killed_ends_the_cluster(python: Path) -> None:
    with gang_of("a1", "a2", "a3") as members:
        (members.folder / "analyse.py").write_text("import time; time.sleep(777)")
        path = f"{python.parent}:{os.environ['PATH']}"
        members.start_of_page("analyse", "analyse.py", PATH=path)
        members.wait_for(lambda: all(members.pids(index, "spawn_main") for index in range(3)))

        members.kill(1, "dask")

        printed = members.ended()
        members.nothing_is_left()

    assert "host='a2'" in printed
    assert "member=1" in printed
