"""``python -SE rsh.py EDGE NAME [OPTIONS] HOST WORDS``: what an MPI launcher calls in place of ssh.

It has the process of the root (`grain.worker.gang.root`, which listens at NAME) run the words on a
member, and ends as they end. EDGE is the folder with `grain.edge.machine.peer_user`. Launchers call
one for each member, so it imports nothing else but the standard library.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CALL = "GRAIN_GANG_CALL"
"""The variable with the number of the call of `run_external` that the launcher belongs to."""

ENFORCE = "GRAIN_GANG_ENFORCE"
"""The variable with what that call says of holding programs to their memory: 1, 0 or nothing."""

PROGRAM = "--program"
"""The option for a program of the user, which may be there on some members only, and not a daemon
of a launcher."""

INPUT = "--input"
"""The option after that for a program that gets the standard input of this process."""

_PIECE = 1 << 16  # bytes of it at a time


def main(name: str, arguments: list[str]) -> int:
    """Run the words on the member that the arguments name; return the exit status."""
    from peer_user import is_own  # type: ignore[import-not-found]  # by EDGE

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        # A warning to a whole job: launchers pass it on to their ranks by themselves.
        signal.signal(number, signal.SIG_IGN)
    daemon, reads = PROGRAM not in arguments[:1], INPUT in arguments[1:2]
    while arguments and arguments[0].startswith("-"):
        arguments.pop(0)  # of ssh and rsh, as -x and -q; none that launchers use has a value
    if len(arguments) < 2:
        print("grain-rsh: a launcher calls it as: grain-rsh HOST COMMAND", file=sys.stderr)
        return 255
    order = {
        "host": arguments[0],
        "words": arguments[1:],
        "environment": dict(os.environ),
        "cwd": os.getcwd(),  # noqa: PTH109 - pathlib takes longer than all else here
        "daemon": daemon,
        "call": os.environ.get(CALL, "0"),
        "reads": reads,
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as root:
        try:
            root.connect("\0" + name)
            if not is_own(root):
                print(
                    "grain-rsh: another user has taken the name of Grain's process", file=sys.stderr
                )
                return 255
            root.sendall(json.dumps(order).encode() + b"\n")
            answer = _converse(root, reads)
        except OSError as error:
            print(f"grain-rsh: Grain's process on this host is gone: {error}", file=sys.stderr)
            return 255
    if "status" not in answer:
        print("grain-rsh: Grain's process on this host is gone", file=sys.stderr)
        return 255
    sys.stderr.write(answer["output"])
    status: int = answer["status"]
    return status if status >= 0 else 128 - status


def _converse(root: socket.socket, reads: bool) -> dict[str, Any]:
    """Pass on what the program writes, and what it reads; return the last line of the root."""
    answer: dict[str, Any] = {}
    rest = b""
    # A piece is sent when the one before has been taken.
    may_send = reads
    while True:
        both: list[Any] = [root, 0] if may_send else [root]
        ready = select.select(both, [], [])[0]
        if 0 in ready:
            data = _piece()
            piece = base64.b85encode(data).decode()
            root.sendall(json.dumps({"input": piece}).encode() + b"\n")
            may_send = False
            reads = bool(data)
        if root not in ready:
            continue
        received = root.recv(_PIECE)
        if not received:
            return answer
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            if "stream" in answer:
                _write(answer["stream"], base64.b85decode(answer["data"]))
            elif "taken" in answer:
                may_send = reads and answer["taken"]
                if not answer["taken"]:
                    os.closerange(0, 1)  # who writes to this process learns of it


def _piece() -> bytes:
    """Return what can be read from standard input; b"" at its end."""
    try:
        return os.read(0, _PIECE)
    except OSError:  # it is a directory, or its terminal has gone
        return b""


def _write(fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:  # its reader has gone
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    sys.exit(main(sys.argv[2], sys.argv[3:]))
