"""`MapOptions`: the options of a call of ``grain map`` as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.inputs.warning import BEFORE
from grain.map.halting import NEVER, Halt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from grain.inputs.splitting import Columns
    from grain.map.inputs.words import InputSource
    from grain.resource import Resource


@dataclass(frozen=True)
class MapOptions:
    """The options of a call of ``grain map``.

    Attributes:
        command: the words of the template; none with `shell` if each input is a command.
        local: the resources of the worker on this machine; None for the cluster's workers.
        at_once: the most jobs that run at a time; None for as many as the workers have room for.
        null: True if lines of input end with a null character.
        header: True if the first record of each source names its columns.
        resume: the jobs of the log that are not run again: "no" (there must be none), "ended" or
            "succeeded".
        by_command: True to identify jobs of the log only by their commands.
        results: the files for outputs, see `Results`, or a table, see `ResultTable`; None to print
            them.
        workdir: the directory that jobs run in, see `WorkingDirectory`; None for the current one.
        tries: the most attempts for a job that fails.
        timeout: seconds after which a job is ended; None for no limit.
        warn: the file or the signal by which a job is warned before it is ended; None for none.
        warn_before: how many seconds before.
        delay: the least number of seconds between the starts of two jobs.
        shuffle: True to run the jobs in random order; each has the number of its input.
        env: environment variables for the jobs, over those of the worker.
    """

    command: tuple[str, ...]
    sources: tuple[InputSource, ...]
    columns: Columns
    request: Resource
    local: Resource | None = None
    at_once: int | None = None
    config_file: str | Literal[False] | None = None
    shell: bool = False
    null: bool = False
    header: bool = False
    joblog: str | None = None
    resume: Literal["no", "ended", "succeeded"] = "no"
    by_command: bool = False
    results: str | None = None
    workdir: str | None = None
    tag: str | None = None
    keep_order: bool = False
    tries: int = 1
    timeout: float | None = None
    warn: tuple[str, str] | int | None = None
    warn_before: float = BEFORE
    delay: float = 0.0
    shuffle: bool = False
    env: Mapping[str, str] | None = None
    halt: Halt = NEVER
    progress: bool | None = None
