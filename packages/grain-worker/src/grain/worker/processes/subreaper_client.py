"""Starting a runner's process, and hearing of its end; `grain.worker.guards` has the theory."""

from __future__ import annotations

import marshal
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

if TYPE_CHECKING:
    from collections.abc import Mapping


class End(NamedTuple):
    """How a process ended, when nothing is left of what it started.

    Attributes:
        returncode: its exit code, or the negative number of the signal; None if nobody saw it.
        max_rss: the largest resident memory of it or of one of its children, in GB.
        left: pids of processes that survive SIGKILL.
    """

    returncode: int | None
    max_rss: float = 0.0
    left: tuple[int, ...] = ()


class Warded:
    """A process below a warden, which ends with this process at the latest.

    Attributes:
        socket: our end of a connection to the process, which has the other one as descriptor 3.
    """

    def __init__(
        self, warden: trio.Process, control: socket.socket, channel: socket.socket
    ) -> None:
        self._warden = warden
        self._control = control
        self.socket = channel

    @classmethod
    async def start(
        cls,
        argv: list[str],
        grace: float,
        *,
        kind: socket.SocketKind = socket.SOCK_STREAM,
        env: Mapping[bytes, bytes] | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> Warded:
        """Start a process.

        Args:
            argv: the program, with its path, and its arguments.
            grace: seconds between SIGTERM and SIGKILL for what it leaves behind.
            kind: of the connection to it.
            env: its environment; ours by default.
            stdout: a descriptor for what it prints; ours by default.
            stderr: the same for its stderr.
        """
        environ: dict[str, str] | None = None
        if env is not None:
            environ = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        control, their_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = Path(__file__).parent.parent / "guards" / "subreaper.py"
        fds = (their_control.fileno(), theirs.fileno())
        try:
            warden = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-S", str(script), *map(str, fds), str(grace), *argv],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environ,
                pass_fds=fds,
                # Ctrl-C at the terminal is for the agent, which then decides.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            control.close()
            raise
        finally:
            theirs.close()
            their_control.close()
        control.setblocking(False)
        return cls(warden, control, ours)

    def end(self, *, hurry: bool = False) -> None:
        """Have everything ended: SIGTERM now, SIGKILL after the grace, or after 0.3 s."""
        with suppress(OSError):
            self._control.send(b"i" if hurry else b"c")

    async def wait(self) -> End:
        """Wait until nothing is left; to be called once."""
        end = End(None)
        left: tuple[int, ...] = ()
        try:
            while True:
                await trio.lowlevel.wait_readable(self._control)
                data = self._take()
                if not data:
                    break  # killed itself
                report = marshal.loads(data)  # noqa: S302 (our child)
                if report[0] == "stuck":
                    left = tuple(report[1])
                    end = End(None, left=left)
                    break
                _, status, _, _, _, max_rss = report
                end = End(os.waitstatus_to_exitcode(status), max_rss * 1024 / 1e9)
                break
        finally:
            self._control.close()
        if not left:
            await self._warden.wait()
        return end

    def _take(self) -> bytes:
        for _ in range(2):
            try:
                return self._control.recv(65536)
            except ConnectionError:
                pass  # it left a word of ours unread; what it said itself comes after that
            except BlockingIOError:
                break
        return b""
