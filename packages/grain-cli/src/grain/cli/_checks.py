"""What ``grain doctor`` looks at, one function each; none of them raises or takes long by itself.

What may hang, a filesystem or a batch system, is run by `within`.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.metadata import Distribution

    from grain.config import Config

T = TypeVar("T")

LIMIT = 15.0
"""Seconds that a check may take."""

SKEW = 5.0
"""Seconds by which two clocks may differ."""

_COMMANDS = {
    "slurm": (("sbatch", "squeue", "scancel"), ["squeue", "--noheader", "--user", "{user}"]),
    "pbs": (("qsub", "qstat", "qdel"), ["qstat"]),
}
_OURS = ("resource", "edge", "worker", "head", "delayed", "cli")


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        check: What was looked at.
        state: How it is.
        says: A sentence.
        fix: What to do; empty if nothing is to be done.
    """

    check: str
    state: Literal["ok", "warn", "fail"]
    says: str
    fix: str = ""


def within(seconds: float, check: str, function: Callable[[], list[Finding]]) -> list[Finding]:
    """Run a check in a thread; one that does not return in time has failed, and is left behind."""
    found: list[Finding] = []

    def run() -> None:
        try:
            found.extend(function())
        # A bug in a check must not hide what the others have found.
        except Exception as error:
            found.append(Finding(check, "fail", f"{type(error).__name__}: {error}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        what = f"no answer within {seconds:g} s"
        return [Finding(check, "fail", what, "It hangs; ask who runs the cluster.")]
    return found


# ---- what is installed


def versions() -> list[Finding]:
    """All packages of Grain are of one version."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in _OURS:
        try:
            found[f"grain-{name}"] = version(f"grain-{name}")
        except PackageNotFoundError:
            continue
    return [judge_versions(found)]


def judge_versions(found: dict[str, str]) -> Finding:
    """See `versions`."""
    told = ", ".join(f"{name} {number}" for name, number in found.items())
    if len(set(found.values())) > 1:
        wanted = max(found.values())
        fix = f"pip install {' '.join(f'{name}=={wanted}' for name in found)}"
        return Finding("versions", "fail", f"they differ: {told}", fix)
    python = ".".join(map(str, sys.version_info[:3]))
    number = next(iter(found.values()), "unknown")
    return Finding("versions", "ok", f"{number} ({', '.join(found)}), Python {python}")


def import_name() -> list[Finding]:
    """The import name `grain` is Grain's alone."""
    from importlib.metadata import distributions

    import grain

    others = intruders(distributions())
    where = getattr(grain, "__file__", None) or "a namespace without an owner"
    if others:
        return [
            Finding(
                "import name",
                "fail",
                f"`grain` is claimed by {', '.join(others)}, too: which one is imported is chance",
                f"pip uninstall {' '.join(others)}, then pip install --force-reinstall "
                "--no-deps grain-resource; or use another environment for it",
            )
        ]
    if not hasattr(grain, "GVAR"):
        fix = "Look at what is there; it is in the way of this package."
        return [Finding("import name", "fail", f"`grain` is something else: {where}", fix)]
    return [Finding("import name", "ok", f"`grain` is {where}")]


def intruders(installed: Iterable[Distribution]) -> list[str]:
    """Distributions, other than grain-resource, that install a ``grain/__init__.py``.

    Google's data loader does (distributions ``grain`` and ``grain-nightly``), and so did
    grain-scheduler up to 0.17.
    """
    found = set()
    for one in installed:
        name = str(one.metadata["Name"] or "").lower().replace("_", "-")
        if name == "grain-resource":
            continue
        listed = one.read_text("RECORD") or one.read_text("SOURCES.txt") or ""
        if any(line.startswith("grain/__init__.py") for line in listed.splitlines()):
            found.add(name)
    return sorted(found)


# ---- the batch system


def batch(config: Config) -> list[Finding]:
    """Its commands are there, and it answers."""
    import getpass

    from grain.cli.batch import _pbs_text, _slurm_text
    from grain.cli.batch._command import Words, refusal, run
    from grain.cli.batch.errors import BatchError

    system = config.system
    if system == "local":
        cpus = len(os.sched_getaffinity(0))
        return [Finding("batch system", "ok", f"none: workers are processes here, on {cpus} CPUs")]
    if system == "custom":
        return [_custom(config)]
    commands, question = _COMMANDS[system]
    missing = [name for name in commands if shutil.which(name) is None]
    if missing:
        fix = "Run this where they are, usually on a login node, or change `system`."
        return [Finding("batch system", "fail", f"{system}: no {', '.join(missing)} here", fix)]
    words = [word.format(user=getpass.getuser()) for word in question]
    remedies = _slurm_text.REMEDIES if system == "slurm" else _pbs_text.REMEDIES
    known = Words(remedies, (), "")
    try:
        done = run(words, known)
    except BatchError as error:
        return [Finding("batch system", "fail", f"{system}: {error.what}", error.remedy)]
    if done.code:
        refused = refusal(words[0], done, known)
        said = f"{refused.what}: {refused.told}"
        return [Finding("batch system", "fail", said, refused.remedy or "Try it by hand.")]
    return [Finding("batch system", "ok", f"{system}: {', '.join(commands)} answer")]


def _custom(config: Config) -> Finding:
    import shlex

    custom = config.custom_system
    try:
        command = (shlex.split(custom.submit_cmd) or [""])[0]
    except ValueError:
        command = custom.submit_cmd
    if not shutil.which(command):
        fix = "Correct custom_system.submit_cmd, or run this where it is."
        return Finding("batch system", "fail", f"custom: there is no command {command!r}", fix)
    return Finding("batch system", "ok", f"custom: {command} is there")


def worker_command(config: Config) -> list[Finding]:
    """`grain-worker` is to be found, here at least."""
    from grain.cli._submission import worker_folder

    folder = worker_folder()
    if folder:
        return [Finding("grain-worker", "ok", f"in {folder}")]
    here = config.system == "local"
    fix = "pip install grain-worker" + (
        "" if here else ", or set PATH in script.setup_cleanup so that jobs find it"
    )
    state: Literal["warn", "fail"] = "fail" if here else "warn"
    return [Finding("grain-worker", state, "it is not here", fix)]


def outputs(config: Config) -> list[Finding]:
    """The outputs of jobs can be written from here."""
    from grain.config import stamp

    log = config.worker.log_file
    if not log:
        return [Finding("outputs", "ok", "left to the batch system")]
    import datetime

    path = Path.cwd() / stamp(log, datetime.datetime.now())
    folder = next(one for one in path.parents if one.exists())
    if os.access(folder, os.W_OK | os.X_OK):
        return [Finding("outputs", "ok", f"in {path.parent}")]
    fix = "Set worker.log_file to a directory that you may write to."
    return [Finding("outputs", "fail", f"{folder} cannot be written to", fix)]


# ---- the meeting


def meeting_file(address: str) -> Path | None:
    """The Edge file of an address, or none."""
    from urllib.parse import parse_qs, unquote, urlsplit

    from grain.edge import DEFAULT

    def path(edge: str) -> Path:
        return Path(edge.removeprefix("edge://").replace("$HOME", str(Path.home()), 1))

    if address.startswith("edge://"):
        return path(address)
    if address.startswith("tcp://"):
        named = parse_qs(urlsplit(address).query).get("edge")
        return Path(unquote(named[0])) if named else path(DEFAULT)
    return None


def files(address: str) -> list[Finding]:
    """The directory of the Edge file is private, can be written to, has room, answers."""
    file = meeting_file(address)
    if file is None:
        return [Finding("file system", "ok", f"{address} needs none that is shared")]
    folder = file.parent
    if not folder.exists():
        return [_to_be_made(folder)]
    try:
        seconds, skew = _probe(folder)
    except OSError as error:
        fix = "Choose another `address`, on a file system that all nodes share."
        return [Finding("file system", "fail", f"{folder}: {error.strerror}", fix)]
    return [*_folder_findings(folder, seconds), clock(skew)]


def _to_be_made(folder: Path) -> Finding:
    above = next(one for one in folder.parents if one.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return Finding("file system", "ok", f"{folder} is to be made by the first mission")
    fix = "Choose another `address`, on a file system that all nodes share."
    return Finding("file system", "fail", f"{folder} cannot be made in {above}", fix)


def _probe(folder: Path) -> tuple[float, float]:
    """Seconds for writing a small file so that it stays, and by how much the server is ahead."""
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


def _folder_findings(folder: Path, seconds: float) -> Sequence[Finding]:
    mode = folder.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:  # as grain.edge judges
        fix = f"chmod go-w {folder}"
        return [Finding("file system", "fail", f"others may write to {folder}", fix)]
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize / 1e6
    if free < 50:
        fix = "Make room, or choose another `address`."
        state: Literal["warn", "fail"] = "fail" if free < 1 else "warn"
        return [Finding("file system", state, f"{folder} has {free:.0f} MB left", fix)]
    if seconds > 1:
        fix = "It works, but joining takes long; a faster file system for `address` helps."
        return [Finding("file system", "warn", f"{folder} took {seconds:.1f} s to write", fix)]
    return [Finding("file system", "ok", f"{folder} can be written to ({seconds * 1e3:.0f} ms)")]


def clock(ahead: float) -> Finding:
    """This host's clock agrees with that of the file server."""
    if abs(ahead) > SKEW:
        word = "behind" if ahead > 0 else "ahead of"
        fix = "Nothing of Grain depends on it, but times in logs do; tell who runs the cluster."
        said = f"this host is {abs(ahead):.0f} s {word} the file server"
        return Finding("clock", "warn", said, fix)
    return Finding("clock", "ok", "this host and the file server agree")


def scheduler(address: str, *, slow: bool) -> list[Finding]:
    """Somebody serves at the address, can be reached, and is of this version."""
    import trio

    return trio.run(_reach, address, slow)


async def _reach(address: str, slow: bool) -> list[Finding]:
    import trio

    from grain.edge import ALL_TRANSPORTS, dial
    from grain.edge.errors import AddressError, DialError, EdgeError

    ways = ALL_TRANSPORTS if slow else frozenset({"unix", "tcp"})
    try:
        patience = 75.0 if slow else 5.0
        async with dial(address, role="cli", patience=patience, transports=ways) as peer:
            spoken = str(getattr(peer.greeting, "package", "?"))
            where = f"{getattr(peer.greeting, 'host', '?')} by {peer.transport}"
    except DialError as error:
        return [_not_reached(address, [(one.transport, str(one)) for one in error.tried], slow)]
    except AddressError as error:
        return [Finding("scheduler", "fail", str(error), "Correct `address`.")]
    except (EdgeError, trio.EndOfChannel) as error:
        return [Finding("scheduler", "fail", str(error) or "it has ended the connection")]
    return [judge_scheduler(where, spoken)]


def judge_scheduler(where: str, spoken: str) -> Finding:
    """One was reached; is it of this version?"""
    from importlib.metadata import version

    own = version("grain-edge")
    if spoken != own:
        fix = "Install the same version on both sides, and start the scheduler anew."
        return Finding("scheduler", "warn", f"{where} is Grain {spoken}, this is {own}", fix)
    return Finding("scheduler", "ok", f"on {where}")


def _not_reached(address: str, tried: list[tuple[str, str]], slow: bool) -> Finding:
    if not tried or any(transport == "meeting" for transport, _ in tried):
        told = f"none at {address} now"
        return Finding("scheduler", "warn", told, "None is needed: a mission starts one.")
    ways = "; ".join(text for _, text in tried)
    if any(transport == "unix" for transport, _ in tried):
        # Its socket is on this very host, so there is nothing between: it was killed.
        told = f"one that served here has ended without a word: {ways}"
        return Finding("scheduler", "warn", told, "Nothing: a mission starts another.")
    fix = (
        "Start it anew, or ask which TCP ports are open between nodes."
        if slow
        else "If it runs, `grain doctor --slow` tries the shared file system, for a minute."
    )
    return Finding("scheduler", "fail", f"one is said to serve, but is not reached: {ways}", fix)
