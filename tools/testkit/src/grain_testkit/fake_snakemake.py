"""As much of Snakemake as an executor sees: a workflow, its jobs, and a scheduler."""

from __future__ import annotations

import json
import logging
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from snakemake_interface_executor_plugins.settings import SharedFSUsage
from snakemake_interface_executor_plugins.utils import TargetSpec

from snakemake_executor_plugin_grain import ExecutorSettings, common_settings
from snakemake_executor_plugin_grain.executor import Executor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PATIENCE = 60.0
"""Seconds after which a test fails that waits for the executor's thread."""


class FakeJob:
    """A job of a rule with one wildcard, or a group of such jobs."""

    is_local = is_updated = False
    attempt = 1
    priority = 0

    def __init__(
        self, home: Path, name: str = "one", wildcard: str = "a", **resources: object
    ) -> None:
        self.name = name
        self.jobid = 7
        self.wildcards_dict = {"i": wildcard}
        self.resources = dict(resources)
        self.threads = 1
        self.params: dict[str, object] = {}
        self.input: list[str] = []
        self.output = [f"out/{wildcard}"]
        self.rules = [name]
        self.rule = SimpleNamespace(name=name, snakefile=str(home / "Snakefile"))
        self.jobs: list[FakeJob] = []
        self.registered: list[str | None] = []
        self.errors: list[tuple[str, list[str]]] = []

    @classmethod
    def group(cls, home: Path, *wildcards: str) -> FakeJob:
        job = cls(home, "group")
        job.jobs = [cls(home, "one", wildcard) for wildcard in wildcards]
        return job

    def is_group(self) -> bool:
        return bool(self.jobs)

    def get_target_spec(self) -> list[TargetSpec]:
        return [
            spec
            for one in self.jobs or [self]
            for spec in [TargetSpec(one.name, one.wildcards_dict)]
        ]

    def properties(self) -> str:
        return json.dumps(
            {"rule": self.name, "params": self.params, "jobid": self.jobid, "threads": self.threads}
        )

    def logfile_suggestion(self, prefix: str) -> str:
        return f"{prefix}/{self.name}/i_{self.wildcards_dict['i']}.log"

    def format_wildcards(self, text: str) -> str:
        return text.format(name=self.name, jobid=self.jobid)

    def get_wait_for_files(self) -> list[str]:
        return []

    def log_info(self) -> None:
        pass

    def log_error(self, msg: str = "", aux_logs: list[str] | None = None, **_: object) -> None:
        self.errors.append((msg, aux_logs or []))

    def register(self, external_jobid: str | None = None) -> None:
        self.registered.append(external_jobid)


class FakeScheduler:
    """Snakemake's scheduler, which is told of the ends of jobs."""

    def __init__(self) -> None:
        self.done: list[FakeJob] = []
        self.failed: set[FakeJob] = set()
        self.ended = threading.Condition()

    def submit_callback(self, job: FakeJob) -> None:
        pass

    def finish_callback(self, job: FakeJob) -> None:
        with self.ended:
            self.done.append(job)
            self.ended.notify_all()

    def error_callback(self, job: FakeJob) -> None:
        with self.ended:
            self.failed.add(job)
            self.ended.notify_all()


class FakeSnakemake(logging.Handler):
    """A workflow and its executors.

    Attributes:
        home: the directory of the workflow.
        scheduler: its scheduler.
    """

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home
        self.scheduler = FakeScheduler()
        self._printed: list[str] = []
        self._logger = logging.Logger("snakemake")
        self._logger.addHandler(self)
        self._executors: list[Executor] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self.scheduler.ended:
            self._printed.append(record.getMessage())
            self.scheduler.ended.notify_all()

    def executor(
        self, *, keep_going: bool = False, immediate: bool = False, **settings: Any
    ) -> Executor:
        """Return a new executor, as of a new call of ``snakemake``."""
        shared = SharedFSUsage.all()
        workflow = SimpleNamespace(
            dag=SimpleNamespace(get_unneeded_temp_files=lambda _: []),
            remote_execution_settings=SimpleNamespace(
                max_status_checks_per_second=10,
                seconds_between_status_checks=10,
                jobname="snakejob.{name}.{jobid}.sh",
                jobscript=settings.pop("jobscript", None),
                immediate_submit=immediate,
            ),
            storage_settings=SimpleNamespace(shared_fs_usage=shared, assume_common_workdir=True),
            resource_settings=SimpleNamespace(cores=None),
            resource_scopes=SimpleNamespace(excluded=set()),
            execution_settings=SimpleNamespace(keep_going=keep_going),
            group_settings=SimpleNamespace(local_groupid=None),
            main_snakefile=str(self.home / "Snakefile"),
            workdir_init=str(self.home),
            executor_settings=ExecutorSettings(**settings),
            executor_plugin=SimpleNamespace(common_settings=common_settings),
            spawned_job_args_factory=SimpleNamespace(
                general_args=lambda **_: "--general", precommand=lambda **_: "", envvars=dict
            ),
            scheduler=self.scheduler,
        )
        executor = Executor(workflow, self._logger)
        self._executors.append(executor)
        return executor

    def until(self, what: Callable[[], object]) -> None:
        """Wait until it is so, which a thread of the executor brings about."""
        with self.scheduler.ended:
            assert self.scheduler.ended.wait_for(what, PATIENCE), self._printed

    def until_done(self, *jobs: FakeJob) -> None:
        self.until(lambda: set(jobs) <= set(self.scheduler.done))

    def until_failed(self, *jobs: FakeJob) -> None:
        self.until(lambda: set(jobs) <= self.scheduler.failed)

    def until_printed(self, text: str) -> str:
        """Wait for a line with a text; return the line."""
        self.until(lambda: text in "\n".join(self._printed))
        return next(line for line in self._printed if text in line)

    def printed(self) -> str:
        return "\n".join(self._printed)

    def shutdown(self) -> None:
        for executor in self._executors:
            executor.shutdown()
