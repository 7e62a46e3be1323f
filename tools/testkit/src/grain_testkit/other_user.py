"""Another user of this host, as whom tests attack: needs root, and a Python that others may run."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER = 65534
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or ""
needs_other_user = pytest.mark.skipif(
    os.geteuid() != 0 or not PYTHON or not shutil.which("setpriv"),
    reason="acting as another user needs root, setpriv and a Python outside root's home",
)


def command_of_other(code: str, *arguments: str) -> list[str]:
    """Return the command that runs Python code as the other user."""
    user = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups"]
    return [*user, PYTHON, "-c", code, *arguments]


def as_other(code: str, *arguments: str) -> str:
    """Run Python code as the other user; return its output."""
    words = command_of_other(code, *arguments)
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", check=True)
    return done.stdout


_CONNECT = r"""
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(60)
    sock.connect(sys.argv[1].replace("@", chr(0), 1))
    got = b""
    try:
        sock.sendall(sys.argv[2].encode())
        while data := sock.recvmsg(65536, 4096)[0]:
            got += data
    except (ConnectionResetError, BrokenPipeError):
        pass
print(got.decode(), end="")
"""


def received_by_other(address: str, said: str = '{"call": 0}\n') -> str:
    """Return all that the other user receives at a Unix socket until that is closed.

    Args:
        address: a path, or "@" and a name without a file.
        said: what it sends.
    """
    return as_other(_CONNECT, address, said)


_LISTEN = r"""
import socket, sys
with socket.socket(socket.AF_UNIX) as sock:
    sock.bind(chr(0) + sys.argv[1])
    sock.listen()
    print("listening", flush=True)
    sock.settimeout(60)
    one, _ = sock.accept()
    one.settimeout(60)
    got = b""
    try:
        while data := one.recvmsg(65536, 4096)[0]:
            got += data
    except ConnectionResetError:
        pass
print(got.decode(), flush=True)
"""


@contextmanager
def other_listens_at(name: str) -> Iterator[subprocess.Popen[str]]:
    """Have the other user listen at a name without a file.

    Yields:
        Its process, which prints all that its first guest sends, and ends.
    """
    words = command_of_other(_LISTEN, name)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n"
        try:
            yield process
        finally:
            process.kill()
