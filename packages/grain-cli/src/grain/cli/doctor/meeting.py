"""Checks of ``grain doctor``: the address, its file system, the clock, and the scheduler there."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from grain.cli.doctor.checks import CheckResult, fail, ok, warn
from grain.cli.streams import remedy
from grain.files.whole import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grain.edge import Attempt

_ELSEWHERE = "Choose another `address`, on a file system that all nodes share."

SKEW = 5.0
"""Seconds by which two clocks may differ."""


def meeting_file(address: str) -> Path | None:
    """Return the meeting file of an address; None if it needs no shared file or is malformed.

    The check of the scheduler reports a malformed address.
    """
    from grain.edge.address import parse_address
    from grain.edge.errors import AddressError

    try:
        parsed = parse_address(address)
    except AddressError:
        return None
    return None if parsed.edge is None else Path(parsed.edge)


def files(address: str) -> list[CheckResult]:
    """Check that the meeting file's directory is private, writable, not full, and answers."""
    file = meeting_file(address)
    if file is None:
        return [ok("file system", f"{address} needs none that is shared")]
    folder = file.parent
    if not folder.exists():
        return [_missing_folder(folder)]
    try:
        seconds, skew = _probe(folder)
    except OSError as error:
        fix = remedy(error, "set `address`") if error.errno in FULL else _ELSEWHERE
        return [fail("file system", f"{folder}: {error.strerror}", fix)]
    return [*_folder_findings(folder, seconds), clock(skew)]


def _missing_folder(folder: Path) -> CheckResult:
    above = next(one for one in folder.parents if one.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return ok("file system", f"{folder} is to be made by the first mission")
    return fail("file system", f"{folder} cannot be made in {above}", _ELSEWHERE)


def _probe(folder: Path) -> tuple[float, float]:
    """Write a small file durably; return the seconds it took and the lead of the server's clock."""
    began = time.monotonic()
    before = time.time()
    handle, name = tempfile.mkstemp(prefix=".grain-doctor-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(b"grain doctor")
            out.flush()
            os.fsync(out.fileno())
        path = path.rename(f"{name}-2")
        written = path.stat().st_mtime
        after = time.time()
    finally:
        path.unlink(missing_ok=True)
    ahead = max(written - after, min(written - before, 0.0))
    return time.monotonic() - began, ahead


def _folder_findings(folder: Path, seconds: float) -> Sequence[CheckResult]:
    mode = folder.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:  # as grain.edge judges
        fix = f"chmod go-w {shlex.quote(str(folder))}"
        return [fail("file system", f"others may write to {folder}", fix)]
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize / 1e6
    if free < 50:
        fix = "Make room, or choose another `address`."
        return [
            (fail if free < 1 else warn)("file system", f"{folder} has {free:.0f} MB left", fix)
        ]
    if seconds > 1:
        fix = "It works, but joining takes long; a faster file system for `address` helps."
        return [warn("file system", f"{folder} took {seconds:.1f} s to write", fix)]
    return [ok("file system", f"{folder} can be written to ({seconds * 1e3:.0f} ms)")]


def clock(ahead: float) -> CheckResult:
    """Check that this host's clock agrees with that of the file server."""
    if abs(ahead) > SKEW:
        word = "behind" if ahead > 0 else "ahead of"
        fix = "Nothing of Grain depends on it, but times in logs do; ask who runs the cluster."
        message = f"this host is {abs(ahead):.0f} s {word} the file server"
        return warn("clock", message, fix)
    return ok("clock", "this host and the file server agree")


def scheduler(address: str) -> list[CheckResult]:
    """Check that a scheduler serves at the address, can be reached, and has this version."""
    import trio

    return [trio.run(_reach, address)[0]]


def every_way(address: str) -> list[CheckResult]:
    """Check as `scheduler` does; then try every route to its end, whether another works or not."""
    import trio

    return trio.run(_try_every_way, address)


async def _reach(address: str) -> tuple[CheckResult, bool]:
    """Try the quick routes; return the finding, and whether a meeting file names a scheduler."""
    from grain.edge.errors import AddressError, DialError

    try:
        return await _greeted(address, frozenset({"unix", "tcp", "relay"}), 5.0)
    except DialError as error:
        there = all(one.transport != "meeting" for one in error.tried)
        return not_reached(address, error.tried, slow=False), there
    except AddressError as error:
        return fail("scheduler", str(error), "Correct `address`."), False


async def _try_every_way(address: str) -> list[CheckResult]:
    from grain.edge import examine
    from grain.edge.errors import DialError

    first, there = await _reach(address)
    if not there:
        return [first]
    tried = [one for one in await examine(address) if one.transport != "meeting"]
    working = frozenset(one.transport for one in tried if one.ok)
    if first.state != "ok":
        first = not_reached(address, tried, slow=True)
    if first.state != "ok" and working:
        with suppress(DialError):  # or it has ended just now
            first, _ = await _greeted(address, working, 20.0)
    ways = sorted(tried, key=_order)
    return [first, *(way(one, others=bool(working)) for one in ways)]


async def _greeted(address: str, ways: frozenset[str], patience: float) -> tuple[CheckResult, bool]:
    """Greet the scheduler; return the finding, and whether other routes are worth trying.

    Raises:
        AddressError: the address is malformed.
        DialError: no scheduler was reached.
    """
    import trio

    from grain.edge import dial
    from grain.edge.errors import AddressError, DialError, EdgeError

    try:
        async with dial(address, role="cli", patience=patience, transports=ways) as peer:
            spoken = str(getattr(peer.greeting, "package", "?"))
            where = f"{getattr(peer.greeting, 'host', '?')} by {peer.transport}"
    except (AddressError, DialError):
        raise
    except (EdgeError, trio.EndOfChannel) as error:
        message = str(error) or "it has ended the connection"
        return fail("scheduler", message), False
    return judge_scheduler(where, spoken), True


def judge_scheduler(where: str, spoken: str) -> CheckResult:
    """Judge the version of a scheduler that was reached."""
    from importlib.metadata import version

    own = version("grain-edge")
    if spoken != own:
        fix = "Install the same version on both sides, and start the scheduler again."
        return warn("scheduler", f"{where} is Grain {spoken}, this is {own}", fix)
    return ok("scheduler", f"on {where}")


_REMEDIES = {
    "unix": "This host uses other routes.",
    "tcp": "Nodes without another route cannot join; ask which TCP ports are open between nodes.",
    "relay": "Check that this host reaches the bridge, and that it runs: `grain bridge serve`.",
    "reverse": "This route is for nodes that cannot open TCP connections, if the scheduler's host "
    "can reach them; without it they use files, or the relay of a bridge.",
    "files": "This route is for nodes that TCP does not reach; check that this directory is the "
    "same one on the scheduler's host.",
}
_WAYS = list(_REMEDIES)


def _order(attempt: Attempt) -> int:
    # A route that this check does not list yet comes last.
    return _WAYS.index(attempt.transport) if attempt.transport in _WAYS else len(_WAYS)


def way(attempt: Attempt, *, others: bool) -> CheckResult:
    """Judge one route to the scheduler.

    Args:
        others: whether another route works; only then is the purpose of this one worth a word.
    """
    check = f"by {attempt.transport}"
    if attempt.ok:
        return ok(check, f"{attempt.target} ({attempt.seconds:.1f} s)")
    message = f"{attempt.target}: {attempt.outcome}"
    return warn(check, message, _REMEDIES.get(attempt.transport, "") if others else "")


def not_reached(address: str, tried: Sequence[Attempt], *, slow: bool) -> CheckResult:
    """Judge that no scheduler was reached.

    Args:
        slow: whether every route was tried; each then has a finding of its own.
    """
    if unusable := [one.outcome for one in tried if one.unusable]:
        fix = "Correct `address`, or what keeps this host from it."
        if address.startswith("bridge://"):
            fix = "Start `grain bridge serve` there, or correct `address`."
        return fail("scheduler", unusable[-1], fix)
    if not tried or any(one.transport == "meeting" for one in tried) or _no_socket(address):
        message = f"none at {address} now"
        return warn("scheduler", message, "None is needed: a mission starts one.")
    ways = "" if slow else ": " + "; ".join(map(str, tried))
    here = [one.outcome for one in tried if one.transport == "unix"]
    # Its socket is on this host, so no network can be the reason.
    if any(outcome.startswith("no answer") for outcome in here):
        fix = "Wait, or end its process: a mission starts another."
        return fail("scheduler", f"one on this host does not answer{ways}", fix)
    if here:
        message = f"a scheduler on this host has ended unexpectedly{ways}"
        return warn("scheduler", message, "Nothing: a mission starts another.")
    fix = (
        "Start it again, or ask which TCP ports are open between nodes."
        if slow
        else "If it runs, `grain doctor --slow` tries the shared file system, for a minute."
    )
    return fail("scheduler", f"the one in the meeting file is not reached{ways}", fix)


def _no_socket(address: str) -> bool:
    """Return True if the address names a Unix socket that does not exist."""
    return address.startswith("unix://") and not Path(address.removeprefix("unix://")).exists()
