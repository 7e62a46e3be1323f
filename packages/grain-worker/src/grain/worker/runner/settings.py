"""The settings of runs on a wire: those of their mission, and those of the worker."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

import msgspec

from grain.config import WorkerSettings
from grain.worker.call import RunSettings
from grain.worker.errors import PayloadError
from grain.worker.messages import MissionSettings
from grain.worker.node.directory import current_directory, directory_at_start, find_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grain.worker.messages import StartRun

_MISSIONS = 64  # missions whose settings are remembered

SHORT_ID = 8
"""Characters of a mission's id in front of the lines that its tasks print."""

_LARGEST = 64 * 1024  # bytes of a mission's settings, which travel with every task

_ELSEWHERE = (
    "%s, the directory of the mission %s, is not here (%s): its programs run in %s; "
    "--cwd, or worker.cwd in the configuration, states another directory"
)

_log = logging.getLogger("grain.worker")


class RunnerSettings(msgspec.Struct, frozen=True):
    """The settings of a runner: those of its worker, and what follows from where it is.

    Attributes:
        worker: the settings of its worker; paths in them are absolute.
        bind: False to bind no program to CPUs.
        own_directory: True to run programs where the process began, whatever the mission.
        labels: True to name mission and task in front of each line that a run prints.
        groups: the directory in which to make a control group for each program that runs; empty
            for none.
        search: where modules are searched for; empty for what the process itself searches.
        unsearched: why modules of the directory in which the process was started are not found, as
            a sentence for error messages; the process itself sets it.
    """

    worker: WorkerSettings = WorkerSettings()
    bind: bool = True
    own_directory: bool = False
    labels: bool = False
    groups: str = ""
    search: tuple[str, ...] = ()
    unsearched: str = ""

    def to_word(self) -> str:
        """Return the settings as a word of a command line, which `from_word` reads.

        Paths may have bytes that are not text, which msgspec cannot write as JSON.
        """
        return json.dumps(msgspec.to_builtins(self))

    @classmethod
    def from_word(cls, word: str) -> RunnerSettings:
        """Return the settings that a word of a command line has."""
        return msgspec.convert(json.loads(word), cls)


class Settings:
    """The settings of runs, made of those of their missions, which arrive with every run."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._settings = settings
        self._directory = directory_at_start()
        # By their bytes: the mission, and what its runs have in common.
        self._missions: dict[bytes, tuple[MissionSettings, RunSettings]] = {}

    def of(self, run: StartRun, function: object) -> RunSettings:
        """Return the settings of a run that calls a function.

        Raises:
            PayloadError: those of its mission are not readable here.
        """
        entry = self._missions.get(run.settings)
        if entry is None:
            if len(self._missions) >= _MISSIONS:
                self._missions.clear()
            entry = self._missions[run.settings] = self._read(run.settings)
        mission, common = entry
        if not self._settings.labels:
            return common
        label = f"{mission.name}:{run.task}"
        if mission.id:
            label += f" ({mission.id})"
        return RunSettings(
            common.cwd, common.env, common.bind, label, function, run.attempt, common.echo,
            common.enforce,
        )  # fmt: skip

    def _read(self, data: bytes) -> tuple[MissionSettings, RunSettings]:
        try:
            mission = msgspec.msgpack.decode(data, type=MissionSettings)
        except msgspec.MsgspecError as error:
            if data:
                raise PayloadError(
                    f"the settings of this mission are not readable: {error}"
                ) from error
            mission = MissionSettings()
        cwd = self._directory
        if mission.cwd and not self._settings.own_directory:
            paths = tuple(map(os.fsdecode, mission.cwd))
            found, why = find_directory(paths, mission.inode)
            if why:
                _log.warning(_ELSEWHERE, paths[0], mission.name, why, cwd)
            cwd = found or cwd
        env = {
            os.fsdecode(name): None if value is None else os.fsdecode(value)
            for name, value in mission.env
        }
        echo = mission.echo and self._settings.labels
        enforce = self._settings.worker.enforce
        return mission, RunSettings(cwd, env, self._settings.bind, echo=echo, enforce=enforce)


def mission_settings(
    name: str,
    env: Mapping[str, str | None],
    *,
    echo: bool = False,
    id: str = "",  # noqa: A002 - its name
) -> bytes:
    """Return the settings of a mission in this process, as its runs take them along.

    Args:
        echo: True if it wants the lines that its tasks print on workers elsewhere.
        id: its id; only the beginning travels.

    Raises:
        ValueError: the variables are too many.
    """
    variables = tuple(
        (os.fsencode(key), None if value is None else os.fsencode(value))
        for key, value in env.items()
    )
    cwd, inode = current_directory()
    data = msgspec.msgpack.encode(
        MissionSettings(name, tuple(map(os.fsencode, cwd)), inode, variables, echo, id[:SHORT_ID])
    )
    if len(data) > _LARGEST:
        raise ValueError(
            f"env: {len(data)} bytes of variables would travel with every task, {_LARGEST} may: "
            "name only variables that the programs need"
        )
    return data
