"""Run an external program: the one call by which a tasklet uses a binary.

::

    from grain.worker.external import run_external

    async def energy(path):
        done = await run_external(["xtb", path, "--gfn2"], timeout=3600)
        return parse(done.stdout_text)

It differs from `trio.run_process` in that the program gets the CPUs and GPUs that Grain allocated
to the task (``GVAR.res``), and in that no process survives the call, whatever happens. It works
in any trio program on Linux; without an allocation nothing is bound.

The call is named `run_external`, not ``run``, because a tasklet's module usually has
``grain.delayed.run`` in sight.

The room `processes` has what it consists of: an allocation becomes variables and CPU ids, and the
launcher of an MPI program; small processes start the programs and end them (`guards`).

Map:

- ``run``: `run_external`; the programs that are being ended
- ``on_members``: `run_on_members`, for a program on each worker of a gang
- ``program``: one program: arguments become a request, its report a result or an error
- ``warned``: one program that is warned before its time is over
- ``arguments``: wrong arguments, and what to write
"""

from grain.worker.errors import (
    ExternalError,
    ExternalLostError,
    ExternalMemoryError,
    ExternalStartError,
    ExternalTimeoutError,
)
from grain.worker.external.arguments import CAPTURE, STDOUT
from grain.worker.external.on_members import run_on_members
from grain.worker.external.program import Completed
from grain.worker.external.program import ProgramCall as ProgramCall
from grain.worker.external.program import enforces as enforces
from grain.worker.external.program import run_program_call as run_program_call
from grain.worker.external.run import ending_programs as ending_programs
from grain.worker.external.run import kill_ending_programs as kill_ending_programs
from grain.worker.external.run import run_external
from grain.worker.external.warned import run_warned as run_warned
from grain.worker.processes.mpi import mpi_prefix

__all__ = [
    "CAPTURE",
    "STDOUT",
    "Completed",
    "ExternalError",
    "ExternalLostError",
    "ExternalMemoryError",
    "ExternalStartError",
    "ExternalTimeoutError",
    "mpi_prefix",
    "run_external",
    "run_on_members",
]
