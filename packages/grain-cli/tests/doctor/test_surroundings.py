"""`grain doctor`: disks, locks, the current directory, and the versions of peers."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import asdict

from grain.cli.doctor import disk, peers
from grain.config import Config
from grain.edge.questions import PeerVersions
from grain_testkit import states

Configure = Callable[[str], Config]

MOUNTS = """\
21 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 21 0:40 / /home rw - nfs4 server:/export/home rw
31 30 0:41 / /home/me/with\\040space rw - lustre 10.0.0.1@o2ib:/scratch rw
32 21 0:42 / /run rw shared:5 - tmpfs tmpfs rw
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind", "source"),
    [
        ("/home/me/run", "nfs4", "server:/export/home"),
        ("/home/me/with space/x", "lustre", "10.0.0.1@o2ib:/scratch"),
        ("/homework", "ext4", "/dev/sda1"),
        ("/run/x", "tmpfs", "tmpfs"),
    ],
)
def test_a_directory_is_on_the_file_system_of_the_longest_mount(
    folder: str, kind: str, source: str
) -> None:
    mount = disk.mount_of(Path(folder), MOUNTS)

    assert mount is not None
    assert (kind, source) == (mount.kind, mount.source)
    assert (kind in {"ext4", "tmpfs"}) == mount.of_one_host


def test_a_directory_of_one_host_is_a_warning_under_a_batch_system(
    configure: Configure, alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = disk.Mount("/", "ext4", "/dev/sda1")
    monkeypatch.setattr(disk, "mount_of", lambda *_: mount)

    assert ["ok"] == [one.state for one in disk.working_directory(configure(""))]
    [finding] = disk.working_directory(configure("system = 'slurm'"))
    assert "warn" == finding.state
    assert f"{alone} is on ext4, which other hosts usually cannot see" == finding.says
    monkeypatch.setattr(disk, "mount_of", lambda *_: mount._replace(kind="nfs4", source="s:/x"))
    [finding] = disk.working_directory(configure("system = 'slurm'"))
    assert ("ok", f"{alone} is on nfs4 of s:/x") == (finding.state, finding.says)


@pytest.mark.parametrize(
    ("blocks", "files", "state", "says"),
    [
        (250_000_000, 10_000, "ok", "home 1024 GB"),
        (100_000, 10_000, "warn", "home ({}) has 0.4 GB left"),
        (1000, 10_000, "fail", "home ({}) has 0.0 GB left"),
        (250_000_000, 10, "warn", "home ({}) has 1024.0 GB left, but room for only 10 more files"),
    ],
)
def test_little_room_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, files: int, state: str, says: str
) -> None:
    """Also of a directory that is yet to be made."""
    fields = (4096, 4096, blocks, blocks, blocks, 10_000, files, files, 0, 255)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))

    finding = disk.judge_space("home", tmp_path / "not" / "there")

    assert (state, says.format(tmp_path)) == (finding.state, finding.says)


def test_a_directory_where_no_file_can_be_made_is_reported() -> None:
    """Whatever its rights say: this file system takes no files from root either."""
    finding = disk.judge_space("records of jobs", Path("/proc/sys"))

    assert "fail" == finding.state
    assert finding.says.startswith("records of jobs (/proc/sys) cannot be written to: ")
    assert "XDG_STATE_HOME" in finding.fix


def test_all_places_with_room_are_one_line(configure: Configure, alone: Path) -> None:
    findings = disk.space(configure("[worker]\nlog_file = 'logs/w.log'"))

    if all(finding.state == "ok" for finding in findings):  # else this machine is nearly full
        [finding] = findings
        assert ["home", "records", "scratch", "outputs"] == [
            part.split()[0] for part in finding.says.split(", ")
        ]


def test_locks_that_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert [("ok", f"flock and fcntl work in {tmp_path}")] == [
        (one.state, one.says) for one in disk.locks()
    ]
    assert not [*tmp_path.iterdir()]


def test_locks_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Lustre that is mounted without flock."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", refuse)

    [finding] = disk.locks()
    assert "warn" == finding.state
    assert f"{tmp_path} refuses locks: flock (Function not implemented)" == finding.says


def test_locks_that_exclude_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)

    [finding] = disk.locks()
    assert ("warn", f"flock in {tmp_path} does not exclude other processes") == (
        finding.state,
        finding.says,
    )


def test_a_home_without_room_needs_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    [finding] = disk.locks()
    assert f"{tmp_path} cannot be written to: Disk quota exceeded" == finding.says
    assert finding.fix.startswith("Make room there, or set XDG_STATE_HOME")


def test_a_home_that_cannot_be_written_to_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/proc")

    [finding] = disk.locks()
    assert "fail" == finding.state
    assert finding.says.startswith("/proc cannot be written to: ")


OLD, NEW = (asdict(PeerVersions("Python 3.11", "3.11.7", grain)) for grain in ("1.0.0", "1.0.1"))
WORKER, MISSION = states.worker("x", versions=OLD), states.mission("x", versions=OLD)


def test_peers_of_one_version_of_grain_are_not_mentioned() -> None:
    assert [] == peers.judge_grain(states.state([WORKER, WORKER], [MISSION]))
    assert [] == peers.judge_grain(states.state([states.worker(), WORKER]))


def test_peers_of_several_versions_of_grain_are_named() -> None:
    newer = states.worker("x", versions=NEW)
    [finding] = peers.judge_grain(states.state([newer, WORKER], [MISSION]))

    assert "warn" == finding.state
    assert "they have several versions of Grain, 1.0.0: x, x; 1.0.1: x" == finding.says
    assert "Install one version of Grain for all" in finding.fix
