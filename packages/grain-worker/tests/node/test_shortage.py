"""A node that is short of memory, and the run that is ended for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.worker.node.shortage import MemoryHolder, MemoryRoom, RoomReader, largest, most_over

if TYPE_CHECKING:
    from pathlib import Path

GB = st.floats(0, 1000)
HOLDERS = st.lists(st.builds(MemoryHolder, st.integers(0, 99), GB, st.none() | GB, GB), max_size=9)


@given(HOLDERS)
def test_none_within_its_bound_is_ended_and_one_over_it_is_if_there_is_one(
    holders: list[MemoryHolder],
) -> None:
    chosen = most_over(holders)
    over = [
        one
        for one in holders
        if one.used > (one.share if one.amount is None else largest(one.amount))
    ]
    assert (chosen is not None) == bool(over)
    if chosen is not None:
        assert chosen in over
        alike = [one for one in over if (one.amount is None) == (chosen.amount is None)]
        assert max(one.over for one in alike) == chosen.over
        # Who has had a bound goes first.
        assert chosen.amount is not None or all(one.amount is None for one in over)


@given(HOLDERS, GB)
def test_a_run_within_its_amount_changes_nothing(holders: list[MemoryHolder], used: float) -> None:
    assert most_over(holders) == most_over([*holders, MemoryHolder(100, used, used, 0.0)])


@pytest.mark.parametrize(
    ("room", "short"),
    [
        (MemoryRoom(100, 5.0), False),
        (MemoryRoom(100, 4.9), True),
        (MemoryRoom(100, 19.0, 11.0), True),
        (MemoryRoom(100, 19.0, 10.0), False),
        (MemoryRoom(100, 21.0, 90.0), False),  # what waits is others, at limits of their own
    ],
)
def test_memory_is_short_where_little_is_left_or_processes_wait_for_it(
    room: MemoryRoom, short: bool
) -> None:
    assert short == room.short


def files(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


MEMINFO = "MemTotal:       97656250 kB\nMemFree:  1 kB\nMemAvailable:   48828125 kB\n"
"""100 GB, of which half is left."""


def test_the_memory_of_the_machine_and_of_groups_of_version_2(tmp_path: Path) -> None:
    """Files as of Linux 6.1 with Slurm's cgroup/v2; no such machine was at hand."""
    files(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/pressure/memory": "some avg10=9.00 avg60=0\nfull avg10=2.50 avg60=0.00 total=1\n",
            "proc/self/cgroup": "0::/job_1/step_0/task\n",
            "sys/fs/cgroup/job_1/memory.max": "10000000000\n",
            "sys/fs/cgroup/job_1/memory.current": "9000000000\n",
            "sys/fs/cgroup/job_1/memory.stat": "file 4000000000\nshmem 1000000000\n",
            "sys/fs/cgroup/job_1/memory.pressure": "full avg10=30.00 avg60=0.00 total=1\n",
            "sys/fs/cgroup/job_1/step_0/memory.max": "max\n",
            "sys/fs/cgroup/job_1/step_0/memory.current": "9000000000\n",
        },
    )
    assert [MemoryRoom(100.0, 50.0, 2.5), MemoryRoom(10.0, 4.0, 30.0)] == RoomReader(
        tmp_path
    ).read()


def test_the_memory_of_groups_of_version_1(tmp_path: Path) -> None:
    top = "sys/fs/cgroup/memory"
    files(
        tmp_path,
        {
            "proc/meminfo": MEMINFO,
            "proc/self/cgroup": "4:memory:/slurm/job_1\n0::/\n",
            f"{top}/slurm/job_1/memory.limit_in_bytes": "10000000000\n",
            f"{top}/slurm/job_1/memory.usage_in_bytes": "9700000000\n",
            f"{top}/slurm/job_1/memory.stat": "cache 1\ntotal_cache 100000000\ntotal_shmem 0\n",
            f"{top}/memory.limit_in_bytes": "9223372036854771712\n",
            f"{top}/memory.usage_in_bytes": "9700000000\n",
        },
    )
    machine, job = RoomReader(tmp_path).read()
    assert not machine.short
    assert (10.0, 0.4) == (job.total, round(job.available, 9))
    assert job.short


def test_swap_counts_as_memory_that_is_left(tmp_path: Path) -> None:
    texts = {"proc/meminfo": "MemTotal: 1000000 kB\nMemAvailable: 10000 kB\nSwapFree: 90000 kB\n"}
    files(tmp_path, texts)
    [room] = RoomReader(tmp_path).read()
    assert not room.short


def test_this_machine_says_what_it_has() -> None:
    assert all(0 <= room.available <= room.total for room in RoomReader().read())


def test_a_machine_that_says_nothing_is_never_short(tmp_path: Path) -> None:
    assert [] == RoomReader(tmp_path).read()
