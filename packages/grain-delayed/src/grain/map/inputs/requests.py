"""Requests and supplies as one word: ``Cores=4,Memory=8,WTime=1:00:00``; the jobs at a time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grain.map.errors import RequestError
from grain.resource import Either, Gang, from_text

if TYPE_CHECKING:
    from grain.resource import Resource


def parse_request(text: str) -> Resource:
    """Return the resource that a text states: see `grain.resource.from_text`.

    Raises:
        RequestError: the text states none; the message names the part that is wrong.
    """
    try:
        return from_text(text)
    except ValueError as error:
        raise RequestError(str(error)) from None


def parse_supply(text: str) -> Resource:
    """Return the resources of the worker on this machine that a text states.

    Raises:
        RequestError: the text states none, or several.
    """
    supply = parse_request(text)
    if isinstance(supply, Either | Gang):
        raise RequestError(
            f"--local {text}: say what this machine gives to jobs, as in Cores=8,Memory=16"
        )
    return supply


def parse_jobs(text: str, cpus: int) -> int:
    """Return the number of jobs at a time that the text of ``-j`` states.

    As in GNU parallel, it is a number, or relative to the CPUs: ``+1``, ``-1``, ``50%``. It is 1 if
    that would be less.

    Args:
        cpus: the number of CPUs that this process may use.

    Raises:
        RequestError: the text states none.
    """
    match = re.fullmatch(r"([+-]?)([0-9]{1,6})|([0-9]{1,6})%", text, re.ASCII)
    if match is None:
        raise RequestError(
            f"-j {text}: write a number of jobs, as 8; or one relative to the {cpus} CPUs here, as "
            '+1, -1 or 50%; a number in a file is -j "$(cat FILE)"'
        )
    sign, number, percent = match.groups()
    if percent is not None:
        count = cpus * int(percent) // 100
    else:
        count = {"": 0, "+": cpus, "-": cpus}[sign] + int(f"{sign}{number}")
    if not sign and not count and percent is None:
        raise RequestError("-j 0: write how many jobs may run at a time, as in -j 100")
    return max(count, 1)
