"""``python -SE srun.py EDGE RANKS THREADS PROGRAM ...``: what srun starts in place of a rank.

It has the member of its node start the program (see `grain.worker.gang.door`), as ``rank`` with the
option ``--from``. To that it passes its environment and its open files, by a socket of its own: the
streams that srun reads, and what Slurm has opened for the MPI library. Then it waits, and ends as
the program does. If srun or Slurm ends it, the member ends the program. EDGE is the folder with
`grain.edge.machine.peer_user`.

Each rank needs one, so it imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import resource
import secrets
import select
import signal
import socket
import sys
from pathlib import Path

_CALL, _ENFORCE = "GRAIN_GANG_CALL", "GRAIN_GANG_ENFORCE"  # see `grain.worker.gang.rsh`
_DOORS = "GRAIN_GANG_DOORS"
_RANK = str(Path(__file__).with_name("rank.py"))
_MOST = 200  # open files, of the 253 that one message may have


def main(edge: str, words: list[str]) -> int:
    """Have the program run; return its exit status.

    Args:
        edge: the folder with `grain.edge.machine.peer_user`.
        words: ranks and threads of a member, and the program with its arguments.
    """
    from peer_user import is_own  # type: ignore[import-not-found]  # by EDGE

    # The program is sent neither by Grain, and these would end this process.
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    doors = json.loads(os.environ.pop(_DOORS, "{}"))
    node = os.environ.get("SLURMD_NODENAME", "")
    call, enforce = os.environ.get(_CALL, "0"), os.environ.get(_ENFORCE) or None
    cwd = os.getcwd()  # noqa: PTH109 - pathlib takes longer than all else here
    name = f"grain-{secrets.token_hex(12)}"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as hatch,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door,
    ):
        hatch.bind("\0" + name)
        hatch.listen(1)
        try:
            door.connect("\0" + doors[node])
            if not is_own(door):
                raise PermissionError("another user has taken the name of its door")
            start = [sys.executable, "-SEs", _RANK, "--from", edge, name, *words]
            order = {"call": call, "words": start, "cwd": cwd, "enforce": enforce}
            door.sendall(json.dumps(order).encode() + b"\n")
            # The program's process comes for its files, or the door says why it does not.
            while door not in select.select([hatch, door], [], [])[0]:
                taker, _ = hatch.accept()
                with taker:
                    # Any user of this host may connect.
                    if is_own(taker):
                        _hand_over(taker)
                        break
            with door.makefile("rb") as answers:
                answer = json.loads(answers.readline() or b"{}")
        except (OSError, KeyError) as error:
            print(f"grain: no process of Grain takes ranks on {node}: {error}", file=sys.stderr)
            return 255
        if not answer:
            print(f"grain: the process of Grain on {node} is gone", file=sys.stderr)
            return 255
        sys.stderr.write(answer["output"])
        sys.stderr.flush()
    status: int = answer["status"]
    if status < 0:
        # Slurm shows what the program died of, and shall not find a second core.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-status, signal.SIG_DFL) if -status not in _ALWAYS else None
        os.kill(os.getpid(), -status)
    return status


_ALWAYS = (signal.SIGKILL, signal.SIGSTOP)  # have no other action


def _hand_over(taker: socket.socket) -> None:
    """Pass open files and environment to a process of this user."""
    files = [int(fd) for fd in os.listdir("/proc/self/fd")]
    passed = [fd for fd in sorted(files) if _is_passed(fd)][:_MOST]
    content = json.dumps({"files": passed, "environment": dict(os.environ)}).encode()
    socket.send_fds(taker, [b"\n"], passed)
    taker.sendall(content)


def _is_passed(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # that of the listing itself


if __name__ == "__main__":
    sys.path.append(sys.argv[1])
    sys.exit(main(sys.argv[1], sys.argv[2:]))
