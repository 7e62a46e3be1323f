"""What a call of ``grain map`` asks for, as the command line has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grain.map.halting import NEVER, Halt

if TYPE_CHECKING:
    from typing import Literal

    from grain.map.inputs.splitting import Columns
    from grain.map.inputs.words import Source
    from grain.resource import Resource


@dataclass(frozen=True)
class Plan:
    """What a call of ``grain map`` asks for.

    Attributes:
        command: the words of the template; none with `shell` if each input is a command.
        sources: where the inputs come from.
        columns: how a line of input becomes columns.
        request: what each job needs.
        local: the resources of the worker on this machine; None for the cluster's workers.
        at_once: how many jobs run at a time at most; None if that is for the workers to say.
        config_file: as for `grain.delayed.mission`.
        shell: whether the template is a line for sh.
        null: whether lines of input end with a null character.
        header: whether the first record of each source names its columns.
        joblog: the result log; None for none.
        resume: which jobs of the log are not run again: "no" (there must be none), "ended" or
            "succeeded".
        by_command: whether jobs are known again by their commands alone.
        results: where outputs are kept, see `Results`; None to print them.
        workdir: the directory that jobs run in, see `WorkingDirectory`; None for the current one.
        keep_order: whether they are printed in the order of the inputs.
        tries: how often a job that fails is run at most.
        timeout: seconds after which a job is ended; None for no limit.
        halt: when to stop early.
        progress: as for `grain.delayed.mission`.
    """

    command: tuple[str, ...]
    sources: tuple[Source, ...]
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
    keep_order: bool = False
    tries: int = 1
    timeout: float | None = None
    halt: Halt = NEVER
    progress: bool | None = None
