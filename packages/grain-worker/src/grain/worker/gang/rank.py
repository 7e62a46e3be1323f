"""``python -SE rank.py RANKS THREADS PROGRAM ...``: start a rank with what its member has for it.

MPI libraries bind ranks to cores of their own choice, and some give ranks the root's environment.
So they are told to bind nothing, and to start this: it takes the CPUs of its turn among those of
the member, and the member's own variables, and becomes the program (execvp(3)).
"""

from __future__ import annotations

import json
import os
import socket
import sys

_TURNS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID")
_MEMBER = "GRAIN_MEMBER"  # see `grain.worker.gang.programs`; this imports nothing of Grain


def main(ranks: int, threads: int, program: list[str]) -> None:
    """Become the program; does not return.

    Args:
        ranks: of each member.
        threads: CPUs of each rank.
    """
    facts = json.loads(os.environ.get(_MEMBER, "{}"))
    variables = facts.get("variables", {})
    os.environ.update(variables)
    for name in ("OMP_NUM_THREADS", *variables):
        if name.endswith("_NUM_THREADS"):
            os.environ[name] = str(threads)
    turn = next((os.environ[name] for name in _TURNS if name in os.environ), None)
    cpus = facts.get("cpus", [])
    # A member whose programs are bound to nothing has the whole machine here.
    if turn is not None and len(cpus) == ranks * threads:
        first = int(turn) * threads
        os.sched_setaffinity(0, cpus[first : first + threads])
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}, on host {socket.gethostname()}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
