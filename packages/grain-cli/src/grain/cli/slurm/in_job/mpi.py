"""MPI programs in a step: the launcher of their library starts the ranks.

srun of Slurm is a PMI server itself. Here the library's own launcher is that: ``mpiexec.hydra`` of
MPICH and Intel MPI (PMI-1), ``mpirun`` of Open MPI (PMIx). It is the one process of the step, and
its ranks begin by `grain.worker.gang.rank`, which gives each its CPUs and variables.

A program whose library cannot be seen, such as a script with mpi4py, is started as any other. It
must not take itself for the only rank then: by `NO_SERVER`, each library ends with an error.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPENMPI, HYDRA = "Open MPI", "MPICH or Intel MPI"

NO_SERVER = {
    # MPICH and Intel MPI: a PMI server that is not there.
    "PMI_PORT": "this_step_has_no_MPI.Use_mpirun_or_srun--mpi=pmi2:1",
    "PMI_ID": "0",
    # Open MPI 5, which does not look for one: a way to send messages that it does not have.
    "OMPI_MCA_pml": "none_in_this_step.Use_mpirun_or_srun--mpi=pmix",
}
"""The variables of processes that are not ranks; the error has the text."""

_OF_OPTION = {"pmi1": HYDRA, "pmi2": HYDRA, "cray_shasta": HYDRA, "pmix": OPENMPI}
_NAMES = {
    OPENMPI: ("mpirun", "mpirun.openmpi", "orterun", "prterun"),
    HYDRA: ("mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun"),
}
_WORDS = {OPENMPI: ("Open MPI", "OpenRTE", "PRRTE", "prrte"), HYDRA: ("HYDRA", "Intel(R) MPI")}
_HEAD = 1 << 18  # bytes of a program, in which linkers write the names of libraries
_PATIENCE = 20.0  # seconds for a program that says what it is


def library_of_option(mpi: str) -> str:
    """Return the library that ``--mpi`` means: `OPENMPI`, `HYDRA`; "" if the program shows it."""
    return _OF_OPTION.get(mpi.partition("_v")[0], "")


def library_in(text: str) -> tuple[str, str]:
    """Return the MPI library in what ldd(1) says of a program, and its path; "" if there is none.

    The number of the interface is 40 or 20 for Open MPI, 12 for MPICH, Intel MPI and MVAPICH.
    """
    for line in text.splitlines():
        name, _, rest = line.strip().partition(" => ")
        path = rest.partition(" (")[0]
        if name.startswith(("libmpich.so", "libmpi.so.12", "libmpifort.so.12")):
            return HYDRA, path
        if name.startswith(("libmpi.so", "libmpi_mpifh.so")):
            return OPENMPI, path
    return "", ""


def library_of(program: str, *, thorough: bool) -> tuple[str, str]:
    """Return the MPI library that a program is linked to, and its path; "" for none.

    Args:
        program: the path of a file, or a name that is looked for.
        thorough: True to find one that the program has by another library, too.
    """
    path = _found(program, os.environ.get("PATH", ""))
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes longer than all else here
            head = file.read(_HEAD)
    except OSError:
        return "", ""
    if not head.startswith(b"\x7fELF") or not (thorough or b"libmpi" in head):
        return "", ""
    return library_in(_said(["ldd", path]))


def launcher_of(library: str, path: str, given: str = "") -> str:
    """Return the path of the launcher of a library; "" if there is none.

    Args:
        path: of the library, whose launcher is preferred; "" if it is not known.
        given: the value of PATH; that of this process by default.
    """
    folders = []
    if path:
        prefix = os.path.dirname(os.path.realpath(path))  # noqa: PTH120
        folders = [os.path.join(os.path.dirname(prefix), "bin")]  # noqa: PTH118, PTH120
    for where in (*folders, given or os.environ.get("PATH", "")):
        for name in _NAMES[library]:
            found = _found(name, where)
            if found and any(word in _said([found, "--version"]) for word in _WORDS[library]):
                return found
    return ""


def launch_words(
    library: str, launcher: str, nodes: Sequence[tuple[int, int]], *, reach: bool, label: bool
) -> list[str]:
    """Return the words that start ranks on the members of a step, before those of a rank.

    Args:
        nodes: members and the ranks on each.
        reach: True if members are reached by the names m0, m1 and so on.
        label: True for the number of the rank before each line.
    """
    ranks = str(sum(count for _, count in nodes))
    hosts = ",".join(
        f"m{member}:{count}" if reach else f"localhost:{count}" for member, count in nodes
    )
    if library == OPENMPI:
        tag = ["--tag-output"] if label else []
        return [launcher, "--host", hosts, "--bind-to", "none", "-n", ranks, *tag]
    if "Intel" in _said([launcher, "--version"]):
        # It takes the first host for so many ranks, then the next one; the last may have fewer.
        each = max(count for _, count in nodes)
        names = ",".join(f"m{member}" for member, _ in nodes) if reach else "localhost"
        tag = ["-prepend-rank"] if label else []
        local = [] if reach else ["-bootstrap", "fork"]
        return [launcher, *local, "-hosts", names, "-ppn", str(each), "-n", ranks, *tag]
    tag = ["-prepend-pattern", "%r: "] if label else []
    local = [] if reach else ["-launcher", "fork"]
    return [launcher, *local, "-hosts", hosts, "-n", ranks, *tag]


def launch_variables(library: str) -> Mapping[str, str]:
    """Return the variables of a launcher: srun starts ranks of root, and binds by itself."""
    if library == OPENMPI:
        return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {"I_MPI_PIN": "0", "HYDRA_RMK": "user"}


def _found(name: str, path: str) -> str:
    """Return the path of a program; "" if it is not there."""
    if "/" in name:
        return name if os.access(name, os.X_OK) else ""
    for folder in path.split(os.pathsep):
        found = os.path.join(folder, name)  # noqa: PTH118
        if os.access(found, os.X_OK):
            return found
    return ""


def _said(words: Sequence[str]) -> str:
    """Return what a program says; "" if it cannot be run."""
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 - the launcher of the user
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")
