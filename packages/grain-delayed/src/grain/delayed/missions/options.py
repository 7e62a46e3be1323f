"""The options of a mission, which travel as one from `mission`, `run` and `grain map` inwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.delayed.overload import WARN_QUEUED
from grain.resource import Resource

if TYPE_CHECKING:
    import os
    from typing import Literal

    from grain.config import Config
    from grain.remote_exer import LastingMission


@dataclass(frozen=True)
class MissionOptions:
    """The options of one mission; `mission` explains each field.

    An option is declared here and in the signatures of `mission` and `run`, and is read where it
    is used. ``lasting`` is only for `grain.dispatcher`: which mission this process serves for a
    while.

    Raises:
        TypeError: local is not a resource, or there is none to isolate; env does not map strings.
        ValueError: env has a name or a value that no environment can have.
    """

    local: Resource | None = None
    config_file: str | Literal[False] | None = None
    name: str | None = None
    prioritized: bool = False
    warn_queued: int | None = WARN_QUEUED
    cache: str | os.PathLike[str] | Literal[False] | None = None
    isolated: bool = False
    env: Mapping[str, str | None] | None = None
    event_log: bool | str | os.PathLike[str] | None = None
    echo: bool = False
    lasting: LastingMission | None = None

    def __post_init__(self) -> None:
        if self.local is not None and not isinstance(self.local, Resource):
            raise TypeError(
                f"local={self.local!r}: give the resources of the local worker, as Cores(2)"
            )
        if self.local is not None:
            self.local.parts()  # raises TypeError for alternatives
        if self.isolated and self.local is None:
            raise TypeError(
                "isolated=True gives the local worker a process of its own, and there is no local "
                "worker: state its resources, as in local=Cores(2)"
            )
        if self.env is not None:
            _check_environment(self.env)

    def is_alone(self, config: Config | None) -> bool:
        """Return True if the mission has its local worker only, and no other can join.

        Args:
            config: its configuration; None if it keeps to itself.
        """
        return config is None or (self.local is not None and config.source is None)


def _check_environment(env: object) -> None:
    if not isinstance(env, Mapping):
        raise TypeError(f'env={env!r}: give names and values, as in env={{"XTBPATH": "/opt/xtb"}}')
    for key, value in env.items():
        if not isinstance(key, str) or not isinstance(value, str | None):
            raise TypeError(
                f"env: {key!r}: {value!r}: a variable has a string as its name and as its value; "
                "None removes it"
            )
        if not key or "=" in key or "\0" in key or "\0" in (value or ""):
            raise ValueError(f"env: {key!r}: {value!r} cannot be a variable of an environment")
