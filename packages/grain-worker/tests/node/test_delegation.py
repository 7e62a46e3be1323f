"""The control group that a site hands over: when it is used, how it is divided and left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grain.worker.agent.command import control_groups
from grain.worker.node.delegation import (
    WORKER,
    Delegation,
    GroupView,
    decide,
    own_group,
    prepared,
    read_group,
)

PATH = Path("/sys/fs/cgroup/site/job")
BOTH = frozenset({"cpu", "memory"})


def view(**more: Any) -> GroupView:
    """Return a group that a site has handed over to a user."""
    facts: dict[str, Any] = {"path": PATH, "writable": True, "controllers": BOTH}
    return GroupView(**{**facts, "peak_restarts": True, **more})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"superuser": True, "marked": True},
        {"superuser": True, "container": True},
        {"of_user_manager": True, "marked": True},
    ],
)
def test_a_group_that_was_handed_over_is_divided(more: dict[str, Any]) -> None:
    decision = decide(view(**more))
    assert Delegation(PATH, memory=True, move=True) == decision
    assert f"in control groups below {PATH}, for their memory and CPU time" in decision.describe()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"writable": False}, "does not belong to this user"),
        ({"whole_machine": True}, "is that of the whole machine"),
        ({"superuser": True}, "is not handed over, though root may write"),
        ({"of_user_manager": True}, "belongs to systemd; with Delegate=yes"),
        ({"type": "threaded"}, "is of the type 'threaded'"),
        ({"path": PATH / "grain-17"}, "is that of a program which Grain runs"),
    ],
)
def test_a_group_that_was_not_handed_over_is_left_alone(more: dict[str, Any], why: str) -> None:
    decision = decide(view(**more))
    assert (None, False, False) == decision[:3]
    assert why in decision.describe()
    assert "found by polling" in decision.describe()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"controllers": frozenset({"cpu"})}, "it is without the memory controller"),
        ({"peak_restarts": False}, "that needs Linux 6.12"),
        ({"strangers": 2}, "2 processes of other users are in it"),
    ],
)
def test_groups_without_figures_of_memory_need_no_process_to_move(
    more: dict[str, Any], why: str
) -> None:
    decision = decide(view(**more))
    assert (PATH, False, False) == decision[:3]
    assert why in decision.describe()


def test_a_worker_beside_another_one_shares_the_group_that_this_has_divided() -> None:
    own = view(path=PATH / f"{WORKER}17")
    assert Delegation(PATH, memory=True) == decide(own, view(enabled=frozenset({"memory"})))
    for above in (view(), view(enabled=frozenset({"memory"}), writable=False)):
        assert "is that of another worker" in decide(own, above).why


def test_without_a_group_of_version_2_there_are_no_groups() -> None:
    assert "no control group of version 2" in decide(None).describe()


def test_a_variable_switches_control_groups_off() -> None:
    decision = control_groups({"GRAIN_CONTROL_GROUPS": "off"})
    assert (None, "GRAIN_CONTROL_GROUPS is off") == (decision.path, decision.why)


VERSION_2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = (
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw shared:3 - cgroup2 cgroup2 rw\n"
)


@pytest.mark.parametrize(
    ("cgroup", "mountinfo", "expected"),
    [
        ("0::/site/job\n", VERSION_2, ("/sys/fs/cgroup/site/job", "/sys/fs/cgroup")),
        ("0::/\n", VERSION_2, ("/sys/fs/cgroup", "/sys/fs/cgroup")),
        (
            "4:memory:/x\n0::/site\n",
            HYBRID,
            ("/sys/fs/cgroup/unified/site", "/sys/fs/cgroup/unified"),
        ),
        (
            "0::/docker/1/job\n",
            VERSION_2.replace("0:28 /", "0:28 /docker/1"),
            ("/sys/fs/cgroup/job", "/sys/fs/cgroup"),
        ),
        (
            "0::/my site/job\n",
            "31 23 0:28 /my\\040site /my\\040groups rw - cgroup2 cgroup2 rw\n",
            ("/my groups/job", "/my groups"),
        ),
        ("0::/site\n", VERSION_2.replace("0:28 /", "0:28 /docker/1"), None),
        ("0::/../../job\n", VERSION_2, None),
        ("4:memory:/x\n", VERSION_2, None),
        ("0::/site\n", HYBRID.replace("cgroup2", "cgroup"), None),
        ("", "nonsense\n\n - \n", None),
    ],
)
def test_the_directory_of_our_group_is_found(
    cgroup: str, mountinfo: str, expected: tuple[str, str] | None
) -> None:
    place = own_group(cgroup, mountinfo)
    assert expected == (place and tuple(map(str, place)))


def fake_proc(tmp_path: Path, name: str) -> Path:
    top = tmp_path / "cgroup"
    proc = tmp_path / "proc"
    for pid in ("self", "17", "18"):
        (proc / pid).mkdir(parents=True)
    (proc / "self/cgroup").write_text(f"0::{name}\n")
    place = str(top).replace(" ", "\\040")
    (proc / "self/mountinfo").write_text(f"1 2 0:1 / {place} rw - cgroup2 cgroup2 rw\n")
    here = top / name.lstrip("/")
    here.mkdir(parents=True)
    for file, text in {
        "cgroup.type": "domain\n",
        "cgroup.controllers": "cpu memory pids\n",
        "cgroup.subtree_control": "pids\n",
        "cgroup.procs": "0\n17\n18\n19\n",
        "cgroup.events": "populated 1\n",
        "memory.peak": "5\n",
    }.items():
        (here / file).write_text(text)
    return proc


def test_a_group_is_read_with_the_one_above(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path, "/user.slice/user@7.service/job.scope")
    own, above = read_group(proc)
    assert own is not None
    assert above is not None
    assert tmp_path / "cgroup/user.slice/user@7.service/job.scope" == own.path
    assert own.path.parent == above.path
    assert (True, False, False) == (own.of_user_manager, own.whole_machine, own.container)
    assert ("domain", frozenset({"pids"}), True) == (own.type, own.enabled, own.peak_restarts)
    assert {"cpu", "memory", "pids"} == own.controllers
    # 0 is one that a container cannot see; 19 has just ended.
    assert 1 == own.strangers
    (own.path / "memory.peak").chmod(0o444)
    assert not (read_group(proc)[0] or own).peak_restarts


def test_the_outermost_group_is_that_of_a_container_or_of_the_whole_machine(
    tmp_path: Path,
) -> None:
    proc = fake_proc(tmp_path, "/")
    own, above = read_group(proc)
    assert own is not None
    assert (True, False, None) == (own.container, own.whole_machine, above)
    (own.path / "cgroup.events").unlink()
    own, _ = read_group(proc)
    assert own is not None
    assert (False, True) == (own.container, own.whole_machine)


def test_a_group_that_cannot_be_seen_is_none(tmp_path: Path) -> None:
    assert (None, None) == read_group(tmp_path)


DIVIDE = """
import os, sys
from pathlib import Path
from grain.worker.guards.group import enter
from grain.worker.node.delegation import decide, prepared, read_group

group = Path(sys.argv[1])
enter(str(group), 0)
decision = decide(*read_group())
print(decision.path == group, decision.memory, decision.move, decision.why)
if "force" in sys.argv:
    decision = decision._replace(memory=True, move=True)
with prepared(decision) as path:
    print(path == str(group), "memory" in (group / "cgroup.subtree_control").read_text())
    print(len((group / "cgroup.procs").read_text().split()))
    (group / "grain-1").mkdir()
    print((group / "grain-1/memory.peak").exists())
    again = decide(*read_group())
    print(again.path == group, again.memory, again.move)
    with prepared(again):
        pass
    (group / "grain-1").mkdir()
print((group / "cgroup.subtree_control").read_text().split())
print([one.name for one in group.iterdir() if one.is_dir()], os.getpid() in
    map(int, (group / "cgroup.procs").read_text().split()))
"""


def divide(group: Path, *words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", DIVIDE, str(group), *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


def has_memory(group: Path) -> bool:
    return "memory" in (group / "cgroup.controllers").read_text().split()


def test_a_group_is_divided_with_its_processes_and_left_as_it_was(control_group: Path) -> None:
    if not has_memory(control_group):
        pytest.skip("control groups of version 2 have no memory controller here")
    lines = divide(control_group)
    assert ["True True True ", "True True", "0", "True", "True True False"] == lines[:5]
    assert ["[]", "[] True"] == lines[5:]


def test_a_group_that_cannot_be_divided_is_left_as_it_was(control_group: Path) -> None:
    if has_memory(control_group):
        pytest.skip("control groups of version 2 have a memory controller here")
    lines = divide(control_group, "force")
    assert "True False False it is without the memory controller" == lines[0]
    assert ["True False", "1", "False", "True False False"] == lines[1:5]
    assert ["[]", "[] True"] == lines[5:]


def test_nothing_fails_where_the_group_is_gone(tmp_path: Path) -> None:
    missing = Delegation(tmp_path / "missing", memory=True, move=True)
    with prepared(missing) as path:
        assert str(tmp_path / "missing") == path
    with prepared(Delegation(why="x")) as path:
        assert path == ""
    assert os.listdir(tmp_path) == []
