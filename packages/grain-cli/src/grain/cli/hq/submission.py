"""Options of ``hq submit`` become those of ``grain submit``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from grain.cli.jobs.errors import BadSubmission
from grain.resource import WTime

if TYPE_CHECKING:
    from collections.abc import Mapping

_CPUS = re.compile(r"(\d+)(?: +(?:no-)?compact!?| +tight!?| +scatter)?", re.ASCII)
_AMOUNT = re.compile(r"([\w/.-]+)=(\d+(?:\.\d+)?)(?: +\S+)?", re.ASCII)
_SPAN = re.compile(r"(\d+)\s*([a-z]*)\s*", re.ASCII)
_UNITS = {
    "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hr": 3600.0,
    "hour": 3600.0, "d": 86400.0, "day": 86400.0, "w": 604800.0, "week": 604800.0,
}  # fmt: skip
_MB = 2**20 / 1e9
_PLACES = {"%{JOB_ID}": "%j", "%{TASK_ID}": "0", "%{INSTANCE_ID}": "0", "%{CWD}": "."}
"""Placeholders, in paths of outputs; a job has the only task 0 here."""


def options_of_submit(given: Mapping[str, Any], directory: str) -> dict[str, Any]:
    """Return options of ``grain submit``, by the names of `grain.cli.jobs.submit.submit`.

    Args:
        given: the options of ``hq submit`` by their names, with ``_`` for ``-``; None for those
            that were not given.
        directory: of the submission.

    Raises:
        BadSubmission: one makes no sense, or asks for what there is not here.
    """
    limit, least = (seconds(name, given.get(name)) for name in ("time_limit", "time_request"))
    if least and not limit:
        raise BadSubmission("--time-request needs --time-limit: a job has one limit, which is both")
    stream = given.get("stream")
    stdout = given.get("stdout") or stream or "job-%{JOB_ID}/%{TASK_ID}.stdout"
    stderr = given.get("stderr") or ("" if stream else "job-%{JOB_ID}/%{TASK_ID}.stderr")
    options = {
        "name": given.get("name"),
        "cwd": (given.get("cwd") or "").replace("%{SUBMIT_DIR}", directory) or None,
        "stdout": path(stdout, directory),
        "stderr": path(stderr, directory),
        "res": _resources(given),
        "time": f"{max(limit, least):g}s" if limit else None,
        "priority": given.get("priority"),
        "no_requeue": given.get("crash_limit") == "never-restart" or None,
        "env": [*(given.get("env") or ()), f"HQ_SUBMIT_DIR={directory}"],
    }
    return {name: value for name, value in options.items() if value is not None}


def path(text: str, directory: str) -> str:
    """Return the path of an output, with the symbols of Grain for placeholders.

    Args:
        text: as HyperQueue has it; ``none`` for no file.
        directory: of the submission.
    """
    if text == "none":
        return "/dev/null"
    text = text.replace("%{SUBMIT_DIR}", directory).replace("%{CWD}/", "")
    parts = re.split(r"(%\{[A-Z_]+\})", text)
    return "".join(_PLACES.get(part) or part.replace("%", "%%") for part in parts)


def seconds(option: str, text: str | None) -> float:
    """Return a span of time in seconds, as of ``10min``, ``1h 30m`` or ``01:30:00``; 0 for none.

    Raises:
        BadSubmission: it is not one.
    """
    if not text:
        return 0.0
    try:
        if ":" in text:
            return WTime(T=text).T or 0.0
        parts = _SPAN.findall(text)
        if "".join(f"{number}{unit}" for number, unit in parts) == re.sub(r"\s", "", text):
            return sum(int(number) * _unit(unit) for number, unit in parts)
    except (KeyError, ValueError):
        pass
    raise BadSubmission(
        f"--{option.replace('_', '-')} {text}: write a span of time, as 90s, 10min or 1h 30m"
    )


def _unit(word: str) -> float:
    return _UNITS[word] if word in _UNITS else _UNITS[word.removesuffix("s")]


def _resources(given: Mapping[str, Any]) -> str:
    cpus = _CPUS.fullmatch(given.get("cpus") or "1")
    if cpus is None:
        raise BadSubmission(f"--cpus {given['cpus']}: write a number")
    parts = [f"Cores={cpus[1]}"]
    for text in given.get("resource") or ():
        match = _AMOUNT.fullmatch(text)
        kind = match and {"mem": "Memory", "gpus": "GPUs", "gpus/nvidia": "GPUs"}.get(match[1])
        if match is None or not kind:
            raise BadSubmission(f"--resource {text}: there are mem=MEGABYTES and gpus=NUMBER here")
        amount = float(match[2]) * _MB if kind == "Memory" else float(match[2])
        parts.append(f"{kind}={amount:.9g}")
    return ",".join(parts)
