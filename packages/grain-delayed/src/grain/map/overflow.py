"""Outputs of jobs that are too large for memory: files that the workers write, and where they are.

They are in a folder for each call, in the user's state directory, which workers share. The call
removes it at its end; what a killed call has left goes at the start of a later one on the same
host, as only there it is known to be dead.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.eventlog.names import state_folder
from grain.files.processes import this_process
from grain.files.trust import check_private, private_folder
from grain.files.whole import naming
from grain.queue.dispatchers import fate_of
from grain.queue.records import ProcessRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PIECE = 1 << 18
"""Bytes that are copied at a time."""


@dataclass(frozen=True)
class LargeOutput:
    """An output of a job in a file, which goes when its pieces were taken. Its length is in bytes.

    Attributes:
        change: makes other pieces of those of the file, such as with a tag before each line.
    """

    path: Path
    size: int
    change: Callable[[Iterator[bytes]], Iterator[bytes]] = iter

    def __len__(self) -> int:
        """Return the bytes of the file."""
        return self.size

    def pieces(self) -> Iterator[bytes]:
        """Yield the output in pieces of `PIECE` or so; none of them ends within a character.

        Raises:
            OSError: the file cannot be read; the error names it.
        """
        return self.change(self._read())

    def _read(self) -> Iterator[bytes]:
        try:
            with naming(self.path), self.path.open("rb") as file:
                while piece := file.read(PIECE):
                    # The following bytes of a character in UTF-8: a terminal gets text.
                    while (after := file.peek(1)[:1]) and 0x80 <= after[0] < 0xC0:
                        piece += file.read(1)
                        if len(piece) >= PIECE + 3:
                            break
                    yield piece
        finally:
            self.remove()

    def missing(self) -> str:
        """Return why the file is not there as a whole, as a clause; "" if it is."""
        try:
            size = self.path.stat().st_size
        except OSError as error:
            return f"{self.path} cannot be read: {error.strerror}"
        return "" if size == self.size else f"{self.path} has {size} of its {self.size} bytes"

    def remove(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


Output = bytes | LargeOutput
"""An output of a job: what was captured, or the file that has it."""


def pieces_of(output: Output) -> Iterator[bytes]:
    """Return the pieces of an output, as `LargeOutput.pieces` does."""
    return output.pieces() if isinstance(output, LargeOutput) else iter((output,))


@contextmanager
def overflow_folder(*, shared: bool) -> Iterator[Path | None]:
    """Have a folder for large outputs during the block; None if the user has no home directory.

    Args:
        shared: True if workers on other hosts write there. Then the folder is made now, as far as
            that can be: on NFS, a host that has looked for it in vain would not see for a minute
            that another host has made it. Otherwise the first large output makes it.
    """
    try:
        place = state_folder() / "outputs"
    except RuntimeError:
        yield None
        return
    sweep(place)
    me = this_process()
    # The name of the host comes last, as dots may be in it.
    owner = f"{me.pid}.{me.start}.{me.space}.{me.boot}.{me.machine}.{me.host}"
    folder = place / f"{secrets.token_hex(4)}.{owner}"
    if shared:
        with suppress(OSError):  # which is that of a job, should it have a large output
            private_folder(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(place: Path) -> None:
    """Remove the folders of processes that are known to be dead."""
    try:
        check_private(place)
        names = os.listdir(place)
    except OSError:
        return
    for name in names:
        with suppress(ValueError):
            _, pid, start, space, boot, machine, host = name.split(".", 6)
            process = ProcessRecord(
                host=host, pid=int(pid), boot=boot, machine=machine, space=int(space),
                pid_began=int(start),
            )  # fmt: skip
            if fate_of(process) in ("gone", "rebooted"):
                shutil.rmtree(place / name, ignore_errors=True)
