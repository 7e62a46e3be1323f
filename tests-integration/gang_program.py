"""A member of a gang, as a program: ``seat FILE`` or ``root FILES WORDS``; settings are variables.

``GANG_CPUS`` has the CPUs of this member, ``GANG_MEMORY`` its GB, which are learned unless
``GANG_ENFORCE`` is set,
``GANG_SILENCE`` the seconds after which one is lost, ``GANG_LIMIT`` those of a call and
``GANG_SPAN`` those of the whole run, ``GANG_OUTPUT`` a file, and ``GANG_LAUNCHER`` an MPI flavour
and its launcher. Without, the words are the program itself. If it is ``members``, they are one on
each member, where {number} and {host} stand for its number and the address of the root; if it is
``function``, they are a file of Python, a delayed function in it, and its arguments; if it is
``calls``, the root makes one call after the other, as lines of its input say, and prints a line of
how each has ended. With ``GANG_LEFT``, it says which processes of the program are left then.
"""

from __future__ import annotations

import json
import math
import os
import runpy
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from grain import GVAR
from grain.resource import Cores, Memory, Resource
from grain.worker.call import Call, run_call
from grain.worker.external import (
    STDOUT,
    ExternalError,
    mpi_prefix,
    run_external,
    run_on_members,
)
from grain.worker.gang.session import Seat, keep_seat, lead
from grain.worker.runner.runner import lost_worker
from grain_testkit.local_processes import process_folders

CPUS = json.loads(os.environ["GANG_CPUS"])
RES: Resource = Cores(CPUS)
if "GANG_MEMORY" in os.environ:
    GROUP = None if "GANG_ENFORCE" in os.environ else "learned"
    RES = RES & Memory(float(os.environ["GANG_MEMORY"]), group=GROUP)
# What each call says; elsewhere it holds what is learned.
ENFORCE = True if "GANG_ENFORCE" in os.environ else None
SILENCE = float(os.environ["GANG_SILENCE"])


def announce(path: Path, invitation: bytes) -> None:
    """Write an invitation, whole."""
    aside = path.with_suffix(".new")
    aside.write_bytes(invitation)
    aside.rename(path)


async def ends() -> bool:
    """Return True if the worker of this member is being ended, as a file beside it says."""
    return Path(f"{sys.argv[2]}.ends").exists()


async def body(words: list[str]) -> str:
    """Run the program, and return how it ended."""
    launcher = os.environ.get("GANG_LAUNCHER", "")
    if launcher != "calls":
        limit, output = os.environ.get("GANG_LIMIT", ""), os.environ.get("GANG_OUTPUT", "")
        return await one_call(words, launcher, limit, output)
    line = b""
    async for some in trio.lowlevel.FdStream(os.dup(0)):
        line += some
        if line.endswith(b"\n"):  # the next one comes when this call has ended
            asked, line = json.loads(line), b""
            print(json.dumps(await one_call(**asked)), flush=True)
    return "no more calls"


async def one_call(words: list[str], launcher: str, limit: str, output: str) -> str:
    """Run a program, and return how it ended."""
    seconds, program = float(limit or math.inf), words[0]
    try:
        if launcher == "members":
            return await on_members(words, seconds, output)
        if launcher == "function":
            file, name, *arguments = words
            return str(await runpy.run_path(file)[name].__wrapped__(*arguments))
        if launcher:
            flavour, name = launcher.split(":")
            words = [*mpi_prefix(flavour, launcher=name), *words]  # type: ignore[arg-type]
        done = await run_external(
            words, check=False, stderr=STDOUT, timeout=seconds, enforce=ENFORCE
        )
    except ExternalError as error:
        return f"{type(error).__name__}: {error}{left(program)}"
    return f"{done.returncode}\n{done.stdout_text}{left(program)}"


def left(program: str) -> str:
    """Return a text with the processes of a program that there are, where a test asks for it."""
    if "GANG_LEFT" not in os.environ:
        return ""
    mark, pids = f"GANG_TEST={os.environ['GANG_TEST']}", []
    for entry in process_folders():
        with suppress(OSError):
            words, variables = (
                os.fsdecode((entry / name).read_bytes()).split("\0")
                for name in ("cmdline", "environ")
            )
            if words[0] == program and mark in variables:
                pids.append(entry.name)
    return f", left: {pids}"


async def on_members(words: list[str], limit: float, output: str) -> str:
    """Run the program on each member, and return what each has printed."""
    nodes = GVAR.res.nodes
    done = await run_on_members(
        lambda number: [word.format(number=number, host=nodes[0].address) for word in words],
        timeout=limit,
        enforce=ENFORCE,
        env={"TOLD": "by the call"},
        output=(lambda number: f"{output}.{number}") if output else None,
    )
    ended = zip(done, nodes, strict=True)
    return "\n".join(f"{one.host} {node.address}: {one.stdout_text.strip()}" for one, node in ended)


async def main(*arguments: str) -> None:
    """Be a member; print how it ended."""
    part, place, *words = arguments
    if part == "seat":
        call = Call(keep_seat, (partial(announce, Path(place)), ends), {"silence": SILENCE})
    else:
        seats = []
        for path in map(Path, place.split(",")):
            while not path.exists():
                await trio.sleep(0.02)
            seats.append(Seat(path.name, path.name, RES, path.read_bytes()))
        call = Call(lead, (seats, partial(body, words)), {"silence": SILENCE})
    span = float(os.environ.get("GANG_SPAN") or math.inf) if part == "root" else math.inf
    ended = await run_call(call, RES, part, span, None)
    assert ended is not None
    error = getattr(ended, "error", "")
    lost = lost_worker(error) if isinstance(error, BaseException) else ""
    print(getattr(ended, "value", None) or f"{error!r} {lost}".rstrip(), flush=True)


trio.run(main, *sys.argv[1:])
