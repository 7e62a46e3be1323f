"""``python -SE rsh.py EDGE NAME [OPTIONS] HOST WORDS``: what an MPI launcher calls in place of ssh.

It has the process of the root (`grain.worker.gang.root`, which listens at NAME) run the words on a
member, and ends as they end. EDGE is the folder with `grain.edge.machine.peer_user`. Launchers call
one for each member, so it imports nothing else but the standard library.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import sys

CALL = "GRAIN_GANG_CALL"
"""The variable with the number of the call of `run_external` that the launcher belongs to."""

ENFORCE = "GRAIN_GANG_ENFORCE"
"""The variable with what that call says of holding programs to their memory: 1, 0 or nothing."""

PROGRAM = "--program"
"""The option for a program of the user, which may be there on some members only, and not a daemon
of a launcher."""


def main(name: str, arguments: list[str]) -> int:
    """Run the words on the member that the arguments name; return the exit status."""
    from peer_user import is_own  # type: ignore[import-not-found]  # by EDGE

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        # A warning to a whole job: launchers pass it on to their ranks by themselves.
        signal.signal(number, signal.SIG_IGN)
    daemon = PROGRAM not in arguments[:1]
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
            answer = {}
            with root.makefile("rb") as answers:
                for line in answers:
                    answer = json.loads(line)
                    if "stream" in answer:
                        _write(answer["stream"], base64.b85decode(answer["data"]))
        except OSError as error:
            print(f"grain-rsh: Grain's process on this host is gone: {error}", file=sys.stderr)
            return 255
    if "status" not in answer:
        print("grain-rsh: Grain's process on this host is gone", file=sys.stderr)
        return 255
    sys.stderr.write(answer["output"])
    status: int = answer["status"]
    return status if status >= 0 else 128 - status


def _write(fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:  # its reader has gone
        sys.exit(128 + signal.SIGPIPE)


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    sys.exit(main(sys.argv[2], sys.argv[3:]))
