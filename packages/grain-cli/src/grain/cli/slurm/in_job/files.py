"""Files of a step: what its processes read and write."""

from __future__ import annotations

import os
import stat

from grain.cli.slurm_words.steps import StepRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from threading import Thread
    from typing import Any

    from grain.cli.slurm_words.steps import SrunWords

_PIECE = 1 << 16


class StepFiles:
    """The open files of a step, and the threads that copy between them.

    Args:
        ranks: what the desk has given to each process.
        how: the words of ``srun``.
        launcher: the MPI library whose launcher is the one process of the step; "" for none.

    Attributes:
        unwritten: why output could not be written; "" if it could.
    """

    def __init__(self, ranks: Sequence[Mapping[str, Any]], how: SrunWords, launcher: str) -> None:
        self._ranks = ranks
        self._how = how
        self._launcher = launcher
        self.unwritten = ""
        self._pumps: list[Thread] = []
        self._files: list[int] = []
        self._inputs = [0]  # what is read

    def start(self) -> None:
        """Close what the processes have by now, and copy what goes through this process."""
        for fd in self._files:
            os.close(fd)
        for pump in self._pumps:
            pump.start()

    def finish(self) -> None:
        """Wait until all output is copied, when all writers have ended."""
        for pump in self._pumps:
            if not pump.daemon:
                pump.join()

    def inputs(self) -> list[int]:
        """Return a descriptor for the input of each process.

        Raises:
            StepRefused: a file cannot be opened.
        """
        how, count = self._how.stdin, 1 if self._launcher else len(self._ranks)
        if how.isdecimal() and int(how) < len(self._ranks):
            null = self._opened(os.devnull)
            return [0 if rank == int(how) else null for rank in range(count)]
        if how != "all":
            self._inputs = [self._opened(one["stdin"]) for one in self._ranks[:count]]
            return self._inputs
        if count == 1 or is_empty(0):
            return [0] * count
        from threading import Thread

        pipes = [os.pipe() for _ in range(count)]
        self._files += [reading for reading, _ in pipes]
        ends = [writing for _, writing in pipes]
        self._pumps.append(Thread(target=_broadcast, args=(ends,), daemon=True))
        return [reading for reading, _ in pipes]

    def outputs(self, rank: int) -> tuple[int, int]:
        """Return the descriptors for the output and the errors of a process.

        Raises:
            StepRefused: a file cannot be opened.
        """
        found = self._ranks[rank]
        # The launcher's are those of all ranks, which open files of their own by themselves.
        names = {
            name: found[name]
            for name in ("stdout", "stderr")
            if not self._launcher or len({one[name] for one in self._ranks}) == 1
        }
        out = self._output(names["stdout"], rank, "stdout") if names.get("stdout") else 1
        if names.get("stderr"):
            err = self._output(names["stderr"], rank, "stderr")
        else:
            err = out if names.get("stdout") else 2
        if not self._how.label or self._launcher not in ("", "Open MPI"):
            return out, err
        labelled = [self._labelled(fd, rank) for fd in dict.fromkeys((out, err))]
        return labelled[0], labelled[-1]

    def _output(self, path: str, rank: int, what: str) -> int:
        from grain.files.trust import open_output

        # Processes that share a file append to it, the first one as well, which has emptied it: it
        # may be the last that writes.
        shared = any(path in (one["stdout"], one["stderr"]) for one in self._ranks[:rank])
        more = 0 if shared or self._how.append else os.O_TRUNC
        if more and self._is_input(path):
            raise StepRefused(
                f"srun: error: (Grain) cannot write to {path}: the program reads it, and that "
                "would empty it"
            )
        try:
            fd = open_output(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | more)
        except OSError as error:
            raise StepRefused(
                f"srun: error: Could not open {what} file: {error.strerror}"
            ) from None
        self._files.append(fd)
        return fd

    def _is_input(self, path: str) -> bool:
        """Return True if an output is a file that is read, as of a job's script."""
        try:
            there = os.stat(path)  # noqa: PTH116 - as in `step`
            return stat.S_ISREG(there.st_mode) and any(
                os.path.samestat(there, os.fstat(fd)) for fd in self._inputs
            )
        except OSError:
            return False

    def _labelled(self, target: int, rank: int) -> int:
        from threading import Thread

        reading, writing = os.pipe()
        width = len(str(len(self._ranks) - 1))
        label = b"" if self._launcher else f"{rank:{width}}: ".encode()
        target = os.dup(target)
        self._pumps.append(Thread(target=self._label, args=(reading, target, label)))
        self._files.append(writing)
        return writing

    def _label(self, reading: int, target: int, label: bytes) -> None:
        try:
            _label(reading, target, label)
        except BrokenPipeError:
            pass  # who reads has gone, as of `srun -l ... | head`; the program learns of it
        except OSError as error:
            self.unwritten = error.strerror or str(error)

    def _opened(self, path: str) -> int:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise StepRefused(f"srun: error: Could not open stdin file: {error.strerror}") from None
        self._files.append(fd)
        return fd


def is_empty(fd: int) -> bool:
    """Return True if nothing can be read from a descriptor, as it is closed or /dev/null."""
    try:
        return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev  # noqa: PTH116 - as in `step`
    except OSError:
        return True


def _broadcast(ends: list[int]) -> None:
    """Copy standard input to pipes, until all of their readers have gone."""
    while ends:
        piece = os.read(0, _PIECE)
        if not piece:
            break
        for end in list(ends):
            try:
                left = piece
                while left:
                    left = left[os.write(end, left) :]
            except OSError:
                os.close(end)
                ends.remove(end)
    for end in ends:
        os.close(end)


def _label(reading: int, target: int, label: bytes) -> None:
    """Copy lines, each with a label."""
    with open(reading, "rb") as lines:
        for line in lines:
            if not label and line.startswith(b"["):  # of Open MPI: [1,0]<stdout>:text
                tag, _, line = line.partition(b">:")
                line = tag.partition(b",")[2].partition(b"]")[0] + b": " + line.removeprefix(b" ")
            left = label + (line if line.endswith(b"\n") else line + b"\n")
            while left:
                left = left[os.write(target, left) :]
