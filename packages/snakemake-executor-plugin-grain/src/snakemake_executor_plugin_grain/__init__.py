"""Snakemake's jobs as jobs of Grain's queue: ``snakemake --executor grain``.

Snakemake finds this package by its name. It loads it in each of its processes, also in those that
jobs start, so nothing of Grain is imported here.

Map:

- ``executor``: the executor, which submits jobs and looks for their ends
- ``requests``: threads and resources of a rule become a request; no I/O
- ``leftovers``: jobs of an earlier run of the same workflow
"""

from dataclasses import dataclass, field
from typing import Optional

from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from snakemake_executor_plugin_grain.executor import Executor as Executor


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """The options ``--grain-...`` of ``snakemake``.

    Attributes:
        queue: the name of the queue; None for Grain's default.
        keep_logs: True to keep what successful jobs have printed, too.
    """

    queue: Optional[str] = field(  # noqa: UP045 - Snakemake does not know the other form
        default=None, metadata={"help": "Name of Grain's queue (default: queue, or GRAIN_QUEUE)."}
    )
    keep_logs: bool = field(
        default=False,
        metadata={"help": "Keep the logs of jobs that succeed, too, in .snakemake/grain_logs."},
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    # A job has the whole environment; on its command line, other users could read secrets.
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
)
