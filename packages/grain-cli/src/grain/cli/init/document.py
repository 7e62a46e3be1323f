"""The text of a configuration for a site. Pure.

A TOML library writes it: names come from the batch system and from directories that others may
write to, and none of them may become a setting.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.items import Comment, Trivia

from grain.cli.init.site import Queue, Site
from grain.config import format_walltime
from grain.files.batch_systems import facts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tomlkit.container import Container
    from tomlkit.items import AoT, Table

DAY = 86400
"""Seconds of a worker where its queue allows more, or says nothing."""


def document(site: Site, queue: Queue | None, account: str = "", gpus: Queue | None = None) -> str:
    """Return the text of ``grain.toml``.

    Args:
        queue: the queue of the workers; None if none is known.
        account: the account to charge; empty for the default one.
    """
    text = tomlkit.document()
    _head(text, site)
    script = tomlkit.table()
    _script(script, site, queue, account)
    text.append("script", script)
    if gpus is not None and queue is not None:
        text.append("shape", _shapes(site, gpus))
    return tomlkit.dumps(text)


def _head(text: Container, site: Site) -> None:
    _remark(text, "Written by `grain init`. `grain up --dry` shows what comes of it. Every key")
    _remark(text, "is explained in docs/config.md.")
    if site.notes:
        _remark(text, "Found here:")
    for note in site.notes:
        _remark(text, f"  {note}")
    text.add(tomlkit.nl())
    text.add("system", site.system)
    text.add(tomlkit.nl())
    where = "Where missions, workers and the grain command meet: a file that all nodes see. This is"
    _remark(text, where)
    _remark(text, "the default.")
    _off(text, _setting("address", "edge://$HOME/.local/share/edge-file-default"))


def _script(script: Table, site: Site, queue: Queue | None, account: str) -> None:
    _remark(script, "The job of a worker: one node, or a part of it.")
    if site.system == "local":
        has = f"Here are {site.cores} cores and {site.memory:g} GB. A worker has what is free, or:"
        _remark(script, has)
        _off(script, _setting("cores", site.cores))
        _off(script, _setting("memory", _whole(site.memory)))
    elif queue is None:
        _remark(script, "Nothing is known of the nodes: take the # away and put in what one has.")
        for name, value in (("queue", ""), ("walltime", "12:00:00"), ("cores", 16), ("memory", 60)):
            _off(script, _setting(name, value))
    else:
        _request(script, site, queue)
    facts = facts_of(site.system)
    if facts.launchers:
        _remark(script, "A worker on each of several nodes of one job, for tasks that need this.")
        _off(script, _setting("nodes", 4))
    if account and facts.account:
        script.add("extra_args", [facts.account.format(account)])
    if len(site.accounts) > 1:
        _remark(script, f"Your accounts: {', '.join(site.accounts)}.")
    _set_up(script, site)


def _request(table: Table, site: Site, queue: Queue) -> None:
    """Write what jobs ask of a queue, and a comment on the others."""
    walltime = min(queue.limit or DAY, DAY)
    table.add("queue", queue.name)
    _set(table, "walltime", format_walltime(walltime), _limit(queue))
    if queue.cores:
        _set(table, "cores", queue.cores, "all of a node")
    else:
        _off(table, f"{_setting('cores', 16)} # of a node; not known here")
    if queue.memory:
        remark = "GB, all of a node; a little less may start sooner"
        _set(table, "memory", _whole(queue.memory), remark)
    else:
        _off(table, f"{_setting('memory', 60)} # GB; not known here")
    others = [other for other in site.queues if other.name != queue.name]
    if others:
        _remark(table, "Others:")
    for other in others[:20]:
        _remark(table, f"  {_described(other)}")
    if len(others) > 20:
        _remark(table, f"  and {len(others) - 20} more")


def _shapes(site: Site, gpus: Queue) -> AoT:
    """Return two shapes of workers: those of [script], and those with GPUs."""
    first, second = tomlkit.table(), tomlkit.table()
    two = "Two sorts of workers, for `grain up -s gpu`; what [script] says holds for both."
    _remark(first, two)
    first.add("name", "cpu")
    second.add("name", "gpu")
    _request(second, Site(site.system), gpus)
    second.add("gpus", gpus.gpus)
    shapes = tomlkit.aot()
    shapes.append(first)
    shapes.append(second)
    return shapes


def _set_up(script: Table, site: Site) -> None:
    """Write a comment with a set-up that suits the site."""
    _remark(script, "Shell commands before the worker; those with `defer` run after it.")
    _off(script, "setup_cleanup = '''")
    if site.modules:
        _off(script, f"module load {shlex.quote(site.modules[0])}")
    for folder in site.scratch[:1]:
        _off(script, f"export SCRATCH_DIR={folder}/grain-$$")
        _off(script, "mkdir -p $SCRATCH_DIR")
        _off(script, "defer rm -r $SCRATCH_DIR")
    _off(script, "'''")
    if site.modules:
        _remark(script, f"Modules here: {lines_of(site.modules, 12)}.")
    if site.scratch:
        found = ", ".join(site.scratch)
        _remark(script, f"Scratch directories that you may write to: {found}.")


# ---- pieces of TOML


def _remark(place: Container | Table, text: str) -> None:
    """Write a comment."""
    place.add(tomlkit.comment(_one_line(text)))


def _off(place: Container | Table, line: str) -> None:
    """Write a line of a setting that is off: without a blank, as prose has one."""
    place.add(Comment(Trivia(comment=f"#{_one_line(line)}", trail="\n")))


def _set(table: Table, name: str, value: Any, remark: str) -> None:
    item = tomlkit.item(value)
    item.comment(_one_line(remark))
    item.trivia.comment_ws = " "
    table.add(name, item)


def _setting(name: str, value: Any) -> str:
    return tomlkit.dumps({name: value}).rstrip()


def _whole(number: float) -> float:
    """Return a number with six digits at most, and without a fraction as an int."""
    short = float(f"{number:g}")
    return int(short) if short.is_integer() else short


def _one_line(text: str) -> str:
    """Return a text that cannot end the comment that it stands in."""
    return "".join(mark for mark in text if mark.isprintable())


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


def lines_of(items: Sequence[str], most: int = 8) -> str:
    """Return names as a text of at most so many."""
    more = f", and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
