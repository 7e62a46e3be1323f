"""A member of a gang, as a program: ``seat FILE`` or ``root FILES WORDS``; settings are variables.

``GANG_CPUS`` has the CPUs of this member, ``GANG_SILENCE`` the seconds after which one is lost, and
``GANG_LAUNCHER`` an MPI flavour and its launcher; without, the words are the program itself.
"""

from __future__ import annotations

import json
import math
import os
import sys
from functools import partial
from pathlib import Path

import trio

from grain.resource import Cores
from grain.worker.call import Call, run_call
from grain.worker.external import STDOUT, ExternalError, mpi_prefix, run_external
from grain.worker.gang.session import Seat, keep_seat, lead

CPUS = json.loads(os.environ["GANG_CPUS"])
SILENCE = float(os.environ["GANG_SILENCE"])


def announce(path: Path, invitation: bytes) -> None:
    """Write an invitation, whole."""
    aside = path.with_suffix(".new")
    aside.write_bytes(invitation)
    aside.rename(path)


async def body(words: list[str]) -> str:
    """Run the program, and return how it ended."""
    if launcher := os.environ.get("GANG_LAUNCHER"):
        flavour, name = launcher.split(":")
        words = [*mpi_prefix(flavour, launcher=name), *words]  # type: ignore[arg-type]
    limit = os.environ.get("GANG_LIMIT")
    try:
        done = await run_external(
            words,
            check=False,
            stderr=STDOUT,
            timeout=float(limit) if limit else None,
            env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
        )
    except ExternalError as error:
        return f"{type(error).__name__}"
    return f"{done.returncode}\n{done.stdout_text}"


async def main(*arguments: str) -> None:
    """Be a member; print how it ended."""
    part, place, *words = arguments
    if part == "seat":
        call = Call(keep_seat, (partial(announce, Path(place)),), {"silence": SILENCE})
    else:
        seats = []
        for path in map(Path, place.split(",")):
            while not path.exists():
                await trio.sleep(0.02)
            seats.append(Seat(path.name, path.read_bytes(), len(CPUS)))
        call = Call(lead, (seats, partial(body, words)), {"silence": SILENCE})
    ended = await run_call(call, Cores(CPUS), part, math.inf, None)
    assert ended is not None
    print(getattr(ended, "value", None) or repr(getattr(ended, "error", "")), flush=True)


trio.run(main, *sys.argv[1:])
