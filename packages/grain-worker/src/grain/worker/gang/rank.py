"""``python -SE rank.py RANKS THREADS PROGRAM ...``: start a rank with what its member has for it.

MPI libraries bind ranks to cores of their own choice, and some give ranks the root's environment.
So they are told to bind nothing, and to start this: it takes the CPUs of its turn among those of
the member, and the member's own variables, and becomes the program (execvp(3)).

With ``--step CPUS COUNT NAME=VALUE ... PROGRAM ...``, it is a process of a job's step: it takes the
CPUs that it is told, and so many variables.

With ``--ranks PLAN PROGRAM ...``, it is a rank of an MPI program in a step: the plan, as base64 of
compressed JSON, has for each rank what srun has planned.

With ``--from EDGE NAME`` in front, it takes over the open files and the environment of the process
that listens at NAME: that which srun has started (`grain.worker.gang.srun`). EDGE is the folder
with `grain.edge.machine.peer_user`.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys

_TURNS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
_MEMBER = "GRAIN_MEMBER"  # see `grain.worker.gang.programs`
_GPUS = "GRAIN_STEP_GPUS"  # see `grain.worker.steps.orders`; mostly this imports nothing of Grain


_ABOVE = 512  # files are kept above, until those that they replace are closed


def main(ranks: int, threads: int, program: list[str], turns: tuple[str, ...] = _TURNS) -> None:
    """Become the program; does not return.

    Args:
        ranks: of each member.
        threads: CPUs of each rank.
        turns: the variables of which the first there is has the number of this rank on its member.
    """
    facts = json.loads(os.environ.get(_MEMBER, "{}"))
    variables = facts.get("variables", {})
    os.environ.update(variables)
    for name in ("OMP_NUM_THREADS", *variables):
        if name.endswith("_NUM_THREADS"):
            os.environ[name] = str(threads)
    turn = next((os.environ[name] for name in turns if name in os.environ), None)
    cpus = facts.get("cpus", [])
    # A member whose programs are bound to nothing has the whole machine here.
    if turn is not None and len(cpus) == ranks * threads:
        first = int(turn) * threads
        os.sched_setaffinity(0, cpus[first : first + threads])
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        sys.exit(f"{program[0]}: {error.strerror}, on host {socket.gethostname()}")


def become_step(cpus: str, variables: list[str], program: list[str]) -> None:
    """Become a process of a step; does not return.

    Args:
        cpus: ids with commas between them; "" to be bound as this process is.
        variables: as ``NAME=VALUE``.
        program: the program and its arguments.
    """
    wanted = {int(cpu) for cpu in cpus.split(",") if cpu}
    # A member whose programs are bound to nothing has other CPUs than were allocated.
    if wanted and wanted <= os.sched_getaffinity(0):
        os.sched_setaffinity(0, wanted)
    for variable in variables:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    os.environ.update(_devices(os.environ.pop(_GPUS, "")))
    os.environ["SLURM_TASK_PID"] = str(os.getpid())
    if mask := os.environ.get("SLURM_UMASK"):  # that of srun
        os.umask(int(mask, 8))
    try:
        os.execvp(program[0], program)  # noqa: S606
    except OSError as error:
        name = os.environ.get("SLURM_TOPOLOGY_ADDR") or socket.gethostname().partition(".")[0]
        sys.stderr.write(f"slurmstepd-{name}: error: execve(): {program[0]}: {error.strerror}\n")
        sys.exit(error.errno or 1)


def _devices(text: str) -> dict[str, str]:
    """Return the variables of devices of a process on another member than the first.

    Args:
        text: the places of its GPUs among those of the job here; after a colon their ids, where the
            first member does not name its own by numbers.
    """
    places, _, ids = text.partition(":")
    facts = json.loads(os.environ.get(_MEMBER, "{}"))
    if not text or not (ids or facts.get("named")) or "grain" not in facts:
        return {}  # there are none, or all are named by numbers, which the first member knows
    sys.path.append(facts["grain"])
    from grain.resource import gpu_variables

    chosen = places if facts["named"] else ids
    return gpu_variables([int(one) for one in chosen.split(",") if one], facts["variables"])


def take_over(name: str) -> None:
    """Take the open files and the environment of the process that listens at a name."""
    from peer_user import is_own  # type: ignore[import-not-found]  # by EDGE

    member = os.environ.get(_MEMBER, "{}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as giver:
        giver.connect("\0" + name)
        if not is_own(giver):
            sys.exit("grain: the process that gives the files is another user's")
        _, received, _, _ = socket.recv_fds(giver, 1, 253)
        with giver.makefile("rb") as content:
            given = json.loads(content.read())
    kept = []
    for fd in received:
        kept.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE))
        os.close(fd)
    for fd, number in zip(kept, given["files"], strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    os.environ.clear()
    os.environ.update(given["environment"])
    os.environ[_MEMBER] = member


def become_rank(text: str, program: list[str]) -> None:
    """Become a rank of an MPI program in a step; does not return.

    Args:
        text: the plan.
        program: the program and its arguments.
    """
    import zlib
    from base64 import b64decode

    plan = json.loads(zlib.decompress(b64decode(text)))
    number = next(int(os.environ[name]) for name in _RANKS if name in os.environ)
    own = plan["ranks"][number]
    for name, value in plan["threads"].items():
        if os.environ.get(name) == value:
            os.environ[name] = own["threads"]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if plan["append"] else os.O_TRUNC)
    for place, name in (1, "stdout"), (2, "stderr"):
        if own[name]:
            os.dup2(os.open(own[name], flags, 0o666), place)
            if name == "stdout" and not own["stderr"]:
                os.dup2(1, 2)
    variables = [f"{name}={value}" for name, value in own["variables"].items()]
    become_step(",".join(map(str, own["cpus"])), variables, program)


if __name__ == "__main__":
    if sys.argv[1] == "--ranks":
        become_rank(sys.argv[2], sys.argv[3:])
    if sys.argv[1] == "--step":
        count = 4 + int(sys.argv[3])
        become_step(sys.argv[2], sys.argv[4:count], sys.argv[count:])
    if sys.argv[1] == "--from":
        sys.path.append(sys.argv[2])
        take_over(sys.argv[3])
        main(int(sys.argv[4]), int(sys.argv[5]), sys.argv[6:], ("SLURM_LOCALID",))
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
