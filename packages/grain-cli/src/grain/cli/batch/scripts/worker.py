"""The job that a worker is, out of the configuration. Pure."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grain.cli.batch.base import BatchJob
from grain.config import format_walltime, stamp

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    from grain.config import Config

# How long before the worker has to be done it is told so by signal. It knows by itself, too; the
# signal is for jobs whose end it cannot know. Slurm may send it up to a minute early.
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
        config: The configuration.
        now: The time of submission.
        folder: Absolute directory that a relative log file starts from.
        path: Directory in which ``grain-worker`` lies here, or empty.
        extra_args: Further options for the batch system.
        most_memory: GB that the worker may own at most, where no amount is configured.
    """
    worker, asked = config.worker, config.worker.script
    log = stamp(worker.log_file, now)
    return BatchJob(
        name=stamp(worker.name, now),
        log_file=str(Path(folder, log)) if log else "",
        script=asked,
        main=_command(config, most_memory),
        path=path,
        time_left=None if asked.walltime is None else asked.walltime - worker.held_back.walltime,
        warning=warning_lead(asked.walltime, worker.held_back.walltime),
        notes=_notes(config),
        extra_args=tuple(extra_args),
    )


def warning_lead(walltime: int | None, held_back: int) -> int:
    """How long before a job's end the batch system is to warn, in seconds.

    A minute before the worker has to be done; in short jobs not before half of the time is over.
    """
    lead = held_back + MARGIN
    return lead if walltime is None else max(min(lead, walltime // 2), held_back)


def resources(config: Config, most_memory: float | None = None) -> dict[str, Any]:
    """What the worker is told to own, as data by kind of resource.

    ``"auto"`` is for the worker to find out where it runs. ``{"auto": {"less": 0.5, "most": 8}}``
    is what it finds, less 0.5, and 8 at most. So are cores always: only there is it known which
    CPU ids the job has. Memory and walltime are those of the configuration less what is held
    back, or found out if they are not configured. A walltime that is configured is left out here,
    as the script counts it down.
    """
    worker, asked = config.worker, config.worker.script
    held = worker.held_back
    found: dict[str, Any] = {
        "Cores": "auto" if asked.cores is None else {"auto": {"most": asked.cores}},
        "GPUs": "auto",
    }
    if asked.memory is not None:
        found["Memory"] = round(asked.memory - held.memory, 6)
    else:
        most = {} if most_memory is None else {"most": round(most_memory, 6)}
        found["Memory"] = {"auto": {"less": held.memory, **most}}
    if asked.walltime is None:
        found["WTime"] = {"auto": {"less": held.walltime}}
    return {**found, **worker.res}


def _command(config: Config, most_memory: float | None) -> str:
    text = json.dumps(resources(config, most_memory))
    res = shlex.quote(text)
    if config.worker.script.walltime is not None and "WTime" not in config.worker.res:
        res = shlex.quote(text[:-1] + ', "WTime": ') + '"$grain_left"' + shlex.quote("}")
    words = ["grain-worker", f"--url {shlex.quote(config.worker.dial)}", f"--res {res}"]
    words.append('--name "$grain_name"')
    if config.worker.contextmod:
        words.append(f"--context {shlex.quote(config.worker.contextmod)}")
    return " \\\n    ".join(words)


def _notes(config: Config) -> tuple[str, ...]:
    asked, held = config.worker.script, config.worker.held_back
    memory = f"{held.memory:g} GB" + ("" if asked.memory is None else f" of {asked.memory:g}")
    time = format_walltime(held.walltime)
    whole = "" if asked.walltime is None else f" of {format_walltime(asked.walltime)}"
    return (f"Held back for the worker itself (worker.held_back): {memory}, {time}{whole}.",)
