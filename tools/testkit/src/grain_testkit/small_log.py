"""A log of a few tasks, for tests of the commands that read logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.eventlog.causes import NO_FAILURE, RunFailure
from grain.eventlog.names import folder_name, logs_folder, parse_label
from grain.eventlog.schema import (
    VERSION,
    LogEnded,
    LogStarted,
    RunEnded,
    TaskStarted,
    TaskSubmitted,
    WorkerJoined,
    encode,
)
from grain.eventlog.usage import LearnedAmount, Usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grain.eventlog.schema import AnyLine

BEGAN = 1_772_616_600.0
HEADER = LogStarted(
    time=BEGAN,
    version=VERSION,
    grain="1.0.0",
    id="a1b2c3d4e5",
    name="opt",
    command=("python", "opt.py", "--level", "2"),
    directory="/home/me/run",
    host="login1",
    pid=4242,
)
END = LogEnded(time=BEGAN + 900, status="failed", message="ExternalError: no convergence")


def failed(command: str, status: int, line: str) -> RunFailure:
    """Return the failure of a program."""
    message, program = f"{command}: exit code {status}: {line}", command.partition(" ")[0]
    return RunFailure("ExternalError", message, program, status, line=line)


def body() -> list[AnyLine]:
    """Return five tasks of 900 s.

    1 is done; 2 is lost with its worker, and then done; 3 fails, and as 4 again; 5 runs.
    """
    at = BEGAN
    used = Usage(user=720, peak_memory=3.1, measured_by="polling", programs=1, exit_statuses={0: 1})
    return [
        WorkerJoined(time=at + 1, worker="w1", host="n17", resources={"Cores": 8.0}),
        WorkerJoined(time=at + 1, worker="w2", host="n18", resources={"Cores": 8.0}),
        _submitted(at + 10, 1),
        _submitted(at + 10, 2),
        _submitted(at + 10, 3),
        TaskStarted(time=at + 20, task=1, worker="w1"),
        TaskStarted(time=at + 20, task=2, worker="w2"),
        TaskStarted(time=at + 20, task=3, worker="w1"),
        RunEnded(time=at + 120, task=2, outcome="lost", worker="w2", host="n18", final=False),
        TaskStarted(time=at + 121, task=2, worker="w1"),
        _ended(at + 380, 1, at + 20, usage=used),
        _ended(at + 420, 3, at + 20, failure=failed("xtb a.xyz --opt", 2, "no convergence")),
        _submitted(at + 421, 4, retry_of=3),
        TaskStarted(time=at + 421, task=4, worker="w1"),
        _ended(at + 481, 2, at + 121, attempt=2),
        _ended(at + 521, 4, at + 421, failure=failed("xtb b.xyz --opt", 2, "no convergence")),
        _submitted(at + 600, 5),
        TaskStarted(time=at + 600, task=5, worker="w1"),
    ]


def learned(*, size: float = 0.0) -> list[AnyLine]:
    """Return tasks of a group whose memory is learned: 2 has too little, and as 3 enough."""
    lines: list[AnyLine] = []
    for task, amount, attempt, peak in (
        (1, 4.0, 1, 1.0), (2, 4.0, 1, 4.1), (3, 8.0, 2, 5.5), (4, 2.4, 1, 2.0),
    ):  # fmt: skip
        start, exceeded = BEGAN + 100 * task, peak > amount
        request, text = {"Cores": 1.0, "Memory": 32.0}, "Cores(1) & Memory(32, group='opt')"
        lines += [
            TaskSubmitted(
                time=start, task=task, function="optimise", request=request, request_text=text,
                retry_of=2 if task == 3 else 0,
            ),
            TaskStarted(time=start, task=task, worker="w1"),
            RunEnded(
                time=start + 60, task=task, outcome="error" if exceeded else "value", worker="w1",
                host="n17", started=start, ended=start + 60, exceeded=exceeded,
                failure=RunFailure("ExternalMemoryError" if exceeded else ""),
                usage=Usage(user=9, peak_memory=peak, measured_by="polling", programs=1),
                learned=LearnedAmount(
                    group="opt", amount=amount, attempt=attempt, size=size,
                    after=4.0 if attempt > 1 else 0.0,
                ),
            ),
        ]  # fmt: skip
    return lines


def _submitted(time: float, task: int, retry_of: int = 0) -> TaskSubmitted:
    return TaskSubmitted(
        time=time,
        task=task,
        function="optimise",
        request={"Cores": 4.0, "Memory": 8.0},
        request_text="Cores(4) & Memory(8)",
        retry_of=retry_of,
    )


def _ended(
    time: float,
    task: int,
    started: float,
    *,
    attempt: int = 1,
    usage: Usage | None = None,
    failure: RunFailure = NO_FAILURE,
) -> RunEnded:
    return RunEnded(
        time=time,
        task=task,
        outcome="error" if failure.error else "value",
        worker="w1",
        host="n17",
        attempt=attempt,
        started=started,
        ended=time,
        failure=failure,
        usage=usage,
    )


def write(start: LogStarted, lines: Sequence[AnyLine]) -> Path:
    """Write a log where missions have theirs; return its folder."""
    _, number = parse_label(start.label) or ("", 0)
    folder = logs_folder() / folder_name(start.time, start.name, start.id, number)
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_bytes(b"".join(map(encode, [start, *lines])))
    return folder
