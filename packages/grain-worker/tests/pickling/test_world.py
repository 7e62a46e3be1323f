"""Loading what came from elsewhere opens, creates, changes, connects and starts nothing."""

# Open files are the point.
# ruff: noqa: SIM115

from __future__ import annotations

import asyncio
import bz2
import ctypes
import dbm.dumb
import fileinput
import gc
import gzip
import io
import logging
import logging.handlers
import lzma
import mmap
import multiprocessing
import multiprocessing.managers
import multiprocessing.shared_memory
import os
import pickle
import shelve
import socket
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import outcome
import pytest
import trio

from grain.worker.errors import PayloadError
from grain.worker.payload import Payloads
from grain.worker.pickling.by_value import Classes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
ACTIONS = ("open", "os.", "socket.", "subprocess.", "shutil.", "sqlite3.", "mmap.", "tempfile.")


class Audit:
    """The actions of this process on the world while `seen` is a list."""

    def __init__(self) -> None:
        self.seen: list[str] | None = None
        sys.addaudithook(self._on_event)  # which stays until the process ends

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if self.seen is not None and event.startswith(ACTIONS):
            self.seen.append(f"{event} {args[:2]!r:.100}")


@pytest.fixture(scope="module")
def audit() -> Audit:
    """Watch this process; collections of garbage look only at what these tests make.

    Each test has ten, which take seconds in a process that thousands of tests have filled.
    """
    gc.collect()
    gc.freeze()
    return Audit()


class Keeper:
    """An importable object with an attribute."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing


def opened(mode: str, **options: Any) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        file = (folder / "data").open(mode, **options)
        if "r" not in mode:
            file.write(b"energy" if "b" in mode else "energy")
            file.flush()
        return file

    return make


def closed(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def made(folder: Path) -> Any:
        thing = make(folder)
        thing.close()
        return thing

    return made


def archive(folder: Path) -> Any:
    zipped = zipfile.ZipFile(folder / "zip", "w")
    zipped.writestr("a", "b")
    return zipped


def tape(mode: str) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        tar = tarfile.open(folder / "tar", mode)  # type: ignore[call-overload]
        tar.add(folder / "data", "data")
        return tar

    return make


def dumb(folder: Path) -> Any:
    database = dbm.dumb.open(str(folder / "dumb"), "c")
    database["a"] = "b"
    return database


def replaced(folder: Path) -> Any:
    lines = fileinput.input(folder / "data", inplace=True)
    stdout = sys.stdout
    next(lines)
    sys.stdout = stdout  # which this module of Python replaces
    return lines


def retrieved(folder: Path) -> Any:
    with pytest.warns(DeprecationWarning, match="FancyURLopener"):
        opener = urllib.request.FancyURLopener()  # type: ignore[attr-defined,unused-ignore]
    opener._URLopener__tempfiles = [str(folder / "data")]  # type: ignore[attr-defined] # by `retrieve`
    return opener


def connection(_: Path) -> Any:
    ours, theirs = multiprocessing.Pipe()
    ours.other = theirs  # type: ignore[attr-defined]
    return ours


def running(_: Path) -> Any:
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def finished(_: Path) -> Any:
    program = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    program.communicate()
    return program


def pipe(_: Path) -> Any:
    reading, writing = os.pipe()
    os.close(writing)
    return trio.lowlevel.FdStream(reading)


def proxy(_: Path) -> Any:
    token = multiprocessing.managers.Token("list", "/nowhere", "1")
    return multiprocessing.managers.ListProxy(token, "pickle", authkey=b"", incref=False)


def shared(_: Path) -> Any:
    return multiprocessing.shared_memory.SharedMemory(create=True, size=10)


def mapped(folder: Path) -> Any:
    table = np.memmap(folder / "table", dtype=np.int8, mode="w+", shape=(200_000,))
    table[:] = 3
    return table


def http_error(folder: Path) -> Any:
    return urllib.error.HTTPError("u", 404, "no", {}, (folder / "data").open("rb"))  # type: ignore[arg-type]


MODES = ("r", "w", "a", "r+", "w+", "a+", "rb", "wb", "ab", "r+b", "w+b", "a+b")
CLOSED: dict[str, Callable[[Path], Any]] = {
    **{f"open {mode}": opened(mode) for mode in MODES},
    **{f"closed {mode}": closed(opened(mode)) for mode in MODES},
    "exclusive": lambda folder: (folder / "new").open("x"),
    "raw, read": opened("rb", buffering=0),
    "raw, written": opened("wb", buffering=0),
    "by descriptor": lambda folder: open(os.open(folder / "data", os.O_WRONLY), "w"),  # noqa: PTH123
    "text over memory": lambda _: io.TextIOWrapper(io.BytesIO()),
    "temporary": lambda _: tempfile.TemporaryFile("w"),
    "named temporary": lambda folder: tempfile.NamedTemporaryFile("w", dir=folder),
    "named temporary, kept": lambda folder: tempfile.NamedTemporaryFile(dir=folder, delete=False),
    "gzip, written": lambda folder: gzip.open(folder / "gz", "w"),
    "gzip, read": lambda folder: gzip.open(folder / "data", "r"),
    "gzip, text": lambda folder: gzip.open(folder / "gz", "wt"),
    "bz2": lambda folder: bz2.open(folder / "bz2", "w"),
    "lzma": lambda folder: lzma.open(folder / "lzma", "w"),
    "member of zip": lambda folder: zipfile.ZipFile(folder / "zip", "w").open("a", "w"),
}
"""The things that arrive as closed files."""

REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "zip": (archive, "zipfile.ZipFile"),
    "tar": (tape("w"), "tarfile.TarFile"),
    "tar, as a stream": (tape("w|"), "tarfile.TarFile"),
    "dbm": (dumb, "dbm._Database"),
    "shelf": (lambda folder: shelve.Shelf(dumb(folder)), "dbm._Database"),
    "replaced input": (replaced, "fileinput.FileInput"),
    **(
        {"retrieved file": (retrieved, "urllib.FancyURLopener")}
        if hasattr(urllib.request, "URLopener")  # not from Python 3.14 on
        else {}
    ),
    "pipe of multiprocessing": (connection, "multiprocessing.Connection"),
    "shared memory": (shared, "multiprocessing.SharedMemory"),
    "proxy of a manager": (proxy, "multiprocessing.ListProxy"),
    "stream of trio": (pipe, "trio.FdStream"),
    "running program": (running, "subprocess.Popen"),
    "socket": (lambda _: socket.socket(), "socket.socket"),
    "ssl socket": (
        lambda _: ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="a"),
        "ssl.SSLSocket",
    ),
    "ssl context": (lambda _: ssl.create_default_context(), "SSLContext"),
    "library of C": (lambda _: ctypes.CDLL(None), "ctypes.CDLL is loaded into this process"),
    "database": (lambda folder: sqlite3.connect(folder / "db"), "sqlite3.Connection"),
    "memory map": (lambda _: mmap.mmap(-1, 10), "mmap.mmap"),
    "method of a temporary file": (
        lambda folder: tempfile.NamedTemporaryFile(dir=folder).write,
        "tempfile._TemporaryFileCloser",
    ),
    "part of a temporary file": (
        lambda folder: tempfile.NamedTemporaryFile(dir=folder)._closer,
        "tempfile._TemporaryFileCloser",
    ),
    "generator": (lambda _: (i for i in range(3)), "generator"),
    "process of multiprocessing": (lambda _: multiprocessing.Process(), "multiprocessing"),
    "queue of multiprocessing": (lambda _: multiprocessing.Queue(), "multiprocessing"),
    "lock of multiprocessing": (lambda _: multiprocessing.Lock(), "multiprocessing"),
}
"""The things that are refused, with the words that name them."""

COPIED: dict[str, Callable[[Path], Any]] = {
    "handler of a log": lambda folder: logging.FileHandler(folder / "data", "w"),
    "handler that waits": lambda folder: logging.FileHandler(folder / "log", "w", delay=True),
    "rotating handler": lambda folder: logging.handlers.RotatingFileHandler(folder / "data"),
    "timed handler": lambda folder: logging.handlers.TimedRotatingFileHandler(folder / "data"),
    "watched handler": lambda folder: logging.handlers.WatchedFileHandler(folder / "data"),
    "handler of a stream": lambda _: logging.StreamHandler(sys.__stdout__),
    "handler of a socket": lambda _: logging.handlers.SocketHandler("localhost", 9),
    "logger": lambda _: logging.getLogger("grain.test.world"),
    "temporary directory": lambda folder: tempfile.TemporaryDirectory(dir=folder),
    "spooled file": lambda _: tempfile.SpooledTemporaryFile(),
    "rolled file": lambda folder: tempfile.SpooledTemporaryFile(1, "w", dir=str(folder)),
    "file of trio": lambda folder: trio.wrap_file((folder / "data").open("w")),
    "part of a kept file": lambda folder: (
        tempfile.NamedTemporaryFile(dir=folder, delete=False)._closer
    ),
    "part of a removed file": closed(
        lambda folder: tempfile.NamedTemporaryFile(dir=folder)._closer
    ),
    "finished program": finished,
    "closed zip": closed(archive),
    "closed tar": closed(tape("w")),
    "closed dbm": closed(dumb),
    "failed request": http_error,
    "lock": lambda _: threading.Lock(),
    "reentrant lock": lambda _: threading.RLock(),
    "condition": lambda _: threading.Condition(),
    "semaphore": lambda _: threading.Semaphore(),
    "thread": lambda _: threading.Thread(),
    "event of asyncio": lambda _: asyncio.Event(),
    "event of trio": lambda _: trio.Event(),
}
"""The things of which a copy does nothing; files in them arrive closed."""


def tree(folder: Path) -> dict[str, bytes | None]:
    return {str(one): one.read_bytes() if one.is_file() else None for one in folder.rglob("*")}


def descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing
            found[fd] = str(Path(f"/proc/self/fd/{fd}").readlink())
    return found


def everywhere(thing: Any) -> Iterator[outcome.Value[Any] | outcome.Error]:
    yield outcome.Value(thing)
    yield outcome.Value([Keeper(thing)])
    yield outcome.Value(lambda: thing)
    error = RuntimeError("no convergence")
    error.log = thing  # type: ignore[attr-defined]
    yield outcome.Error(error)
    yield outcome.Error(ValueError(3, thing))


def end(thing: Any) -> None:
    """Close what the table has made."""
    if isinstance(thing, subprocess.Popen):
        with thing:
            thing.kill()
    if isinstance(thing, multiprocessing.shared_memory.SharedMemory):
        thing.unlink()
    if isinstance(thing, trio.lowlevel.FdStream):
        thing._fd_holder._raw_close()
        return
    if hasattr(thing, "other"):
        thing.other.close()
    if isinstance(thing, trio._file_io.AsyncIOWrapper):
        thing.wrapped.close()
    elif isinstance(thing, tempfile.TemporaryDirectory):
        thing.cleanup()
    elif hasattr(thing, "close") and not isinstance(thing, multiprocessing.managers.BaseProxy):
        thing.close()


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    (tmp_path / "data").write_text("before\n")
    thing = request.param(tmp_path)
    yield thing, tmp_path
    end(thing)


def arrivals(
    thing: Any,
    folder: Path,
    audit: Audit,
    places: Callable[[Any], Iterable[outcome.Value[Any] | outcome.Error]] = everywhere,
) -> Iterator[Any]:
    """Yield what arrives of a thing from each place, and check that nothing else happened."""
    for ended in places(thing):
        payload = Payloads().dump_outcome(ended)
        Payloads().load_outcome(payload)  # imports what it needs
        gc.collect()
        before, fds = tree(folder), descriptors()
        audit.seen = []
        try:
            came: Any = Payloads().load_outcome(payload)
            seen = audit.seen
        finally:
            audit.seen = None
        assert [] == seen
        yield came
        del came
        gc.collect()
        assert (before, fds) == (tree(folder), descriptors())


def carried(came: Any) -> Any:
    """Return the thing in what arrived."""
    if isinstance(came, outcome.Error):
        error: Any = came.error
        return error.log if hasattr(error, "log") else error.args[1]
    value: Any = came.value
    if isinstance(value, list):
        return value[0].thing
    return value() if callable(value) and type(value).__name__ == "function" else value


@pytest.mark.parametrize(
    ("made", "name"), [(CLOSED[name], name) for name in CLOSED], indirect=["made"], ids=CLOSED
)
def test_a_file_arrives_closed_and_the_one_on_the_disk_is_not_touched(
    made: tuple[Any, Path], name: str, audit: Audit
) -> None:
    thing, folder = made
    for came in arrivals(thing, folder, audit):
        copy = carried(came)
        assert copy.closed
        if name.startswith(("open", "closed")):
            assert (type(thing), thing.name, thing.mode) == (type(copy), copy.name, copy.mode)
        for use in (copy.read, copy.flush, copy.fileno):
            with pytest.raises((ValueError, io.UnsupportedOperation)):
                use()


@pytest.mark.parametrize(
    ("made", "words"),
    [(make, words) for make, words in REFUSED.values()],
    indirect=["made"],
    ids=REFUSED,
)
def test_what_would_act_when_loaded_is_refused_with_its_place(
    made: tuple[Any, Path], words: str, audit: Audit
) -> None:
    thing, folder = made
    for came, place in zip(
        arrivals(thing, folder, audit),
        (
            "result",
            r"result\[0\]\.thing",
            "thing",
            r"the exception\.log",
            r"the exception\.args\[1\]",
        ),
        strict=True,
    ):
        assert isinstance(came, outcome.Error)
        with pytest.raises(PayloadError, match=rf"because {place}[^\0]* cannot[^\0]*{words}"):
            raise came.error


@pytest.mark.filterwarnings("ignore:Unclosed file <tempfile.Spooled:ResourceWarning")
@pytest.mark.parametrize("made", COPIED.values(), indirect=True, ids=COPIED)
def test_a_copy_of_the_rest_does_nothing(made: tuple[Any, Path], audit: Audit) -> None:
    thing, folder = made
    for came in arrivals(thing, folder, audit):
        assert type(carried(came)) is type(thing)


@pytest.mark.parametrize("hook", ["displayhook", "excepthook", "unraisablehook"])
def test_a_hook_of_python_that_was_replaced_arrives_as_itself(
    hook: str, tmp_path: Path, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = getattr(sys, f"__{hook}__")

    def uses_it() -> Any:
        return first

    thread = threading.Thread()
    monkeypatch.setattr(sys, hook, print)
    for came in arrivals([uses_it, thread], tmp_path, audit, places=lambda it: [outcome.Value(it)]):
        assert isinstance(came, outcome.Value)
        assert came.value[0]() is first


def test_a_map_of_a_file_arrives_as_an_array_of_its_own(tmp_path: Path, audit: Audit) -> None:
    (tmp_path / "data").touch()
    table = mapped(tmp_path)
    for came in arrivals(
        [table, table[:5]], tmp_path, audit, places=lambda it: [outcome.Value(it)]
    ):
        whole, part = came.value
        whole[:] = 4
        part[:] = 4
        assert (200_000, 5) == (len(whole), len(part))
    assert {3} == set(table.tolist())


def test_a_pickle_by_which_dill_would_open_a_file_is_not_loaded(tmp_path: Path) -> None:
    """Where an object of the user's has dill pickle it."""
    import dill

    with (tmp_path / "data").open("w") as file:
        file.write("energy")
        dilled = dill.dumps(file)
    with pytest.raises(pickle.UnpicklingError, match="it would open a file when loaded"):
        Classes().undill(b"\0" + dilled)
    assert "energy" == (tmp_path / "data").read_text()
