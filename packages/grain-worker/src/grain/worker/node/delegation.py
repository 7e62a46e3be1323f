"""The control group that the site has handed over to a worker, to make groups in it (cgroups(7)).

`read_group` looks, `decide` decides by what it has seen, and `prepared` does what is decided, for
as long as the worker serves. Only version 2: `grain.worker.guards.group` says why, and what the
groups are for.

A group is handed over if we may write to it. That is not enough where the user manager of systemd
has made it, which owns all groups of a user's sessions, or where we are root: then the mark of
systemd has to be there (``Delegate=yes``), or the group has to be that of a container.

A group that has figures of memory for the groups in it must have no processes of its own. So its
processes, the worker and what has started it, move into a group beside the programs'. Nothing
leaves the group: the limits of the job hold for it as before.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.worker.guards.group import PREFIX, enter, remove_empty, removed, write
from grain.worker.node.cgroup import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = PREFIX + "worker-"
"""The beginning of the name of the group with a worker's own processes; its pid follows."""

_MARKS = ("user.delegate", "trusted.delegate")  # extended attributes, set by systemd
_ROUNDS = 10  # that processes may go on to appear in a group which they are to leave
_WRITABLE = ("", "cgroup.procs", "cgroup.subtree_control")


class GroupView(NamedTuple):
    """A control group of version 2, before anything is changed.

    Attributes:
        whole_machine: True for the one that all others of the machine are in.
        container: True for the outermost one that a container sees.
        of_user_manager: True below the user manager of systemd.
        marked: systemd has marked it, or the one above, as handed over.
        writable: we may make groups in it and move processes between them.
        type: the content of cgroup.type; empty if there is none.
        controllers: those that may be switched on for groups in it.
        peak_restarts: its memory.peak can be reset, as from Linux 6.12 on.
        strangers: the number of processes in it that are of others.
    """

    path: Path
    whole_machine: bool = False
    container: bool = False
    of_user_manager: bool = False
    marked: bool = False
    superuser: bool = False
    writable: bool = False
    type: str = "domain"
    controllers: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    peak_restarts: bool = False
    strangers: int = 0


class Delegation(NamedTuple):
    """The decision on control groups.

    Attributes:
        path: the directory to make groups in; None for no groups.
        memory: True if they have figures of memory, too.
        move: True if the processes of that group have to move first.
        why: why there are no groups, or none with memory; empty if there are.
    """

    path: Path | None = None
    memory: bool = False
    move: bool = False
    why: str = ""

    def describe(self) -> str:
        """Return a sentence for the log of a worker."""
        if self.path is None:
            return f"the memory of programs is found by polling: {self.why}"
        if not self.memory:
            return (
                f"programs run in control groups below {self.path}, for their CPU time; their "
                f"memory is found by polling: {self.why}"
            )
        return f"programs run in control groups below {self.path}, for their memory and CPU time"


def decide(view: GroupView | None, above: GroupView | None = None) -> Delegation:
    """Decide what a worker does with the control group in which it was started.

    Args:
        view: that group; None if there is none of version 2.
        above: the one above it, if there is one.
    """
    if view is None:
        return Delegation(why="there is no control group of version 2")
    if view.path.name.startswith(WORKER) and above is not None:
        # The worker was started by a process that another worker has moved.
        if above.writable and "memory" in above.enabled and view.peak_restarts:
            return Delegation(above.path, memory=True)
        return Delegation(why=f"{view.path} is that of another worker")
    if why := _not_ours(view):
        return Delegation(why=f"{view.path} {why}")
    if "memory" not in view.controllers:
        return Delegation(view.path, why="it is without the memory controller")
    if not view.peak_restarts:
        return Delegation(view.path, why="that needs Linux 6.12")
    if view.strangers:
        why = f"{view.strangers} processes of other users are in it, and would have to move"
        return Delegation(view.path, why=why)
    return Delegation(view.path, memory=True, move=True)


def _not_ours(view: GroupView) -> str:
    """Return why a group is not handed over to us, as the rest of a sentence; empty if it is."""
    if view.whole_machine:
        return "is that of the whole machine"
    if view.path.name.startswith(PREFIX):
        return "is that of a program which Grain runs"
    if not view.writable:
        return "does not belong to this user"
    if view.of_user_manager and not view.marked:
        return "belongs to systemd; with Delegate=yes it would be handed over"
    if view.superuser and not (view.marked or view.container):
        return "is not handed over, though root may write to it; Delegate=yes of systemd would"
    if view.type != "domain":
        return f"is of the type {view.type!r}, which cannot be divided"
    return ""


def read_group(proc: Path = Path("/proc")) -> tuple[GroupView | None, GroupView | None]:
    """Return our control group of version 2 and the one above it, as far as they can be seen."""
    place = own_group(text_of(proc / "self/cgroup"), text_of(proc / "self/mountinfo"))
    if place is None or not place[0].is_dir():
        return None, None
    path, top = place
    return _view(path, top, proc), None if path == top else _view(path.parent, top, proc)


def own_group(cgroup: str, mountinfo: str) -> tuple[Path, Path] | None:
    """Return the directory of our control group of version 2, and that of the outermost one.

    Args:
        cgroup: the content of /proc/self/cgroup.
        mountinfo: that of /proc/self/mountinfo (proc(5)).

    Returns:
        None if there is no such group, or no directory for it.
    """
    names = [line[3:] for line in cgroup.splitlines() if line.startswith("0::/")]
    for line in mountinfo.splitlines():
        mount, _, filesystem = line.partition(" - ")
        fields = mount.split()
        if filesystem.split()[:1] != ["cgroup2"] or len(fields) < 5:
            continue
        root, directory = Path(_unescaped(fields[3])), Path(_unescaped(fields[4]))
        # Outside of what a container sees, names begin with "/..".
        if names and ".." not in Path(names[0]).parts and Path(names[0]).is_relative_to(root):
            return directory / Path(names[0]).relative_to(root), directory
    return None


def _unescaped(text: str) -> str:
    """Return a name of ``mountinfo`` as it is: there, a space and few others are octal codes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def _view(path: Path, top: Path, proc: Path) -> GroupView:
    # Only the outermost group of the machine lacks this file.
    outermost = path == top
    whole_machine = outermost and not (path / "cgroup.events").exists()
    return GroupView(
        path=path,
        whole_machine=whole_machine,
        container=outermost and not whole_machine,
        of_user_manager=any(
            part.startswith("user@") and part.endswith(".service") for part in path.parent.parts
        ),
        marked=any(_is_marked(one) for one in (path, path.parent)),
        superuser=os.geteuid() == 0,
        writable=all(os.access(path / name, os.W_OK) for name in _WRITABLE),
        type=text_of(path / "cgroup.type").strip(),
        controllers=frozenset(text_of(path / "cgroup.controllers").split()),
        enabled=frozenset(text_of(path / "cgroup.subtree_control").split()),
        peak_restarts=_has_write_permission(path / "memory.peak"),
        strangers=sum(_is_stranger(proc / pid) for pid in text_of(path / "cgroup.procs").split()),
    )


def _is_marked(path: Path) -> bool:
    """Return True if systemd has marked a group as handed over, which it does from 251 on."""
    for name in _MARKS:
        with suppress(OSError):
            if os.getxattr(path, name) == b"1":
                return True
    return False


def _has_write_permission(path: Path) -> bool:
    """Return True if this user may write to a file, which root always may try."""
    try:
        return bool(path.stat().st_mode & 0o222)
    except OSError:
        return False


def _is_stranger(process: Path) -> bool:
    """Return True for a process of another user; 0 is a process that a container cannot see."""
    try:
        return process.name == "0" or process.stat().st_uid != os.getuid()
    except OSError:
        return False  # it has ended


@contextmanager
def prepared(decision: Delegation) -> Iterator[str]:
    """Prepare a group for those of programs, and leave it as it was before.

    Nothing that fails here is an error: groups have no figures of memory then.

    Returns:
        The directory to make groups in; empty for none.
    """
    if decision.path is None:
        yield ""
        return
    path = str(decision.path)
    own = f"{path}/{WORKER}{os.getpid()}"
    moved = decision.move and _divide(path, own)
    try:
        yield path
    finally:
        alone = remove_empty(path)
        if moved and alone and not _other_workers(path, own):
            _undo(path, own)


def _divide(path: str, own: str) -> bool:
    """Move all processes of a group into one below it, and switch on figures of memory."""
    try:
        os.mkdir(own)  # noqa: PTH102
        _move_all(path, own)
        write(f"{path}/cgroup.subtree_control", b"+memory")
    except OSError:
        _undo(path, own)
        return False
    return True


def _undo(path: str, own: str) -> None:
    """Move the processes back, and remove their group, as far as that can be done."""
    with suppress(OSError):
        write(f"{path}/cgroup.subtree_control", b"-memory")
    with suppress(OSError):
        _move_all(own, path)
    removed(own)


def _move_all(source: str, target: str) -> None:
    """Move the processes of a group into another one, and those that appear meanwhile.

    Raises:
        OSError: one of them may not be moved.
    """
    for _ in range(_ROUNDS):
        pids = text_of(Path(source, "cgroup.procs")).split()
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                enter(target, int(pid))


def _other_workers(path: str, own: str) -> bool:
    """Return True if another worker has a group beside ours."""
    try:
        names = os.listdir(path)
    except OSError:
        return True
    return any(name.startswith(WORKER) and f"{path}/{name}" != own for name in names)
