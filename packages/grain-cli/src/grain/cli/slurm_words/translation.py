"""Options in lines ``#SBATCH`` of a script become those of ``grain submit``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from grain.cli.slurm_words.grammar import BadUse
from grain.cli.slurm_words.options import directives, merged, of_script
from grain.cli.slurm_words.submission import Around, JobRefused, make_job
from grain.queue.arrays import array_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_CORES = (
    "ntasks", "ntasks-per-node", "cpus-per-task", "mincpus", "mem", "mem-per-cpu", "mem-per-gpu",
    "gres", "gpus", "gpus-per-node", "gpus-per-task",
)  # fmt: skip


class NotTranslated(ValueError):
    """An option that is wrong, or that there is not here; the text is the end of a sentence."""


def submit_options(
    script: str, name: str, now: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the options of a script, by the names of `grain.cli.jobs.submit.submit`.

    Args:
        script: its text.
        name: that of its file, for messages.
        now: Unix seconds.
        environment: the variables of the shell.

    Raises:
        NotTranslated: there is one that ``grain submit`` cannot obey.
    """
    try:
        given = merged([of_script(directives(script, name))])
        job = make_job(given, script, name, (), Around("/", environment, 0, "", "", now))
    except BadUse as error:
        text = str(error).splitlines()[0]
        raise NotTranslated(text.removeprefix("sbatch: ").removeprefix("error: ")) from None
    except JobRefused as error:
        raise NotTranslated(f"{error} ({error.reason})") from None
    export = given.get("export", "ALL").split(",")
    everything = any(part.upper() == "ALL" for part in export)
    if not everything and any("=" not in part and part.upper() != "NONE" for part in export):
        raise NotTranslated("--export of single variables (write ALL, NONE or NAME=VALUE)")
    request = ",".join(f"{kind}={amount}" for kind, amount in job.first_choice.items())
    after = tuple(f"{','.join(map(str, one.jobs))}:{one.until}" for one in job.after)
    found: dict[str, Any] = {
        "name": given.get("job-name"),
        "nodes": job.nodes if job.nodes > 1 else None,
        "ranks": int(job.options["ntasks"]) if "ntasks" in job.options else None,
        "res": request if any(option in given for option in _OF_CORES) else None,
        "time": f"{job.timeout:.0f}s" if job.timeout else None,
        "array": None if job.array is None else array_text(job.array),
        "after": after or None,
        "begin": datetime.fromtimestamp(job.not_before).isoformat() if job.not_before else None,
        "hold": job.held or None,
        "priority": job.priority or None,
        "no_requeue": not job.requeue or None,
        "signal": given.get("signal", "").removeprefix("R") if job.timeout else None,
        "cwd": given.get("chdir"),
        "env": tuple(part for part in export if "=" in part) or None,
        "clean_env": not everything or None,
        # Variables in these are filled in by now.
        "stdout": _literal(job.stdout) if "output" in given else None,
        "stderr": _literal(job.stderr),
        "append": job.append or None,
        "stdin": _literal(job.stdin),
    }
    return {option: value for option, value in found.items() if value}


def _literal(text: str) -> str:
    return text.replace("$", "$$")
