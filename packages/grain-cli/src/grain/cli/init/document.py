"""The text of a configuration for a site. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grain.cli.init.site import Queue, Site
from grain.config import format_walltime

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = 86400
"""Seconds of a worker where its queue allows more, or says nothing."""

_TITLES = {
    "slurm": "Slurm", "pbs": "PBS", "sge": "Grid Engine", "lsf": "LSF", "htcondor": "HTCondor",
    "flux": "Flux", "oar": "OAR",
}  # fmt: skip
# What jobs charge an account by.
_ACCOUNT = {"slurm": "--account={}", "pbs": "-A {}", "sge": "-A {}"}
_GPU = {"slurm": "--gres=gpu:{}", "pbs": "-l select=1:ncpus={cores}:mem={memory}gb:ngpus={}"}


def title(system: str) -> str:
    """Return the name of a batch system for people."""
    return _TITLES.get(system, system)


def document(site: Site, queue: Queue | None, account: str = "", gpus: Queue | None = None) -> str:
    """Return the text of ``grain.toml``.

    Args:
        site: What was found.
        queue: The queue of the workers; None if none is known.
        account: The account to charge; empty for the default one.
        gpus: The queue of a second sort of workers, with GPUs.
    """
    parts = [_head(site)]
    parts.append(_script(site, queue, account))
    if gpus is not None and queue is not None:
        parts.append(_shapes(site, gpus, account))
    return "\n".join(parts)


def _head(site: Site) -> str:
    notes = [f"#   {note}" for note in site.notes]
    lines = [
        "# Written by `grain init`. `grain up --dry` shows what comes of it. Every key",
        "# is explained in docs/config.md.",
        *(["# Found here:", *notes] if notes else []),
        "",
        f"system = {_quoted(site.system)}",
        "",
        "# Where missions, workers and the grain command meet: a file that all nodes see. This is",
        "# the default.",
        '#address = "edge://$HOME/.local/share/edge-file-default"',
        "",
    ]
    return "\n".join(lines)


def _script(site: Site, queue: Queue | None, account: str) -> str:
    lines = ["# The job of a worker: one node, or a part of it.", "[script]"]
    if site.system == "local":
        lines += [
            f"# Here are {site.cores} cores and {site.memory:g} GB. A worker has what is free, or:",
            f"#cores = {site.cores}",
            f"#memory = {site.memory:g}",
        ]
    elif queue is None:
        lines += [
            "# Nothing is known of the nodes: take the # away and put in what one has.",
            '#queue = ""',
            '#walltime = "12:00:00"',
            "#cores = 16",
            "#memory = 60",
        ]
    else:
        lines += _request(site, queue)
    if account and site.system in _ACCOUNT:
        lines.append(f"extra_args = [{_quoted(_ACCOUNT[site.system].format(account))}]")
    if len(site.accounts) > 1:
        lines.append(f"# Your accounts: {', '.join(site.accounts)}.")
    lines += _set_up(site)
    return "\n".join(lines) + "\n"


def _request(site: Site, queue: Queue) -> list[str]:
    """Return the lines for a queue, and a comment on the others."""
    walltime = min(queue.limit or DAY, DAY)
    lines = [
        f"queue = {_quoted(queue.name)}",
        f"walltime = {_quoted(format_walltime(walltime))} # {_limit(queue)}",
    ]
    if queue.cores:
        lines.append(f"cores = {queue.cores} # all of a node")
    else:
        lines.append("#cores = 16 # of a node; not known here")
    if queue.memory:
        lines.append(
            f"memory = {queue.memory:g} # GB, all of a node; a little less may start sooner"
        )
    else:
        lines.append("#memory = 60 # GB; not known here")
    others = [other for other in site.queues if other.name != queue.name]
    if others:
        lines.append("# Others:")
        lines += [f"#   {_described(other)}" for other in others[:20]]
        if len(others) > 20:
            lines.append(f"#   and {len(others) - 20} more")
    return lines


def _shapes(site: Site, gpus: Queue, account: str) -> str:
    """Return two shapes of workers: those of [script], and those with GPUs."""
    option = _GPU.get(site.system, "")
    memory = f"{gpus.memory or 1:g}"
    args = [option.format(gpus.gpus, cores=gpus.cores or 1, memory=memory)] if option else []
    if account and site.system in _ACCOUNT:
        # A list of a shape replaces that of [script].
        args.insert(0, _ACCOUNT[site.system].format(account))
    lines = [
        "# Two sorts of workers, for `grain up -s gpu`; what [script] says holds for both.",
        "[[shape]]",
        'name = "cpu"',
        "",
        "[[shape]]",
        'name = "gpu"',
        *_request(Site(site.system), gpus),
        f"gpus = {gpus.gpus}",
        f"extra_args = {json.dumps(args)}",
    ]
    return "\n".join(lines) + "\n"


def _set_up(site: Site) -> list[str]:
    """Return a comment with a set-up that suits the site."""
    lines = [
        "# Shell commands before the worker; those with `defer` run after it.",
        "#setup_cleanup = '''",
    ]
    if site.modules:
        lines.append(f"#module load {site.modules[0]}")
    for folder in site.scratch[:1]:
        lines += [
            f"#export SCRATCH_DIR={folder}/grain-$$",
            "#mkdir -p $SCRATCH_DIR",
            "#defer rm -r $SCRATCH_DIR",
        ]
    lines.append("#'''")
    if site.modules:
        shown = ", ".join(site.modules[:12])
        more = f", and {len(site.modules) - 12} more" if len(site.modules) > 12 else ""
        lines.append(f"# Modules here: {shown}{more}.")
    if site.scratch:
        lines.append(f"# Scratch directories that you may write to: {', '.join(site.scratch)}.")
    return lines


def _described(queue: Queue) -> str:
    parts = [_limit(queue)]
    if queue.nodes:
        parts.append(f"{queue.nodes} node{'s' if queue.nodes > 1 else ''}")
    if queue.cores:
        parts.append(f"{queue.cores} cores")
    if queue.memory:
        parts.append(f"{queue.memory:g} GB")
    if queue.gpus:
        parts.append(f"{queue.gpus} GPUs{f' ({queue.gpu})' if queue.gpu else ''}")
    return f"{queue.name}: {', '.join(parts)}"


def _limit(queue: Queue) -> str:
    return "no limit known" if queue.limit is None else f"{format_walltime(queue.limit)} at most"


def _quoted(text: str) -> str:
    # JSON's strings are TOML's, for what is printable.
    return json.dumps("".join(mark for mark in text if mark.isprintable()), ensure_ascii=False)


def lines_of(items: Sequence[str], most: int = 8) -> str:
    """Return names as a text of at most so many."""
    more = f", and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
