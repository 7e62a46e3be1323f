"""The jobs of workers and missions, from the configuration. Pure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from grain.cli.batch.base import BatchJob
from grain.cli.batch.scripts.shell import interpreter
from grain.config import (
    ConfigError,
    Mistake,
    WorkerSettings,
    format_walltime,
    option_words,
    stamp,
)

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from grain.config import Config

# Seconds between the warning signal and the time at which the worker must have ended. A worker
# watches its walltime itself; the signal is for jobs without one. Slurm may send it up to a minute
# early.
MARGIN = 60


def worker_job(
    config: Config,
    *,
    now: datetime.datetime,
    folder: str,
    path: str = "",
    extra_args: Sequence[str] = (),
    most_memory: float | None = None,
) -> BatchJob:
    """Describe a worker's job.

    Args:
        folder: absolute directory for a relative log file.
        path: the directory of ``grain-worker`` on this host, or empty.
        most_memory: the most memory (GB) that the worker may own where none is configured.
    """
    worker, asked = config.worker, config.worker.script
    log = stamp(worker.log_file, now)
    return BatchJob(
        name=stamp(worker.name, now),
        log_file=str(Path(folder, log)) if log else "",
        script=asked,
        main=_command(config, most_memory, '"$grain_worker"' if path else "grain-worker"),
        path=path,
        time_left=None if asked.walltime is None else asked.walltime - worker.reserve.walltime,
        warning=warning_lead(asked.walltime, worker.reserve.walltime),
        grace=worker.reserve.walltime,
        notes=_notes(config),
        env=tuple(worker.env.items()),
        extra_args=tuple(extra_args),
    )


def warning_lead(walltime: int | None, reserve: int) -> int:
    """Return the seconds between the batch system's warning and the end of the job.

    The warning comes a minute before the worker must have ended; in short jobs, after half of the
    time.
    """
    lead = reserve + MARGIN
    return lead if walltime is None else max(min(lead, walltime // 2), reserve)


def resources(config: Config, most_memory: float | None = None) -> dict[str, Any]:
    """Return the resources that the worker is to own, as data by kind.

    ``"auto"`` makes the worker detect the amount on its node. With
    ``{"auto": {"less": 0.5, "most": 8}}`` it detects, subtracts 0.5, and takes 8 at most. Cores are
    always detected: the CPU ids of the job are known only on the node. Memory and walltime are the
    configured ones less the reserve, or detected. A configured walltime is left out here, as
    the script counts it down.
    """
    worker, asked = config.worker, config.worker.script
    held = worker.reserve
    offer: dict[str, Any] = {
        "Cores": "auto" if asked.cores is None else {"auto": {"most": asked.cores}},
        "GPUs": "auto",
    }
    if asked.memory is not None:
        offer["Memory"] = round(asked.memory - held.memory, 6)
    else:
        most = {} if most_memory is None else {"most": round(most_memory, 6)}
        offer["Memory"] = {"auto": {"less": held.memory, **most}}
    if asked.walltime is None:
        offer["WTime"] = {"auto": {"less": held.walltime}}
    return {**offer, **worker.res}


def _command(config: Config, most_memory: float | None, program: str) -> str:
    text = json.dumps(resources(config, most_memory))
    res = shlex.quote(text)
    if config.worker.script.walltime is not None and "WTime" not in config.worker.res:
        res = shlex.quote(text[:-1] + ', "WTime": ') + '"$grain_left"' + shlex.quote("}")
    words = [program, f"--url {shlex.quote(config.worker.dial)}", f"--res {res}"]
    words.append('--name "$grain_name"')
    if (nodes := config.worker.script.nodes) > 1:
        # It starts a worker on each, with the options that it has itself.
        words.append(f'--nodes {nodes} --log "$grain_log"')
    words += option_words(WorkerSettings, config.worker)
    return " \\\n    ".join(words)


def _notes(config: Config) -> tuple[str, ...]:
    asked, held = config.worker.script, config.worker.reserve
    memory = f"{held.memory:g} GB" + ("" if asked.memory is None else f" of {asked.memory:g}")
    time = format_walltime(held.walltime)
    whole = "" if asked.walltime is None else f" of {format_walltime(asked.walltime)}"
    return (f"Reserved for the worker itself (worker.reserve): {memory}, {time}{whole}.",)


def mission_job(
    config: Config, *, now: datetime.datetime, folder: str, extra_args: Sequence[str] = ()
) -> BatchJob:
    """Describe a mission's job.

    The mission runs in the directory of its submission, and finds the configuration by the variable
    ``GRAIN_CONFIG``. The job has no early warning: SIGUSR1 would kill a mission.

    Args:
        folder: absolute directory for a relative log file.

    Raises:
        ConfigError: ``head.cmd`` is empty.
    """
    head = config.head
    if not head.cmd.strip():
        text = 'found no command, expected what starts the mission, as in "python mission.py"'
        raise ConfigError(config.source or "the defaults", (Mistake("head.cmd", text),))
    log = stamp(head.main_log_file, now)
    shell = interpreter(head.script.shebang)
    setting = f"env GRAIN_CONFIG={shlex.quote(config.source)} " if config.source else ""
    return BatchJob(
        name=stamp(head.name, now),
        log_file=str(Path(folder, log)) if log else "",
        script=msgspec.structs.replace(head.script, nodes=1),
        main=f"{setting}{shell} -c {shlex.quote(head.cmd.strip())}",
        extra_args=tuple(extra_args),
    )
