"""The surroundings of the command: its standard streams, and errors that no command has foreseen.

A user sees no traceback for a closed or full output, a home directory that cannot be written to, or
a locale that lacks a character, and no character that controls the terminal. All of it applies only
to the process of a command: functions that tests and other programs call raise their own
exceptions, and print as they like.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACEBACK = "GRAIN_TRACEBACK"
"""The environment variable that, set to ``full``, has the traceback of an error printed."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """End the process with a sentence and exit code 1 where something unforeseen is raised."""
    open_missing()
    try:
        try:
            with harmless_streams():
                yield
        except Exception as error:
            if os.environ.get(TRACEBACK) == "full":
                raise
            _complain(sentence(error))
            raise SystemExit(1) from None
    finally:
        _end(sys.stdout)
        _end(sys.stderr)


def file_trouble(error: OSError) -> str:
    """Return what is wrong with a file, and what to do where Grain may not keep its own files."""
    from grain.files.whole import FULL

    if not error.strerror:
        return str(error)
    if not isinstance(error.filename, str | bytes):
        return error.strerror
    path = os.fsdecode(error.filename)
    advice = "make room there" if error.errno in FULL else ""
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS, *FULL}:
        from pathlib import Path

        from grain.eventlog.names import state_folder

        with contextlib.suppress(RuntimeError):  # there is no home directory
            if Path(path).is_relative_to(state_folder()):
                advice = elsewhere("set XDG_STATE_HOME", full=error.errno in FULL)
    return "; ".join(filter(None, (f"{path}: {error.strerror}", advice)))


def elsewhere(setting: str, *, full: bool = True) -> str:
    """Return what to do about a directory in which Grain cannot write.

    Args:
        setting: by which Grain writes elsewhere, as in "set XDG_STATE_HOME".
        full: True if its disk is full.
    """
    if full:
        return f"make room there, or {setting} to a directory on another disk"
    return f"{setting} to a directory that you may write to"


def remedy(error: OSError, setting: str) -> str:
    """Return what to do about an error, as a sentence; see `elsewhere`."""
    from grain.files.whole import FULL

    text = elsewhere(setting, full=error.errno in FULL)
    return f"{text[0].upper()}{text[1:]}."


def sentence(error: Exception) -> str:
    """Return what is wrong; for an error that must be a defect, also where it was raised."""
    from grain.cli.show import clean

    if isinstance(error, OSError) and error.strerror:
        return clean(f"Error: {file_trouble(error)}")
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # as `Path.home` puts it
        return "Error: there is no home directory: set HOME to a directory that you may write to"
    from pathlib import Path

    where = ""
    trace = error.__traceback__
    while trace is not None:
        where = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return clean(
        f"Error: {type(error).__name__}: {error} ({where}). This is a defect of Grain; "
        f"{TRACEBACK}=full shows more"
    )


def open_missing() -> None:
    """Open what is closed of the three standard streams, to nowhere.

    Else the next file that is opened would become one of them, and programs that print would find
    None in the place of a stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # It gets the lowest number that is free; programs inherit it, as any such stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


class HarmlessStream(io.TextIOWrapper):
    """A standard stream on which no text controls a terminal: names may have any characters.

    Line breaks and tabs pass. To a file or a pipe marks of direction pass as well, and bytes that
    are not UTF-8 if ``errors`` lets them. What is written to `buffer` passes as it is.

    Attributes:
        plain: the stream before, for what moves the cursor on purpose.
    """

    def __init__(self, plain: TextIO, errors: str) -> None:
        # Click would go around this stream if it was ASCII, and writes UTF-8 there, too.
        ascii_only = codecs.lookup(plain.encoding or "ascii").name == "ascii"
        super().__init__(
            plain.buffer, "utf-8" if ascii_only else plain.encoding, errors,
            line_buffering=getattr(plain, "line_buffering", True),
            write_through=getattr(plain, "write_through", False),
        )  # fmt: skip
        self.plain = plain
        if isinstance(plain, io.TextIOWrapper) and plain.errors == "strict":
            plain.reconfigure(errors=errors)

    def write(self, text: str, /) -> int:
        """Write a text without what would control a terminal; return its length."""
        from grain.cli.show import clean, one_line

        if not isinstance(text, str):
            return super().write(text)  # which refuses it; so click learns that this is for text
        super().write((clean if self.isatty() else one_line)(text, keep="\n\t"))
        return len(text)


class MessageStream(HarmlessStream):
    """Standard error: what a full disk does not take is lost, and the command goes on.

    It may have submitted a job, whose number a script is about to read.
    """

    def write(self, text: str, /) -> int:
        """Write a text without what would control a terminal; return its length."""
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is left."""
        with contextlib.suppress(OSError):
            super().flush()


@contextlib.contextmanager
def harmless_streams(errors: str = "replace") -> Iterator[None]:
    """Have stdout replaced by a `HarmlessStream`, stderr by a `MessageStream`, during the block.

    Args:
        errors: what becomes of characters that the encoding lacks.
    """
    before = sys.stdout, sys.stderr
    own = [
        kind(stream, errors) if hasattr(stream, "buffer") else stream
        for kind, stream in zip((HarmlessStream, MessageStream), before, strict=True)
    ]
    sys.stdout, sys.stderr = own
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for stream in own:
            if isinstance(stream, HarmlessStream):
                _end(stream)
                stream.detach()  # or the end of this object would close the stream


def plain(stream: TextIO) -> TextIO:
    """Return the stream on which a progress line may move the cursor."""
    return stream.plain if isinstance(stream, HarmlessStream) else stream


def announced(what: str, write: Callable[[], object]) -> bool:
    """Announce what was submitted; return False if its number could not be written.

    Standard error says so then: a script that believes that nothing was submitted does it again.

    Args:
        what: was submitted, the beginning of that sentence.
        write: writes the announcement to standard output.
    """
    try:
        write()
        sys.stdout.flush()
    except OSError as error:
        drop_output()
        _complain(f"{what} was submitted, but its number could not be written: {error.strerror}")
        return False
    return True


def write_answer(error: str, text: str) -> int | None:
    """Write the answer of a command that looks like another tool's to standard output, at once.

    Args:
        error: how messages of the command begin.

    Returns:
        None; or the exit status, if it could not be written: 0 if its reader has gone, as `head`
        does, else 1, and standard error says why.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as trouble:
        drop_output()
        if isinstance(trouble, BrokenPipeError):
            return 0
        _complain(f"{error} the answer could not be written: {trouble.strerror}")
        return 1
    return None


def drop_output() -> None:
    """Drop what standard output could not take, or the interpreter would complain at its end."""
    _end(sys.stdout)


def write_data(data: bytes) -> None:
    """Write bytes to standard output as they are; to a terminal as text that controls nothing."""
    if sys.stdout.isatty():
        sys.stdout.write(data.decode(errors="replace").replace("\r\n", "\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def _complain(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr)


def _end(stream: TextIO | None) -> None:
    """Write what is left; what cannot be written is dropped, or Python would complain at its exit.

    Click puts a wrapper around the stream of a reader that has gone, which ignores that by itself.
    """
    if stream is None:
        return
    try:
        stream.flush()
        plain(stream).flush()  # which raises what a `MessageStream` does not
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
