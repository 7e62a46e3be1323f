"""A look around: batch systems by their commands, scratch directories, modules, GPUs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grain.cli.batch import BatchError, BatchUnreachable
from grain.cli.batch.command import CommandResult, Commands
from grain.cli.batch.system_commands import system_command
from grain.cli.init import pbs, sge, slurm
from grain.cli.init.document import lines_of
from grain.cli.init.site import Queue, Site, rounded
from grain.files.batch_systems import BATCH_SYSTEMS
from grain.files.processes import user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Before PBS: Slurm may bring its commands, and Grid Engine has some of the same names.
_FIRST = ("slurm", "sge")
_HOSTS = 50  # of Grid Engine, that are asked what they give to jobs
_SCRATCH = ("SCRATCH", "WORK", "WORKDIR", "LOCAL_SCRATCH")


class SystemFound(NamedTuple):
    """The answers of one batch system.

    Attributes:
        trouble: why it cannot be used from here; empty if it can.
    """

    queues: tuple[Queue, ...] = ()
    accounts: tuple[str, ...] = ()
    trouble: str = ""


def survey(env: Mapping[str, str] = os.environ) -> Site:
    """Look around; commands that hang are given up after a minute each."""
    notes = []
    system, finding = "local", SystemFound()
    for name in dict.fromkeys((*_FIRST, *BATCH_SYSTEMS)):
        title, commands = BATCH_SYSTEMS[name].title, BATCH_SYSTEMS[name].commands
        if not all(system_command(command) for command in commands):
            continue
        try:
            answers = _LOOKS.get(name, SystemFound)()
        except BatchUnreachable as error:
            # It is there, and busy. Workers as processes would burden what may be a login node.
            notes.append(
                f"{title} is here, but {error.what}: queues and limits are to be filled in, "
                "or `grain init --force` finds them later."
            )
            system = name
            break
        if answers.trouble:
            notes.append(f"The commands of {title} are here, but: {answers.trouble}")
            continue
        queues = lines_of([queue.name for queue in answers.queues]) or "none is known"
        notes.append(f"{title}, with the queues: {queues}.")
        system, finding = name, answers
        break
    else:
        notes.append("No batch system that answers: workers are processes of this machine.")
    cores, memory, gpus = _machine()
    notes.append(
        f"This machine: {cores} cores, {memory:g} GB" + (f", {gpus} GPUs." if gpus else ", no GPU.")
    )
    places = _scratch(env), _modules(env)
    return Site(system, finding.queues, finding.accounts, *places, cores, memory, tuple(notes))


def _answer(*words: str) -> CommandResult:
    """Return the answer of a command; if it hangs or cannot be run, that is the answer."""
    try:
        return _first_answer(*words)
    except BatchUnreachable as error:
        return CommandResult(1, "", error.what)


def _first_answer(*words: str) -> CommandResult:
    """Return the answer of a command that shows if the batch system is there.

    Raises:
        BatchUnreachable: it hangs.
    """
    try:
        return Commands().run(words)
    except BatchUnreachable:
        raise
    except BatchError as error:
        return CommandResult(1, "", error.what)


def _slurm() -> SystemFound:
    shown = _first_answer(*slurm.SINFO)
    if shown.code:
        return SystemFound(trouble=_first_line(shown))
    queues = slurm.queues(shown.out)
    if not queues:
        return SystemFound(trouble="sinfo lists no partition that is up")
    asked = _answer("sacctmgr", "-nP", "show", "assoc", f"user={user_name()}", "format=account")
    return SystemFound(queues, () if asked.code else slurm.accounts(asked.out))


def _pbs() -> SystemFound:
    listed = _first_answer("qstat", "-Qf")
    if listed.code:
        return SystemFound(trouble=_first_line(listed))
    server, nodes = _answer("qstat", "-Bf"), _answer("pbsnodes", "-a")
    queues = pbs.queues(listed.out, server.out, nodes.out)
    trouble = "" if queues else "qstat -Q lists no queue that takes jobs"
    return SystemFound(queues, trouble=trouble)


def _sge() -> SystemFound:
    listed = _first_answer("qconf", "-sql")
    if listed.code:
        return SystemFound(trouble=_first_line(listed))
    shown = {name: _answer("qconf", "-sq", name).out for name in sge.names(listed.out)[:50]}
    hosts = _answer("qhost", "-q").out
    given = {name: _answer("qconf", "-se", name).out for name in sge.host_names(hosts)[:_HOSTS]}
    queues = sge.queues(shown, hosts, given)
    return SystemFound(queues, trouble="" if queues else "qconf -sql lists no queue")


_LOOKS: dict[str, Callable[[], SystemFound]] = {"slurm": _slurm, "pbs": _pbs, "sge": _sge}


def _first_line(done: CommandResult) -> str:
    lines = (done.err.strip() or done.out.strip()).splitlines()
    text = lines[0] if lines else f"exit code {done.code}"
    return "".join(mark for mark in text if mark.isprintable())[:200]


def _machine() -> tuple[int, float, int]:
    """Return cores, memory in GB and GPUs of this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024**3
    gpus = [path for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return len(os.sched_getaffinity(0)), rounded(memory), len(gpus)


def _scratch(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return directories for temporary files; by their variables, which may differ by node."""
    user = env.get("USER", "")
    named = [f"${name}" for name in _SCRATCH if env.get(name) and _writable(env[name])]
    usual = [f"/scratch/{user}", "/scratch", f"/local/{user}", "/local", "/tmp"]  # noqa: S108
    plain = [path for path in usual if user or path.count("/") == 1 if _writable(path)]
    return tuple(folder for folder in named + plain if folder.isprintable())


def _writable(path: str) -> bool:
    try:
        return Path(path).is_dir() and os.access(path, os.W_OK | os.X_OK)
    except OSError:
        return False


def _modules(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the environment modules by their first names, from the directories that have them."""
    names: set[str] = set()
    for folder in env.get("MODULEPATH", "").split(":"):
        try:
            entries = list(Path(folder).iterdir()) if folder else []
        except OSError:
            continue
        # Other users may write there. No user types a name with control characters.
        found = {entry.name for entry in entries if not entry.name.startswith(".")}
        names |= {name for name in found if name.isprintable()}
    return tuple(sorted(names))
